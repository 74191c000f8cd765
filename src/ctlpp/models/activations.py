"""Named activations: look inside a model without hooks.

Every model of the zoo passes the tensors worth seeing through `record`:

- `"readout"`: the vector under the classifier, (B, D);
- `"state"`: the state of every column after every layer, one (B, T, D) a layer; for a recurrent model the hidden
  state after every token in reading order, one (B, D) a step;
- `"state_backward"`: the same for the direction that reads the sequence from its end.

Example:
    >>> import torch
    >>> from ctlpp.models.zoo import build
    >>> model = build("gru", vocab_size=7, n_classes=3, preset="quick")
    >>> with recording() as seen:
    ...     logits = model(torch.tensor([[0, 2, 4, 6]]))
    >>> len(seen["state"]), torch.equal(seen["state"][-1], seen["readout"][0])
    (4, True)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

Activations = dict[str, list[Tensor]]

_seen: Activations | None = None  # where `record` writes; None outside `recording`


def record(name: str, value: Tensor) -> Tensor:
    """Return `value`; inside `recording`, also note it under `name`."""
    if _seen is not None:
        _Note.apply(value, name)  # type: ignore[no-untyped-call]
    return value


@contextmanager
def recording() -> Iterator[Activations]:
    """Collect what `record` sees: name -> tensors in the order of the calls.

    Enter it around `vmap`, not within the mapped function: the tensors then have the seeds as their first axis.
    They stay part of the autograd graph.
    """
    global _seen
    outer, _seen = _seen, {}
    try:
        yield _seen
    finally:
        _seen = outer


class _Note(torch.autograd.Function):
    """Notes a tensor as it is outside of all `vmap`s: each level hands it down with its axis in front."""

    @staticmethod
    def forward(value: Tensor, name: str) -> Tensor:
        assert _seen is not None
        _seen.setdefault(name, []).append(value)
        return value.new_empty(())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, str], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, None], value: Tensor, name: str) -> tuple[Tensor, None]:
        if in_dims[0] is not None:
            value = value.movedim(in_dims[0], 0)
        return _Note.apply(value, name), None  # type: ignore[no-untyped-call]
