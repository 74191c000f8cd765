"""All measures on networks with a known answer."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.analysis.conftest import bag, make_crowd

from ctlpp.analysis.analysis import Analysis, analyze
from ctlpp.analysis.geometry import learned_tables
from ctlpp.benchmark.task import Task, make_task
from ctlpp.benchmark.variants import Settings
from ctlpp.kernels.fast import without_workspace
from ctlpp.models.zoo import MODELS
from ctlpp.training.crowd import Crowd, init_crowd


@pytest.fixture(scope="module")
def of_systematic(systematic: Crowd, task: Task) -> Analysis:
    return analyze(systematic, task)


@pytest.fixture(scope="module")
def of_two_codes(two_codes: Crowd, task: Task) -> Analysis:
    return analyze(two_codes, task)


def numbers(analysis: Analysis) -> dict[str, float]:
    for name, values in analysis.measures.items():
        assert values.shape == (len(analysis.seeds),), name
        assert np.ptp(values) < 0.1, name  # the seeds differ in nothing but a little noise
    return {name: float(values.mean()) for name, values in analysis.measures.items()}


def test_a_systematic_network_has_interchange_one_and_one_code_a_symbol(of_systematic: Analysis) -> None:
    found = numbers(of_systematic)
    assert min(found.pop("cosine_across"), found.pop("cosine_within")) > 0.98
    assert found.pop("cka") > 0.9
    assert set(found.values()) == {1}


def test_with_a_code_a_group_the_groups_do_not_understand_each_other(
    of_two_codes: Analysis, task: Task
) -> None:
    found = numbers(of_two_codes)
    assert found["pairs_train"] == found["interchange_within"] == 1
    # what it does not understand it answers with symbol 0, which is right for one symbol in n
    assert found["pairs_ood"] == found["interchange_across"] == pytest.approx(1 / task.n_symbols)
    assert found["codes"] == found["clusters"] == 2
    assert abs(found["cosine_across"]) < 0.05
    assert found["cosine_within"] > 0.98
    # decodable within but not across groups, and a map between them repairs it
    assert found["probe_within"] == 1
    assert found["probe_across"] < 0.5  # the codes have no direction in common
    assert found["stitch_orthogonal"] == found["stitch_affine"] == 1


def test_the_column_that_carries_the_prefix_is_found(of_two_codes: Analysis) -> None:
    found = of_two_codes.interchange
    assert found is not None
    assert found.changed == ("second", "first", "symbol", "end", "prefix")
    assert found.position.tolist() == [[0, 1], [0, 1]]  # after the first layer, at the first function
    assert found.effect[:, 0, 1].tolist() == [1, 1]
    assert found.effect[:, 0, 4].tolist() == [1, 1]  # so do all columns of the prefix
    assert found.effect[:, 1].max() < 1  # after the second layer it is too late
    assert not of_two_codes.notes


def test_clusters_are_the_groups_and_come_in_their_order(of_two_codes: Analysis) -> None:
    assert of_two_codes.clusters is not None
    for of_seed in of_two_codes.clusters:
        for one in of_seed:
            assert one.labels.tolist() == of_two_codes.inputs.group_of.tolist()
            assert one.labels[one.order].tolist() == sorted(one.labels.tolist())


def test_the_extracted_tables_are_those_the_network_was_made_of(of_two_codes: Analysis) -> None:
    inputs, codes = of_two_codes.inputs, of_two_codes.codes
    assert (codes.max(axis=-1) + 1).tolist() == [[2] * 4] * 2
    states, answer, share = learned_tables(of_two_codes.answers, codes, inputs)
    assert (states == 4).all()
    assert (share == 1).all()
    for (seed, value, code, second), found in np.ndenumerate(answer):
        user = codes[seed, value].tolist().index(code)
        same_group = inputs.group_of[user] == inputs.group_of[second]
        assert found == (inputs.value[second, value] if same_group else 0)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_zoo_can_be_analysed_whichever_way_it_reads(name: str) -> None:
    for order, seeds in (("right-to-left", [0, 1]), ("left-to-right", [2])):
        task = make_task(Settings(variant="A", symbols=3, functions=4, max_length=3, order=order))
        found = analyze(make_crowd(name, task, seeds), task)
        assert not [note for note in found.notes if "columns of the prefix" not in note]
        assert all(np.isfinite(values).all() for values in found.measures.values())


@pytest.mark.parametrize("name", ["ndr", "lstm", "gru"])
def test_a_seed_has_the_same_numbers_alone_and_in_a_crowd(name: str, task: Task) -> None:
    many, alone = (analyze(make_crowd(name, task, seeds), task) for seeds in ([4, 7], [7]))
    assert (many.answers[1] == alone.answers[0]).all()
    for measure, values in many.measures.items():
        assert values[1] == pytest.approx(alone.measures[measure][0], abs=1e-4), measure


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["lstm", "gru", "transformer", "ndr"])
def test_a_gpu_finds_what_a_cpu_finds(name: str, task: Task) -> None:
    without_workspace()  # as after training: what cuBLAS cannot do without one must not be asked of it
    here, there = (analyze(make_crowd(name, task, [0, 1], device), task) for device in ("cpu", "cuda"))
    assert (here.answers == there.answers).mean() > 0.99
    for measure, values in here.measures.items():
        np.testing.assert_allclose(there.measures[measure], values, atol=0.05, err_msg=measure)


def test_a_model_that_records_nothing_gets_the_analyses_of_its_answers_and_a_note(task: Task) -> None:
    found = analyze(init_crowd(bag, task.vocabulary.size, 4, [0, 1]), task)
    assert set(found.measures) == {"pairs_train", "pairs_ood", "codes"}
    assert found.notes == [
        'the model records no "readout": no similarity of representations',
        'the model records no "state": no interchange, stitching, probes or CKA',
    ]


def test_one_module_or_any_callable_can_be_analysed(task: Task, systematic: Crowd) -> None:
    module = systematic.member(3)
    assert analyze(module, task).measures["interchange_across"].tolist() == [1]
    by_hand = analyze(lambda tokens: module(tokens), task)
    assert by_hand.measures["pairs_ood"].tolist() == [1]
    large = make_task(Settings(variant="R", functions=8, max_length=3))  # as many symbols as inputs are tried
    found = analyze(type(module)(large, [0] * 8, [[0]] * 8), large)
    assert found.measures["interchange_across"].tolist() == [1]


def test_numbers_that_are_not_finite_do_no_harm(task: Task, two_codes: Crowd) -> None:
    weights = two_codes.weights.clone()
    weights[1] = float("nan")
    found = analyze(replace(two_codes, weights=weights), task)
    assert found.measures["interchange_within"][0] == 1
    assert found.clusters is not None


def test_one_group_has_nothing_to_cross() -> None:
    task = make_task(Settings(variant="CTL", symbols=3, functions=4, max_length=3))
    found = analyze(make_crowd("gru", task, [0]), task)
    assert np.isnan(found.measures["interchange_across"]).all()
    assert np.isfinite(found.measures["interchange_within"]).all()
    assert found.notes == ["no group meets new consumers in the test: measures across groups are not defined"]


def test_the_five_groups_of_s_are_compared_where_the_test_crosses_them() -> None:
    sizes: dict[str, Any] = {"symbols": 4, "functions": 12, "max_length": 4}
    task = make_task(Settings(variant="S", **sizes, shared_functions=4, shared_symbols=2))
    found = analyze(make_crowd("gru", task, [0]), task)
    assert found.inputs.partners == {"a1": ("b1",), "b1": ("a1",)}
    assert found.inputs.firsts.sum() == found.inputs.seconds.sum() / 2 == 4
    never_first = np.isin(found.inputs.group_of, [found.inputs.groups.index(g) for g in ("a2", "b2", "o")])
    assert (found.codes[0][:, never_first] == -1).all()
    assert (found.codes[0][:, ~never_first] >= 0).all()
