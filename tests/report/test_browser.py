"""The page in a real browser, from disk and without a network: overview, table of runs, settings, safety."""

import csv
import io
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.report.conftest import (
    DIVERGED,
    HOSTILE,
    Open,
    Opened,
    edit,
    full_size,
    make_run,
    make_task,
    with_seeds,
    write_analysis,
    write_history,
    write_page,
)

from ctlpp.report.package import pack
from ctlpp.report.page import make_page
from ctlpp.runs.folder import find_runs

SECTIONS = ("overview", "inside", "measures", "staged", "curves", "runs", "settings", "method")
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
LETTERS = """(all) => Math.min(...all.map((one) => one.getScreenCTM().a
  * parseFloat(one.getAttribute("font-size"))))"""  # the smallest in a drawing, in pixels
CELLS = "table.heat td:not(.corner, .neither)"


def test_it_draws_everything_offline_and_every_run_as_what_it_is(every: Opened) -> None:
    page = every.again().page
    ids = page.locator("main > section").evaluate_all("(all) => all.map((one) => one.id)")
    assert ids == [*SECTIONS]
    for section in SECTIONS:
        assert len(page.locator(f"#{section}:visible").inner_text()) > 60, section
    assert page.locator(".matrix canvas").count() == 4
    assert page.locator("#graphs-body svg").count() == 3
    assert page.locator("#curves-body polyline.seedline").count() == 3 * 3
    said = [text.partition("\n")[0] for text in every.column("State")]
    states = dict(zip(every.column("Run"), said, strict=True))
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
    facts = page.locator(".fact > b").all_inner_texts()
    assert facts[0] == "1 of 6 reproduced"
    assert facts[2] == "0 of 25", "seeds of the NDR on R, published 8"
    names = page.locator("h1, #panels th.model").evaluate_all(
        "(all) => all.map((one) => getComputedStyle(one).color)"
    )
    assert len(set(names)) == 1, "names of models are as dark as the headline"
    page.locator("#panel-R button.row").last.click()
    details = page.locator("#panel-R .details:visible").inner_text()
    assert re.search(r"OOD, ours − published\s+−0\.\d\d \[−0\.\d\d, −0\.\d\d\], lower", details)
    page.locator("#panel-A button.row").first.click()
    assert "CI of the mean" not in page.locator("#panel-A .details:visible").inner_text(), "of two seeds"


def test_what_the_paper_does_not_have_opens_with_how_far_seeds_are_apart(every: Opened) -> None:
    facts = [text.split("\n\n") for text in every.again().page.locator(".fact").all_inner_texts()]
    assert facts[0] == [
        "0.30 – 1.00",
        "OOD accuracy of 3 seeds of NDR on R: the same data, another random start.",
    ]
    assert [fact[0] for fact in facts[1:]] == ["1.00 → 0.45", "1 of 13"]
    left, right = every.page.locator("#cards").evaluate(
        "(one) => [one.lastChild, one].map((each) => each.getBoundingClientRect().right)"
    )
    assert left == pytest.approx(right, abs=1), "three facts fill the row"


def test_the_page_says_what_its_words_mean_in_short_sentences(every: Opened, table1: Opened) -> None:
    lead = table1.again().page.inner_text("#overview .lead")
    for words in ("A seed is one network.", "OOD accuracy:", "(chance: 1/8)", "IID accuracy:", "Grey:"):
        assert words in lead
    long = []
    for shown in (every.again(), table1):
        texts = shown.page.locator("p, dd, figcaption, caption, .note").all_inner_texts()
        sentences = [one for text in texts for one in re.split(r"(?<=[.?!:;])\s+|\n", text)]
        long += [sentence for sentence in sentences if len(sentence.split()) > 30]
    assert long == []


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
    for button in buttons.all():
        with every.page.expect_download() as download:
            button.click()
        svg = ElementTree.parse(download.value.path())
        assert svg.getroot().tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(svg.iter())) > 10


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


