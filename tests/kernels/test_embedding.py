"""The look-up equals indexing, the table's gradient a sum over the rows with an id."""

import pytest
import torch
from tests.kernels.conftest import DEVICE, assert_close, draw, full
from torch import Tensor

pytest.importorskip("triton")

from ctlpp.kernels import embedding

S, V, D, B = 3, 70, 19, 7


def batch(columns: int, *, shared: bool) -> tuple[Tensor, Tensor]:
    """ids, and one copy of them a seed, (S, N)."""
    shape = (B, columns) if shared else (S, B, columns)
    ids = torch.randint(V, shape, generator=torch.Generator().manual_seed(columns)).to(DEVICE)
    return ids, ids.flatten(-2).expand(S, -1)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("columns", [1, 9])
def test_look_up_writes_the_embeddings_of_a_batch_and_nothing_else(columns: int, *, shared: bool) -> None:
    ids, by_seed = batch(columns, shared=shared)
    table = draw(S, V * D + 5)[:, : V * D].view(S, V, D)
    rows = full(S, 2 * B * columns, D)

    embedding.look_up(table, ids, rows[:, : B * columns])

    expected = torch.stack([one[of] for one, of in zip(table, by_seed, strict=True)])
    assert torch.equal(rows[:, : B * columns], expected)
    assert rows[:, B * columns :].isnan().all()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize("columns", [4, 160])  # one block of rows, and two
def test_gradient_of_the_table_is_the_sum_over_rows_with_an_id(
    columns: int, *, shared: bool, more: bool
) -> None:
    ids, by_seed = batch(columns, shared=shared)
    dy, also = draw(2, S, B * columns, D)
    gradients = full(S, V * D + 5)

    embedding.gradient(ids, dy, also if more else None, out=gradients[:, : V * D].view(S, V, D))

    places = by_seed[..., None].expand(-1, -1, D)
    expected = full(S, V, D, value=0.0).scatter_add_(1, places, dy + also if more else dy)
    assert_close(gradients[:, : V * D].view(S, V, D), expected)
