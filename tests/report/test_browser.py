"""The page in a real browser, from disk and without a network."""

import csv
import io
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.report.conftest import (
    Open,
    Opened,
    edit,
    make_run,
    make_task,
    outdate,
    with_seeds,
    write_analysis,
    write_history,
)
from tests.report.test_compare import full_size

from ctlpp.report.collect import pack
from ctlpp.report.page import make_page, write_report
from ctlpp.runs.folder import find_runs

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
SECTIONS = ("overview", "inside", "measures", "staged", "curves", "runs", "settings", "method")
DIVERGED = {"diverged": True, "diverged_at": 100}
CONTRAST = """(all) => Math.min(...all.map((one) => {
  const parts = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  const weights = [0.2126, 0.7152, 0.0722];
  const bright = (colour) => parts(colour).reduce((sum, part, at) => sum + part * weights[at], 0);
  const { color, fill, backgroundColor } = getComputedStyle(one);
  const ink = one.tagName === "text" ? fill : color;
  const paper = one.tagName === "text" ? getComputedStyle(document.body).backgroundColor : backgroundColor;
  const [dark, light] = [bright(ink), bright(paper)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}))"""


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
    with_seeds(make_run(runs / "diverged", (0.5, 0.6), variant="A"), {0: DIVERGED})
    (make_run(runs / "broken") / "config.json").write_text("{")
    write_report([runs], root / "report.html")
    return root / "report.html"


@pytest.fixture(scope="module")
def every(opened: Open, report: Path) -> Opened:
    """That page, opened once; `again()` opens it anew."""
    return opened(report)


