"""Options out of range: each complaint says what is wrong and what would be right."""

import re
from typing import Any

import pytest

from ctlpp.benchmark.dataset import generate
from ctlpp.benchmark.variants import Settings

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("Q", {}, "unknown variant 'Q': choose from CTL, A, R, S, or a TOML file with a graph"),
    ("a", {}, "unknown variant 'a': choose from CTL, A, R, S, or a TOML file with a graph"),
    ("A", {"symbols": 0}, "symbols 0: use 2 to 1000"),
    ("A", {"symbols": 1001}, "symbols 1001: use 2 to 1000"),
    ("A", {"symbols": "8"}, "symbols '8': use 2 to 1000"),
    ("A", {"functions": 0}, "functions 0: use 2 to 10000"),
    ("A", {"functions": 1}, "functions 1: use 2 to 10000"),
    ("S", {"functions": 4}, "functions 4: use 5 to 10000"),
    ("A", {"symbols": 3, "functions": 7}, "functions 7: only 6 different bijections of 3 symbols exist"),
    ("A", {"max_length": 1}, "max_length 1: use 2 to 64"),
    ("A", {"max_length": 65}, "max_length 65: use 2 to 64"),
    ("A", {"train": 0}, "train 0: use 1 to 1000000000"),
    ("A", {"train": 1e5}, "train 100000.0: use 1 to 1000000000"),
    ("A", {"iid": -1}, "iid -1: use 0 to 1000000000"),
    ("A", {"ood": -1}, "ood -1: use 0 to 1000000000"),
    ("A", {"seed": -1}, "seed -1: use 0 to 9223372036854775807"),
    ("A", {"fill": 0.0}, "fill 0.0: use a share above 0 and up to 1"),
    ("A", {"fill": 1.5}, "fill 1.5: use a share above 0 and up to 1"),
    ("A", {"fill": float("nan")}, "fill nan: use a share above 0 and up to 1"),
    ("A", {"protocol": "text"}, "unknown protocol 'text': choose from paper, released"),
    ("A", {"order": "up"}, "unknown order 'up': choose from right-to-left, left-to-right"),
    ("A", {"weighting": "even"}, "unknown weighting 'even': choose from uniform, sequential"),
    ("A", {"shared_functions": 8}, "shared_functions is an option of S alone; leave it out for A"),
    ("R", {"shared_symbols": 4}, "shared_symbols is an option of S alone; leave it out for R"),
    ("S", {"ood_max_length": 8}, "ood_max_length is an option of CTL alone; leave it out for S"),
    (
        "CTL",
        {"ood_max_length": 6},
        "ood_max_length 6 must be above max_length 6: CTL tests on longer compositions",
    ),
    ("CTL", {"ood_max_length": 10**9}, "ood_max_length 1000000000: use 3 to 128"),
    ("S", {"max_length": 5}, "max_length 5 is odd: S has even lengths only; use 4 or 6"),
    ("S", {"shared_functions": 33}, "shared_functions 33 is more than the 32 functions; use at most 28"),
    ("S", {"shared_functions": 29}, "shared_functions 29: use 1 to 28; a1, a2, b1 and b2 need functions too"),
    ("S", {"shared_functions": 0}, "shared_functions 0: use 1 to 28; a1, a2, b1 and b2 need functions too"),
    ("S", {"shared_symbols": 9}, "shared_symbols 9: use 1 to 8, the number of symbols"),
    ("S", {"shared_symbols": 0}, "shared_symbols 0: use 1 to 8, the number of symbols"),
    (
        "S",
        {"shared_functions": 4, "shared_symbols": 1},
        "4 shared functions with 1 shared symbols each cannot cover all 8 symbols; use shared_symbols 2 or more",
    ),
    (
        "A",
        {"functions": 3000},
        "3000 functions on 8 symbols make 72,000,000 pairs, and the split `pairs` holds them all; "
        "use fewer, for at most 50,000,000",
    ),
    (
        "A",
        {"max_length": 2, "train": 2305},
        "train 2305: only 2304 distinct training examples exist (fill rule), and iid takes 1000 of them; "
        "ask for at most 1304, or longer ones",
    ),
    (
        "A",
        {"max_length": 2, "train": 2305, "iid": 0},
        "train 2305: only 2304 distinct training examples exist (fill rule); ask for at most 2304, or longer ones",
    ),
    (
        "A",
        {"max_length": 2, "train": 2305, "iid": 2304},
        "train 2305: only 2304 distinct training examples exist (fill rule), and iid takes 2304 of them; "
        "ask for fewer, or longer ones",
    ),
    (
        "A",
        {"max_length": 2, "train": 2304, "iid": 1},
        "iid 1: only 0 distinct examples are left; ask for fewer, or longer ones",
    ),
    (
        "A",
        {"max_length": 2, "train": 2000, "iid": 10, "ood": 5000},
        "ood 5000: only 4096 distinct examples are left; ask for fewer, or longer ones",
    ),
    ("A", {"train": 100}, "train 100: at least 256 are needed, all single applications belong to it"),
    (
        "A",
        {"protocol": "released", "max_length": 2, "train": 2049},
        "train 2049: only 2048 distinct training examples exist (fill rule), and iid takes 1000 of them; "
        "ask for at most 1048, or longer ones",
    ),
    (
        "R",
        {"protocol": "released", "max_length": 2, "train": 2000, "iid": 49},
        "iid 49: only 48 distinct examples are left; ask for fewer, or longer ones",
    ),
]


@pytest.mark.parametrize(("variant", "options", "text"), BAD, ids=[text[:50] for _, _, text in BAD])
def test_a_mistake_is_one_line_that_says_what_would_be_right(
    variant: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        generate(variant, **options)


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(TypeError, match="'sead'"):
        generate("A", sead=1)


def test_defaults_are_those_of_the_paper() -> None:
    default = Settings(variant="A")
    assert (default.symbols, default.functions, default.max_length) == (8, 32, 6)
    assert (default.train, default.iid, default.ood, default.fill) == (300_000, 1_000, 1_000, 0.5)
    assert (default.protocol, default.order, default.seed) == ("paper", "right-to-left", 0)


def test_s_is_drawn_step_by_step_and_the_others_uniformly_unless_one_says_otherwise() -> None:
    assert {v: Settings(variant=v).weighting for v in ("CTL", "A", "R", "S", "x.toml")} == {
        "CTL": "uniform",
        "A": "uniform",
        "R": "uniform",
        "S": "sequential",
        "x.toml": "uniform",
    }
    assert Settings(variant="S", weighting="uniform").weighting == "uniform"
    assert Settings(variant="A", weighting="sequential").weighting == "sequential"


def test_s_has_8_shared_functions_and_4_shared_symbols_unless_one_says_otherwise() -> None:
    default = Settings(variant="S")
    assert (default.shared_functions, default.shared_symbols) == (8, 4)
    assert Settings(variant="A").shared_functions is None
