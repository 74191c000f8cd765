"""The page in a real browser, from disk and without a network."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.conftest import (
    Open,
    make_run,
    make_task,
    outdate,
    with_seeds,
    write_analysis,
    write_history,
)

from ctlpp.report.collect import pack
from ctlpp.report.page import make_page, write_report
from ctlpp.runs.folder import find_runs

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
SECTIONS = ("results", "runs", "inside", "measures", "curves", "staged", "graphs", "settings")
DIVERGED = {"diverged": True, "diverged_at": 100}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page over runs of every kind."""
    root = tmp_path_factory.mktemp("report")
    runs = root / "runs"
    make_run(runs / "ndr-R", (0.3, 1.0, 0.9))
    make_run(runs / "own", (0.6, 0.7), model="my.models:tiny", analysed=False)
    name = HOSTILE.replace("/", "")
    make_run(runs / "hostile" / name, (0.5, 0.4), model=HOSTILE, preset="</script><script>alert(1)")
    for shared in (4, 5):
        task = make_task("S", 4, 16, shared_functions=shared, shared_symbols=2)
        make_run(runs / f"staged-{shared}", (0.2, 0.4), task)
    (make_run(runs / "unfinished", analysed=False) / "result.json").unlink()
    with_seeds(make_run(runs / "diverged", (0.5, 0.6)), {0: DIVERGED})
    (make_run(runs / "broken") / "config.json").write_text("{")
    write_report([runs], root / "report.html")
    return root / "report.html"


def written(tmp_path: Path) -> Path:
    """A page over the runs in a folder."""
    write_report([tmp_path], tmp_path / "report.html")
    return tmp_path / "report.html"


def sides(page: Any) -> list[str]:
    """The two seeds that are shown, without the names of their runs."""
    return [" ".join(text.split()[:-1]) for text in page.locator(".who").all_inner_texts()]


def test_it_draws_everything_offline_and_every_run_as_what_it_is(opened: Open, report: Path) -> None:
    shown = opened(report)
    for section in SECTIONS:
        assert shown.page.locator(f"#{section}").is_visible(), section
        assert len(shown.page.locator(f"#{section}").inner_text()) > 60, section
    assert shown.page.locator(".matrix canvas").count() == 4
    assert shown.page.locator("#graphs-body svg").count() == 3
    assert shown.page.locator("#curves-body polyline.seedline").count() == 3 * 3
    states = dict(zip(shown.column(1), (text.partition("\n")[0] for text in shown.column(2)), strict=True))
    assert (states["unfinished"], states["broken"]) == ("unfinished", "damaged")
    assert (states["diverged"], states["own"]) == ("1 of 2 diverged", "finished")
    rows = {row.splitlines()[0] for row in shown.page.locator("#results tbody th").all_inner_texts()}
    assert rows >= {"NDR on R a", "my.models:tiny on R b", "NDR on S b"}, "letters lead to what differs"
    assert shown.page.locator("#not-comparable sup").all_inner_texts() == ["a", "b"]


def test_every_control_has_a_name_and_headings_skip_no_level(opened: Open, report: Path) -> None:
    page = opened(report).page
    controls = "button, select, input, canvas[tabindex], [role=img], [role=region]"
    named = "(one) => one.ariaLabel || one.textContent.trim() || one.labels?.length"
    assert page.locator(controls).evaluate_all(f"(all) => all.every({named})")
    levels = page.locator("h1, h2, h3, h4").evaluate_all("(all) => all.map((one) => Number(one.tagName[1]))")
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_choosing_a_seed_a_symbol_and_an_order_changes_the_matrix(opened: Open, report: Path) -> None:
    shown = opened(report)
    run = shown.page.locator("#choose-run option", has_text="ndr-R").get_attribute("value")
    shown.choose("choose-run", run)
    pictures = [shown.picture()]
    assert shown.page.input_value("#choose-seed") == "0"
    assert shown.page.input_value("#choose-other-seed") == "1"
    for control, value in (("choose-seed", "2"), ("choose-symbol", "3")):
        shown.choose(control, value)
        pictures.append(shown.picture())
    with shown.redrawn():
        shown.page.get_by_role("button", name="by group").click()
    pictures.append(shown.picture())
    assert len(set(pictures)) == 4
    beside = shown.picture(1)
    shown.choose("choose-other-seed", "0")
    assert shown.picture(1) != beside


