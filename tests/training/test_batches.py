"""Which examples each step reads: rounds, orders, curricula and restarts."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.storage.folder import task_to_dict
from ctlpp.training.batches import Batches, Split, find_curriculum
from ctlpp.training.recipe import Recipe, recipe_for
from ctlpp.training.train import train

RECIPE = Recipe(batch=4, steps=100)


def numbered(**counts: int) -> Split:
    """Examples that carry their own number as token and target; n2=10 means ten of length 2."""
    sizes = {int(name[1:]): count for name, count in counts.items()}
    return {
        n: (torch.arange(count)[:, None].repeat(1, n + 2), torch.arange(count)) for n, count in sizes.items()
    }


def test_a_round_visits_every_example_once_but_for_partial_batches() -> None:
    batches = Batches(numbered(n1=3, n2=10, n3=8), RECIPE, [0])
    assert batches.per_round == 1 + 2 + 2
    for round_ in range(3):
        seen: dict[int, list[int]] = {1: [], 2: [], 3: []}
        for step in range(5 * round_, 5 * round_ + 5):
            tokens, targets = batches.at(step)
            assert torch.equal(tokens[:, 0], targets)  # they belong together
            seen[tokens.shape[1] - 2] += targets.tolist()
        assert sorted(seen[3]) == list(range(8))
        assert len(seen[2]) == len(set(seen[2])) == 8
        assert set(seen[1]) == {0, 1, 2}, "less than a batch: they are repeated"


def test_rounds_and_batch_seeds_differ_and_a_step_needs_no_steps_before_it() -> None:
    def order(seed: int, steps: range) -> list[list[int]]:
        batches = Batches(numbered(n2=40), replace(RECIPE, batch_seed=seed), [0])
        return [batches.at(step)[1].tolist() for step in steps]

    orders = [order(seed, range(first, first + 10)) for seed in (0, 1) for first in (0, 10)]
    assert all(orders[i] != orders[j] for i in range(4) for j in range(i))
    assert order(0, range(30))[-1] == order(0, range(29, 30))[0]


def test_with_an_order_per_seed_a_seed_reads_the_same_alone_and_in_a_crowd() -> None:
    recipe = replace(RECIPE, batch_order="per_seed")
    crowd, alone = (Batches(numbered(n2=20, n3=20), recipe, seeds) for seeds in ([4, 7], [7]))
    for step in range(12):
        tokens, targets = crowd.at(step)
        assert tokens.shape[:2] == (2, 4)
        assert torch.equal(targets[1], alone.at(step)[1][0])
        assert not torch.equal(targets[0], targets[1]) or step % 5
    assert crowd.shapes()[-1][0].shape == (2, 4, 5)


def evens_first(progress: float, length: int, tokens: Tensor) -> Tensor:
    return torch.where(tokens[:, 0] % 2 == 0, 1.0, 0.25 * (progress >= 0.5))


@pytest.mark.parametrize("order", ["shared", "per_seed"])
def test_a_curriculum_gives_the_chance_of_each_example_to_take_part(order: str) -> None:
    recipe = replace(RECIPE, steps=600, batch=10, batch_order=order)
    batches = Batches(numbered(n2=400), recipe, [0, 1], curriculum=evens_first)
    early, late = (
        [t % 2 for step in steps for t in batches.at(step)[1].flatten().tolist()]
        for steps in (range(300), range(300, 600))
    )
    assert sum(early) == 0
    assert sum(late) / len(late) == pytest.approx(0.2, abs=0.03)
    assert batches.per_round == 30  # a twentieth of the steps


def test_a_curriculum_that_makes_no_sense_is_one_line() -> None:
    shape = "the curriculum must give one weight from 0 to 1 for each of 8 examples"
    none = "the curriculum leaves no examples at step 0: some weights must be above 0"
    wrong: list[tuple[Any, str]] = [
        (lambda p, n, x: torch.zeros(8), none),
        (lambda p, n, x: torch.ones(3), shape),
        (lambda p, n, x: 2 * torch.ones(8), shape),
        (lambda p, n, x: 1 / 0, "the curriculum failed: ZeroDivisionError: division by zero"),
    ]
    for weights, text in wrong:
        with pytest.raises(ValueError, match=f"^{text}$"):
            Batches(numbered(n2=8), RECIPE, [0], curriculum=weights).at(0)


def test_a_natural_mix_has_each_length_as_often_as_the_data_and_an_even_one_equally_often() -> None:
    for mix, expected in (("natural", {1: 1, 2: 4, 3: 40}), ("even", {1: 15, 2: 15, 3: 15})):
        recipe = Recipe(batch=10, steps=45, length_mix=mix)
        round_ = list(map(Batches(numbered(n1=5, n2=40, n3=400), recipe, seeds=[0]).at, range(45)))
        assert Counter(tokens.shape[1] - 2 for tokens, _ in round_) == expected
    seen = Counter(torch.cat([targets for tokens, targets in round_ if tokens.shape[1] == 4]).tolist())
    assert set(seen) == set(range(40)), "all examples of a length come before one is repeated"
    assert set(seen.values()) == {3, 4}


@pytest.fixture(scope="module")
def staged() -> Dataset:
    sizes = {"symbols": 4, "functions": 12, "max_length": 6, "train": 400, "iid": 20, "ood": 50}
    return generate("S", protocol="clean", shared_functions=4, shared_symbols=2, **sizes)


def test_short_examples_and_shared_functions_come_first(staged: Dataset) -> None:
    names, groups, split = list(staged.task.functions), staged.task.groups, staged.tensors("train")
    curriculum = find_curriculum("short_first+shared_first", task_to_dict(staged.task, {}, {}), split)
    every = Batches(split, Recipe(steps=40, batch=10), [0], curriculum=curriculum)
    batches = [every.at(step)[0] for step in range(40)]
    seen = [{names[i] for i in batch.flatten().tolist() if i < len(names)} for batch in batches]
    assert set().union(*seen[:20]) == {*groups["a1"], *groups["b1"], *groups["o"]}
    assert set().union(*seen[20:]) == {*names}
    assert {batch.shape[1] - 2 for batch in batches[:10]} == {2}
    assert {batch.shape[1] - 2 for batch in batches[10:20]} == {2, 4}
    assert {batch.shape[1] - 2 for batch in batches[20:]} == {2, 4, 6}


def test_a_variant_without_shared_functions_is_told_so() -> None:
    data = generate("R", symbols=4, functions=8, max_length=3, train=100, iid=20, ood=20, protocol="text")
    line = r"^curriculum shared_first: only the variant S has shared functions; choose another$"
    recipe = replace(RECIPE, curriculum="shared_first")
    for where in (data, {name: data.tensors(name) for name in ("train", "iid")}):
        with pytest.raises(ValueError, match=line):
            train("rnn", where, seeds=[0], preset="quick", recipe=recipe)


def test_a_run_says_which_of_its_restarts_are_chosen(staged: Dataset, tmp_path: Path) -> None:
    recipe = recipe_for("permrnn", variant="S", steps=40, batch=16, checkpoint_every=0)
    assert (recipe.curriculum, recipe.restarts) == ("shared_first", 2)
    run = train("permrnn", staged, seeds=range(6), recipe=recipe, out=tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    chosen = run.history.chosen(2)
    assert [seed // 2 for seed in chosen] == [0, 1, 2]
    assert [one["seed"] for one in result["seeds"] if one["chosen"]] == chosen
    assert [row["seed"] for row in run.table() if row["chosen"]] == chosen
