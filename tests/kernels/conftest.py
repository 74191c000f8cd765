"""Kernels run on the GPU, or on the CPU through Triton's interpreter, against vmap and autograd.

Both sides compute in float32: products of float32 are exact in Triton ("ieee") and in PyTorch, which uses
TF32 only when told to. On a GPU exponentials, roots and quotients are correct to two or three units in the
last place only.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tests.conftest import GPU
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ctlpp.kernels import fast
from ctlpp.training.crowd import init_crowd, step_keys
from ctlpp.training.recipe import Recipe
from ctlpp.training.step import Stepper

DEVICE = "cuda" if GPU else "cpu"
EXACT = 1e-4 if GPU else 1e-5  # how far a gradient may be off, as a part of its norm
VOCABULARY, CLASSES = 70, 5
BLOCKS = {  # a row of a block costs little, a block much; still, small batches make more than one
    "norm.ROWS": 8,
    "norm.BACK": (8, 2),
    "norm.UPDATE_ROWS": 8,
    "norm.UPDATE_BACK": (8, 2),
    "ffn.ROWS": 8,
    "ffn.BACK": (8, 2),
    "embedding.BACK": (16, 2),
    "lstm.EMBED_BACK": (16, 2),
    "lstm.STEP_ROWS": 8,
    "lstm.STEP_BACK": (8, 2),
    "ndr_weights.CHUNKS": 64,
}


@pytest.fixture
def blocks_for_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU keeps the blocks that it is used with."""
    from ctlpp.kernels.launch import Block

    for name, size in ({} if GPU else BLOCKS).items():
        monkeypatch.setattr(f"ctlpp.kernels.{name}", Block(*size) if isinstance(size, tuple) else size)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(DEVICE)


def full(*shape: int, value: float = torch.nan) -> Tensor:
    return torch.full(shape, value, device=DEVICE)


class Fences(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What is allocated begins as NaN, between fences that nobody may write on."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.all: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if "empty" not in func.__name__:
            return made
        whole = made.new_full((made.numel() + 128,), torch.nan if made.is_floating_point() else 7)
        whole[:64] = whole[-64:] = 7
        self.all += [whole[:64], whole[-64:]]
        return whole.as_strided(made.shape, made.stride(), 64)

    def stand(self) -> bool:
        return all(bool((fence == 7).all()) for fence in self.all)


def check_gradient(
    factory: Callable[[int, int], nn.Module],
    begin: Callable[..., Any],
    *,
    length: int,
    batch: int = 3,
    shared: bool = True,
    seeds: Sequence[int] = (3, 5),
) -> dict[str, Tensor]:
    """Losses and every gradient of a fast path are those of the module; gives the gradients.

    No weight is at its initial zero or one. shared: one batch for all seeds.
    """
    crowd = init_crowd(factory, VOCABULARY, CLASSES, list(seeds), DEVICE)
    crowd.weights.add_(draw(*crowd.weights.shape), alpha=0.1)
    crowd.module.train()
    stepper = Stepper(crowd, Recipe(), len(seeds))
    stepper.scalars.set(stepper.recipe, 7)
    drawn = torch.Generator().manual_seed(length)
    lead = (batch,) if shared else (len(seeds), batch)
    tokens = torch.randint(VOCABULARY, (*lead, length + 2), generator=drawn).to(DEVICE)
    targets = torch.randint(CLASSES, lead, generator=drawn).to(DEVICE)

    expected_losses, expected = stepper.gradient(slice(None), tokens, targets)
    found: dict[str, Tensor] = crowd.views(torch.full_like(expected, torch.nan))
    keys = step_keys(stepper.keys, stepper.scalars.step)
    weights: Any = crowd.parameters()
    with torch.no_grad(), Fences() as fences:
        losses = fast.gradient(begin, crowd.module, weights, found, keys, tokens, targets, torch.float32)

    assert len(fences.all) > 10
    assert fences.stand()
    torch.testing.assert_close(losses, expected_losses, rtol=EXACT, atol=EXACT / 10)
    noise = EXACT / 100 * expected.norm()
    for name, reference in crowd.views(expected).items():
        error = (found[name] - reference).norm()
        assert error <= EXACT * reference.norm() + noise, f"{name}: {error} of {reference.norm()}"
    return found
