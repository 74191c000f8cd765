"""The page in a real browser: two seeds side by side, measures, curves, and the grid of S."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.report.conftest import (
    DIVERGED,
    Open,
    Opened,
    edit,
    make_run,
    make_task,
    outdate,
    with_seeds,
    write_page,
)


def test_a_click_on_a_dot_looks_inside_that_seed_and_the_address_keeps_it(table1: Opened) -> None:
    page = table1.again().page
    with table1.redrawn():
        page.locator("#panel-A circle[data-seed='3']").last.click(force=True)
    assert table1.seeds()[0].startswith("Seed 3 IID 1.00, OOD 0.60")
    page.wait_for_function("() => document.querySelector('#inside').getBoundingClientRect().top < 200")
    with table1.redrawn():
        page.locator("#seed-choice circle[data-seed='1']").click(modifiers=["Shift"], force=True)
    assert table1.seeds()[1].startswith("Seed 1")
    for control in ("by group", "all symbols"):
        with table1.redrawn():
            page.get_by_role("button", name=control).click()
    page.fill("#filter", "ndr")
    before, address = table1.seeds(), page.url
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert (table1.seeds(), page.url) == (before, address)
    assert page.get_by_role("button", name="by group").get_attribute("aria-pressed") == "true"
    assert page.inner_text("#count") == "2 of 4 runs"
    page.goto("about:blank")
    page.goto(table1.address + "#inside?setting=nowhere&seed=x&symbol=-1&measure=%00&runs-sort=99&map=7")
    page.wait_for_selector("html[data-ready]")
    assert table1.seeds()[0].startswith("Seed 0"), "what the page does not have is left out"


def test_compatibility_comes_first_and_what_no_graph_has_is_not_painted_as_a_failure(every: Opened) -> None:
    page = every.again().page
    heads = page.locator("#inside-body .across h3").all_inner_texts()
    assert heads == ["Compatibility", "Similarity", "Interchange"]
    assert page.inner_text("#new-pairs").endswith(": 0 of 32, 30 of 32.")
    where = "Exchanged: column 2, after layer 4. On known pairs 0.97 of the answers follow it."
    assert page.get_by_text(where).count() == 2
    with every.redrawn():
        page.click("#choose-variant [data-value=S]")
    assert page.locator("td.neither").count() >= 2, "tables"
    grey = """(one) => { const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height);
      for (let at = 0; at < data.length; at += 4) if (data[at] === 190 && data[at + 1] === 196) return true;
      return false; }"""
    assert page.locator(".matrix[data-kind=compatibility] canvas").first.evaluate(grey)


def test_it_opens_where_seeds_disagree_most_on_the_widest_gap_of_a_seed_that_has_learned(
    opened: Open, tmp_path: Path
) -> None:
    stuck = {"accuracy": {"iid": 0.56, "ood": 0.1}}
    learning = {"accuracy": {"iid": 0.97, "ood": 0.2}}
    with_seeds(make_run(tmp_path / "a-differs", (0.1, 0.1, 0.6, 0.3, 1.0)), {0: stuck, 1: learning})
    make_run(tmp_path / "b-fails", (0.1, 0.2), model="lstm")
    make_run(tmp_path / "c-succeeds", (0.9, 0.97), model="gru")
    shown = opened(write_page(tmp_path))
    assert shown.seeds() == ["Seed 3 IID 1.00, OOD 0.30 not solved", "Seed 4 IID 1.00, OOD 1.00 solved"]
    assert shown.page.inner_text("#unlearned").startswith("1 of 5 seeds")


def test_choosing_a_seed_a_symbol_and_an_order_changes_the_matrix(every: Opened) -> None:
    page = every.again().page
    pictures = [every.picture()]
    assert (page.input_value("#choose-seed"), page.input_value("#choose-other-seed")) == ("0", "1")
    every.choose("choose-seed", "2")
    pictures.append(every.picture())
    with every.redrawn():
        page.locator(".thumbs [data-value=symbol-3]").first.click()
    pictures.append(every.picture())
    assert len(set(pictures)) == 3
    clustered, beside = every.picture("similarity"), every.picture(at=1)
    with every.redrawn():
        page.get_by_role("button", name="by group").click()
    assert every.picture("similarity") != clustered
    every.choose("choose-other-seed", "0")
    assert every.picture(at=1) != beside


def test_a_matrix_without_clusters_says_how_far_it_is_from_having_some(opened: Open, tmp_path: Path) -> None:
    path = make_run(tmp_path / "run") / "analysis" / "similarity.parquet"
    rows = pq.read_table(path).to_pylist()
    one = [row | {"silhouette": 0.3996, "clusters": [0] * len(row["clusters"])} for row in rows]
    pq.write_table(pa.Table.from_pylist(one), path)
    page = opened(write_page(tmp_path)).page
    assert page.locator(".clusters").first.inner_text() == "no clear split (silhouette 0.39 < 0.4)"


def test_one_crosshair_for_all_matrices_and_the_scroll_position_in_the_navigation(every: Opened) -> None:
    page = every.again().page
    page.locator(".matrix canvas").first.hover(position={"x": 40, "y": 60})
    assert page.locator(".crosshair:visible").count() == 8
    page.locator("#sections a", has_text="Settings").click()
    page.wait_for_function("() => document.querySelector('#sections [aria-current]').hash === '#settings'")
    assert page.url.partition("#")[2].startswith("settings")


@pytest.mark.parametrize(
    ("seeds", "low", "headline"),
    [(8, 0.5, ["r = 0.90"]), (7, 0.5, []), (8, -0.1, [])],
    ids=["enough", "too few seeds", "an interval with 0"],
)
def test_a_correlation_is_a_headline_if_it_says_something(
    opened: Open, tmp_path: Path, seeds: int, low: float, headline: list[str]
) -> None:
    run = make_run(tmp_path / "run", [0.1 * at for at in range(seeds)])
    correlation = {"pearson": 0.9, "low": low, "high": 1.0}
    edit(run / "analysis" / "analysis.json", correlations={"interchange_across": correlation})
    page = opened(write_page(tmp_path)).page
    assert page.locator("#predictor b").all_inner_texts() == headline
    assert page.locator("#measures tbody tr").nth(1).inner_text().count("+0.90") == 1


def test_diverged_seeds_stand_apart_from_the_measures_of_the_others(opened: Open, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", (0.1, 0.2, 0.6, 0.3, 0.5, 1.0))
    with_seeds(run, dict.fromkeys((0, 1, 2), DIVERGED))
    page = opened(write_page(tmp_path)).page
    cells = page.locator("#measures tbody tr").nth(1).locator("td").all_inner_texts()
    assert cells[-1] == "1.00", "the mean is without seed 0"
    plot = page.locator("#measures figure").last
    assert (plot.locator("circle.dot").count(), plot.locator("path.cross").count()) == (3, 3)


def test_a_run_that_lacks_the_chosen_symbol_says_which_one_it_shows(opened: Open, tmp_path: Path) -> None:
    make_run(tmp_path / "eight", task=make_task("S", 8, 16, shared_functions=4, shared_symbols=2))
    make_run(tmp_path / "four", variant="R")
    shown = opened(write_page(tmp_path))
    page = shown.page
    with shown.redrawn():
        page.click("#choose-variant [data-value=S]")
    with shown.redrawn():
        page.locator("#panel-R circle[data-seed='1']").click(modifiers=["Shift"], force=True)
    with shown.redrawn():
        page.locator(".thumbs [data-value=symbol-7]").click()
    label = page.locator(".pair > .second canvas").first.get_attribute("aria-label")
    assert "with symbol 3 in between" in label
    assert page.locator(".who.right .note").count() == 1
    assert page.locator("#groups .swatch:not(.neither, .framed)").count() == 2 + 5, "of both sides"
    with shown.redrawn():
        page.locator(".thumbs [data-value=symbol-2]").first.click()
    assert page.locator(".who .note").count() == 0


def test_old_analyses_are_marked_and_a_setting_has_the_seeds_of_all_its_runs(
    opened: Open, tmp_path: Path
) -> None:
    outdate(make_run(tmp_path / "old", (0.3, 1.0), model="gru"))
    make_run(tmp_path / "part-0", (0.4, 1.0, 0.9))
    make_run(tmp_path / "part-1", (0.2, 0.7), first=3)
    shown = opened(write_page(tmp_path))
    with shown.redrawn():
        shown.page.click("#choose-model [data-value=NDR]")
    assert shown.page.locator("#choose-seed option").count() == 5
    assert shown.page.locator("#measures circle.dot").count() == 5
    assert shown.page.locator("#curves-body polyline.seedline").count() == 3 * 5
    assert shown.page.locator(".stale").count() == 0
    with shown.redrawn():
        shown.page.click("#choose-model [data-value=gru]")
    assert shown.column("Inside")[0].splitlines() == ["analysed", "at step 164 of 300"]
    for place in ("#inside .stale", "#measures .stale"):
        assert shown.page.locator(place).count() == 1, "once for both seeds"


def test_the_grid_of_s_has_a_setting_per_cell_and_other_settings_have_their_own(
    opened: Open, tmp_path: Path
) -> None:
    for functions, symbols in ((4, 2), (4, 3), (8, 2), (8, 6)):
        task = make_task("S", 8, 16, shared_functions=functions, shared_symbols=symbols)
        run = make_run(tmp_path / f"{functions}-{symbols}", (0.2, 0.4), task, analysed=False)
    with_seeds(run, {0: DIVERGED})
    make_run(tmp_path / "longer", (0.9,), task, analysed=False, recipe={"steps": 900})
    make_run(tmp_path / "elsewhere", (0.9,), task, analysed=False, data={"train": "f" * 64})
    page = opened(write_page(tmp_path), width=360).page
    grids = page.locator("#staged table").all()
    cells = [grid.locator("td:not(.corner)").all_inner_texts() for grid in grids]
    numbers = sorted(([re.sub(r"\s+", " ", text) for text in one] for one in cells), key=len)
    two = "0.30 ± 0.14 2 seeds"
    assert numbers[2] == [two, two, "", two, "", "0.40 1 seed + 1 diverged"]
    assert numbers[:2] == [["0.90 1 seed"]] * 2
    titles = page.locator("#staged .tables h3 + p").all_inner_texts()
    assert sum("steps 900" in title for title in titles) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 360, "a wide grid scrolls by itself"
