"""Exhaustive interchange against theory and against the plainest loop."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ctlpp.analysis import interchange
from ctlpp.analysis.analysis import STAGES, Analysis, analyze
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.interchange import count_turns
from ctlpp.analysis.states import Layout, PatchableModel, activations
from ctlpp.benchmark.dataset import generate
from ctlpp.benchmark.task import Task
from ctlpp.models.activations import Activations, editing, record, recording
from ctlpp.models.zoo import build
from ctlpp.training.crowd import Crowd, init_crowd


@pytest.fixture(scope="module")
def tiny() -> Task:
    return generate("R", symbols=3, functions=4, max_length=3, train=30, iid=5, ood=5).task


def make(name: str, task: Task, seeds: list[int]) -> Crowd:
    return init_crowd(lambda v, c: build(name, v, c, "quick"), task.vocabulary.size, task.n_symbols, seeds)


def test_a_systematic_network_is_right_for_every_donor_consumer_and_base(
    systematic: Crowd, task: Task
) -> None:
    for bases in (1, 3, None):
        found = analyze(systematic, task, bases=bases)
        assert found.interchange is not None
        assert found.interchange.shape == (2, 8, 8, 4)
        assert (found.interchange == 1).all()
        assert found.bases == bases or found.bases == 8 * 3


def test_with_a_code_a_group_every_donor_is_understood_by_its_own_group_and_no_other(
    two_codes: Crowd, task: Task
) -> None:
    for bases in (1, None):
        found = analyze(two_codes, task, bases=bases)
        inputs, exchanged = found.inputs, found.interchange
        assert exchanged is not None
        own = inputs.group_of[:, None] == inputs.group_of
        assert (exchanged[:, own] == 1).all()
        # what it does not understand it answers with symbol 0, whatever the base was
        assert (exchanged[:, ~own] == (inputs.answer == 0)[~own]).all()


def patched(value: Tensor, new: Tensor, layout: Layout, option: int, order: str) -> Tensor:
    """One example's state with the chosen part of another's."""
    value = value.clone()
    if layout.kind == "columns":
        columns = list(layout.positions(value.shape[1], order).values())[option]
        value[:, columns] = new[:, columns]
        return value
    if layout.kind == "directions":
        value[option] = new[option]
        return value
    return new


def answer_with(model: nn.Module, found: Analysis, row: int, base: Tensor, donor: Activations) -> int:
    """The answer to one input with another one's state at the seed's position."""
    assert found.layout is not None
    assert found.position is not None
    layout, (level, option), order = found.layout, found.position[row].tolist(), found.inputs.task.order

    def edit(name: str, i: int, value: Tensor) -> Tensor:
        here = name in layout.names and i == level
        return patched(value, donor[name][level], layout, option, order) if here else value

    with torch.no_grad(), editing(edit):
        return int(model(base).argmax())


def shares_one_by_one(found: Analysis, crowd: Crowd) -> Array:
    """Every donor into every base of another value of every consumer: the share of right answers."""
    inputs, shares = found.inputs, np.zeros((len(crowd.seeds), *found.inputs.answer.shape))
    for row, seed in enumerate(crowd.seeds):
        model = crowd.member(seed).eval()
        for (f, s), donor in zip(np.ndindex(inputs.value.shape), inputs.donor_tokens(), strict=True):
            with torch.no_grad(), recording() as seen:
                model(donor[None])
            others = list(zip(*np.nonzero(inputs.value != inputs.value[f, s]), strict=True))
            for g in range(inputs.n_functions):
                bases = [inputs.tokens(np.array([t]), np.array([h]), np.array([g])) for h, t in others]
                right = [
                    answer_with(model, found, row, base, seen) == inputs.answer[f, g, s] for base in bases
                ]
                shares[row, f, g, s] = np.mean(right)
    return shares


@pytest.mark.parametrize("name", ["ndr", "transformer", "lstm", "gru"])
def test_all_bases_give_what_a_loop_over_donors_consumers_and_bases_gives(name: str, tiny: Task) -> None:
    crowd = make(name, tiny, [1, 2])
    found = analyze(crowd, tiny, bases=None)
    assert found.interchange is not None
    assert found.bases == count_turns(found.inputs) == 8
    np.testing.assert_allclose(found.interchange, shares_one_by_one(found, crowd), atol=1e-6)


@pytest.mark.parametrize("name", ["ndr", "rnn"])
def test_some_bases_are_a_part_of_all(name: str, tiny: Task) -> None:
    """Each turn adds one base to every donor and consumer, so that counts never fall."""
    crowd = make(name, tiny, [1, 2])
    before, last = np.zeros(1), 0
    for bases in (1, 2, 3, 4, 8):
        found = analyze(crowd, tiny, bases=bases)
        assert found.interchange is not None
        counts = found.interchange * bases
        np.testing.assert_allclose(counts, counts.round(), atol=1e-5)
        added = counts - before
        assert added.min() > -1e-5
        assert added.max() < bases - last + 1e-5
        before, last = counts, bases


@pytest.mark.parametrize("at_once", [1, 3])
def test_it_does_not_matter_how_many_consumers_are_asked_at_once(
    at_once: int, two_codes: Crowd, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = analyze(two_codes, task, bases=2)
    monkeypatch.setattr(interchange, "AT_ONCE", at_once)
    told: list[int] = []
    found = analyze(two_codes, task, bases=2, advance=told.append)
    assert sum(told) == STAGES * len(two_codes.seeds)
    assert found.interchange is not None
    assert expected.interchange is not None
    np.testing.assert_array_equal(found.answers, expected.answers)
    np.testing.assert_array_equal(found.interchange, expected.interchange)
    for kind, stitched in expected.stitched.items():
        np.testing.assert_array_equal(found.stitched[kind], stitched)


def test_more_bases_than_there_are_or_none_are_refused(tiny: Task, systematic: Crowd) -> None:
    for bases in (0, 9, -1):
        with pytest.raises(
            ValueError, match=f"bases {bases}: every donor and consumer has 8 bases of another value"
        ):
            analyze(systematic, tiny, bases=bases)


class Looking(nn.Module):
    """A network with columns that looks at its input again in every layer."""

    def __init__(self, vocab_size: int, n_classes: int) -> None:
        super().__init__()
        self.embed, self.mix, self.classify = (
            nn.Embedding(vocab_size, 8),
            nn.Linear(8, 8),
            nn.Linear(8, n_classes),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        x = h = self.embed(tokens)
        for _ in range(3):
            h = record("state", torch.tanh(self.mix(h) + h.mean(1, keepdim=True) + x))
        out: Tensor = self.classify(record("readout", h[:, 0]))
        return out


def how_it_goes_on(crowd: Crowd, task: Task) -> str:
    inputs = Inputs.of(task)
    layout = Layout.of(activations(crowd, inputs.singles())[0])
    assert layout is not None
    return PatchableModel.of(crowd, layout, inputs.base_tokens()).needed_input


def test_a_model_whose_columns_hold_everything_reads_nothing_again(tiny: Task) -> None:
    for name, expected in (("ndr", "nothing"), ("transformer", "nothing"), ("lstm", "everything")):
        assert how_it_goes_on(make(name, tiny, [1, 2]), tiny) == expected


def test_a_model_that_cannot_go_on_from_a_state_reads_its_whole_input(tiny: Task) -> None:
    crowd = init_crowd(Looking, tiny.vocabulary.size, 3, seeds=[0, 1])
    assert how_it_goes_on(crowd, tiny) == "everything"
    found = analyze(crowd, tiny, bases=None)
    assert found.interchange is not None
    np.testing.assert_allclose(found.interchange, shares_one_by_one(found, crowd), atol=1e-6)


def test_progress_adds_up_to_a_hundred_steps_a_seed(tiny: Task) -> None:
    for name, bases, vectorised in (("ndr", 1, True), ("gru", 5, True), ("lstm", 2, False)):
        crowd, done = replace(make(name, tiny, [0, 1, 2]), vectorised=vectorised), list[int]()
        analyze(crowd, tiny, bases=bases, advance=done.append)
        assert sum(done) == 300
        assert min(done) >= 0
