"""From run folders to rows: which seeds count, what is said of them, and what predicts failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.report.conftest import edit, write_rows
from tests.reproduce.making import make_piece

import ctlpp
from ctlpp.benchmark.variants import PROTOCOLS
from ctlpp.report.compare import ALL, RULE, Setting
from ctlpp.reproduce.page import share
from ctlpp.reproduce.plan import CONDITIONS
from ctlpp.reproduce.results import Row, correlations_table, equal_lengths, load_results
from ctlpp.runs.folder import read_run
from ctlpp.statistics.verdict import HIGHER, LOWER, REPRODUCED, UNDECIDED, is_inside

NAME, CLEAN = "ndr-R-authors", "ndr-R-clean"


def row(out: Path, name: str = NAME, split: str = "ood", selection: str = ALL) -> Row:
    return load_results(out).runs[name].row(split, selection)


def test_pieces_of_a_run_are_counted_together_and_each_seed_once(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.5, 0.7])
    make_piece(tmp_path, NAME, [0.7, 0.9], first=1)
    found = row(tmp_path)
    assert (found["seeds"], found["planned"], found["mean"], found["median"]) == (3, 25, 0.7, 0.7)
    run = load_results(tmp_path).runs[NAME]
    assert (run.trained, run.missing) == ([0, 1, 2], list(range(3, 25)))


def test_a_piece_counts_if_it_was_only_watched_otherwise_than_the_first(tmp_path: Path) -> None:
    folder = make_piece(tmp_path, NAME, [0.5, 0.7])
    recipe = json.loads((folder / "config.json").read_text())["recipe"]
    make_piece(tmp_path, NAME, [0.9], first=2, recipe=recipe | {"eval_every": 77})
    make_piece(tmp_path, NAME, [0.9], first=3, data={"train": "f" * 64})
    make_piece(tmp_path, "lstm-R-clean", [0.5]).parent.rename(tmp_path / "runs" / "ndr-R-text")
    runs = load_results(tmp_path).runs
    assert [seed.number for seed in runs[NAME].setting.seeds] == [0, 1, 2]
    assert [(one.state, one.reason) for name in (NAME, "ndr-R-text") for one in runs[name].unusable] == [
        ("different", "its settings are not those of ndr-R-authors/0-1"),
        ("different", "has model lstm, the plan ndr"),
    ]


def test_of_transformers_the_first_25_that_converged_count_and_of_other_models_all_seeds(
    tmp_path: Path,
) -> None:
    iid = [0.2 if seed % 10 == 0 else 1.0 for seed in range(50)]
    for name in ("transformer-R-clean", NAME):
        make_piece(tmp_path, name, [seed / 50 for seed in range(50)], iid=iid)
    runs = load_results(tmp_path).runs
    transformer = runs["transformer-R-clean"]
    assert [transformer.row("ood", way)["seeds"] for way in (ALL, RULE)] == [50, 25]
    assert transformer.row()["mean"] == pytest.approx(sum(n for n in range(28) if n % 10) / 50 / 25)
    assert transformer.row()["not_converged"] == 5
    assert runs[NAME].row()["seeds"] == 50


def test_a_seed_that_diverged_is_part_of_no_mean_and_not_solved_here_as_in_a_report(tmp_path: Path) -> None:
    folder = make_piece(tmp_path, NAME, [0.1, 0.9, 0.96], diverged=[0])
    found, shown = row(tmp_path), Setting((read_run(folder),)).every.summaries["ood", 0]
    assert (found["mean"], found["seeds"], found["diverged"]) == (0.93, 2, 1)
    both = "mean", "std", "median", "seeds", "diverged"
    expected = [getattr(shown, name) for name in both]
    assert [found[name] for name in both] == pytest.approx(expected, abs=1e-6)
    ends = found["above_95_share_low"], found["above_95_share_high"]
    assert ends == pytest.approx(shown.solved_share, abs=1e-6)
    assert share(found).startswith("1 of 3 ")


def test_success_is_more_than_95_percent_ood_and_has_a_wilson_interval(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.95, 0.951, 1.0, 0.2])
    found = row(tmp_path)
    assert (found["above_95"], found["published_above_95"]) == (2, 8)
    assert (found["above_95_share_low"], found["above_95_share_high"]) == (0.150039, 0.849961)


def test_the_gap_at_equal_lengths_leaves_out_lengths_that_one_split_lacks(tmp_path: Path) -> None:
    folder = make_piece(tmp_path, "ndr-R-text", [0.5, 0.5])
    seeds = json.loads((folder / "result.json").read_text())["seeds"]
    for seed in seeds:
        seed["by_length"] = {"iid": {"1": 0.0, "2": 1.0, "3": 0.8}, "ood": {"2": 0.6, "3": 0.5, "9": 0.0}}
    edit(folder / "result.json", seeds=seeds)
    found = row(tmp_path, "ndr-R-text")
    assert (found["gap"], found["equal_gap"]) == pytest.approx((0.5, (0.4 + 0.3) / 2))
    assert row(tmp_path, "ndr-R-text", "iid")["gap"] is None


def test_ood_examples_drawn_anew_stand_beside_the_twins_of_training_sequences(tmp_path: Path) -> None:
    folder = make_piece(tmp_path, NAME, [0.5, 0.7])
    assert row(tmp_path)["independent_mean"] is None
    seeds = json.loads((folder / "result.json").read_text())["seeds"]
    for seed, anew in zip(seeds, (0.4, 0.5), strict=True):
        seed["accuracy"]["ood_independent"] = anew
    edit(folder / "result.json", seeds=seeds)
    assert (row(tmp_path)["mean"], row(tmp_path)["independent_mean"]) == (0.6, 0.45)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_gap_at_equal_lengths_rests_on_held_out_examples_and_on_enough_of_them(protocol: str) -> None:
    data = ctlpp.generate("A", protocol=protocol)
    lengths = equal_lengths(data["iid"], data["ood"], protocol)
    assert lengths == ([2, 3, 4, 5, 6] if protocol == "text" else [3, 4, 5, 6])
    assert min(len(data["iid"][length]) for length in lengths) > 100
    if protocol != "text":  # what the page says of pairs
        assert len(data["iid"][2]) == data.shared("train", "iid") == 7


def test_published_numbers_stand_beside_full_size_runs_only(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [1.0] * 25)
    make_piece(tmp_path, "ndr-S-clean-o16-s6", [1.0] * 5)
    columns = ("verdict", "published_inside", "published_mean", "published_std")
    assert [row(tmp_path)[name] for name in columns] == [HIGHER, False, 0.75, 0.27]
    assert [row(tmp_path, NAME, "iid")[name] for name in columns] == [REPRODUCED, True, 1.0, 0.01]
    assert [row(tmp_path, "ndr-S-clean-o16-s6")[name] for name in columns] == [None] * 4
    assert is_inside(1.0, (0.98, 0.996)), "up to its rounding"
    assert not is_inside(1.0, (0.98, 0.99))
    assert is_inside(1.0, None) is None


def test_a_reproduced_ood_accuracy_beside_an_iid_accuracy_that_is_not_is_undecided(tmp_path: Path) -> None:
    make_piece(tmp_path, "ndr-A-text", [0.2, 0.3, 0.5] * 8 + [0.36], iid=0.8)
    found = row(tmp_path, "ndr-A-text")
    assert (found["verdict"], found["iid_differs"]) == (UNDECIDED, LOWER)


def test_the_plan_that_fits_is_chosen_and_a_run_that_no_plan_has_is_kept_apart(tmp_path: Path) -> None:
    assert NAME in load_results(tmp_path).plan
    make_piece(tmp_path, NAME, [0.5]).parent.rename(tmp_path / "runs" / "ndr-R-clean-quick")
    assert load_results(tmp_path).is_miniature
    (tmp_path / "runs" / "ndr-R-clean-quick").rename(tmp_path / "runs" / "mine")
    results = load_results(tmp_path)
    assert not results.is_miniature
    assert results.runs["mine"].planned is None
    assert results.runs["mine"].row()["mean"] == 0.5


def test_runs_that_are_compared_with_the_same_number_stand_together(tmp_path: Path) -> None:
    names = ["lstm-A-clean-repeats", "lstm-A-text", "ndr-R-clean-repeats", "ndr-R-clean"]
    for name in [*reversed(names), "ndr-R-clean-seed1"]:
        make_piece(tmp_path, name, [0.5])
    results = load_results(tmp_path)
    assert [run.name for run in results.main_runs()] == names
    assert [len(results.runs_on(condition)) for condition in CONDITIONS] == [0, 2, 1, 1]


def test_other_data_are_compared_with_clean_data_of_distinct_sequences(tmp_path: Path) -> None:
    make_piece(tmp_path, CLEAN, [0.3, 0.5, 0.5, 0.7])
    make_piece(tmp_path, f"{CLEAN}-repeats", [0.8, 0.9, 0.9, 1.0])
    make_piece(tmp_path, "ndr-R-text", [0.7])
    repeated, text, plain = (row(tmp_path, name) for name in (f"{CLEAN}-repeats", "ndr-R-text", CLEAN))
    assert (repeated["baseline"], text["baseline"], plain["baseline"]) == (CLEAN, CLEAN, None)
    assert repeated["change"] == pytest.approx(0.4)
    assert 0.1 < repeated["change_low"] < 0.4 < repeated["change_high"]
    assert text["change"] is None  # too few seeds


def test_function_tables_are_compared_on_the_row_of_the_first(tmp_path: Path) -> None:
    make_piece(tmp_path, CLEAN, [0.8, 0.82, 0.84])
    make_piece(tmp_path, f"{CLEAN}-seed1", [0.4, 0.42, 0.44])
    found, other = row(tmp_path, CLEAN), row(tmp_path, f"{CLEAN}-seed1")
    assert (found["function_tables"], other["function_tables"]) == (2, None)
    assert found["std_between_tables"] > 10 * found["std_within_tables"]
    assert 0 < found["tables_p"] <= 1


def test_a_seed_has_learned_from_the_step_on_from_which_it_stays_above(tmp_path: Path) -> None:
    folder = make_piece(tmp_path, NAME, [1.0, 0.96])
    curves = {0: [0.99, 0.5, 0.99, 1.0, 1.0], 1: [0.1, 0.1, 0.1, 0.1, 0.96]}
    rows = [
        (step, seed, split, 0, accuracy, 1.0)
        for seed, curve in curves.items()
        for step, accuracy in zip((10, 20, 30, 95, 100), curve, strict=True)
        for split in ("iid", "ood")
    ]
    write_rows(folder / "metrics.parquet", ("step", "seed", "split", "length", "accuracy", "loss"), rows)
    found = row(tmp_path)
    names = ("learned", "learned_first", "learned_half", "learned_late")
    assert [found[name] for name in names] == [2, 30, 30, 1]
    assert found["moved_late"] == pytest.approx(0.98 - 0.545)


OOD = [0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99, 1.0]


def analysed_pieces(out: Path, ood: list[float], iid: float = 1.0) -> None:
    """Two pieces: interchange is the accuracy itself, cosines fall where it rises, codes are all alike."""
    for first, own in ((0, ood[:4]), (4, ood[4:])):
        piece = make_piece(out, NAME, own, first=first, iid=iid, analysed=True)
        cosines = [1 - value**2 for value in own]
        values = {"interchange_across": own, "cosine_across": cosines, "codes": [1.0] * len(own)}
        measures = {name: {"label": name, "meaning": "…", "values": row} for name, row in values.items()}
        edit(piece / "analysis" / "analysis.json", measures=measures)


def test_measures_of_all_pieces_are_correlated_with_ood_accuracy(tmp_path: Path) -> None:
    analysed_pieces(tmp_path, OOD)
    results = load_results(tmp_path)
    found = results.runs[NAME].correlations
    assert found["interchange_across"].seeds == len(OOD)
    assert found["interchange_across"].pearson == pytest.approx(1.0)
    assert -1 < found["cosine_across"].pearson < -0.9
    assert "codes" not in found  # the same for all: no correlation
    rows = correlations_table(results).to_pylist()
    assert [(one["cell"], one["measure"]) for one in rows] == [(NAME, name) for name in found]


@pytest.mark.parametrize(
    ("ood", "iid"),
    [(OOD[:7], 1.0), ([0.2, *[0.97] * 9], 1.0), (OOD, 0.9)],
    ids=["few", "one apart", "not learned"],
)
def test_where_there_is_nothing_to_predict_nothing_is_correlated(
    tmp_path: Path, ood: list[float], iid: float
) -> None:
    analysed_pieces(tmp_path, ood, iid)
    assert load_results(tmp_path).runs[NAME].correlations == {}


def test_a_damaged_analysis_counts_as_none(tmp_path: Path) -> None:
    analysed_pieces(tmp_path, OOD)
    for content in ("{", '{"seeds": [{}], "measures": 3}'):
        (tmp_path / "runs" / NAME / "4-9" / "analysis" / "analysis.json").write_text(content)
        run = load_results(tmp_path).runs[NAME]
        assert (len(run.setting.seeds), len(run.measures)) == (10, 4)
