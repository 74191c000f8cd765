import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ctlpp.analysis.sure import FIRST, SAFE, Sure


class Model:
    """Logits that are the rows themselves, and how many rows were asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, rows: Tensor) -> Tensor:
        self.asked += len(rows)
        return rows


def rows_of(seed: int, batches: int = 4, rows: int = 64, classes: int = 5, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(batches, rows, classes, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 10_000), st.floats(0, 3), st.integers(2, 9))
def test_answers_are_those_of_the_full_model(seed: int, error: float, classes: int) -> None:
    off = error * torch.linspace(-1, 1, classes)  # the same error in every row: the first rows tell it
    full = Model()
    sure = Sure(lambda rows: rows + off, full)
    for batch in rows_of(seed, classes=classes):
        assert sure.answers(batch).equal(batch.argmax(-1))


@given(st.integers(0, 10_000))
def test_an_error_that_grows_is_noticed(seed: int) -> None:
    batches, full = rows_of(seed), Model()
    growth = torch.tensor([0.2, 0.35, 0.6, 1.0])[:, None, None]  # by less than `SAFE` from batch to batch
    drafts = iter(batches + growth * rows_of(seed + 1).sign())
    sure = Sure(lambda rows: next(drafts), full)
    for batch in batches:
        assert sure.answers(batch).equal(batch.argmax(-1))
    assert sure.error == pytest.approx(2.0)  # of two logits, each off by one


def test_few_rows_are_computed_in_full_where_leads_are_large() -> None:
    batches, full = rows_of(0, batches=10), Model()
    batches[..., 0] += 20
    sure = Sure(lambda rows: rows + 0.01 * torch.tensor([1.0, -1, 1, -1, 1]), full)
    for batch in batches:
        sure.answers(batch)
    assert full.asked == FIRST  # of the first batch


def test_all_rows_are_computed_in_full_where_leads_are_small() -> None:
    batch, full = rows_of(0, scale=0.01)[0], Model()
    answers = Sure(lambda rows: rows.flip(-1), full).answers(batch)
    assert answers.equal(batch.argmax(-1))
    assert full.asked >= len(batch) - FIRST


def test_a_lead_just_above_the_largest_error_is_not_trusted() -> None:
    batch = torch.tensor([[0.1, 0.0], [SAFE * 1.0, 0.0], [SAFE * 1.0 + 0.1, 0.0]]).repeat_interleave(FIRST, 0)
    full = Model()
    Sure(lambda rows: torch.where(rows[:, :1] < 1, rows + torch.tensor([1.0, 0.0]), rows), full).answers(batch)
    assert full.asked == 2 * FIRST


def test_numbers_that_are_none_are_left_to_the_full_model() -> None:
    batch, full = rows_of(0)[0], Model()
    batch[3] = torch.nan
    assert Sure(lambda rows: rows * torch.nan, full).answers(batch).equal(batch.argmax(-1))
    assert full.asked == len(batch)


def test_a_batch_may_be_small_or_empty() -> None:
    sure = Sure(lambda rows: rows, lambda rows: rows)
    assert sure.answers(torch.zeros(0, 3)).tolist() == []
    assert sure.answers(torch.eye(3)).tolist() == [0, 1, 2]
