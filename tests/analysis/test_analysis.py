"""All measures on networks with a known answer."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ctlpp.analysis.analysis import Analysis, analyze
from ctlpp.analysis.geometry import codes_per_symbol, learned_tables
from ctlpp.benchmark.dataset import generate
from ctlpp.benchmark.task import Task
from ctlpp.kernels.fast import without_workspace
from ctlpp.models.zoo import MODELS, build
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
    for name in ("pairs_train", "pairs_ood", "interchange_across", "interchange_within", "codes", "clusters"):
        assert found[name] == 1, name
    for name in ("probe_within", "probe_across", "stitch_orthogonal", "stitch_affine"):
        assert found[name] == 1, name
    assert found["cosine_across"] > 0.98
    assert found["cka"] > 0.9


def test_with_a_code_a_group_the_groups_do_not_understand_each_other(
    of_two_codes: Analysis, task: Task
) -> None:
    found = numbers(of_two_codes)
    assert found["pairs_train"] == found["interchange_within"] == 1
    # what it does not understand it answers with symbol 0, which is right for one symbol in n
    assert found["pairs_ood"] == pytest.approx(1 / task.n_symbols)
    assert found["interchange_across"] == pytest.approx(1 / task.n_symbols)
    assert found["codes"] == found["clusters"] == 2
    assert abs(found["cosine_across"]) < 0.05
    assert found["cosine_within"] > 0.98


def test_decodable_within_but_not_across_groups_and_a_map_between_them_repairs_it(
    of_two_codes: Analysis,
) -> None:
    found = numbers(of_two_codes)
    assert found["probe_within"] == 1
    assert found["probe_across"] < 0.5  # the codes have no direction in common
    assert found["stitch_orthogonal"] == found["stitch_affine"] == 1


def test_the_column_that_carries_the_prefix_is_found(of_two_codes: Analysis) -> None:
    assert of_two_codes.changed == ("second", "first", "symbol", "end", "prefix")
    assert of_two_codes.position is not None
    assert of_two_codes.effect is not None
    assert of_two_codes.position.tolist() == [
        [0, 1],
        [0, 1],
    ]  # after the first layer, the column of the first function
    assert of_two_codes.effect[:, 0, 1].tolist() == [1, 1]
    assert of_two_codes.effect[:, 0, 4].tolist() == [1, 1]  # so do all columns of the prefix
    assert of_two_codes.effect[:, 1].max() < 1  # after the second layer it is too late


def test_a_network_that_reads_its_input_in_every_layer_is_given_it_again(systematic: Crowd) -> None:
    task = generate(
        "R", functions=8, max_length=3, train=100, iid=9, ood=9
    ).task  # eight symbols, as many as are tried
    module = type(systematic.module)(task, [0] * 8, [[0]] * 8)
    found = analyze(module, task)
    assert found.effect is not None
    assert found.effect[:, 0, 1].tolist() == [1]
    assert found.measures["interchange_across"].tolist() == [1]


def test_clusters_are_the_groups_and_come_in_their_order(of_two_codes: Analysis) -> None:
    assert of_two_codes.clusters is not None
    for of_seed in of_two_codes.clusters:
        for one in of_seed:
            assert one.labels.tolist() == of_two_codes.inputs.group_of.tolist()
            assert one.labels[one.order].tolist() == sorted(one.labels.tolist())


def test_the_extracted_tables_are_those_the_network_was_made_of(of_two_codes: Analysis, task: Task) -> None:
    inputs = of_two_codes.inputs
    assert codes_per_symbol(of_two_codes.codes, inputs).tolist() == [[2] * 4] * 2
    columns = learned_tables(of_two_codes.answers, of_two_codes.codes, inputs)
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        assert row["share"] == 1
        users = of_two_codes.codes[row["seed"], range(8), inputs.start[:, row["value"]]] == row["code"]
        same_group = inputs.group_of[users][0] == inputs.group_of[row["second"]]
        expected = inputs.value[row["second"], row["value"]] if same_group else 0
        assert row["answer"] == expected


def test_every_pair_and_single_is_answered_as_the_network_answers_it(
    of_two_codes: Analysis, two_codes: Crowd
) -> None:
    member, inputs = two_codes.member(1), of_two_codes.inputs
    every = inputs.pairs_with(np.arange(inputs.n_functions))
    with torch.no_grad():
        pairs, singles = (member(tokens).argmax(-1) for tokens in (every, inputs.singles()))
    assert (of_two_codes.answers[1].swapaxes(0, 1).ravel() == pairs.numpy()).all()
    assert (of_two_codes.singles[1].ravel() == singles.numpy()).all()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("order", ["right-to-left", "left-to-right"])
def test_every_model_of_the_zoo_can_be_analysed_whichever_way_it_reads(name: str, order: str) -> None:
    task = generate("A", symbols=3, functions=4, max_length=3, train=30, iid=5, ood=5, order=order).task
    crowd = init_crowd(lambda v, c: build(name, v, c, "quick"), task.vocabulary.size, 3, seeds=[0, 1, 2])
    found = analyze(crowd, task)
    assert not [note for note in found.notes if "columns of the prefix" not in note]
    assert all(np.isfinite(values).all() for values in found.measures.values())


@pytest.mark.parametrize("name", ["ndr", "lstm", "gru"])
def test_a_seed_has_the_same_numbers_alone_and_in_a_crowd(name: str, task: Task) -> None:
    seeds = [
        init_crowd(lambda v, c: build(name, v, c, "quick"), task.vocabulary.size, 4, seeds=s)
        for s in ([4, 7], [7])
    ]
    many, alone = (analyze(crowd, task) for crowd in seeds)
    assert (many.answers[1] == alone.answers[0]).all()
    for measure, values in many.measures.items():
        assert values[1] == pytest.approx(alone.measures[measure][0], abs=1e-4), measure


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["lstm", "gru", "transformer", "ndr"])
def test_a_gpu_finds_what_a_cpu_finds(name: str, task: Task) -> None:
    without_workspace()  # as after training: what cuBLAS cannot do without one must not be asked of it
    here, there = (
        analyze(
            init_crowd(
                lambda v, c: build(name, v, c, "quick"), task.vocabulary.size, task.n_symbols, [0, 1], device
            ),
            task,
        )
        for device in ("cpu", "cuda")
    )
    assert (here.answers == there.answers).mean() > 0.99
    for measure, values in here.measures.items():
        np.testing.assert_allclose(there.measures[measure], values, atol=0.05, err_msg=measure)


def test_for_a_recurrent_model_interchange_is_the_accuracy_on_the_pair_itself(task: Task) -> None:
    """It reads the first function before the second, so its state is all that the second one sees."""
    crowd = init_crowd(lambda v, c: build("gru", v, c, "quick"), task.vocabulary.size, 4, seeds=[0, 1])
    found = analyze(crowd, task)
    assert found.effect is not None
    found_at_two = found.position is not None and (found.position[:, 0] == 2).all()
    if found_at_two:
        assert found.interchange is not None
        assert (found.interchange == found.right).all()


class Silent(nn.Module):
    """Records nothing."""

    def __init__(self, vocab_size: int, n_classes: int) -> None:
        super().__init__()
        self.embed, self.classify = nn.Embedding(vocab_size, 8), nn.Linear(8, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.classify(self.embed(tokens).sum(1))
        return out


def test_a_model_that_records_nothing_gets_the_analyses_of_its_answers_and_a_note(task: Task) -> None:
    found = analyze(init_crowd(Silent, task.vocabulary.size, 4, [0, 1]), task)
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


def test_a_module_that_cannot_be_vectorised_gives_the_same_numbers(task: Task, two_codes: Crowd) -> None:
    slow, fast = (analyze(replace(two_codes, vectorised=v), task) for v in (False, True))
    for name, values in fast.measures.items():
        np.testing.assert_allclose(values, slow.measures[name], atol=1e-5, err_msg=name)


def test_numbers_that_are_not_finite_do_no_harm(task: Task, two_codes: Crowd) -> None:
    weights = two_codes.weights.clone()
    weights[1] = float("nan")
    found = analyze(replace(two_codes, weights=weights), task)
    assert found.measures["interchange_within"][0] == 1
    assert found.clusters is not None


def test_one_group_has_nothing_to_cross(task: Task) -> None:
    task = generate("CTL", symbols=3, functions=4, max_length=3, train=30, iid=5, ood=5).task
    found = analyze(init_crowd(lambda v, c: build("ndr", v, c, "quick"), task.vocabulary.size, 3, [0]), task)
    assert np.isnan(found.measures["interchange_across"]).all()
    assert np.isfinite(found.measures["interchange_within"]).all()
    assert found.notes == ["no group meets new consumers in the test: measures across groups are not defined"]


def test_the_five_groups_of_s_are_compared_where_the_test_crosses_them() -> None:
    settings = {"max_length": 4, "train": 300, "iid": 5, "ood": 5, "shared_functions": 4, "shared_symbols": 2}
    task = generate("S", symbols=4, functions=12, **settings).task
    found = analyze(init_crowd(lambda v, c: build("ndr", v, c, "quick"), task.vocabulary.size, 4, [0]), task)
    assert found.inputs.partners == {"a1": ("b1",), "b1": ("a1",)}
    assert found.inputs.firsts.sum() == found.inputs.seconds.sum() / 2 == 4
    never_first = np.isin(found.inputs.group_of, [found.inputs.groups.index(g) for g in ("a2", "b2", "o")])
    assert (found.codes[0][never_first] == -1).all()
    assert (found.codes[0][~never_first] >= 0).all()
