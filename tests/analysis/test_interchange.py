"""Exhaustive interchange against the plainest loop; where the value is; how seeds are run."""

import time
from threading import Event, get_ident

import numpy as np
import pytest
import torch
from tests.analysis.conftest import make_crowd
from torch import Tensor, nn

from ctlpp.analysis import interchange
from ctlpp.analysis.analysis import Advance, Analysis, Interchange, analyze, work_side_by_side
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.interchange import choose
from ctlpp.analysis.states import Layout, PatchableModel, activations, look_into, ndr_logits, ndr_state
from ctlpp.benchmark.task import Task, make_task
from ctlpp.benchmark.variants import Settings
from ctlpp.models.activations import editing, record, recording
from ctlpp.models.ndr import NDR
from ctlpp.training.crowd import Crowd, init_crowd


@pytest.fixture(scope="module")
def tiny() -> Task:
    return make_task(Settings(variant="R", symbols=3, functions=4, max_length=3))


def exchanged(found: Analysis) -> Interchange:
    assert found.interchange is not None
    return found.interchange


def layout_of(crowd: Crowd, inputs: Inputs) -> Layout:
    layout = Layout.of(look_into(crowd.member(crowd.seeds[0]), inputs.singles())[0])
    assert layout is not None
    return layout


def answers_with(
    model: nn.Module, tokens: Tensor, donor: Tensor, layout: Layout, level: int, option: int
) -> Tensor:
    """The answers with the state of a donor in place of the model's own at one layer or step."""
    with torch.no_grad(), recording() as seen:
        model(donor[None])

    def edit(name: str, index: int, value: Tensor) -> Tensor:
        if name not in layout.names or index != level:
            return value
        new, value = seen[name][index], value.clone()
        if layout.kind == "columns":
            columns = list(layout.positions(value.shape[1], "right-to-left").values())[option]
            value[:, columns] = new[:, columns]
        elif layout.kind == "directions":
            value[option] = new[option]
        else:
            value[:] = new
        return value

    with torch.no_grad(), editing(edit):
        answers: Tensor = model(tokens).argmax(-1)
    return answers


def shares_one_by_one(found: Analysis, crowd: Crowd) -> Array:
    """Every donor into every base of another value of every consumer: the share of right answers."""
    inputs, positions = found.inputs, exchanged(found).position.tolist()
    shares = np.zeros((len(crowd.seeds), *inputs.answer.shape))
    layout = layout_of(crowd, inputs)
    for row, (seed, position) in enumerate(zip(crowd.seeds, positions, strict=True)):
        model, donors = crowd.member(seed).eval(), inputs.donor_tokens()
        for (f, s), donor in zip(np.ndindex(inputs.value.shape), donors, strict=True):
            first, symbol = np.nonzero(inputs.value != inputs.value[f, s])
            for g in range(inputs.n_functions):
                tokens = inputs.tokens(symbol, first, np.full(len(first), g))
                answers = answers_with(model, tokens, donor, layout, *position)
                shares[row, f, g, s] = (answers.numpy() == inputs.answer[f, g, s]).mean()
    return shares


