"""The written-out Transformer against the module under vmap and autograd, in float32 through Triton's interpreter."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("triton")

from ctlpp.kernels import relative
from ctlpp.kernels.transformer import gradient, supports
from ctlpp.models.ndr import NDR
from ctlpp.models.transformer import Transformer
from ctlpp.training.crowd import Crowd, init_crowd
from ctlpp.training.recipe import Recipe
from ctlpp.training.step import Optimizer, Stepper
from ctlpp.training.streams import step_keys

SMALL = {"width": 32, "heads": 2, "hidden": 32, "depth": 2}


def crowd_of(seeds: int = 2, **sizes: float) -> Crowd:
    """A crowd whose biases, norms, u and v are not at their initial zeros and ones."""
    factory = partial(Transformer, **{**SMALL, **sizes})  # type: ignore[arg-type]
    crowd = init_crowd(factory, 12, 4, list(range(3, 3 + seeds)))
    crowd.weights += 0.1 * torch.randn(crowd.weights.shape, generator=torch.Generator().manual_seed(1))
    crowd.module.train()
    return crowd


def batch_of(tokens: int, size: int, seeds: int | None = None) -> tuple[Tensor, Tensor]:
    generator, shape = torch.Generator().manual_seed(2), (size,) if seeds is None else (seeds, size)
    draw = partial(torch.randint, generator=generator)
    return draw(0, 12, (*shape, tokens)), draw(0, 4, shape)


def assert_agrees(crowd: Crowd, tokens: Tensor, targets: Tensor) -> None:
    """Losses and every gradient are the reference's; the gradient of the useless bias is exactly 0."""
    stepper = Stepper(crowd, Recipe(), Optimizer.of(crowd), len(crowd.seeds))
    stepper.scalars.set(stepper.recipe, 7)
    losses, expected = stepper.gradient(slice(None), tokens, targets)
    found = torch.full_like(crowd.weights, torch.nan)
    views = {name: found[:, at.start : at.end].view(-1, *at.shape) for name, at in crowd.slices.items()}
    keys = step_keys(stepper.keys, stepper.scalars.step)
    with torch.no_grad():
        quick = gradient(crowd.module, crowd.parameters(), views, keys, tokens, targets, torch.float32)
    torch.testing.assert_close(quick, losses, rtol=1e-5, atol=1e-6)
    noise = 1e-7 * float(expected.norm())
    for name, at in crowd.slices.items():
        wanted = expected[:, at.start : at.end].view_as(views[name])
        error = float((views[name] - wanted).norm())
        assert error <= 1e-5 * float(wanted.norm()) + noise, f"{name}: {error} of {float(wanted.norm())}"
    assert bool((views["layers.0.attend.bias"] == 0).all())


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6])
def test_losses_and_gradients_are_the_reference_s_at_every_length(length: int) -> None:
    assert_agrees(crowd_of(), *batch_of(length + 2, size=3))


@pytest.mark.parametrize("size", [1, 2, 7])
def test_any_batch_size_will_do(size: int) -> None:
    assert_agrees(crowd_of(depth=1), *batch_of(5, size))


def test_every_seed_may_have_a_batch_of_its_own() -> None:
    assert_agrees(crowd_of(), *batch_of(4, size=3, seeds=2))


def test_one_seed_alone() -> None:
    assert_agrees(crowd_of(seeds=1, depth=1), *batch_of(4, size=3))


@pytest.mark.parametrize(("dropout", "key_dropout"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.5)])
def test_any_of_the_dropouts_may_be_off(dropout: float, key_dropout: float) -> None:
    assert_agrees(crowd_of(dropout=dropout, key_dropout=key_dropout, depth=1), *batch_of(4, size=3))


@pytest.mark.parametrize("heads", [1, 4])
def test_narrow_and_wide_heads(heads: int) -> None:
    assert_agrees(crowd_of(width=64, heads=heads, depth=1), *batch_of(4, size=3))


@pytest.mark.parametrize("tokens", [1, 15])
def test_two_columns_and_sixteen(tokens: int) -> None:
    assert_agrees(crowd_of(depth=1), *batch_of(tokens, size=3))


@pytest.mark.parametrize(("tile", "T"), [(16, 8), (16, 9), (32, 5), (32, 9), (32, 16)])
def test_examples_packed_into_a_tile_do_not_see_each_other(
    tile: int, T: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relative, "TILE", tile)
    assert_agrees(crowd_of(depth=1, seeds=1), *batch_of(T - 1, size=8))


def test_a_program_may_take_fewer_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relative, "FORWARD", 1)
    monkeypatch.setattr(relative, "BACKWARD", 2)
    assert_agrees(crowd_of(depth=1), *batch_of(7, size=5))


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (Transformer(12, 4, shared=False), 9),
        (Transformer(12, 4), 17),
        (Transformer(12, 4, width=96), 9),
        (Transformer(12, 4, hidden=200), 9),
        (Transformer(12, 4, width=32, heads=4), 9),
        (Transformer(12, 4, dropout=1.0), 9),
        (NDR(12, 4), 9),
    ],
    ids=["untied", "17 columns", "width 96", "hidden 200", "heads of 8", "all dropped", "another model"],
)
def test_what_the_kernels_cannot_do_is_left_to_the_reference(model: nn.Module, columns: int) -> None:
    assert not supports(model, columns)


def test_the_released_sizes_are_supported() -> None:
    assert supports(Transformer(41, 8), 9)
    assert supports(Transformer(41, 8), 16)
