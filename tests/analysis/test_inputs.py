"""What the model is asked, and who meets whom in exhaustive interchange."""

from typing import Any

import numpy as np
import pytest

from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.interchange import base_of, count_turns
from ctlpp.benchmark.dataset import generate
from ctlpp.benchmark.task import make_task
from ctlpp.benchmark.variants import Settings

SMALL: dict[str, Any] = {"protocol": "text", "symbols": 4, "functions": 8, "max_length": 3}
SETTINGS: dict[str, dict[str, int]] = {
    "A": {},
    "R": {},
    "S": {"functions": 12, "max_length": 4, "shared_functions": 4, "shared_symbols": 2},
    "CTL": {"symbols": 3, "functions": 5},
    "A tiny": {"symbols": 2, "functions": 2, "max_length": 2},
    "A full": {"symbols": 8, "functions": 32},
}


def make(name: str) -> Inputs:
    return Inputs(make_task(Settings(variant=name.split()[0], **SMALL | SETTINGS[name])))


@pytest.mark.parametrize("name", SETTINGS)
def test_pairs_are_in_training_or_test_as_the_languages_say(name: str) -> None:
    inputs = make(name)
    task, functions = inputs.task, inputs.value.tolist()
    for (f, g, s), answer in np.ndenumerate(inputs.answer[:8, ::3]):
        assert answer == functions[3 * g][functions[f][s]]
    assert (inputs.train.ravel() == task.language("train").contains(inputs.pairs)).all()
    if name != "CTL":  # its test has longer examples only
        only_test = task.language("ood").contains(inputs.pairs) & ~inputs.train.ravel()
        assert (inputs.ood.ravel() == only_test).all()


@pytest.mark.parametrize("order", ["right-to-left", "left-to-right"])
def test_tokens_are_those_of_the_dataset(order: str) -> None:
    dataset = generate("A", **SMALL, train=90, iid=9, ood=9, order=order)
    inputs = Inputs(dataset.task)
    tokens, targets = dataset.tensors("pairs")[2]
    expected = {tuple(row): int(target) for row, target in zip(tokens.tolist(), targets, strict=True)}
    rows = inputs.pairs_with(np.arange(inputs.n_functions)).tolist()  # ordered by the second function
    answers = inputs.answer.swapaxes(0, 1).ravel().tolist()
    assert {tuple(row): answer for row, answer in zip(rows, answers, strict=True)} == expected
    singles = dataset.tensors("singles")[1][0].tolist()
    assert sorted(map(tuple, inputs.singles().tolist())) == sorted(map(tuple, singles))


def test_what_is_compared_follows_from_the_graphs() -> None:
    partners = {"A": {"a": ("b",), "b": ("a",)}, "S": {"a1": ("b1",), "b1": ("a1",)}, "CTL": {}}
    assert {name: make(name).partners for name in partners} == partners


def test_means_by_group_are_those_of_pairs_counted_one_by_one() -> None:
    inputs, random = make("S"), np.random.default_rng(0)
    numbers = random.uniform(size=(2, *inputs.answer.shape))
    numbers[random.uniform(size=numbers.shape) < 0.5] = np.nan
    for labels in (None, np.arange(inputs.n_functions) % 2):
        first = inputs.group_of if labels is None else labels
        means, counts = inputs.means(numbers, labels)
        for (seed, value, a, b), mean in np.ndenumerate(means):
            cells = [
                numbers[seed, f, g, inputs.start[f, value]]
                for f, g in np.ndindex(numbers.shape[1:3])
                if (first[f], inputs.group_of[g]) == (a, b)
            ]
            known = [cell for cell in cells if np.isfinite(cell)]
            assert mean == pytest.approx(np.mean(known) if known else np.nan, nan_ok=True)
            assert counts[seed, value, a, b] == len(known)


@pytest.mark.parametrize("name", ["A", "R", "S"])
def test_donors_and_bases_are_pairs_that_training_knows_wherever_it_knows_one(name: str) -> None:
    inputs = make(name)
    known = inputs.familiarity
    for function, symbol in np.ndindex(inputs.value.shape):
        assert known[function, inputs.donors[function, symbol], symbol] == known[function, :, symbol].max()
    for second, value in np.ndindex(inputs.bases.shape):
        first = inputs.bases[second, value]
        best = max(known[f, second, inputs.start[f, value]] for f in range(inputs.n_functions))
        assert known[first, second, inputs.start[first, value]] == best
    donor, second = np.indices((inputs.value.size, inputs.n_functions)).reshape(2, -1)
    base = inputs.base_for(donor, second)
    assert (base // inputs.n_symbols == second).all()
    assert (base % inputs.n_symbols != inputs.value.ravel()[donor]).all()
    assert (np.bincount(base) > 0).all()


def bases(inputs: Inputs, turn: int) -> Array:
    """The base of every donor and consumer in exhaustive interchange. (F · symbols, F)"""
    return base_of(inputs, np.arange(inputs.n_functions), turn).T


@pytest.mark.parametrize("name", ["A tiny", "R", "CTL", "A full"])
def test_every_input_is_patched_once_in_a_turn_and_in_all_turns_every_donor_meets_every_base(
    name: str,
) -> None:
    inputs = make(name)
    values, turns = inputs.value.ravel(), range(count_turns(inputs))
    every = np.stack([bases(inputs, turn) for turn in (turns if name != "A full" else (0, 1, turns[-1]))])
    for patched in every:  # (donors, consumers)
        assert (values[patched] != values[:, None]).all()
        assert (np.sort(patched, axis=0) == np.arange(inputs.value.size)[:, None]).all()
        assert (np.sort(patched // inputs.n_symbols, axis=1) == np.arange(inputs.n_functions)).all()
    for donor, consumer in np.ndindex(every.shape[1:]) if name != "A full" else ():
        assert sorted(every[:, donor, consumer]) == np.flatnonzero(values != values[donor]).tolist()


@pytest.mark.parametrize("name", ["R", "A full"])
def test_half_of_the_bases_are_known_for_every_symbol_and_group_and_values_meet_evenly(name: str) -> None:
    """So that symbols and groups can be compared with each other."""
    inputs = make(name)
    every, values, n = bases(inputs, 0), inputs.value.ravel(), inputs.n_symbols
    function, symbol = np.divmod(every, n)
    known = inputs.train[function, np.arange(inputs.n_functions), symbol]  # (donors, consumers)
    for group in inputs.groups:
        assert (known[:, inputs.members(group)].mean(axis=1) == 0.5).all()
    met = np.zeros((n, n), dtype=int)
    np.add.at(met, (np.broadcast_to(values[:, None], every.shape), values[every]), 1)
    assert (np.diag(met) == 0).all()
    others = met[~np.eye(n, dtype=bool)] / (every.size / (n * (n - 1)))
    assert 0.85 <= others.min() <= others.max() <= 1.15
