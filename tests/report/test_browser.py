"""The page in a real browser, from disk and without a network."""

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.report.conftest import Open, make_run, make_task, write_analysis, write_history

from ctlpp.report.page import write_report

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
READY = 2000  # milliseconds


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page over runs of every kind."""
    root = tmp_path_factory.mktemp("report")
    runs = root / "runs"
    make_run(runs / "ndr-R", (0.3, 1.0, 0.9))
    make_run(runs / "own", (0.6, 0.7), model="my.models:tiny", analysed=False)
    make_run(
        runs / "hostile" / HOSTILE.replace("/", ""),
        (0.5, 0.4),
        model=HOSTILE,
        preset="</script><script>alert(1)",
    )
    for shared in (4, 5):
        task = make_task("S", 4, 16, shared_functions=shared, shared_symbols=2)
        make_run(runs / f"staged-{shared}", (0.2, 0.4), task)
    (make_run(runs / "unfinished", analysed=False) / "result.json").unlink()
    diverged = make_run(runs / "diverged", (0.5, 0.6))
    result = json.loads((diverged / "result.json").read_text())
    result["seeds"][0] |= {"diverged": True, "diverged_at": 100}
    (diverged / "result.json").write_text(json.dumps(result))
    (make_run(runs / "broken") / "config.json").write_text("{")
    write_report([runs], root / "report.html")
    return root / "report.html"


def test_it_draws_everything_offline(opened: Open, report: Path) -> None:
    shown = opened(report)
    for section in ("results", "runs", "inside", "measures", "curves", "staged", "graphs", "settings"):
        assert shown.page.locator(f"#{section}").is_visible(), section
        assert len(shown.page.locator(f"#{section}").inner_text()) > 60, section
    assert shown.page.locator(".matrix canvas").count() == 4
    assert shown.page.locator("#graphs-body svg").count() == 3
    assert shown.page.locator("#curves-body polyline.seedline").count() == 3 * 3


def test_every_run_is_shown_as_what_it_is(opened: Open, report: Path) -> None:
    shown = opened(report)
    text = dict(zip(shown.column(1), zip(shown.column(2), shown.column(3), strict=True), strict=True))
    assert text["unfinished"][0] == "unfinished\nlast evaluated at step 300 of 300"
    assert text["diverged"][0] == "1 of 2 diverged"
    assert text["broken"][0].startswith("damaged\nconfig.json cannot be read")
    assert text["own"] == ("finished", "my.models:tiny\nnot in the zoo")
    assert text["ndr-R"] == ("finished", "NDR")


def test_what_sets_runs_apart_from_the_published_ones_is_said_once_and_rows_refer_to_it(
    opened: Open, report: Path
) -> None:
    shown = opened(report)
    text = shown.page.inner_text("#results")
    changed, unpublished = (
        "8 functions, 4 symbols, 100 training examples, preset quick",
        "no numbers are published",
    )
    assert text.count(changed) == text.count(unpublished) == text.lower().count("not comparable") == 1
    note = shown.page.inner_text("#not-comparable")
    assert note.startswith(f"Not comparable with the published numbers: a {changed}; b {unpublished}")
    rows = shown.page.locator("#results .cards tbody th").all_inner_texts()
    assert {row.splitlines()[0] for row in rows} >= {"NDR on R a", "my.models:tiny on R b", "NDR on S b"}


def test_the_setting_names_repeated_sequences_and_another_function_table(
    opened: Open, tmp_path: Path
) -> None:
    make_run(tmp_path / "plain", analysed=False)
    repeats = make_run(tmp_path / "repeats", analysed=False, task=make_task(seed=1))
    config = json.loads((repeats / "config.json").read_text())
    config["task"]["recipe"]["distinct_sequences"] = "n/7"
    (repeats / "config.json").write_text(json.dumps(config))
    write_report([tmp_path], tmp_path / "report.html")
    settings = opened(tmp_path / "report.html").page.locator("#results td.setting").all_inner_texts()
    assert [setting.splitlines()[0] for setting in settings] == [
        "protocol paper, preset quick",
        "protocol paper, preset quick, repeated sequences n/7, function table 1",
    ]


def test_choosing_a_seed_a_symbol_and_an_order_changes_the_matrix(opened: Open, report: Path) -> None:
    shown = opened(report)
    shown.choose(
        "choose-run", shown.page.locator("#choose-run option", has_text="ndr-R").get_attribute("value") or ""
    )
    pictures = [shown.picture()]
    assert shown.page.input_value("#choose-seed") == "0"
    assert shown.page.input_value("#choose-other-seed") == "1"
    shown.choose("choose-seed", "2")
    pictures.append(shown.picture())
    shown.choose("choose-symbol", "3")
    pictures.append(shown.picture())
    with shown.redrawn():
        shown.page.get_by_role("button", name="by group").click()
    pictures.append(shown.picture())
    assert len(set(pictures)) == 4
    beside = shown.picture(1)
    shown.choose("choose-other-seed", "0")
    assert shown.picture(1) != beside


def test_a_failed_seed_stands_beside_a_successful_one(opened: Open, report: Path) -> None:
    shown = opened(report)
    assert shown.page.locator(".who").all_inner_texts()[0].startswith("Seed 0")
    assert "solved" in shown.page.locator(".who").nth(1).inner_text()
    assert shown.page.locator(".pair > .first .cluster").count() == 2
    assert shown.page.locator(".pair > .second .cluster").count() == 1
    tables = shown.page.locator(".pair > .first table.heat")
    assert tables.first.locator("tbody td").all_inner_texts() == ["1.00", "0.00", "0.00", "1.00"]
    assert tables.last.locator("tbody td").all_inner_texts() == ["1.00", "0.00", "0.00", "1.00"]
    assert tables.first.locator("td.framed").count() == 2


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
    shown.page.fill("#filter", "staged S")
    assert sorted(shown.column(1)) == ["staged-4", "staged-5"]
    assert shown.page.inner_text("#count") == "2 of 8 runs"
    shown.page.fill("#filter", "")
    shown.page.select_option("#filter-state", "unfinished")
    assert shown.column(1) == ["unfinished"]


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
    canvas = page.locator(".matrix canvas").first
    canvas.focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert re.fullmatch(r"\w and \w: cosine -?\d\.\d\d", page.locator(".matrix output").first.inner_text())
    page.locator("#run-table").get_by_role("button", name="own", exact=True).focus()
    with shown.redrawn():
        page.keyboard.press("Enter")
    page.wait_for_selector("#choose-run:focus")
    assert "not analysed" in page.inner_text("#inside-body")


def test_every_control_has_a_name(opened: Open, report: Path) -> None:
    page = opened(report).page
    nameless = """[...document.querySelectorAll("button, select, input, canvas[tabindex], [role=img], [role=region]")]
        .filter((one) => !(one.ariaLabel || one.textContent.trim() || one.labels?.length))
        .map((one) => one.outerHTML)"""
    assert page.evaluate(nameless) == []
    assert page.evaluate("document.querySelectorAll('table:not([role])').length") > 0
    levels = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4')].map((one) => Number(one.tagName[1]))"
    )
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_hostile_names_stay_text(opened: Open, report: Path) -> None:
    page = opened(report).page
    assert page.title() == "CTL++ report"
    assert page.locator("img").count() == 0
    assert page.locator("#run-table").get_by_text(HOSTILE, exact=True).count() >= 1
    page.locator("#settings-body summary", has_text="onerror").click()
    page.locator("#settings-body details[open]", has_text="</script><script>alert(1)").wait_for()
    assert page.locator("script:not([type])").count() == 1


def test_even_an_injected_script_would_not_run(opened: Open, report: Path, tmp_path: Path) -> None:
    page = report.read_text().replace("<main", f"<script>document.title='owned'</script>{HOSTILE}<main", 1)
    (tmp_path / "changed.html").write_text(page)
    shown = opened(tmp_path / "changed.html")
    assert shown.page.title() == "CTL++ report"
    assert any("Content Security Policy" in error for error in shown.errors)
    shown.errors.clear()
    shown.requests[:] = [url for url in shown.requests if not url.endswith("/x")]


def test_light_and_dark_follow_the_system_and_the_button(opened: Open, report: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = opened(report, color_scheme="light").page, opened(report, color_scheme="dark").page
    assert light.evaluate(background) == "rgb(246, 247, 249)"
    assert dark.evaluate(background) == "rgb(16, 20, 24)"
    light.click("#theme")
    assert light.evaluate(background) == dark.evaluate(background)
    assert light.get_attribute("#theme", "aria-label") == "Switch to the light theme"


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 1920])
def test_it_fits_any_width(opened: Open, report: Path, width: int) -> None:
    page = opened(report, width=width).page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_it_prints_in_full(opened: Open, report: Path) -> None:
    page = opened(report, width=1030, color_scheme="dark").page  # A4 across, without its margins
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    assert page.pdf().startswith(b"%PDF")


def test_settings_are_printed_where_they_are_open(opened: Open, report: Path) -> None:
    page = opened(report).page
    assert not page.locator("#settings .paper").is_visible()
    page.locator("#settings-body summary").first.click()
    every = "[...document.querySelectorAll('#settings-body details')]"
    page.evaluate(
        f"addEventListener('beforeprint', () => {{ window.printed = {every}.map((one) => one.open) }})"
    )
    page.pdf()
    assert page.evaluate("window.printed") == [True, *[False] * 7]
    page.emulate_media(media="print")
    assert [one.is_visible() for one in page.locator("#settings details").all()] == [True, *[False] * 7]
    assert (
        page.inner_text("#settings .paper")
        == "The settings of a run are printed here if they are open on the page."
    )


def test_headings_stay_with_their_content_on_paper(opened: Open, report: Path) -> None:
    page = opened(report).page
    page.locator("#settings-body summary", has_text="ndr-R").click()
    page.locator("#settings-body .settings").wait_for()
    page.emulate_media(media="print")
    for selector in ("h2", "h3", "h3 + p", "h4", ".lead", ".across", ".who", "summary"):
        found = page.locator(f"main {selector}").evaluate_all(
            "(all) => all.map((one) => getComputedStyle(one).breakAfter)"
        )
        assert set(found) == {"avoid"}, selector
    flow = "getComputedStyle(document.querySelector('#staged .tables')).display"
    assert page.evaluate(flow) == "block", "a flexible box may leave its heading on the page before"
    for selector in (".clusters", ".matrix", ".legend", "figure", ".settings > div"):
        found = page.locator(selector).evaluate_all(
            "(all) => all.map((one) => getComputedStyle(one).breakInside)"
        )
        assert set(found) == {"avoid"}, selector


def test_150_runs_of_25_seeds_stay_small_and_are_ready_soon(opened: Open, tmp_path: Path) -> None:
    task = make_task("R", 8, 32, max_length=6)
    draw = np.random.Generator(np.random.PCG64(0))
    for number in range(150):
        folder = make_run(
            tmp_path / "runs" / f"run-{number}", draw.random(25).round(4).tolist(), task, analysed=False
        )
        kind = tmp_path / "runs" / f"run-{number % 2}"  # two different ones; the others link to them
        if number < 2:
            write_history(folder / "metrics.parquet", range(25), range(800, 80_001, 800))
            write_analysis(folder / "analysis", task, range(25), number)
        else:
            shutil.copy(kind / "metrics.parquet", folder / "metrics.parquet")
            (folder / "analysis").symlink_to(kind / "analysis")
    written = write_report([tmp_path / "runs"], tmp_path / "report.html")
    assert (written.runs, written.analysed) == (150, 150)
    assert written.size <= 15_000_000
    page = opened(tmp_path / "report.html").page
    assert int(page.get_attribute("html", "data-ready")) < READY
    assert page.inner_text("#about") == "150 runs, 3,750 seeds, 150 analyses"
    assert page.locator("#run-table tbody tr").count() == 150
