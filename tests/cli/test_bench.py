"""`ctlpp bench` in a shortened form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ctlpp import bench
from ctlpp.benchmark.dataset import generate

SMALL: dict[str, Any] = {"symbols": 4, "functions": 8, "max_length": 3, "train": 200, "iid": 10, "ood": 20}
EVEN = {"functions": 16, "max_length": 4, "shared_functions": 4, "shared_symbols": 2}
Command = Callable[..., Any]


def test_the_tables_of_the_data_have_both_sides_of_every_comparison(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = bench.reference("rejection_sampler")
    whole = sampler.generate
    monkeypatch.setattr(sampler, "generate", lambda variant: whole(variant, **SMALL))
    monkeypatch.setattr(bench, "reference", lambda name: sampler)
    sizes = {"S": SMALL | EVEN}
    small = lambda variant, **options: generate(variant, **options, **sizes.get(variant, SMALL))  # noqa: E731
    monkeypatch.setattr(bench, "generate", small)
    monkeypatch.setattr(bench, "run", lambda *arguments: "")
    monkeypatch.setenv("COLUMNS", "80")
    out = command("bench data").out
    assert max(map(len, out.splitlines())) <= 80
    assert all(words in out for words in ("Data in memory", "The whole command", "ctlpp --help"))
    assert out.count("×") == 4  # A and R, in memory and as a whole command
    assert out.endswith("\nNext: ctlpp bench train\n")


def test_the_reference_makes_the_same_kind_of_splits() -> None:
    rows = bench.reference("rejection_sampler").generate("A", **SMALL)
    ours = generate("A", protocol="text", **SMALL)
    assert {name: len(split) for name, split in rows.items()} == {n: ours.size(n) for n in ours.splits}


def test_a_reference_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"benchmarks/nope.py, the reference .* is not installed"):
        bench.reference("nope")


def test_the_table_of_training_has_both_sides_for_each_model(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "BLOCKS", 1)
    monkeypatch.setattr(bench, "SIZES", [("the demo's size", "quick", SMALL, 2, 1)])
    monkeypatch.setenv("COLUMNS", "80")
    out = command("bench train").out
    assert max(map(len, out.splitlines())) <= 80
    assert all(words in out for words in (*bench.THREE, "one by one", "together", "times", "Threads"))
    assert out.count("×") == 2 * len(bench.THREE)
    assert out.endswith("\nNext: ctlpp reproduce all --plan\n")


@pytest.mark.parametrize("model", ["lstm", "gru"])
def test_the_plain_loop_trains(model: str) -> None:
    data = generate("R", protocol="text", **SMALL | {"max_length": 2, "train": 90, "iid": 5})
    plain = bench.Seeds(model, "quick", data, 2).plain()
    tokens, targets = data.tensors("train")[1]

    def loss() -> float:
        with torch.no_grad():
            return sum(float(torch.nn.functional.cross_entropy(m(tokens), targets)) for m in plain.models)

    before = loss()
    for _ in range(30):
        plain.step(tokens, targets)
    assert loss() < before / 2


def test_the_bytes_that_kernels_move_are_those_of_their_operands_each_counted_once() -> None:
    bytes_moved = bench.reference("card_use").bytes_moved
    a, b, c = torch.zeros(4, 6), torch.zeros(6, 7), torch.zeros(8)
    assert bytes_moved(lambda: a @ b) == 4 * (4 * 6 + 6 * 7 + 4 * 7)
    assert bytes_moved(lambda: c.add_(c.neg())) == 4 * (8 + 8 + 8 + 8), "what takes a place counts once"
    assert bytes_moved(lambda: a.view(24)[:3].expand(2, 3)) == 0, "a view is no kernel"
    assert bytes_moved(lambda: torch.empty(99)) == 0
    assert bytes_moved(lambda: a[:, :2].neg()) == 4 * (4 * 2 + 4 * 2), "a slice is what is seen of it"
    assert bytes_moved(lambda: a[:1].expand(4, 6).neg()) == 4 * (6 + 4 * 6)


@pytest.mark.gpu
def test_crowds_are_measured_on_a_gpu() -> None:
    seeds = bench.Seeds("lstm", "authors", generate("R", train=4000), 2, "cuda")
    assert min(bench.measure_crowd(seeds, bench.reference("card_use"), steps=2)) > 0
