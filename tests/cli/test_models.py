"""`ctlpp models` counts for tasks that can be generated."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Refused = Callable[..., str]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--functions 999999999", "--functions 999999999: use 1 to 10000"),
        ("--functions 0", "--functions 0: use 1 to 10000"),
        ("--symbols 999999999", "--symbols 999999999: use 2 to 1000"),
        ("--symbols 3 --functions 7", "--functions 7: only 6 different bijections of 3 symbols exist"),
    ],
)
def test_sizes_are_those_that_generate_takes(refused: Refused, arguments: str, line: str) -> None:
    assert refused("models", *arguments.split()) == line
