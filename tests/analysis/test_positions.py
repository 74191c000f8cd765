"""Where the value is found, and how often each place is tried for it."""

import pytest
import torch
import torch.nn.functional as F
from tests.analysis.conftest import Coded
from torch import Tensor, nn

from ctlpp.analysis import analyze, interchange
from ctlpp.analysis.forward import activations, pick
from ctlpp.analysis.inputs import Inputs
from ctlpp.analysis.interchange import EXAMPLES, FIRST, choose, find_positions
from ctlpp.analysis.states import Layout, PatchableModel
from ctlpp.benchmark.dataset import generate
from ctlpp.benchmark.task import Task
from ctlpp.models.activations import record
from ctlpp.models.zoo import build
from ctlpp.training.crowd import Crowd, init_crowd


def model_of(crowd: Crowd, inputs: Inputs) -> PatchableModel:
    layout = Layout.of(activations(crowd, inputs.singles())[0])
    assert layout is not None
    return PatchableModel.of(crowd, layout, inputs.base_tokens())


def whole(shares: Tensor, of: int) -> Tensor:
    """Which of the shares are whole numbers of so many."""
    return (shares * of - (shares * of).round()).abs() < 1e-4


def test_a_place_far_from_the_best_is_tried_on_the_first_few_inputs_only(
    two_codes: Crowd, task: Task
) -> None:
    inputs = Inputs.of(task)
    model = model_of(two_codes, inputs)
    asked: list[int] = []

    class Counted(PatchableModel):
        def answers_from_state(self, tokens: Tensor, level: int, state: Tensor) -> Tensor:
            asked.append(len(tokens))
            return super().answers_from_state(tokens, level, state)

    found = find_positions(Counted(model.crowd, model.layout, model.needed_input, model.lean), inputs)
    levels, options = found.effect.shape[1:]
    assert asked[:levels] == [FIRST * options] * levels
    assert asked[levels:] == [2 * (EXAMPLES - FIRST)]  # first function and prefix, after the first layer
    assert whole(found.effect[:, 1], FIRST).all()
    assert found.level.tolist() == [0, 0]


@pytest.mark.parametrize("model", ["ndr", "transformer", "lstm", "gru"])
def test_effects_of_places_near_the_best_are_those_of_all_inputs(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = generate("R", symbols=4, functions=8, max_length=3, train=100, iid=9, ood=9).task
    crowd = init_crowd(
        lambda v, c: build(model, v, c, "quick"), task.vocabulary.size, task.n_symbols, seeds=[0, 1]
    )
    inputs = Inputs.of(task)
    model = model_of(crowd, inputs)
    found = find_positions(model, inputs)
    monkeypatch.setattr(interchange, "FIRST", EXAMPLES)
    everything = find_positions(model, inputs)
    near = whole(found.effect, EXAMPLES) & ~whole(found.effect, FIRST)
    assert near.any()
    torch.testing.assert_close(found.effect[near], everything.effect[near])


def test_fewer_inputs_than_the_first_few_are_enough(systematic: Crowd, task: Task) -> None:
    inputs = Inputs.of(task)
    few = interchange.trials(inputs, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interchange, "trials", lambda _: few)
        found = find_positions(model_of(systematic, inputs), inputs)
    assert found.level.tolist() == [0] * len(systematic.seeds)
    assert whole(found.effect, 5).all()


def test_effects_in_a_crowd_are_those_of_each_seed_alone(task: Task) -> None:
    inputs = Inputs.of(task)
    code, read = [0] * task.n_functions, [[0]] * task.n_functions
    crowd = (
        init_crowd(  # with so much noise, places that are near the best one for some seeds are far for others
            lambda v, c: Coded(task, code, read, noise=0.6),
            task.vocabulary.size,
            task.n_symbols,
            seeds=range(4),
        )
    )
    together = find_positions(model_of(crowd, inputs), inputs)
    for row in range(4):
        alone = find_positions(model_of(pick(crowd, [row]), inputs), inputs)
        torch.testing.assert_close(together.effect[[row]], alone.effect)


class Veiled(nn.Module):
    """Applies functions by table, and shifts each result by the start symbol, which only its column tells."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.n, self.functions, self.table = (
            task.n_symbols,
            task.n_functions,
            torch.tensor(task.table.tolist()),
        )

    def forward(self, tokens: Tensor) -> Tensor:  # (B, L + 2): f_L … f_1 s end
        last = tokens.shape[1] - 2  # the symbol's column
        shown = torch.where(torch.arange(last + 2) == last, tokens - self.functions, 0) % self.n
        h = F.one_hot(shown, self.n).float()  # (B, T, n)
        for column in range(last - 1, -1, -1):
            shift = h[:, last].argmax(-1)
            before = h[:, column + 1].argmax(-1) - (0 if column == last - 1 else shift)
            new = self.table[tokens[:, column], before % self.n] + shift
            here = (torch.arange(last + 2) == column)[None, :, None]
            h = record("state", torch.where(here, F.one_hot(new % self.n, self.n).float()[:, None], h))
        answer = (h[:, 0].argmax(-1) - h[:, last].argmax(-1)) % self.n
        return record("readout", F.one_hot(answer, self.n).float())


def test_a_note_tells_how_many_seeds_have_all_columns_of_the_prefix_exchanged(
    task: Task, systematic: Crowd
) -> None:
    found = analyze(Veiled(task), task)
    assert found.position is not None
    assert found.changed[found.position[0, 1]] == "prefix"
    assert found.notes == [
        "1 of 1 seed: no single column carries the value; all columns of the prefix are exchanged together,"
        " which early in the network comes near to exchanging the input"
    ]
    assert not analyze(systematic, task).notes


def test_the_last_of_the_best_places_is_taken_and_several_columns_only_if_no_single_one_will_do() -> None:
    several = torch.tensor([False, False, True])
    clear = torch.tensor([[0.1, 0.95, 1.0], [0.1, 0.94, 1.0], [0.5, 0.2, 0.3]])
    spread = torch.tensor([[0.1, 0.6, 0.9], [0.1, 0.5, 0.7], [0.5, 0.2, 0.3]])
    index, option = choose(torch.stack([clear, spread]), several)
    assert index.tolist() == [1, 0]
    assert option.tolist() == [1, 2]
