"""Which seeds a user means."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctlpp.cli.options import name_seeds, parse_seeds, parse_seeds_of_run


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("1", [0]),
        ("25", list(range(25))),
        ("3,7,9", [3, 7, 9]),
        ("25-49", list(range(25, 50))),
        ("7-7", [7]),
        ("0-2,9,20-21", [0, 1, 2, 9, 20, 21]),
        ("7,", None),
        ("9, 3", [9, 3]),
    ],
)
def test_a_single_number_counts_and_everything_else_names(text: str, seeds: list[int] | None) -> None:
    if seeds is None:
        with pytest.raises(ValueError, match="--seeds"):
            parse_seeds(text)
    else:
        assert parse_seeds(text) == seeds


@given(st.lists(st.integers(0, 200), min_size=1, max_size=20, unique=True))
def test_a_name_names_the_same_seeds(seeds: list[int]) -> None:
    text = name_seeds(seeds)
    assert parse_seeds(text if "," in text or "-" in text else f"{text}-{text}") == seeds


FORMS = "write 25 (that is 0 … 24), 3,7,9, 25-49 or 7-7"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("0", f"--seeds 0: at least one seed is needed; {FORMS}"),
        ("-3", f"--seeds -3: {FORMS}"),
        ("many", f"--seeds many: {FORMS}"),
        ("1.5", f"--seeds 1.5: {FORMS}"),
        ("9-3", f"--seeds 9-3: 9-3 runs backwards; {FORMS}"),
        ("1,2,1", "--seeds 1,2,1: seed 1 is given twice; every seed once"),
        ("0-999999", "--seeds 0-999999: at most 100,000 in one run"),
        ("9" * 5000, f"--seeds {'9' * 5000}: seeds go up to 4294967295"),
        ("9999999999-9999999999", "--seeds 9999999999-9999999999: seeds go up to 4294967295"),
    ],
)
def test_what_is_wrong_is_named(text: str, line: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        parse_seeds(text)
    assert str(error.value) == line


@pytest.mark.parametrize(
    ("text", "have", "line"),
    [
        ("99", range(5), "no seed 5 in this run: --seeds 99 means seeds 0 … 98; this run has 0 … 4"),
        (
            "7",
            [0, 2, 3, 7],
            "no seed 1 in this run: --seeds 7 means seeds 0 … 6; this run has 0, 2 … 3, 7; one seed alone: 7-7",
        ),
        ("1", [1], "no seed 0 in this run: --seeds 1 means seed 0; this run has 1; one seed alone: 1-1"),
    ],
)
def test_a_count_beyond_the_seeds_of_a_run_says_what_it_means(
    text: str, have: Sequence[int], line: str
) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011
        parse_seeds_of_run(text, have)
    assert str(error.value) == line


@pytest.mark.parametrize(("text", "seeds"), [("3", [0, 1, 2]), ("2-2", [2]), ("0,9", [0, 9])])
def test_other_seeds_of_a_run_are_taken_as_they_are(text: str, seeds: list[int]) -> None:
    assert parse_seeds_of_run(text, range(5)) == seeds
