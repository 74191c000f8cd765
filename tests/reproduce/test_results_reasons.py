"""Sentences are chosen by the numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from tests.reproduce.making import make_piece, scatter

from ctlpp.reproduce.plan import plan
from ctlpp.reproduce.results.claims import FAILS, HOLDS, OPEN, Claim, claims
from ctlpp.reproduce.results.found import Found, find
from ctlpp.reproduce.results.learning import learning_of
from ctlpp.reproduce.results.reasons import reasons, statement
from ctlpp.reproduce.results.repeating import repeats_sentence
from ctlpp.runs.history import History

NAME = "ndr-R-released"
HIGH, PUBLISHED = scatter(0.97, 0.02, 25), [0.5, 1.0] * 12 + [0.75]


def sentences(found: Found, name: str = NAME) -> str:
    return "\n".join(reasons(found, found.cells[name]))


def test_a_statement_has_both_means_the_difference_and_the_successes(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [1.0] * 20 + [0.5] * 5)
    found = find(tmp_path)
    assert statement(found.row(found.cells[NAME], "ood")) == (
        "0.90 ± 0.20 from 25 seeds, published 0.75 ± 0.27; difference +0.15 (+0.01 to +0.29);"
        " above 0.95: 20 of 25, published 8 of 25."
    )


@pytest.mark.parametrize(
    ("repeated", "said"),
    [
        (
            PUBLISHED,
            "shrinks from 0.22 to 0.00: they explain the difference. Verdict: *higher* without them, *repro",
        ),
        ([0.55] * 25, "shrinks from 0.22 (above it) to 0.20 (below it): they overshoot the published mean."),
        (
            [0.7] * 13 + [0.5] * 12,
            "shrinks from 0.22 (above it) to 0.15 (below it): they overshoot the published",
        ),
        ([0.53] * 25, "stays 0.22, on the other side: they overshoot the published mean."),
        (
            [0.5, 0.6, 0.7, 0.8],
            "they may explain the difference. Verdict: *higher* without them, *undecided* with",
        ),
        (
            HIGH[::-1],
            "stays 0.22: nothing shows that they explain the difference. Verdict: *higher* both ways.",
        ),
        (scatter(0.9, 0.02, 25, 9), "shrinks from 0.22 to 0.16: they explain a part of the difference."),
        ([1.0] * 25, "grows from 0.22 to 0.25: they make the difference larger."),
    ],
)
def test_repeated_sequences_explain_what_they_bring_nearer_to_the_published_mean(
    tmp_path: Path, repeated: list[float], said: str
) -> None:
    make_piece(tmp_path, NAME, HIGH)
    make_piece(tmp_path, f"{NAME}-repeats", repeated)
    text = sentences(find(tmp_path))
    assert said in text
    assert ("no difference that so many seeds can show" in text) == (repeated == HIGH[::-1])


def test_repeated_sequences_beside_a_reproduced_number_leave_nothing_to_explain(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, PUBLISHED)
    make_piece(tmp_path, f"{NAME}-repeats", scatter(0.2, 0.05, 25))
    found = find(tmp_path)
    text = repeats_sentence(found, found.cells[NAME], found.cells[f"{NAME}-repeats"])
    assert text.startswith("They lower the accuracy: −0.")
    assert re.search(
        r"grows from 0\.0\d to 0\.5\d\. Verdict: \*reproduced\* without them, \*lower\* with them\.", text
    )


def test_what_matters_is_how_much_of_the_distance_is_left(tmp_path: Path) -> None:
    make_piece(tmp_path, "lstm-A-released", scatter(0.17, 0.13, 25), iid=0.2)
    make_piece(tmp_path, "lstm-A-released-repeats", [0.97, 0.98] * 12 + [0.975])
    text = sentences(find(tmp_path), "lstm-A-released")
    assert re.search(
        r"shrinks from 0\.\d\d \(below it\) to 0\.03 \(above it\): they explain most of the diff", text
    )
    assert "Verdict: *lower* without them, *higher* with them." in text


def test_one_seed_cannot_tell_what_repeats_do(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, HIGH)
    make_piece(tmp_path, f"{NAME}-repeats", [0.5])
    found = find(tmp_path)
    assert (
        repeats_sentence(found, found.cells[NAME], found.cells[f"{NAME}-repeats"]) == "Too few seeds to tell."
    )


def test_a_cell_that_did_not_learn_its_data_is_told_so(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.1] * 25, iid=[0.3] * 20 + [1.0] * 5)
    text = sentences(find(tmp_path))
    assert (
        "*Has it learned data like its training data?* Not every seed: IID accuracy is 0.44 ± 0.29, published"
        " 1.00 ± 0.01. Above 0.95 IID at the end: 5 of 25 seeds"
    ) in text
    assert (
        "*Stopped too early?* It cannot be told: no seed came to it in the last tenth of the steps, 20 hav"
        in text
    )


def test_seeds_that_have_not_learned_their_data_are_no_reason_for_a_higher_mean(tmp_path: Path) -> None:
    make_piece(tmp_path, "ndr-A-released", scatter(0.6, 0.1, 25), iid=[1.0] * 21 + [0.3] * 4)
    text = sentences(find(tmp_path), "ndr-A-released")
    assert (
        "too early?* For 4 seeds to learn the data, but that cannot make the mean higher than published; over"
        in text
    )


def test_a_seed_has_learned_from_the_step_on_from_which_it_stays_above() -> None:
    rows = {
        "step": [10, 20, 30, 95, 100] * 2,
        "seed": [0] * 5 + [1] * 5,
        "split": ["iid"] * 10,
        "length": [0] * 10,
    }
    accuracy = [0.99, 0.5, 0.99, 1.0, 1.0, 0.1, 0.1, 0.1, 0.1, 0.96]
    both = pa.concat_tables(
        pa.table(rows | {"split": [split] * 10, "accuracy": accuracy}) for split in ("iid", "ood")
    )
    found = learning_of(History.of(both))
    assert found is not None
    assert (found.learned, found.half, found.late, found.steps, found.seeds) == ((30, 100), 30, 1, 100, 2)
    assert found.moved == pytest.approx(0.98 - 0.545)
    assert learning_of(None) is None


@pytest.mark.parametrize(
    ("apart", "within"),
    [
        (0.3, "within that."),
        (0.06, "beyond that, but not beyond what the estimates leave open (0."),
        (0.001, "beyond that."),
    ],
)
def test_other_function_tables_are_held_against_the_difference(
    tmp_path: Path, apart: float, within: str
) -> None:
    make_piece(tmp_path, NAME, [0.99, 0.98, 0.985, 0.99, 0.98] * 5)
    for table in (1, 2, 3, 4):
        values = [0.985 - apart * table / 2, 0.98 - apart * table / 2] * 3
        make_piece(tmp_path, f"{NAME}-seed{table}", values[:5])
    assert within in sentences(find(tmp_path))


def grid(out: Path, model: str, accuracy: dict[tuple[int, int], float]) -> None:
    for cell in plan("staged"):
        place = dict(cell.data)["shared_functions"], dict(cell.data)["shared_symbols"]
        if cell.model == model and place in accuracy:
            make_piece(out, cell, [accuracy[place] + 0.001 * seed for seed in (-2, -1, 0, 1, 2)])


def whole_grid(corner: float, others: float = 0.3) -> dict[tuple[int, int], float]:
    places = [(many, few) for many in (4, 8, 12, 16) for few in (2, 3, 4, 5, 6)]
    return dict.fromkeys(places, others) | {(16, 6): corner}


@pytest.mark.parametrize(
    ("accuracy", "word"),
    [
        (whole_grid(0.997), HOLDS),
        (whole_grid(0.9), FAILS),
        (whole_grid(0.997) | {(16, 5): 0.997}, FAILS),
        ({(16, 6): 0.997, (4, 2): 0.2}, OPEN),
    ],
)
def test_one_corner_of_the_grid_is_solved_or_not(
    tmp_path: Path, accuracy: dict[tuple[int, int], float], word: str
) -> None:
    grid(tmp_path, "ndr", accuracy)
    (claim,) = claims(find(tmp_path))
    assert claim.word == word


def test_models_are_compared_with_the_ndr_row_by_row(tmp_path: Path) -> None:
    grid(tmp_path, "ndr", whole_grid(0.997, 0.5))
    grid(tmp_path, "transformer", whole_grid(0.997, 0.7))
    grid(tmp_path, "lstm", {(4, 2): 0.1})  # far below, but only one of five
    found: dict[str, Claim] = {claim.text: claim for claim in claims(find(tmp_path))}
    assert found["Transformer below the NDR with 4 shared functions"].word == FAILS
    assert found["Transformer above the NDR with 16 shared functions"].word == HOLDS
    one_cell = found["Bi-LSTM below the NDR with 4 shared functions"]
    assert one_cell.word == OPEN
    assert one_cell.ours.endswith(", in 1 of 5 cells so far")
    assert "Bi-LSTM below the NDR with 16 shared functions" not in found


def test_without_a_grid_nothing_is_claimed(tmp_path: Path) -> None:
    assert claims(find(tmp_path)) == []