def test_what_is_written_can_be_read_in_both_themes_and_on_paper(
    opened: Open, every: Opened, report: Path
) -> None:
    for shown in (every.again(), opened(report, color_scheme="dark")):
        for written in (f"{CELLS}, .chip", "svg.chart text, svg.margins text, svg.strip text"):
            assert shown.page.locator(written).evaluate_all(CONTRAST) >= 4.5
    shown.page.emulate_media(media="print")
    assert shown.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert shown.page.locator(f"svg text, {CELLS}").evaluate_all(CONTRAST) >= 4.5
    assert not shown.page.locator("nav").is_visible()
    breaks = "(all) => all.map((one) => getComputedStyle(one).breakAfter)"
    assert {*shown.page.locator("main h2, main h3, .lead, .who").evaluate_all(breaks)} == {"avoid"}


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
    for text, names in (("staged S", ["staged-4", "staged-5"]), ("diverged", ["diverged"]), ("nowhere", [])):
        shown.page.fill("#filter", text)
        assert shown.page.inner_text("#count") == f"{len(names)} of 8 runs"
        assert sorted(shown.column("Run")) == (names or ["No run matches."])
    shown.page.fill("#filter", "")
    for state in ("unfinished", "diverged"):
        shown.page.select_option("#filter-state", state)
        assert shown.column("Run") == [state]


def test_settings_are_shown_as_differences(every: Opened) -> None:
    page = every.again().page
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
        if width > 900:
            assert shown.page.locator("nav").evaluate("(one) => one.scrollWidth <= one.clientWidth")
            assert shown.page.locator(".drawings text").evaluate_all(LETTERS) >= 10
        shown.page.set_viewport_size({"width": 1280, "height": 900})


def test_runs_that_have_little_to_show_make_a_page_without_errors(opened: Open, tmp_path: Path) -> None:
    make_run(tmp_path / "no-task" / "run", (0.5, 0.7), analysed=False)
    edit(tmp_path / "no-task" / "run" / "config.json", task=None)
    (make_run(tmp_path / "unfinished" / "run") / "result.json").unlink()
    (make_run(tmp_path / "damaged" / "run") / "config.json").write_text("{")
    with_seeds(make_run(tmp_path / "diverged" / "run", (0.5, 0.7)), dict.fromkeys((0, 1), DIVERGED))
    make_run(tmp_path / "odd" / "run", (0.5, 0.7), model="__proto__", variant="constructor")
    for table in ("similarity", "pairs"):
        (tmp_path / "odd" / "run" / "analysis" / f"{table}.parquet").unlink()
    found = {folder.name: opened(write_page(folder)).page.inner_text("h1") for folder in tmp_path.iterdir()}
    solved = "0 of 2 seeds solved: OOD accuracy above 0.95"
    nothing = dict.fromkeys(("unfinished", "damaged"), "No finished run yet")
    assert found == dict.fromkeys(("no-task", "diverged", "odd"), solved) | nothing


def test_seeds_of_which_none_counts_have_no_numbers(opened: Open, tmp_path: Path) -> None:
    task = make_task("A", 8, 32, max_length=6)
    run = make_run(tmp_path / "run", [0.1] * 4, task, analysed=False)
    edit(run / "config.json", **full_size("transformer", "A") | {"seeds": list(range(4))})
    with_seeds(run, {seed: {"accuracy": {"iid": 0.4, "ood": 0.1}} for seed in range(4)})
    page = opened(write_page(tmp_path)).page
    assert page.locator("#panel-A td.number").all_inner_texts()[-2:] == ["n/a", "n/a"]


def test_a_page_over_150_runs_of_25_seeds_stays_small(opened: Open, tmp_path: Path) -> None:
    task = make_task("R", 8, 32, max_length=6)
    draw = np.random.Generator(np.random.PCG64(0))
    run = make_run(tmp_path / "runs" / "a", draw.random(25).tolist(), task, analysed=False)
    write_history(run / "metrics.parquet", range(25), range(800, 80_001, 800))
    write_analysis(run / "analysis", task, range(25))
    (one,) = find_runs([tmp_path / "runs"])
    presets = [one.config | {"preset": f"preset {at % 13}"} for at in range(150)]
    every = [replace(one, name=f"run-{at}", config=config) for at, config in enumerate(presets)]
    page = tmp_path / "report.html"
    page.write_text(make_page(every, [pack(one)] * 150))
    assert page.stat().st_size <= 15_000_000
    shown = opened(page).page
    assert shown.inner_text("#about").startswith("325 seeds in 150 runs")
    assert shown.locator("#run-table tbody tr").count() == 150
    assert shown.get_by_role("button", name="3 more settings").is_visible()
