from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ctlpp.analysis.sure import FIRST, SAFE, Sure


class Model:
    """Logits in full, and how many rows were asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def of(self, logits: Tensor) -> Callable[[Tensor], Tensor]:
        def in_full(rows: Tensor) -> Tensor:
            self.asked += len(rows)
            return logits[rows]

        return in_full


def logits_of(seed: int, batches: int = 4, rows: int = 64, classes: int = 5, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(batches, rows, classes, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 10_000), st.floats(0, 3), st.integers(2, 9))
def test_answers_are_those_of_the_full_model(seed: int, error: float, classes: int) -> None:
    off = error * torch.linspace(-1, 1, classes)  # the same error in every row: the first rows tell it
    sure = Sure()
    for batch in logits_of(seed, classes=classes):
        assert sure.logits(batch + off, Model().of(batch)).argmax(-1).equal(batch.argmax(-1))


@given(st.integers(0, 10_000))
def test_an_error_that_grows_is_noticed(seed: int) -> None:
    batches, sure = logits_of(seed), Sure()
    growth = torch.tensor([0.2, 0.35, 0.6, 1.0])[:, None, None]  # by less than `SAFE` from batch to batch
    drafts = batches + growth * logits_of(seed + 1).sign()
    for batch, draft in zip(batches, drafts, strict=True):
        assert sure.logits(draft, Model().of(batch)).argmax(-1).equal(batch.argmax(-1))
    assert sure.error == pytest.approx(2.0)  # of two logits, each off by one


def test_few_rows_are_computed_in_full_where_leads_are_large() -> None:
    batches, model, sure = logits_of(0, batches=10), Model(), Sure()
    batches[..., 0] += 20
    for batch in batches:
        sure.logits(batch + 0.01 * torch.tensor([1.0, -1, 1, -1, 1]), model.of(batch))
    assert model.asked == FIRST  # of the first batch


def test_all_rows_are_computed_in_full_where_leads_are_small() -> None:
    batch, model = logits_of(0, scale=0.01)[0], Model()
    draft = batch + torch.tensor([1.0, 0, 0, 0, 0])
    assert Sure().logits(draft, model.of(batch)).argmax(-1).equal(batch.argmax(-1))
    assert model.asked == len(batch)


def test_a_lead_must_be_larger_than_a_multiple_of_the_largest_error() -> None:
    leads = torch.tensor([0.5, SAFE * 1.0, SAFE * 1.0 + 0.1]).repeat_interleave(FIRST)
    draft, model = torch.stack([leads, torch.zeros(len(leads))], dim=1), Model()
    wrong = torch.where(
        draft < 1, draft + torch.tensor([0.0, 1.0]), draft
    )  # by one, where the lead is smallest
    Sure().logits(draft, model.of(wrong))
    assert model.asked == 2 * FIRST


def test_drafts_that_are_no_numbers_are_left_to_the_full_model() -> None:
    batch, model = logits_of(0)[0], Model()
    batch[3] = torch.nan
    assert Sure().logits(batch * torch.nan, model.of(batch)).argmax(-1).equal(batch.argmax(-1))
    assert model.asked == len(batch)


def test_a_full_model_without_numbers_leaves_no_draft_unchecked() -> None:
    batch, model = logits_of(0)[0], Model()
    lead = (batch.topk(2).values @ torch.tensor([1.0, -1.0])).argmin()
    full = batch + torch.tensor([1.0, 0, 0, 0, 0])
    full[lead] = torch.nan  # of the row that is looked at first
    assert Sure().logits(batch, model.of(full)).argmax(-1).equal(full.argmax(-1))
    assert model.asked == len(batch)


def test_a_batch_may_be_small_or_empty() -> None:
    sure = Sure()
    for batch, answers in ((torch.zeros(0, 3), []), (torch.eye(3), [0, 1, 2])):
        assert sure.logits(batch, Model().of(batch)).argmax(-1).tolist() == answers


def test_errors_of_what_counts_as_full_are_added() -> None:
    batch, finer = logits_of(0)[0], Sure()
    drafted = batch + 0.5 * torch.tensor([1.0, -1, 1, -1, 1])
    finer.logits(drafted, Model().of(batch))
    sure = Sure(finer)
    sure.logits(drafted + 2 * torch.tensor([1.0, -1, 1, -1, 1]), Model().of(drafted))
    assert finer.error == pytest.approx(1.0)
    assert sure.error == pytest.approx(1.0 + 4.0)


def test_a_draft_pays_while_few_rows_are_computed_in_full() -> None:
    batch, sure = logits_of(0)[0], Sure()
    assert sure.pays(0.0)  # nothing is known yet
    sure.logits(batch, Model().of(batch))
    assert sure.pays(FIRST / len(batch))
    assert not sure.pays(FIRST / len(batch) - 0.01)
