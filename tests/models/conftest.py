"""Comparing a model with its slow, loop-written reference."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

Reference = Callable[[nn.Module, Tensor], Tensor]  # model (for its weights), tokens (B, T) -> logits (B, C)


@pytest.fixture
def assert_equals_reference() -> Callable[[nn.Module, Reference, Tensor], None]:
    """In evaluation, in double precision, with every weight drawn anew: same logits, same gradients."""

    def check(model: nn.Module, reference: Reference, tokens: Tensor) -> None:
        model.double().eval()
        for p in model.parameters():
            nn.init.normal_(p, std=0.5)
        logits, expected = model(tokens), reference(model, tokens)
        torch.testing.assert_close(logits, expected)

        names, weights = zip(*model.named_parameters(), strict=True)
        pull = torch.randn_like(logits)
        ours = torch.autograd.grad(logits, weights, pull)
        theirs = torch.autograd.grad(expected, weights, pull, materialize_grads=True)
        torch.testing.assert_close(dict(zip(names, ours, strict=True)), dict(zip(names, theirs, strict=True)))

    return check


@pytest.fixture
def dropouts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, tuple[int, ...]]]:
    """Every dropout called in training: its rate and the shape of its mask. The dropout itself is off."""
    calls: list[tuple[float, tuple[int, ...]]] = []

    def spy(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if training:
            calls.append((p, tuple(input.shape)))
        return input

    monkeypatch.setattr(torch.nn.functional, "dropout", spy)
    return calls


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)
