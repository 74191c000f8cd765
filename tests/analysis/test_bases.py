"""Who meets whom in exhaustive interchange."""

import numpy as np
import pytest

from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.interchange import base_of, count_turns
from ctlpp.benchmark.dataset import generate

SIZES = {
    "tiny": {"variant": "A", "symbols": 2, "functions": 2, "max_length": 2, "train": 4, "iid": 0, "ood": 2},
    "R": {"variant": "R", "symbols": 4, "functions": 8, "max_length": 3, "train": 90, "iid": 9, "ood": 9},
    "odd": {"variant": "CTL", "symbols": 3, "functions": 5, "max_length": 3, "train": 60, "iid": 9, "ood": 9},
    "full": {"variant": "A", "train": 2000, "max_length": 3, "iid": 9, "ood": 9},
}


def make(name: str) -> Inputs:
    return Inputs.of(generate(**SIZES[name]).task)  # type: ignore[arg-type]


def bases(inputs: Inputs, turn: int) -> Array:
    """The base of every donor and consumer. (F · symbols, F)"""
    return np.stack([base_of(inputs, consumer, turn) for consumer in range(inputs.n_functions)], axis=1)


@pytest.mark.parametrize("name", SIZES)
def test_in_a_turn_every_input_is_patched_once_with_another_value_and_first_functions_alternate(
    name: str,
) -> None:
    inputs = make(name)
    values = inputs.value.ravel()
    for turn in {0, 1, count_turns(inputs) - 1}:
        every = bases(inputs, turn)  # (donors, consumers)
        assert (values[every] != values[:, None]).all()
        for of_consumer in every.T:
            assert sorted(of_consumer) == list(range(inputs.value.size))
        for of_donor in every // inputs.n_symbols:
            assert sorted(of_donor) == list(range(inputs.n_functions))


@pytest.mark.parametrize("name", ["tiny", "R", "odd"])
def test_in_all_turns_every_donor_meets_every_base_of_another_value_once(name: str) -> None:
    inputs = make(name)
    values = inputs.value.ravel()
    every = np.stack(
        [bases(inputs, turn) for turn in range(count_turns(inputs))]
    )  # (turns, donors, consumers)
    for donor, consumer in np.ndindex(every.shape[1:]):
        assert sorted(every[:, donor, consumer]) == np.flatnonzero(values != values[donor]).tolist()


@pytest.mark.parametrize("name", ["R", "full"])
def test_half_of_the_bases_are_known_for_every_symbol_and_group(name: str) -> None:
    """So that symbols and groups can be compared with each other."""
    inputs = make(name)
    function, symbol = np.divmod(bases(inputs, 0), inputs.n_symbols)
    known = inputs.train[function, np.arange(inputs.n_functions), symbol]  # (donors, consumers)
    for group in inputs.groups:
        of_donor = known[:, inputs.members(group)].mean(axis=1)
        assert (of_donor == 0.5).all()


def test_the_values_of_donors_and_bases_come_together_about_evenly() -> None:
    inputs = make("full")
    n, values = inputs.n_symbols, inputs.value.ravel()
    met = np.zeros((n, n), dtype=int)
    np.add.at(met, (np.broadcast_to(values[:, None], (256, 32)), values[bases(inputs, 0)]), 1)
    assert (np.diag(met) == 0).all()
    assert met[~np.eye(n, dtype=bool)].min() >= 0.85 * 8192 / (n * (n - 1))
    assert met.max() <= 1.15 * 8192 / (n * (n - 1))