def test_it_opens_on_the_worst_seed_that_has_learned_its_data_beside_one_that_succeeds(
    opened: Open, tmp_path: Path
) -> None:
    unlearned = {"accuracy": {"iid": 0.56, "ood": 0.1}}
    with_seeds(make_run(tmp_path / "a-stuck", (0.1, 0.1, 0.6, 1.0)), {0: unlearned, 1: unlearned})
    make_run(tmp_path / "b-fails", (0.2, 0.3))
    make_run(tmp_path / "c-differs", (0.4, 0.9, 0.97))
    shown = opened(written(tmp_path))
    assert sides(shown.page) == ["Seed 0 IID 1.00, OOD 0.40 not solved", "Seed 2 IID 1.00, OOD 0.97 solved"]
    assert [shown.page.locator(f".pair > .{side} .cluster").count() for side in ("first", "second")] == [2, 1]
    tables = shown.page.locator(".pair > .first table.heat")
    for table in (tables.first, tables.last):
        assert table.locator("tbody td").all_inner_texts() == ["1.00", "0.00", "0.00", "1.00"]
    assert tables.first.locator("td.framed").count() == 2
    table = "document.querySelector('#run-table').parentElement"
    assert shown.page.evaluate(f"{table}.scrollWidth <= {table}.clientWidth"), "all columns are seen"
    assert shown.page.locator("#unlearned").count() == 0
    shown.choose("choose-run", "0")
    assert sides(shown.page)[0].startswith("Seed 2")
    assert shown.page.inner_text("#unlearned").startswith("2 of 4 seeds")


def test_sorting_and_filtering(opened: Open, report: Path) -> None:
    shown = opened(report)
    head = shown.page.locator("#run-table thead button", has_text="OOD")
    head.click()
    numbers = [float(text.split()[0]) for text in shown.column(10) if text != "–"]
    assert len(numbers) > 4
    assert numbers == sorted(numbers, reverse=True)
    assert shown.column(10)[-1] == "–", "runs without a number come last"
    assert shown.page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    head.click()
    assert [float(text.split()[0]) for text in shown.column(10) if text != "–"] == sorted(numbers)
    for text, names in (("staged S", ["staged-4", "staged-5"]), ("diverged", ["diverged"])):
        shown.page.fill("#filter", text)
        assert sorted(shown.column(1)) == names
        assert shown.page.inner_text("#count") == f"{len(names)} of 8 runs"
    shown.page.fill("#filter", "nowhere")
    assert shown.page.inner_text("#count") == "0 of 8 runs"
    shown.page.fill("#filter", "")
    for state in ("unfinished", "diverged"):
        shown.page.select_option("#filter-state", state)
        assert shown.column(1) == [state]


def test_the_keyboard_is_enough(opened: Open, report: Path) -> None:
    shown = opened(report)
    page = shown.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.focus("#choose-seed")
    with shown.redrawn():
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.id") == "choose-seed", "the focus stays where it was"
    page.locator(".matrix canvas").first.focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert re.fullmatch(r"\w and \w: cosine -?\d\.\d\d", page.locator(".matrix output").first.inner_text())
    page.locator("#run-table").get_by_role("button", name="own", exact=True).focus()
    with shown.redrawn():
        page.keyboard.press("Enter")
    page.wait_for_selector("#choose-run:focus")
    assert page.locator("#inside-body .note").count() == 1, "it was not analysed"


def test_hostile_names_stay_text_and_an_injected_script_would_not_run(
    opened: Open, report: Path, tmp_path: Path
) -> None:
    page = opened(report).page
    assert page.locator("img").count() == 0
    assert page.locator("#run-table").get_by_text(HOSTILE, exact=True).count() >= 1
    page.locator("#settings-body summary", has_text="onerror").click()
    page.locator("#settings-body details[open]", has_text="</script><script>alert(1)").wait_for()
    assert page.locator("script:not([type])").count() == 1
    text = report.read_text().replace("<main", f"<script>document.title='owned'</script>{HOSTILE}<main", 1)
    (tmp_path / "changed.html").write_text(text)
    changed = opened(tmp_path / "changed.html")
    assert page.title() == changed.page.title() == "CTL++ report"
    assert any("Content Security Policy" in error for error in changed.errors)
    changed.errors.clear()
    changed.requests[:] = [url for url in changed.requests if not url.endswith("/x")]


