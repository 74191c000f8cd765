"""Named activations: look inside a model without hooks.

Every model of the zoo passes the tensors worth seeing through `record`:

- `"readout"`: the vector under the classifier, (B, D);
- `"state"`: the state of every column after every layer, one (B, T, D) per layer; for a recurrent model the
  hidden state after every token in reading order, one (B, D) per step;
- `"state_backward"`: the same for the direction that reads the sequence from its end;
- `"hidden"`, `"cell"`: what an LSTM hands from step to step, (B, D); for both directions together (2, B, D).

`recording` reads them; `editing` changes them on their way, and the model goes on with what it is given. Both
see one seed: what runs under `vmap` is looked at from within the mapped function.

Example:
    >>> import torch
    >>> from ctlpp.models.zoo import build
    >>> model = build("gru", vocab_size=7, n_classes=3, preset="quick")
    >>> with recording() as seen:
    ...     logits = model(torch.tensor([[0, 2, 4, 6]]))
    >>> len(seen["state"]), torch.equal(seen["state"][-1], seen["readout"][0])
    (4, True)
    >>> with editing(lambda name, index, value: torch.zeros_like(value) if name == "readout" else value):
    ...     edited = model(torch.tensor([[0, 2, 4, 6]]))
    >>> torch.equal(edited[0], model.classify.bias)
    True
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

Activations = dict[str, list[Tensor]]
Edit = Callable[[str, int, Tensor], Tensor]  # (name, how many of that name came before, value) -> value


@dataclass(frozen=True)
class _Look:
    """What happens to the activations of this thread's models."""

    seen: Activations | None = None  # where `record` notes them
    edit: Edit | None = None
    calls: Counter[str] = field(default_factory=Counter)  # name -> how often it was edited


_look: ContextVar[_Look | None] = ContextVar("look", default=None)


def record(name: str, value: Tensor) -> Tensor:
    """Return `value`, inside `editing` what the edit makes of it; inside `recording`, also note it."""
    look = _look.get()
    if look is None:
        return value
    if look.edit is not None:
        look.calls[name] += 1
        value = look.edit(name, look.calls[name] - 1, value)
    if look.seen is not None:
        look.seen.setdefault(name, []).append(value)
    return value


@contextmanager
def recording() -> Iterator[Activations]:
    """Collect what `record` sees: name -> tensors in the order of the calls, part of the autograd graph."""
    seen: Activations = {}
    with _looking(seen=seen):
        yield seen


@contextmanager
def editing(edit: Edit) -> Iterator[None]:
    """Let the model go on with `edit(name, index, value)` in place of every recorded value, for one forward.

    An edit may change the number of examples. Gradients pass it.
    """
    with _looking(edit=edit, calls=Counter()):
        yield


@contextmanager
def _looking(**changes: Any) -> Iterator[None]:
    before = _look.set(replace(_look.get() or _Look(), **changes))
    try:
        yield
    finally:
        _look.reset(before)