class Looking(nn.Module):
    """A network with columns that looks at its input again in every layer."""

    def __init__(self, vocab_size: int, n_classes: int) -> None:
        super().__init__()
        self.embed, self.mix = nn.Embedding(vocab_size, 8), nn.Linear(8, 8)
        self.classify = nn.Linear(8, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        x = h = self.embed(tokens)
        for _ in range(3):
            h = record("state", torch.tanh(self.mix(h) + h.mean(1, keepdim=True) + x))
        out: Tensor = self.classify(record("readout", h[:, 0]))
        return out


@pytest.mark.parametrize("name", ["ndr", "transformer", "lstm", "gru", "looking"])
def test_all_bases_give_what_a_loop_over_donors_consumers_and_bases_gives(name: str, tiny: Task) -> None:
    """Only a model whose columns hold everything reads nothing again when it goes on from a state."""
    own = init_crowd(Looking, tiny.vocabulary.size, 3, seeds=[0, 1])
    crowd = own if name == "looking" else make_crowd(name, tiny, [1, 2])
    found = analyze(crowd, tiny, bases=None)
    np.testing.assert_allclose(exchanged(found).right["none"], shares_one_by_one(found, crowd), atol=1e-6)
    layout, tokens = layout_of(crowd, found.inputs), found.inputs.base_tokens()
    model = PatchableModel.of(crowd.member(crowd.seeds[0]), layout, tokens)
    assert model.reads_again == (name not in ("ndr", "transformer"))


def test_consumers_at_once_do_not_matter_and_progress_adds_up_to_the_seeds(
    two_codes: Crowd, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = analyze(two_codes, task, bases=2)
    monkeypatch.setattr(interchange, "AT_ONCE", 1)
    done: list[float] = []
    found = analyze(two_codes, task, bases=2, start=lambda seeds: done.append)
    assert sum(done) == pytest.approx(len(two_codes.seeds))
    np.testing.assert_array_equal(found.answers, expected.answers)
    for kind, right in exchanged(expected).right.items():
        np.testing.assert_array_equal(exchanged(found).right[kind], right)
    for name, values in expected.measures.items():
        np.testing.assert_allclose(found.measures[name], values, atol=1e-5, err_msg=name)


def test_the_last_of_the_best_places_is_taken_and_several_columns_only_if_no_single_one_will_do() -> None:
    several = torch.tensor([False, False, True])
    clear = torch.tensor([[0.1, 0.95, 1.0], [0.1, 0.94, 1.0], [0.5, 0.2, 0.3]])
    spread = torch.tensor([[0.1, 0.6, 0.9], [0.1, 0.5, 0.7], [0.5, 0.2, 0.3]])
    assert choose(clear, several) == (1, 1)
    assert choose(spread, several) == (0, 2)


def test_a_note_tells_how_many_seeds_have_all_columns_of_the_prefix_exchanged(task: Task) -> None:
    found = analyze(init_crowd(Looking, task.vocabulary.size, 4, range(8)), task)
    changed = [exchanged(found).changed[option] for _, option in exchanged(found).position.tolist()]
    together = changed.count("prefix")
    assert 0 < together < 8
    assert found.notes == [
        f"{together} of 8 seeds: no single column carries the value; all columns of the prefix are exchanged"
        " together, which early in the network comes near to exchanging the input"
    ]


def test_activations_are_those_of_each_module(tiny: Task) -> None:
    tokens, crowd = Inputs(tiny).singles(), make_crowd("ndr", tiny, [4, 7])
    seen, logits = activations(crowd, tokens)
    for row, seed in enumerate(crowd.seeds):
        with torch.no_grad(), recording() as own:
            expected = crowd.member(seed).eval()(tokens)
        torch.testing.assert_close(logits[row], expected)
        torch.testing.assert_close([value[row] for value in seen["state"]], own["state"])


def test_the_ndr_is_entered_after_a_layer_and_the_last_one_computes_a_single_column() -> None:
    for depth, length in ((1, 3), (2, 4), (5, 3), (5, 7)):
        model = NDR(11, 3, width=16, heads=2, hidden=24, depth=depth, test_depth=depth).eval()
        tokens = torch.randint(11, (9, length), generator=torch.Generator().manual_seed(0))
        seen, logits = look_into(model, tokens)
        for level, state in enumerate(seen["state"]):
            torch.testing.assert_close(ndr_state(model, tokens, level), state)
            torch.testing.assert_close(ndr_logits(model, state, level), logits)


def test_seeds_come_back_in_order_and_one_left_over_has_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three seeds on two cores, two go side by side, and then the third on both."""
    cores: dict[int, int] = {}  # by thread
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    monkeypatch.setattr("torch.set_num_threads", lambda number: cores.update({get_ident(): number}))
    found = work_side_by_side([5, 1, 4], lambda seed, advance: (seed, cores[get_ident()]), 2, print)
    assert found == [(5, 1), (1, 1), (4, 2)]
    assert cores[get_ident()] == 2, "and afterwards everything is as before"


def test_after_an_error_the_other_seeds_stop() -> None:
    """With many bases a seed takes long, and whoever presses Ctrl-C does not want to wait for it."""
    begun, stopped, end = Event(), list[int](), time.monotonic() + 20

    def work(seed: int, advance: Advance) -> None:
        if seed == 0:
            begun.wait(20)
            raise KeyboardInterrupt
        begun.set()
        try:
            while time.monotonic() < end:
                advance(0.001)
        except RuntimeError:
            stopped.append(seed)

    with pytest.raises(KeyboardInterrupt):
        work_side_by_side([0, 1], work, 2, time.sleep)
    assert stopped == [1]