def test_it_fits_any_width(opened: Open, report: Path) -> None:
    page = opened(report).page
    for width in (320, 390, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_it_is_light_dark_or_printed_with_the_settings_that_are_open(opened: Open, report: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light, page = (opened(report, width=1030, color_scheme=scheme).page for scheme in ("light", "dark"))
    assert light.evaluate(background) != page.evaluate(background)
    light.click("#theme")
    assert light.evaluate(background) == page.evaluate(background)
    page.locator("#settings-body summary").first.click()
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "A4 across"
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    assert [one.is_visible() for one in page.locator("#settings details").all()] == [True, *[False] * 7]
    breaks = "(all) => all.map((one) => getComputedStyle(one).breakAfter)"
    assert {*page.locator("main h2, main h3, .lead, .who").evaluate_all(breaks)} == {"avoid"}


def test_diverged_seeds_stand_apart_from_the_measures_of_the_others(opened: Open, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", (0.1, 0.2, 0.6, 0.3, 0.5, 1.0))
    with_seeds(run, dict.fromkeys((0, 1, 2), DIVERGED))
    page = opened(written(tmp_path)).page
    cells = page.locator("#measures tbody tr").first.locator("td").all_inner_texts()
    assert cells[2] == "1.00", "the mean is without seed 0"
    plot = page.locator("#measures figure").first
    assert (plot.locator("circle.dot").count(), plot.locator("path.cross").count()) == (3, 3)


def test_a_run_that_lacks_the_chosen_symbol_says_which_one_it_shows(opened: Open, tmp_path: Path) -> None:
    make_run(tmp_path / "eight", task=make_task("S", 8, 16, shared_functions=4, shared_symbols=2))
    make_run(tmp_path / "four")
    shown = opened(written(tmp_path))
    for control, value in (("choose-run", "0"), ("choose-other-run", "1"), ("choose-symbol", "7")):
        shown.choose(control, value)
    label = shown.page.locator(".pair > .second canvas").first.get_attribute("aria-label")
    assert "of symbol 3 by function" in label
    assert shown.page.locator(".who").nth(1).locator(".note").count() == 1
    assert shown.page.locator("#groups .swatch").count() == 2 + 5, "the groups of both sides"
    shown.choose("choose-symbol", "2")
    assert shown.page.locator(".who .note").count() == 0


def test_old_analyses_are_marked_and_correlations_over_all_seeds_have_a_column(
    opened: Open, tmp_path: Path
) -> None:
    outdate(make_run(tmp_path / "old", (0.3, 1.0), model="gru"))
    make_run(tmp_path / "part-0", (0.4, 1.0, 0.9))
    make_run(tmp_path / "part-1", (0.2, 0.7), first=3)
    shown = opened(written(tmp_path))
    shown.choose("choose-run", "1")
    heads = shown.page.locator("#measures-body th[scope=col]")
    assert heads.all_inner_texts()[-1] == "… over all 5 seeds"
    assert shown.page.locator(".stale").count() == 0
    shown.choose("choose-run", "0")
    assert heads.count() == 5
    assert shown.column(13)[0].splitlines() == ["analysed", "at step 164 of 300"]
    for place in ("#inside .stale", "#measures .stale"):
        assert shown.page.locator(place).count() == 1, "once for both seeds"


def test_the_grid_of_s_has_a_setting_per_cell_and_other_settings_have_their_own(
    opened: Open, tmp_path: Path
) -> None:
    for functions, symbols in ((4, 2), (4, 3), (8, 2), (8, 6)):
        task = make_task("S", 8, 16, shared_functions=functions, shared_symbols=symbols)
        run = make_run(tmp_path / f"{functions}-{symbols}", (0.2, 0.4), task, analysed=False)
    with_seeds(run, {0: DIVERGED})
    for name, change in (
        ("longer", {"recipe": {"steps": 900}}),
        ("elsewhere", {"data": {"train": "f" * 64}}),
    ):
        make_run(tmp_path / name, (0.9,), task, analysed=False, **change)
    page = opened(written(tmp_path), width=360).page
    cells = [
        table.locator("td:not(.corner)").all_inner_texts() for table in page.locator("#staged table").all()
    ]
    numbers = [[re.sub(r"\s+", " ", text) for text in table] for table in cells]
    two = "0.30 ± 0.14 2 seeds"
    assert sorted(numbers, key=len)[2] == [two, two, "–", two, "–", "0.40 1 seed + 1 diverged"]
    assert sorted(numbers, key=len)[:2] == [["0.90 1 seed"]] * 2
    titles = page.locator("#staged h3 + p").all_inner_texts()
    assert sum("steps 900" in title for title in titles) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 360, "a wide grid scrolls by itself"


def test_150_runs_of_25_seeds_stay_small_and_are_ready_soon(opened: Open, tmp_path: Path) -> None:
    task = make_task("R", 8, 32, max_length=6)
    draw = np.random.Generator(np.random.PCG64(0))
    for number in range(2):
        run = make_run(tmp_path / "runs" / f"run-{number}", draw.random(25).tolist(), task, analysed=False)
        write_history(run / "metrics.parquet", range(25), range(800, 80_001, 800))
        write_analysis(run / "analysis", task, range(25), number)
    both = find_runs([tmp_path / "runs"])
    packages = [pack(record) for record in both]
    page = tmp_path / "report.html"
    page.write_text(make_page(both * 75, packages * 75))
    assert page.stat().st_size <= 15_000_000
    shown = opened(page).page
    assert int(shown.get_attribute("html", "data-ready")) < 2000, "milliseconds"
    assert shown.inner_text("#about") == "150 runs, 3,750 seeds, 150 analyses"
    assert shown.locator("#run-table tbody tr").count() == 150
