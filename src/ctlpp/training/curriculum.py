"""Curricula: which examples take part as the training goes on.

A curriculum is a function `weights(progress, length, tokens) -> (N,)`. It gives each example of a length its
chance, 0 to 1, to take part in the round of batches that begins when the share `progress` of the training is
over. A recipe names one of your own, `package.module:function`, or those here: `short_first`, `shared_first`.

Example: token 5 is of a function that only one path uses
    >>> tokens = torch.tensor([[0, 1, 8], [5, 1, 8]])
    >>> weights = shared_first([5])
    >>> weights(0.0, 1, tokens), weights(0.5, 1, tokens)
    (tensor([1., 0.]), tensor([1., 1.]))
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ctlpp.files import UserError
from ctlpp.models.zoo import load_callable

Curriculum = Callable[[float, int, Tensor], Tensor]
_SHORT, _SHARED = 0.25, 0.5  # until these shares of the training


def find_curriculum(names: str, task: Mapping[str, Any] | None, lengths: Iterable[int]) -> Curriculum:
    """The curricula of a recipe, with `+` between them. task: as in `task.json`; lengths: of the data."""
    parts = [_find(name, task, lengths) for name in names.split("+")]

    def weights(progress: float, length: int, tokens: Tensor) -> Tensor:
        each = [torch.as_tensor(part(progress, length, tokens)) for part in parts]
        return torch.stack(each).prod(0) if len(each) > 1 else each[0]

    return weights


def _find(name: str, task: Mapping[str, Any] | None, lengths: Iterable[int]) -> Curriculum:
    if name == "short_first":
        return short_first(min(length for length in lengths if length > 1))
    if name != "shared_first":
        found: Curriculum = load_callable(name, "curriculum", "function")
        return found
    groups = task["groups"] if task else {}
    if "o" not in groups:
        raise UserError("curriculum shared_first: only the variant S has shared functions; choose another")
    assert task is not None
    one_path = {*groups["a2"], *groups["b2"]}
    return shared_first([token for token, name in enumerate(task["functions"]) if name in one_path])


def short_first(shortest: int) -> Curriculum:
    """At first no examples of more functions than this."""
    return lambda progress, length, tokens: torch.full(
        (len(tokens),), float(progress >= _SHORT or length <= shortest)
    )


def shared_first(others: Sequence[int]) -> Curriculum:
    """For S: at first no functions that follow on one path alone. others: their tokens.

    The functions that both paths share then decide how the paths' results are written.
    """

    def weights(progress: float, length: int, tokens: Tensor) -> Tensor:
        if progress >= _SHARED:
            return torch.ones(len(tokens))
        left_out = torch.zeros(int(tokens.max()) + 1 + max(others), dtype=torch.bool, device=tokens.device)
        left_out[list(others)] = True
        return 1 - left_out[tokens].any(-1).float()

    return weights