@pytest.fixture(scope="module")
def table1(opened: Open, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A page over runs that can be compared with published numbers."""
    root = tmp_path_factory.mktemp("table1")
    draw = np.random.Generator(np.random.PCG64(3))
    accuracies = {
        ("lstm", "R"): [1.0] * 25,
        ("ndr", "R"): (0.3 + 0.2 * draw.random(25)).tolist(),
        ("ndr", "A"): [0.2, 0.3, 1.0, 0.6],
        ("transformer", "A"): [0.3, 0.2],
    }
    for (model, variant), values in accuracies.items():
        task = make_task(variant, 8, 32, max_length=6)
        run = make_run(root / "runs" / f"{model}-{variant}", values, task, analysed=False)
        edit(run / "config.json", **full_size(model, variant) | {"seeds": list(range(len(values)))})
        if len(values) == 4:
            write_analysis(run / "analysis", task, range(4))
    write_report([root / "runs"], root / "report.html")
    return opened(root / "report.html")


def written(tmp_path: Path) -> Path:
    """A page over the runs in a folder."""
    write_report([tmp_path], tmp_path / "report.html")
    return tmp_path / "report.html"


def test_it_draws_everything_offline_and_every_run_as_what_it_is(every: Opened) -> None:
    page = every.again().page
    ids = page.locator("main > section").evaluate_all("(all) => all.map((one) => one.id)")
    assert ids == [*SECTIONS]
    for section in SECTIONS:
        assert page.locator(f"#{section}").is_visible(), section
        assert len(page.locator(f"#{section}").inner_text()) > 60, section
    assert page.locator(".matrix canvas").count() == 4
    assert page.locator("#graphs-body svg").count() == 3
    assert page.locator("#curves-body polyline.seedline").count() == 3 * 3
    states = dict(
        zip(every.column("Run"), (text.partition("\n")[0] for text in every.column("State")), strict=True)
    )
    assert (states["unfinished"], states["broken"]) == ("unfinished", "damaged")
    assert (states["diverged"], states["own"]) == ("1 of 2 diverged", "finished")
    assert {"NDR", "my.models:tiny\nnot in the zoo"} <= {*page.locator("#panel-R th.model").all_inner_texts()}
    assert page.locator("#panel-S").count() == 0, "cells of S are in their grid only"
    assert page.locator("#staged table.heat button").count() == 2


def test_the_overview_counts_the_verdicts_and_shows_every_seed(table1: Opened) -> None:
    page = table1.again().page
    assert page.inner_text("h1") == "1 of 6 published accuracies reproduced, 1 lower, 2 undecided, 2 not run"
    chips = page.locator("#panels .verdict").all_inner_texts()
    assert chips == ["reproduced", "lower", "2 of 25 seeds", "4 of 25 seeds"]
    assert page.locator("#panel-R circle.dot").count() == 50
    assert "×25" in page.locator("#panel-R .pile").all_text_contents()
    assert page.locator("#panel-A .published path").count() == 2, "the published mean of both models"
    assert page.locator("#panel-A .dot.hollow").count() == 0
    facts = page.locator(".fact > b").all_inner_texts()
    assert facts[0] == "1 of 6 reproduced"
    assert facts[2] == "0 of 25", "seeds of the NDR on R, published 8"
    page.locator("#panel-R button.row").last.click()
    assert "−0." in page.locator("#panel-R .details:visible").inner_text()


def test_few_seeds_get_no_interval(table1: Opened) -> None:
    page = table1.again().page
    few = page.locator("#panel-A button.row")
    for at in range(few.count()):
        few.nth(at).click()
    two, four = page.locator("#panel-A .details dl").all_inner_texts()
    assert "95 % CI of the mean" in four
    assert "CI of the mean" not in two
    assert "]" not in two.partition("IID, ours")[0].partition("solved")[0]


def test_a_click_on_a_dot_looks_inside_that_seed_and_the_address_keeps_it(table1: Opened) -> None:
    page = table1.again().page
    dot = page.locator("#panel-A circle[data-seed='3']")
    with table1.redrawn():
        dot.last.click(force=True)
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


def test_exports_can_be_read_by_other_programs(every: Opened, table1: Opened) -> None:
    rows = list(csv.DictReader(io.StringIO(table1.again().saved("#csv"))))
    assert [(row["model"], row["seeds"], row["verdict"]) for row in rows][2:] == [
        ("Bi-LSTM", "25", "reproduced"),
        ("NDR", "25", "lower"),
    ]
    assert float(rows[2]["OOD"]) == 1
    hostile = list(csv.reader(io.StringIO(every.again().saved("#csv"))))
    assert {len(row) for row in hostile} == {16}
    markdown = every.saved("[data-export=Markdown]").splitlines()
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in markdown} == {10}
    latex = [line for line in every.saved("[data-export=LaTeX]").splitlines() if line.endswith("\\\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in latex} == {8}
    every.again()  # a browser allows ten downloads by one page
    buttons = every.page.locator("button[aria-label$='as SVG']")
    assert buttons.count() >= 6
    for at in range(buttons.count()):
        with every.page.expect_download() as download:
            buttons.nth(at).click()
        svg = ElementTree.parse(download.value.path())
        assert svg.getroot().tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(svg.iter())) > 10


def test_compatibility_comes_first_and_what_no_graph_has_is_not_painted_as_a_failure(every: Opened) -> None:
    page = every.again().page
    heads = page.locator("#inside-body .across h3").all_inner_texts()
    assert heads == ["Compatibility", "Similarity", "Interchange"]
    assert page.locator("#new-pairs").inner_text() == (
        "New pairs right with symbol 0 in between: 0 of 32, 30 of 32."
    )
    with every.redrawn():
        page.click("#choose-variant [data-value=S]")
    assert page.locator("td.neither").count() >= 2, "tables"
    grey = """(one) => { const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height);
      for (let at = 0; at < data.length; at += 4) if (data[at] === 190 && data[at + 1] === 196) return true;
      return false; }"""
    assert page.locator(".matrix[data-kind=compatibility] canvas").first.evaluate(grey)


def test_a_matrix_without_a_split_says_how_far_it_is_from_one(opened: Open, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    path = run / "analysis" / "similarity.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(2, "silhouette", [[0.27] * len(table)]), path)
    shown = opened(written(tmp_path))
    assert (
        shown.page.locator(".pair > .second .clusters").inner_text()
        == "no clear split (silhouette 0.27 < 0.4)"
    )
    assert "One cluster" not in shown.page.inner_text("main")


def test_it_opens_where_seeds_disagree_most_on_the_widest_gap_of_a_seed_that_has_learned(
    opened: Open, tmp_path: Path
) -> None:
    stuck = {"accuracy": {"iid": 0.56, "ood": 0.1}}
    learning = {"accuracy": {"iid": 0.97, "ood": 0.2}}
    unlearned = {0: stuck, 1: learning}
    with_seeds(make_run(tmp_path / "a-differs", (0.1, 0.1, 0.6, 0.3, 1.0)), unlearned)
    make_run(tmp_path / "b-fails", (0.1, 0.2), model="lstm")
    make_run(tmp_path / "c-succeeds", (0.9, 0.97), model="gru")
    shown = opened(written(tmp_path))
    assert shown.seeds() == ["Seed 3 IID 1.00, OOD 0.30 not solved", "Seed 4 IID 1.00, OOD 1.00 solved"]
    assert shown.page.inner_text("#unlearned").startswith("1 of 5 seeds")


def test_every_control_has_a_name_and_room_and_headings_skip_no_level(every: Opened) -> None:
    page = every.again().page
    controls = "button, select, input, canvas[tabindex], [role=img], [role=application], [role=region]"
    named = "(one) => one.ariaLabel || one.textContent.trim() || one.labels?.length"
    assert page.locator(controls).evaluate_all(f"(all) => all.every({named})")
    small = """(all) => all.map((one) => [one.outerHTML.slice(0, 80), one.getBoundingClientRect()])
      .filter(([, box]) => box.width && Math.min(box.width, box.height) < 23.9).map(([text]) => text)"""
    assert page.locator("button, select, input, nav a, summary").evaluate_all(small) == []
    levels = page.locator("h1, h2, h3, h4").evaluate_all("(all) => all.map((one) => Number(one.tagName[1]))")
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_numbers_on_colours_can_be_read_in_both_themes_and_on_paper(
    opened: Open, every: Opened, report: Path
) -> None:
    for shown in (every.again(), opened(report, color_scheme="dark")):
        assert shown.page.locator("table.heat td:not(.corner, .neither), .chip").evaluate_all(CONTRAST) >= 4.5
        assert (
            shown.page.locator("svg.chart text, svg.margins text, svg.strip text").evaluate_all(CONTRAST)
            >= 4.5
        )
    shown.page.emulate_media(media="print")
    assert shown.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert shown.page.locator("svg text, table.heat td:not(.corner, .neither)").evaluate_all(CONTRAST) >= 4.5
    assert not shown.page.locator("nav").is_visible()
    breaks = "(all) => all.map((one) => getComputedStyle(one).breakAfter)"
    assert {*shown.page.locator("main h2, main h3, .lead, .who").evaluate_all(breaks)} == {"avoid"}


def test_choosing_a_seed_a_symbol_and_an_order_changes_the_matrix(every: Opened) -> None:
    every.again()
    pictures = [every.picture()]
    assert (every.page.input_value("#choose-seed"), every.page.input_value("#choose-other-seed")) == (
        "0",
        "1",
    )
    every.choose("choose-seed", "2")
    pictures.append(every.picture())
    with every.redrawn():
        every.page.locator(".thumbs [data-value=symbol-3]").first.click()
    pictures.append(every.picture())
    assert len(set(pictures)) == 3
    clustered = every.picture("similarity")
    with every.redrawn():
        every.page.get_by_role("button", name="by group").click()
    assert every.picture("similarity") != clustered
    beside = every.picture(at=1)
    every.choose("choose-other-seed", "0")
    assert every.picture(at=1) != beside


def test_one_crosshair_for_all_matrices_and_the_scroll_position_in_the_navigation(every: Opened) -> None:
    page = every.again().page
    page.locator(".matrix canvas").first.hover(position={"x": 40, "y": 60})
    assert page.locator(".crosshair:visible").count() == 8
    page.locator("#sections a", has_text="Settings").click()
    page.wait_for_function("() => document.querySelector('#sections [aria-current]').hash === '#settings'")
    assert page.url.partition("#")[2].startswith("settings")


def test_sorting_and_filtering(every: Opened) -> None:
    shown = every.again()
    head = shown.page.locator("#run-table thead button", has_text="OOD")
    head.click()
    numbers = [float(text.split()[0]) for text in shown.column("OOD") if text != "n/a"]
    assert len(numbers) > 4
    assert numbers == sorted(numbers, reverse=True)
    assert shown.column("OOD")[-1] == "n/a", "runs without a number come last"
    assert shown.page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    head.click()
    assert [float(text.split()[0]) for text in shown.column("OOD") if text != "n/a"] == sorted(numbers)
    for text, names in (("staged S", ["staged-4", "staged-5"]), ("diverged", ["diverged"])):
        shown.page.fill("#filter", text)
        assert sorted(shown.column("Run")) == names
        assert shown.page.inner_text("#count") == f"{len(names)} of 8 runs"
    shown.page.fill("#filter", "nowhere")
    assert shown.page.inner_text("#count") == "0 of 8 runs"
    shown.page.fill("#filter", "")
    for state in ("unfinished", "diverged"):
        shown.page.select_option("#filter-state", state)
        assert shown.column("Run") == [state]


def test_settings_are_shown_as_differences(every: Opened) -> None:
    page = every.again().page
    assert "settings that all runs share" in page.inner_text("#shared-settings summary")
    rows = {row.split()[0] for row in page.locator("#settings-body tbody tr").all_inner_texts()}
    assert {"model", "variant"} <= rows
    assert "steps" not in rows, "all runs have the same"
    page.select_option("#compare-0", label="own")
    assert "my.models:tiny" in page.locator("#settings-body tr", has_text="model").first.inner_text()


def test_the_keyboard_is_enough(every: Opened) -> None:
    page = every.again().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.locator("#panel-R svg.strip[tabindex]").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#tip").startswith("seed 0")
    page.keyboard.press("ArrowRight")
    with every.redrawn():
        page.keyboard.press("Enter")
    assert every.seeds()[0].startswith("Seed 2")
    page.focus("#choose-seed")
    with every.redrawn():
        page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "choose-seed", "the focus stays where it was"
    page.locator(".matrix canvas").first.focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert re.fullmatch(r"\w, then \w: \w+ \(.*\)", page.locator(".matrix output").first.inner_text())
    page.locator("#run-table").get_by_role("button", name="own", exact=True).focus()
    with every.redrawn():
        page.keyboard.press("Enter")
    assert page.locator("#inside-body .note").count() == 1, "it was not analysed"


def test_hostile_names_stay_text_and_an_injected_script_would_not_run(
    opened: Open, every: Opened, report: Path, tmp_path: Path
) -> None:
    page = every.again().page
    assert page.locator("img").count() == 0
    assert page.locator("#run-table").get_by_text(HOSTILE, exact=True).count() >= 1
    page.select_option("#compare-0", index=1)
    assert page.locator("script:not([type])").count() == 1
    text = report.read_text().replace("<main", f"<script>document.title='owned'</script>{HOSTILE}<main", 1)
    (tmp_path / "changed.html").write_text(text)
    changed = opened(tmp_path / "changed.html")
    assert page.title() == changed.page.title() == "CTL++ report"
    assert any("Content Security Policy" in error for error in changed.errors)
    changed.errors.clear()
    changed.requests[:] = [url for url in changed.requests if not url.endswith("/x")]


def test_a_headline_of_ones_own_is_text(opened: Open, tmp_path: Path) -> None:
    make_run(tmp_path / "run", analysed=False)
    write_report([tmp_path], tmp_path / "report.html", title=f"Mine & {HOSTILE}")
    assert opened(tmp_path / "report.html").page.inner_text("h1") == f"Mine & {HOSTILE}"


def test_without_scripts_there_is_a_table_of_means(opened: Open, report: Path) -> None:
    page = opened(report, java_script_enabled=False).page
    rows = page.locator("noscript tbody tr").all_inner_texts()
    assert len(rows) == 6
    assert any(row.startswith("NDR on R") and "0.73 ± 0.38" in row for row in rows)


@pytest.mark.parametrize("width", [320, 390, 1024, 1440])
def test_it_fits_any_width(every: Opened, table1: Opened, width: int) -> None:
    for shown in (every, table1):
        shown.page.set_viewport_size({"width": width, "height": 900})
        assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        shown.page.set_viewport_size({"width": 1280, "height": 900})


def test_diverged_seeds_stand_apart_from_the_measures_of_the_others(opened: Open, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", (0.1, 0.2, 0.6, 0.3, 0.5, 1.0))
    with_seeds(run, dict.fromkeys((0, 1, 2), DIVERGED))
    page = opened(written(tmp_path)).page
    cells = page.locator("#measures tbody tr").nth(1).locator("td").all_inner_texts()
    assert cells[-1] == "1.00", "the mean is without seed 0"
    plot = page.locator("#measures figure").last
    assert (plot.locator("circle.dot").count(), plot.locator("path.cross").count()) == (3, 3)


def test_a_run_that_lacks_the_chosen_symbol_says_which_one_it_shows(opened: Open, tmp_path: Path) -> None:
    make_run(tmp_path / "eight", task=make_task("S", 8, 16, shared_functions=4, shared_symbols=2))
    make_run(tmp_path / "four", variant="R")
    shown = opened(written(tmp_path))
    with shown.redrawn():
        shown.page.click("#choose-variant [data-value=S]")
    with shown.redrawn():
        shown.page.locator("#panel-R circle[data-seed='1']").click(modifiers=["Shift"], force=True)
    with shown.redrawn():
        shown.page.locator(".thumbs [data-value=symbol-7]").click()
    label = shown.page.locator(".pair > .second canvas").first.get_attribute("aria-label")
    assert "with symbol 3 in between" in label
    assert shown.page.locator(".who.right .note").count() == 1
    assert shown.page.locator("#groups .swatch:not(.neither, .framed)").count() == 2 + 5, "of both sides"
    with shown.redrawn():
        shown.page.locator(".thumbs [data-value=symbol-2]").first.click()
    assert shown.page.locator(".who .note").count() == 0


def test_old_analyses_are_marked_and_a_setting_has_the_seeds_of_all_its_runs(
    opened: Open, tmp_path: Path
) -> None:
    outdate(make_run(tmp_path / "old", (0.3, 1.0), model="gru"))
    make_run(tmp_path / "part-0", (0.4, 1.0, 0.9))
    make_run(tmp_path / "part-1", (0.2, 0.7), first=3)
    shown = opened(written(tmp_path))
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


def test_runs_that_have_little_to_show_make_a_page_without_errors(opened: Open, tmp_path: Path) -> None:
    make_run(tmp_path / "no-task" / "run", (0.5, 0.7), analysed=False)
    edit(tmp_path / "no-task" / "run" / "config.json", task=None)
    (make_run(tmp_path / "unfinished" / "run") / "result.json").unlink()
    (make_run(tmp_path / "damaged" / "run") / "config.json").write_text("{")
    with_seeds(make_run(tmp_path / "diverged" / "run", (0.5, 0.7)), dict.fromkeys((0, 1), DIVERGED))
    make_run(tmp_path / "odd" / "run", (0.5, 0.7), model="__proto__", variant="constructor")
    for table in ("similarity", "pairs"):
        (tmp_path / "odd" / "run" / "analysis" / f"{table}.parquet").unlink()
    found = {folder.name: opened(written(folder)).page.inner_text("h1") for folder in tmp_path.iterdir()}
    assert found == {
        "no-task": "0 of 2 seeds solved: OOD accuracy above 0.95",
        "unfinished": "No finished run yet",
        "damaged": "No finished run yet",
        "diverged": "0 of 2 seeds solved: OOD accuracy above 0.95",
        "odd": "0 of 2 seeds solved: OOD accuracy above 0.95",
    }


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
    assert sorted(numbers, key=len)[2] == [two, two, "", two, "", "0.40 1 seed + 1 diverged"]
    assert sorted(numbers, key=len)[:2] == [["0.90 1 seed"]] * 2
    titles = page.locator("#staged .tables h3 + p").all_inner_texts()
    assert sum("steps 900" in title for title in titles) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 360, "a wide grid scrolls by itself"


def test_a_page_over_150_runs_of_25_seeds_stays_small(opened: Open, tmp_path: Path) -> None:
    task = make_task("R", 8, 32, max_length=6)
    draw = np.random.Generator(np.random.PCG64(0))
    run = make_run(tmp_path / "runs" / "a", draw.random(25).tolist(), task, analysed=False)
    write_history(run / "metrics.parquet", range(25), range(800, 80_001, 800))
    write_analysis(run / "analysis", task, range(25))
    (one,) = find_runs([tmp_path / "runs"])
    every = [
        replace(one, name=f"run-{at}", config=one.config | {"preset": f"preset {at % 13}"})
        for at in range(150)
    ]
    page = tmp_path / "report.html"
    page.write_text(make_page(every, [pack(one)] * 150))
    assert page.stat().st_size <= 15_000_000
    shown = opened(page).page
    assert shown.inner_text("#about").startswith("325 seeds in 150 runs")
    assert shown.locator("#run-table tbody tr").count() == 150
    assert shown.get_by_role("button", name="3 more settings").is_visible()
