import numpy as np
import pytest

from ctlpp.analysis.inputs import Inputs
from ctlpp.benchmark.dataset import generate
from ctlpp.benchmark.language import Examples
from ctlpp.benchmark.task import Task

SMALL = {"symbols": 4, "functions": 8, "max_length": 3, "train": 90, "iid": 9, "ood": 9}
STAGED = {"symbols": 4, "functions": 12, "max_length": 4, "train": 300, "iid": 9, "ood": 9} | {
    "shared_functions": 4,
    "shared_symbols": 2,
}


def make(variant: str, **more: str) -> Task:
    return generate(variant, **{**(STAGED if variant == "S" else SMALL), **more}).task


@pytest.mark.parametrize("variant", ["A", "R", "S", "CTL"])
def test_pairs_are_in_training_or_test_as_the_languages_say(variant: str) -> None:
    task = make(variant)
    inputs = Inputs.of(task)
    first, second, symbol = (index.ravel() for index in np.indices(inputs.answer.shape))
    examples = Examples(starts=symbol, functions=np.stack([first, second], axis=1))
    assert (inputs.train.ravel() == task.language("train").contains(examples)).all()
    if variant != "CTL":
        assert (inputs.ood.ravel() == task.language("ood").contains(examples)).all()
    assert (inputs.answer.ravel() == examples.outputs(task.table)).all()


@pytest.mark.parametrize("order", ["right-to-left", "left-to-right"])
def test_tokens_are_those_of_the_dataset(order: str) -> None:
    dataset = generate("A", **SMALL, order=order)
    inputs = Inputs.of(dataset.task)
    tokens, targets = dataset.tensors("pairs")[2]
    expected = {tuple(row): int(target) for row, target in zip(tokens.tolist(), targets, strict=True)}
    rows = inputs.pairs_with(np.arange(inputs.n_functions)).tolist()  # ordered by the second function
    answers = inputs.answer.swapaxes(0, 1).ravel().tolist()
    found = {tuple(row): answer for row, answer in zip(rows, answers, strict=True)}
    assert found == expected
    assert sorted(map(tuple, inputs.singles().tolist())) == sorted(
        map(tuple, dataset.tensors("singles")[1][0].tolist())
    )


@pytest.mark.parametrize("variant", ["A", "R", "S"])
def test_donors_and_bases_are_pairs_that_training_knows_wherever_it_knows_one(variant: str) -> None:
    inputs = Inputs.of(make(variant))
    known = inputs.familiarity
    for function, symbol in np.ndindex(inputs.value.shape):
        assert known[function, inputs.donors[function, symbol], symbol] == known[function, :, symbol].max()
    for second, value in np.ndindex(inputs.bases.shape):
        first = inputs.bases[second, value]
        best = max(known[f, second, inputs.start[f, value]] for f in range(inputs.n_functions))
        assert known[first, second, inputs.start[first, value]] == best


def test_a_base_never_has_the_donors_value_and_all_bases_are_used() -> None:
    inputs = Inputs.of(make("R"))
    donor, second = (index.ravel() for index in np.indices((inputs.value.size, inputs.n_functions)))
    base = inputs.base_for(donor, second)
    assert (base // inputs.n_symbols == second).all()
    assert (base % inputs.n_symbols != inputs.value.ravel()[donor]).all()
    assert (np.bincount(base) > 0).all()


def test_what_is_compared_follows_from_the_graphs() -> None:
    assert Inputs.of(make("A")).partners == {"a": ("b",), "b": ("a",)}
    assert Inputs.of(make("S")).partners == {"a1": ("b1",), "b1": ("a1",)}
    assert Inputs.of(make("CTL")).partners == {}
