"""Published numbers stand beside runs that fit, and beside no others."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from tests.report.conftest import config_of, make_run, make_task

from ctlpp.models.zoo import MODELS
from ctlpp.report.compare import mismatches, results, settings
from ctlpp.report.grid import grids
from ctlpp.reproduce.judge import judge
from ctlpp.runs.folder import RunRecord, SeedResult, find_runs
from ctlpp.statistics.published import PUBLISHED
from ctlpp.statistics.summary import summarise
from ctlpp.training.recipe import recipe_for


def full_size(model: str, variant: str, preset: str = "released", **recipe: Any) -> dict[str, Any]:
    """The config of a run at the paper's size."""
    own = asdict(recipe_for(model, preset, variant, **recipe))
    config = config_of(
        make_task(variant, 8, 32, max_length=6),
        range(25),
        model=model,
        preset=preset,
        options=dict(MODELS[model].sizes[preset]),
        recipe=json.loads(json.dumps(own)),
    )
    config["task"]["recipe"] |= {"train": 300_000}
    return config


def record(config: dict[str, Any], accuracies: list[float], first: int = 0, iid: float = 1.0) -> RunRecord:
    seeds = tuple(SeedResult(first + at, {"iid": iid, "ood": ood}, {}) for at, ood in enumerate(accuracies))
    return RunRecord(Path("run"), "run", "finished", "", config, seeds)


@pytest.mark.parametrize("preset", ["released", "paper"])
@pytest.mark.parametrize(("model", "variant"), PUBLISHED)
def test_a_full_size_run_stands_beside_its_published_number(model: str, variant: str, preset: str) -> None:
    config = full_size(model, variant, preset)
    assert mismatches(config) == []
    (entry, *_) = results([record(config, [0.5, 0.9, 1.0])])
    assert entry["published"]["ood"] == PUBLISHED[model, variant].ood
    assert fmean(entry["published"]["interval"]) == pytest.approx(PUBLISHED[model, variant].ood[0])
    assert entry["published"]["difference"]["ood"][0] == pytest.approx(0.8 - PUBLISHED[model, variant].ood[0])


@pytest.mark.parametrize("n", [1, 2, 6, 9, 10, 25])
def test_the_difference_is_the_one_that_the_reproduction_judges_by(n: int) -> None:
    values = [0.97 - 0.01 * (at % 4) for at in range(n)]
    (entry,) = results([record(full_size("ndr", "R"), values)])
    verdict = judge(summarise(values), PUBLISHED["ndr", "R"].ood)
    shown = entry["published"]["difference"]["ood"]
    assert shown == (None if verdict.interval is None else (verdict.difference, verdict.interval))


def test_six_seeds_that_hardly_scatter_are_as_uncertain_as_the_published_ones() -> None:
    (entry,) = results([record(full_size("ndr", "R"), [0.97] * 6)])
    gap, (low, high) = entry["published"]["difference"]["ood"]
    assert (gap, low, high) == pytest.approx((0.22, -0.07, 0.51), abs=0.006)


def test_other_evaluations_or_precision_leave_a_run_comparable() -> None:
    assert mismatches(full_size("ndr", "R", eval_every=7, precision="bf16", checkpoint_minutes=1.0)) == []


def test_whatever_differs_is_named() -> None:
    config = full_size("ndr", "R", steps=10)
    config["options"]["width"] = 64
    assert mismatches(config) == ["changed: steps, width"]
    small = config_of(make_task("R"), range(3))
    assert mismatches(small) == ["8 functions", "4 symbols", "100 training examples", "preset quick"]
    nothing = ["no numbers are published for this model and variant"]
    assert mismatches(full_size("ndr", "R") | {"model": "my.models:tiny"}) == nothing
    assert mismatches({"model": ["ndr"], "variant": {}}) == nothing
    assert mismatches(full_size("ndr", "A") | {"task": None}) == [
        "the run does not say which task it was trained on"
    ]


def test_transformers_are_also_selected_as_the_paper_did() -> None:
    config = full_size("transformer", "R")
    stuck, fine = record(config, [0.1] * 5, iid=0.2), record(config, [0.8] * 30, first=5)
    everything, selected = results([stuck, fine])
    assert everything["summary"]["ood"]["seeds"] == 35
    assert selected["summary"]["ood"]["seeds"] == 25
    assert selected["summary"]["ood"]["mean"] == pytest.approx(0.8)
    assert "first 25 seeds with a final IID accuracy above 0.5" in selected["note"]


def test_runs_of_one_setting_are_pooled_and_no_seed_counts_twice() -> None:
    config = full_size("ndr", "R")
    later = config | {"seeds": [1, 2], "started": "later"}
    (setting,) = settings([record(config, [0.1, 0.2]), record(later, [0.2, 0.3], first=1)])
    assert [seed.number for seed in setting.seeds] == [0, 1, 2]
    other = config | {"data": {"train": "f" * 64}}
    assert len(settings([record(config, [0.1]), record(other, [0.2])])) == 2


def test_unfinished_runs_make_no_results(tmp_path: Path) -> None:
    (make_run(tmp_path / "run") / "result.json").unlink()
    assert results(find_runs([tmp_path])) == []


def test_the_grid_of_s_puts_runs_into_their_cells() -> None:
    found = []
    for shared, overlap, accuracy in ((4, 2, 0.2), (4, 3, 0.4), (8, 2, 0.9)):
        task = make_task("S", 4, 16, shared_functions=shared, shared_symbols=overlap)
        found.append(record(config_of(task, range(2)), [accuracy, accuracy]))
    (grid,) = grids(found)
    assert (grid["functions"], grid["symbols"]) == ([4, 8], [2, 3])
    assert [[cell and round(cell[0], 3) for cell in row] for row in grid["cells"]] == [
        [0.2, 0.4],
        [0.9, None],
    ]
    assert "16 shared functions and 6 shared symbols" in grid["claim"]
    assert "diverged" not in grid["about"]
    first, *others = found
    frozen = replace(first, seeds=(*first.seeds, SeedResult(2, {"iid": 0.1, "ood": 0.1}, {}, diverged=True)))
    (again,) = grids([frozen, *others])
    assert again["about"] == f"{grid['about']}, without 1 seed that diverged"
    assert again["cells"] == grid["cells"]
    assert grids([record(config_of(make_task("R"), range(2)), [0.5])]) == []


def test_a_cell_counts_a_seed_once_and_other_settings_have_a_grid_of_their_own() -> None:
    config = config_of(make_task("S", 4, 16, shared_functions=4, shared_symbols=2), range(3))
    longer = config | {"recipe": config["recipe"] | {"steps": 900}}
    watched = config | {"recipe": config["recipe"] | {"eval_every": 7}}
    elsewhere = config | {"data": {"train": "f" * 64}}
    three, two = [0.2, 0.3, 0.4], [0.8, 1.0]
    found = grids(
        [record(config, three), record(watched, three), record(longer, two), record(elsewhere, [0.5])]
    )
    assert [(grid["cells"][0][0][2], round(grid["cells"][0][0][0], 3)) for grid in found] == [
        (3, 0.3),
        (2, 0.9),
        (1, 0.5),
    ]
    size = "16 functions, 4 symbols"
    assert [grid["about"].partition(size)[2] for grid in found] == [
        ", steps 300",
        ", steps 900",
        ", steps 300, other data",
    ]
