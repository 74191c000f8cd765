"""Where the value is found, and how often each place is tried for it."""

import pytest
import torch
from torch import Tensor

from ctlpp.analysis import places
from ctlpp.analysis.forward import activations
from ctlpp.analysis.inputs import Inputs
from ctlpp.analysis.places import EXAMPLES, FIRST, find_places
from ctlpp.analysis.states import Layout
from ctlpp.analysis.subject import Subject
from ctlpp.benchmark.dataset import generate
from ctlpp.benchmark.task import Task
from ctlpp.models.zoo import build
from ctlpp.training.crowd import Crowd, gather


def subject_of(crowd: Crowd, inputs: Inputs) -> Subject:
    layout = Layout.of(activations(crowd, inputs.singles())[0])
    assert layout is not None
    return Subject.of(crowd, layout, inputs.base_tokens())


def whole(shares: Tensor, of: int) -> Tensor:
    """Which of the shares are whole numbers of so many."""
    return (shares * of - (shares * of).round()).abs() < 1e-4


def test_a_place_far_from_the_best_is_tried_on_the_first_few_inputs_only(two_codes: Crowd, task: Task) -> None:
    inputs = Inputs.of(task)
    subject = subject_of(two_codes, inputs)
    asked: list[int] = []

    class Counted(Subject):
        def go_on(self, tokens: Tensor, level: int, state: Tensor) -> Tensor:
            asked.append(len(tokens))
            return super().go_on(tokens, level, state)

    found = find_places(Counted(subject.crowd, subject.layout, subject.rest, subject.quick), inputs)
    levels, options = found.effect.shape[1:]
    assert asked[:levels] == [FIRST * options] * levels
    assert asked[levels:] == [2 * (EXAMPLES - FIRST)]  # first function and prefix, after the first layer
    assert whole(found.effect[:, 1], FIRST).all()
    assert found.level.tolist() == [0, 0]


@pytest.mark.parametrize("model", ["ndr", "transformer", "lstm", "gru"])
def test_effects_of_places_near_the_best_are_those_of_all_inputs(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = generate("R", symbols=4, functions=8, max_length=3, train=100, iid=9, ood=9).task
    crowd = gather(lambda v, c: build(model, v, c, "quick"), task.vocabulary.size, task.n_symbols, seeds=[0, 1])
    inputs = Inputs.of(task)
    subject = subject_of(crowd, inputs)
    found = find_places(subject, inputs)
    monkeypatch.setattr(places, "FIRST", EXAMPLES)
    everything = find_places(subject, inputs)
    near = whole(found.effect, EXAMPLES) & ~whole(found.effect, FIRST)
    assert near.any()
    torch.testing.assert_close(found.effect[near], everything.effect[near])


def test_fewer_inputs_than_the_first_few_are_enough(systematic: Crowd, task: Task) -> None:
    inputs = Inputs.of(task)
    few = places.trials(inputs, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "trials", lambda _: few)
        found = find_places(subject_of(systematic, inputs), inputs)
    assert found.level.tolist() == [0] * len(systematic.seeds)
    assert whole(found.effect, 5).all()
