import re
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ctlpp.training.batches import Batches, Split
from ctlpp.training.recipe import Recipe
from ctlpp.training.train import train

RECIPE = Recipe(batch=4, steps=100)


def numbered(**counts: int) -> Split:
    """Examples that carry their own number as token and target; lengths by name: n2=10 means ten of length 2."""
    sizes = {int(name[1:]): count for name, count in counts.items()}
    return {
        n: (torch.arange(count)[:, None].repeat(1, n + 2), torch.arange(count)) for n, count in sizes.items()
    }


def test_a_round_visits_every_example_once_but_for_partial_batches() -> None:
    batches = Batches(numbered(n2=10, n3=8), RECIPE, [0])
    assert batches.per_round == 2 + 2
    for round_ in range(3):
        seen: dict[int, list[int]] = {2: [], 3: []}
        for step in range(4 * round_, 4 * round_ + 4):
            tokens, targets = batches.at(step)
            assert torch.equal(tokens[:, 0], targets)  # they belong together
            seen[tokens.shape[1] - 2] += targets.tolist()
        assert sorted(seen[3]) == list(range(8))
        assert len(seen[2]) == len(set(seen[2])) == 8


def test_rounds_and_batch_seeds_differ() -> None:
    def order(seed: int, round_: int) -> list[int]:
        batches = Batches(numbered(n2=40), replace(RECIPE, batch_seed=seed), [0])
        return [int(t) for step in range(10) for t in batches.at(10 * round_ + step)[1]]

    orders = [order(0, 0), order(0, 1), order(1, 0), order(1, 1)]
    assert all(orders[i] != orders[j] for i in range(4) for j in range(i))


def test_a_step_needs_no_steps_before_it() -> None:
    walked, jumped = (Batches(numbered(n2=10, n3=9), RECIPE, [0]) for _ in range(2))
    for step in range(30):
        expected = walked.at(step)
    assert all(torch.equal(a, b) for a, b in zip(expected, jumped.at(29), strict=True))


def test_a_length_with_less_than_a_batch_repeats_its_examples() -> None:
    batches = Batches(numbered(n1=3, n2=8), RECIPE, [0])
    short = [
        targets
        for step in range(3)
        if (tokens := batches.at(step)[0]).shape[1] == 3
        for targets in [tokens[:, 0]]
    ]
    assert len(short) == 1
    assert set(short[0].tolist()) == {0, 1, 2}


def test_with_an_order_per_seed_a_seed_reads_the_same_alone_and_in_a_crowd() -> None:
    recipe = replace(RECIPE, batch_order="per_seed")
    crowd, alone = (
        Batches(numbered(n2=20, n3=20), recipe, [4, 7]),
        Batches(numbered(n2=20, n3=20), recipe, [7]),
    )
    for step in range(12):
        tokens, targets = crowd.at(step)
        assert tokens.shape[:2] == (2, 4)
        assert torch.equal(targets[1], alone.at(step)[1][0])
        assert not torch.equal(targets[0], targets[1]) or step % 5
    assert crowd.shapes()[-1][0].shape == (2, 4, 5)


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"batch 50 is larger than the data: .* use at most 30, or the preset quick$"
    ):
        Batches(numbered(n2=10, n3=20), replace(RECIPE, batch=50), [0])


def evens_first(progress: float, length: int, tokens: Tensor) -> Tensor:
    return torch.where(tokens[:, 0] % 2 == 0, 1.0, float(progress >= 0.5))


@pytest.mark.parametrize("order", ["shared", "per_seed"])
def test_a_curriculum_decides_who_takes_part(order: str) -> None:
    recipe = replace(RECIPE, batch_order=order)
    batches = Batches(numbered(n2=20, n3=20), recipe, [0, 1], curriculum=evens_first)
    early = [t for step in range(40) for t in batches.at(step)[1].flatten().tolist()]
    late = [t for step in range(60, 100) for t in batches.at(step)[1].flatten().tolist()]
    assert all(t % 2 == 0 for t in early)
    assert set(late) == set(range(20))
    assert batches.per_round == 10  # as without


def test_a_weight_is_the_chance_to_take_part() -> None:
    def weights(progress: float, length: int, tokens: Tensor) -> Tensor:
        return torch.where(tokens[:, 0] < 200, 0.25, 1.0)

    batches = Batches(numbered(n2=400), replace(RECIPE, batch=10), [0], curriculum=weights)
    seen = Counter(t < 200 for step in range(40 * 10) for t in batches.at(step)[1].tolist())
    assert seen[True] / seen[False] == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        (
            lambda p, n, x: torch.zeros(len(x)),
            "the curriculum leaves no examples at step 0: some weights must be above 0",
        ),
        (
            lambda p, n, x: torch.ones(3),
            "the curriculum must give one weight from 0 to 1 for each of 8 examples",
        ),
        (
            lambda p, n, x: 2 * torch.ones(8),
            "the curriculum must give one weight from 0 to 1 for each of 8 examples",
        ),
        (lambda p, n, x: 1 / 0, "the curriculum failed: ZeroDivisionError: division by zero"),
    ],
)
def test_a_curriculum_that_makes_no_sense_is_one_line(weights: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text) + "$"):
        Batches(numbered(n2=8), RECIPE, [0], curriculum=weights).at(0)


def test_a_curriculum_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_curricula.py").write_text(
        "def all_of_them(progress, length, tokens):\n    return tokens[:, 0] * 0 + 1\nnumber = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    data = {"train": numbered(n2=8), "iid": numbered(n2=8)}
    found: Any = partial(train, "rnn", data, seeds=[0], preset="quick", observers=[], device="cpu")
    recipe = Recipe(steps=2, batch=4, curriculum="my_curricula:all_of_them")
    assert found(recipe=recipe).config["recipe"]["curriculum"] == "my_curricula:all_of_them"
    for name, text in {
        "nothing": "curriculum 'nothing': write it as package.module:function",
        "my_curricula:number": "curriculum 'my_curricula:number': number is of type int, not a callable",
        "my_curricula:none": "curriculum 'my_curricula:none': my_curricula has no 'none'",
        "my_missing:x": "curriculum 'my_missing:x': cannot import my_missing: ModuleNotFoundError",
    }.items():
        with pytest.raises(ValueError, match=re.escape(text)):
            found(recipe=replace(recipe, curriculum=name))
