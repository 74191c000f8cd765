"""`ctlpp bench data` in a shortened form."""

from __future__ import annotations

from typing import Any

import pytest

from ctlpp.bench import data
from ctlpp.bench.reference import reference
from ctlpp.benchmark.dataset import generate
from ctlpp.cli.output import print_table

SMALL: dict[str, Any] = {"symbols": 4, "functions": 8, "max_length": 3, "train": 200, "iid": 10, "ood": 20}


def test_the_table_has_both_sides_of_every_comparison(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sampler = reference("rejection_sampler")
    small = sampler.generate
    monkeypatch.setattr(sampler, "generate", lambda variant: small(variant, **SMALL))
    monkeypatch.setattr(data, "reference", lambda name: sampler)
    monkeypatch.setattr(data, "generate", lambda variant: generate(variant, **SMALL | _even(variant)))
    monkeypatch.setattr(data, "run_command", lambda variant: None)
    monkeypatch.setattr(data, "LARGE", "print(10_000_000, 1.5, 2.5, 300.0)")
    print_table(*data.compare())
    out = capsys.readouterr().out
    for words in (
        "Data in memory",
        "The whole command",
        "10 million",
        "ctlpp --help",
        "and written as Parquet",
    ):
        assert words in out
    assert out.count("×") == 4  # A and R, in memory and as a whole command


def _even(variant: str) -> dict[str, int]:
    return (
        {"functions": 16, "max_length": 4, "shared_functions": 4, "shared_symbols": 2}
        if variant == "S"
        else {}
    )


def test_the_reference_makes_the_same_kind_of_splits() -> None:
    rows = reference("rejection_sampler").generate("A", **SMALL)
    ours = generate("A", **SMALL)
    assert {name: len(split) for name, split in rows.items()} == {
        name: ours.size(name) for name in ours.splits
    }


def test_a_reference_that_is_not_there_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"benchmarks/nope.py, the reference to compare with, is not installed"
    ):
        reference("nope")
