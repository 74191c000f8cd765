"""Exhaustive interchange against the plainest loop; where the value is; how seeds are run."""

import time
from dataclasses import replace
from threading import Event, get_ident

import numpy as np
import pytest
import torch
from tests.analysis.conftest import make_crowd
from torch import Tensor, nn

from ctlpp.analysis import interchange
from ctlpp.analysis.analysis import Analysis, Interchange, analyze
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.interchange import choose
from ctlpp.analysis.states import Advance, Layout, LeanNDR, PatchableModel, activations, in_parts
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
    layout = Layout.of(activations(crowd, inputs.singles())[0])
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
    model = PatchableModel.of(crowd, layout_of(crowd, found.inputs), found.inputs.base_tokens())
    assert model.reads_again == (name not in ("ndr", "transformer"))


def test_neither_consumers_at_once_nor_vectorising_matter_and_progress_adds_up_to_the_seeds(
    two_codes: Crowd, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = analyze(two_codes, task, bases=2)
    for at_once, vectorised in ((1, True), (3, False)):
        monkeypatch.setattr(interchange, "AT_ONCE", at_once)
        done: list[float] = []
        crowd = replace(two_codes, vectorised=vectorised)
        found = analyze(crowd, task, bases=2, start=lambda seeds, done=done: done.append)  # type: ignore[misc]
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
    level, option = choose(torch.stack([clear, spread]), several)
    assert (level.tolist(), option.tolist()) == ([1, 0], [1, 2])


def test_a_note_tells_how_many_seeds_have_all_columns_of_the_prefix_exchanged(task: Task) -> None:
    found = analyze(init_crowd(Looking, task.vocabulary.size, 4, range(8)), task)
    changed = [exchanged(found).changed[option] for _, option in exchanged(found).position.tolist()]
    together = changed.count("prefix")
    assert 0 < together < 8
    assert found.notes == [
        f"{together} of 8 seeds: no single column carries the value; all columns of the prefix are exchanged"
        " together, which early in the network comes near to exchanging the input"
    ]


def test_activations_are_those_of_each_module_vectorised_or_not(tiny: Task) -> None:
    tokens = Inputs(tiny).singles()
    for seeds, vectorised in (([4], True), ([4, 7], True), ([4, 7], False)):
        crowd = replace(make_crowd("ndr", tiny, seeds), vectorised=vectorised)
        seen, logits = activations(crowd, tokens)
        for row, seed in enumerate(crowd.seeds):
            with torch.no_grad(), recording() as own:
                expected = crowd.member(seed).eval()(tokens)
            torch.testing.assert_close(logits[row], expected)
            torch.testing.assert_close([value[row] for value in seen["state"]], own["state"])


def small_ndr(depth: int = 4, seeds: int = 1) -> Crowd:
    sizes = {"width": 16, "heads": 2, "hidden": 24, "depth": depth, "test_depth": depth}
    made = init_crowd(lambda v, c: NDR(v, c, **sizes), 11, 3, range(seeds))
    for value in made.parameters().values():  # scales and biases that are not 1 and 0
        value += 0.3 * torch.randn(value.shape, generator=torch.Generator().manual_seed(value.numel()))
    return made


def test_the_ndr_with_less_arithmetic_gives_the_states_and_logits_of_the_module() -> None:
    for depth, length in ((1, 3), (2, 4), (5, 3), (5, 7)):
        alone = small_ndr(depth)
        lean = LeanNDR.of(alone)
        assert lean is not None
        tokens = torch.randint(11, (9, length), generator=torch.Generator().manual_seed(0))
        with torch.no_grad(), recording() as seen:
            logits = alone.member(0).eval()(tokens)
        for level, state in enumerate(seen["state"]):
            torch.testing.assert_close(lean.state(tokens, level), state, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(lean.logits_from(state, level), logits, atol=1e-5, rtol=1e-4)
    assert LeanNDR.of(small_ndr(seeds=2)) is None
    assert LeanNDR.of(init_crowd(type("Own", (NDR,), {}), 11, 3, [0])) is None


def test_parts_come_back_in_order_and_one_left_over_has_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three seeds on two cores, two go side by side, and then the third on both."""
    cores: dict[int, int] = {}  # by thread
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    monkeypatch.setattr("torch.set_num_threads", lambda number: cores.update({get_ident(): number}))
    crowd = replace(init_crowd(Looking, 8, 3, [5, 1, 4]), vectorised=False)
    found = in_parts(crowd, lambda part, advance: (part.seeds[0], cores[get_ident()]), print)
    assert found == [(5, 1), (1, 1), (4, 2)]
    assert cores[get_ident()] == 2, "and afterwards everything is as before"


def test_after_an_error_the_other_parts_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many bases a seed takes long, and whoever presses Ctrl-C does not want to wait for it."""
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    crowd, begun, stopped = init_crowd(Looking, 8, 3, [0, 1]), Event(), []
    end = time.monotonic() + 20

    def work(part: Crowd, advance: Advance) -> None:
        if part.seeds == (0,):
            begun.wait(20)
            raise KeyboardInterrupt
        begun.set()
        try:
            while time.monotonic() < end:
                advance(0.001)
        except RuntimeError:
            stopped.append(part.seeds)

    with pytest.raises(KeyboardInterrupt):
        in_parts(replace(crowd, vectorised=False), work, time.sleep)
    assert stopped == [(1,)]
