import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ctlpp.analysis import products
from ctlpp.analysis.products import Bytes, Floats, Watched, multiplies_bytes

needs_bytes = pytest.mark.skipif(
    not multiplies_bytes(), reason="this CPU has no products of bytes of its own"
)


def ffn(seed: int, width: int = 8, hidden: int = 12) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    shapes = {
        "up.weight": (width, hidden),
        "up.bias": (hidden,),
        "down.weight": (hidden, width),
        "down.bias": (width,),
    }
    return {f"ffn.{name}": torch.randn(shape, generator=draw) for name, shape in shapes.items()}


def rows(seed: int, count: int = 50, width: int = 8) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def through(by: Floats | Watched | Bytes, x: Tensor) -> Tensor:
    """An FFN, and what it adds to its input."""
    units = by.hidden("ffn", by.ready("ffn.up", x))
    return by.onto(by.linear("ffn.down", units).float(), "ffn.down", units)


@given(st.integers(0, 1000), st.sampled_from([torch.float32, torch.bfloat16]))
def test_floats_are_the_plain_maps(seed: int, dtype: torch.dtype) -> None:
    w, x = ffn(seed), rows(seed + 1)
    units = torch.nn.functional.gelu(x @ w["ffn.up.weight"] + w["ffn.up.bias"])
    expected = 2 * units @ w["ffn.down.weight"] + w["ffn.down.bias"]
    near = 1e-5 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(
        through(Floats(w, dtype), x), expected, atol=near * expected.abs().max().item(), rtol=0
    )


def test_inputs_are_watched_on_their_way() -> None:
    w, x = ffn(0), rows(1)
    floats = Floats(w, torch.float32)
    watched = Watched(floats)
    assert through(watched, x).equal(through(floats, x))
    assert watched.ranges["ffn.up"] == (x.min().item(), x.max().item())
    through(watched, 2 * x)  # ranges grow, and never shrink
    through(watched, x)
    assert watched.ranges["ffn.up"] == (2 * x.min().item(), 2 * x.max().item())
    assert watched.ranges["ffn.down"][0] > -0.2  # GELU goes no lower


@needs_bytes
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000))
def test_bytes_are_near(seed: int) -> None:
    w, x = ffn(seed), rows(seed + 1)
    watched = Watched(Floats(w, torch.float32))
    exact = through(watched, x)
    by = watched.bytes(w)
    assert by is not None
    assert (through(by, x) - exact).abs().max() < 0.05 * exact.abs().max()


@needs_bytes
def test_inputs_beyond_the_range_seen_count_as_its_ends() -> None:
    w = ffn(0)
    by = Bytes(w, {"ffn.up": (-1.0, 2.0)})
    ends = by.ready("ffn.up", torch.tensor([[-1e9, -1.2, 0.0, 2.3, 1e9]]))
    assert ends.tolist() == [[0, 0, by.zero["ffn.up"], 255, 255]]


@needs_bytes
def test_maps_of_zeros_are_zeros() -> None:
    w = {name: torch.zeros_like(value) for name, value in ffn(0).items()}
    watched = Watched(Floats(w, torch.float32))
    through(watched, torch.zeros(3, 8))
    by = watched.bytes(w)
    assert by is not None
    assert not through(by, torch.zeros(3, 8)).any()


@pytest.mark.parametrize("strange", [torch.nan, torch.inf])
def test_there_are_no_bytes_for_what_is_not_finite(strange: float) -> None:
    w = ffn(0)
    watched = Watched(Floats(w, torch.float32))
    through(watched, rows(1))
    assert watched.bytes(w | {"ffn.down.weight": torch.full((12, 8), strange)}) is None
    through(watched, torch.full((1, 8), strange))
    through(watched, rows(1))
    assert watched.bytes(w) is None


def test_bytes_are_used_only_where_they_are_fast_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> bool:
        multiplies_bytes.cache_clear()
        return multiplies_bytes()

    class Other(Bytes):
        def linear(self, name: str, x: Tensor) -> Tensor:
            return torch.zeros(1, 2)

    class Missing(Bytes):
        def linear(self, name: str, x: Tensor) -> Tensor:
            raise AttributeError("no such product in this PyTorch")

    try:
        for capable in ({}, {"avx512_bf16": True}, {"avx512_vnni": False}):
            monkeypatch.setattr(torch.cpu, "get_capabilities", lambda able=capable: able, raising=False)
            assert not found()
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_vnni": True}, raising=False)
        for kind in (Other, Missing):
            monkeypatch.setattr(products, "Bytes", kind)
            assert not found()
    finally:
        multiplies_bytes.cache_clear()
