"""The look-up equals indexing, the table's gradient a sum over the rows with an id."""

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from ctlpp.kernels import embedding

S, V, D, B = 3, 70, 19, 7


def batch(columns: int, *, shared: bool) -> tuple[Tensor, Tensor]:
    """ids, and one copy of them a seed, (S, N)."""
    shape = (B, columns) if shared else (S, B, columns)
    ids = torch.randint(V, shape, generator=torch.Generator().manual_seed(columns))
    return ids, ids.flatten(-2).expand(S, -1)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("columns", [1, 4, 9])
def test_look_up_writes_the_embeddings_of_a_batch_and_nothing_else(columns: int, *, shared: bool) -> None:
    ids, by_seed = batch(columns, shared=shared)
    weights = torch.randn(S, V * D + 5, generator=torch.Generator().manual_seed(0))
    table = weights[:, : V * D].view(S, V, D)
    rows = torch.full((S, 2 * B * columns, D), torch.nan)

    embedding.look_up(table, ids, rows[:, : B * columns])

    expected = torch.stack([one[of] for one, of in zip(table, by_seed, strict=True)])
    assert torch.equal(rows[:, : B * columns], expected)
    assert rows[:, B * columns :].isnan().all()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize("columns", [4, 40])  # one block of rows, and two
def test_gradient_of_the_table_is_the_sum_over_rows_with_an_id(
    columns: int, *, shared: bool, more: bool
) -> None:
    ids, by_seed = batch(columns, shared=shared)
    dy, also = torch.randn(2, S, B * columns, D, generator=torch.Generator().manual_seed(1))
    gradients = torch.full((S, V * D + 5), torch.nan)

    embedding.gradient(ids, dy, also if more else None, out=gradients[:, : V * D].view(S, V, D))

    expected = torch.zeros(S, V, D).scatter_add_(
        1, by_seed[..., None].expand(-1, -1, D), dy + also if more else dy
    )
    torch.testing.assert_close(gradients[:, : V * D].view(S, V, D), expected, rtol=1e-5, atol=1e-5)
