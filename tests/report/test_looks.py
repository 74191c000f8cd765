"""What the page opens on, what it warns of, and that nothing on it is cut or misleading."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.image import imread
from tests.report.conftest import Open, make_run, make_task, with_seeds, write_history
from tests.report.test_compare import full_size

from ctlpp.report.compare import results
from ctlpp.report.page import write_report
from ctlpp.runs.folder import find_runs

HEADS = ("95 % of mean", "Difference, OOD")  # columns of the results


def with_iid(run: Path, *accuracies: float) -> Path:
    """The same run, with other accuracies on data like its training data."""
    result = json.loads((run / "result.json").read_text())
    for seed, iid in zip(result["seeds"], accuracies, strict=True):
        seed["accuracy"]["iid"] = iid
    (run / "result.json").write_text(json.dumps(result))
    return run


def with_loss(run: Path, *losses: float) -> Path:
    """The same run, evaluated once, with a training loss for each seed."""
    write_history(run / "metrics.parquet", range(len(losses)), [300])
    table = pq.read_table(run / "metrics.parquet")
    found = pa.array([losses[seed] for seed in table["seed"].to_pylist()])
    pq.write_table(
        table.set_column(table.schema.get_field_index("loss"), "loss", found), run / "metrics.parquet"
    )
    return run


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A page over a run in which seeds 0 and 1 have not learned their data, and one in which all have."""
    with_iid(make_run(tmp_path / "runs" / "a-stuck", (0.1, 0.2, 0.6, 1.0)), 0.56, 0.95, 1.0, 1.0)
    with_loss(make_run(tmp_path / "runs" / "b-learned", (0.9, 0.4, 0.97)), 1.3001, 1.3004, 1.3009)
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    return tmp_path / "report.html"


def sides(page: Any) -> list[str]:
    return [" ".join(text.split()) for text in page.locator(".who").all_inner_texts()]


def test_it_opens_on_the_worst_seed_that_has_learned_its_data(opened: Open, written: Path) -> None:
    assert sides(opened(written).page) == [
        "Seed 1 IID 1.00, OOD 0.40 not solved b-learned",
        "Seed 2 IID 1.00, OOD 0.97 solved b-learned",
    ]


def test_a_chosen_run_opens_on_the_worst_of_its_seeds_that_have_learned(opened: Open, written: Path) -> None:
    shown = opened(written)
    shown.choose("choose-run", "0")
    assert [side.partition(" IID")[0] for side in sides(shown.page)] == ["Seed 2", "Seed 3"]


def test_a_run_with_a_successful_seed_comes_before_one_that_fails_throughout(
    opened: Open, tmp_path: Path
) -> None:
    make_run(tmp_path / "runs" / "fails", (0.2, 0.3))
    make_run(tmp_path / "runs" / "differs", (0.4, 1.0))
    make_run(tmp_path / "runs" / "succeeds", (1.0, 1.0))
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    assert [side.partition(" IID")[0] for side in sides(opened(tmp_path / "report.html").page)] == [
        "Seed 0",
        "Seed 1",
    ]
    assert (
        opened(tmp_path / "report.html").page.locator("#run-table tr[aria-current] button").inner_text()
        == "differs"
    )


def test_where_no_seed_has_learned_it_opens_on_the_worst_of_all(opened: Open, tmp_path: Path) -> None:
    with_iid(make_run(tmp_path / "runs" / "one", (0.3, 0.4)), 0.5, 0.5)
    with_iid(make_run(tmp_path / "runs" / "two", (0.5, 0.2)), 0.5, 0.5)
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    assert sides(opened(tmp_path / "report.html").page)[0] == "Seed 1 IID 0.50, OOD 0.20 not solved two"


def test_correlations_over_seeds_that_have_not_learned_come_with_a_warning(
    opened: Open, written: Path
) -> None:
    shown = opened(written)
    assert shown.page.locator("#unlearned").count() == 0
    assert shown.page.inner_text("#few") == "Of fewer than 8 seeds the intervals look surer than they are."
    shown.choose("choose-run", "0")
    assert shown.page.inner_text("#unlearned") == (
        "2 of 4 seeds have not learned their data (IID at most 0.95): "
        "here a measure may only tell whether a seed has learned at all."
    )


@pytest.mark.parametrize("width", [1280, 1400, 1920])
def test_the_table_of_runs_fits_a_wide_window(opened: Open, written: Path, width: int) -> None:
    page = opened(written, width=width).page
    table = "document.querySelector('#run-table').parentElement"
    assert page.evaluate(f"{table}.scrollWidth <= {table}.clientWidth")


def test_the_sentence_above_the_runs_wraps_in_a_narrow_window(opened: Open, written: Path) -> None:
    box = opened(written, width=390).page.locator("#runs-about").bounding_box()
    assert box["x"] + box["width"] <= 390
    assert box["height"] > 40, "several lines"


def test_a_search_without_a_hit_says_so(opened: Open, written: Path) -> None:
    shown = opened(written)
    shown.page.fill("#filter", "nowhere")
    assert shown.column(1) == ["No run matches."]
    assert shown.page.inner_text("#count") == "0 of 2 runs"
    shown.page.fill("#filter", "learned")
    assert shown.column(1) == ["b-learned"]


def test_seeds_evaluated_once_are_dots_in_the_colours_of_the_legend(opened: Open, written: Path) -> None:
    page = opened(written).page
    fills = "(all) => all.map((one) => getComputedStyle(one).fill)"
    legend = page.locator("#curves .legend circle").evaluate_all(fills)
    dots = page.locator("#curves figure").first.locator("circle").evaluate_all(fills)
    assert len(set(legend)) == 3, "the chosen seed, the one beside it, the others"
    assert sorted(dots) == sorted(legend)
    assert "Point at a dot" in page.inner_text("#curves")


def test_a_narrow_range_of_the_loss_gets_as_many_digits_as_it_needs(opened: Open, written: Path) -> None:
    labels = opened(written).page.locator("#curves figure").last.locator("text").all_text_contents()
    assert labels[:3] == ["1.3001", "1.3005", "1.3009"]


def test_a_sampling_graph_has_one_background_in_the_dark(opened: Open, written: Path) -> None:
    page = opened(written, color_scheme="dark").page
    box, drawing = page.locator(".drawing").first, page.locator(".drawing svg").first
    outer, inner = (imread(BytesIO(one.screenshot())) for one in (box, drawing))
    assert outer[5, 100].tolist() == inner[3, inner.shape[1] // 2].tolist()


def test_nothing_is_printed_as_minus_zero(opened: Open, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "run", (0.3, 1.0))
    path = run / "analysis" / "analysis.json"
    content = json.loads(path.read_text())
    content["measures"]["interchange_across"]["values"] = [-0.004, -0.25]
    content["correlations"]["interchange_across"] = {"pearson": -0.003, "low": -0.5, "high": 0.004}
    path.write_text(json.dumps(content))
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    row = opened(tmp_path / "report.html").page.locator("#measures tbody tr").first
    assert row.locator("td").all_inner_texts() == ["0.00", "−0.25", "−0.13", "0.00\n−0.50 … 0.00"]


def test_diverged_seeds_stand_apart_from_the_measures_of_the_others(opened: Open, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "run", (0.1, 0.2, 0.6, 0.3, 0.5, 1.0))
    with_iid(run, 0.2, 0.2, 0.2, 0.4, 0.9, 1.0)
    with_seeds(run, {at: {"diverged": True, "diverged_at": 100} for at in (0, 1, 2)})
    make_run(tmp_path / "runs" / "sound")
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    shown = opened(tmp_path / "report.html")
    shown.choose("choose-run", "0")
    text = shown.page.inner_text("#measures-body")
    assert "over the 3 of its 6 seeds that have not diverged" in text
    assert "2 of 6 seeds have not learned their data (IID at most 0.95), 3 diverged: here" in text
    assert shown.page.locator("#measures tbody tr").first.locator("td").nth(2).inner_text() == "1.00", (
        "without seed 0"
    )
    plot = shown.page.locator("#measures figure").first
    assert (plot.locator("circle.dot").count(), plot.locator("path.cross").count()) == (3, 3)
    assert "a seed that diverged" in shown.page.locator("#measures .legend").inner_text()
    shown.choose("choose-run", "1")
    assert "diverged" not in shown.page.inner_text("#measures-body")
    assert shown.page.locator("#measures path.cross").count() == 0


def test_runs_with_diverged_seeds_can_be_found_and_chosen(opened: Open, tmp_path: Path) -> None:
    with_seeds(make_run(tmp_path / "runs" / "some", (0.1, 0.2)), {0: {"diverged": True, "diverged_at": 100}})
    make_run(tmp_path / "runs" / "none")
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    shown = opened(tmp_path / "report.html")
    shown.page.fill("#filter", "diverged")
    assert shown.column(1) == ["some"]
    shown.page.fill("#filter", "")
    shown.page.select_option("#filter-state", label="with diverged seeds")
    assert shown.column(1) == ["some"]
    shown.page.select_option("#filter-state", "finished")
    assert sorted(shown.column(1)) == ["none", "some"]


def test_a_run_that_lacks_the_chosen_symbol_says_which_one_it_shows(opened: Open, tmp_path: Path) -> None:
    staged = make_task("S", 8, 16, shared_functions=4, shared_symbols=2)
    make_run(tmp_path / "runs" / "eight", task=staged)
    make_run(tmp_path / "runs" / "four")
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    shown = opened(tmp_path / "report.html")
    shown.choose("choose-run", "0")
    shown.choose("choose-other-run", "1")
    shown.choose("choose-symbol", "7")
    assert sides(shown.page)[1].endswith("There is no symbol 7 here: symbol 3 is shown.")
    assert shown.page.inner_text("#inside-body").count("symbol 7 (beside it: 3)") == 3
    label = shown.page.locator(".pair > .second canvas").first.get_attribute("aria-label")
    assert "of symbol 3 by function" in label
    shown.choose("choose-symbol", "2")
    assert "There is no symbol" not in shown.page.inner_text("#inside-body")
    assert "(beside it" not in shown.page.inner_text("#inside-body")


def test_the_legend_has_the_groups_of_both_sides_where_they_differ(opened: Open, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "S", task=make_task("S", 4, 16, shared_functions=4, shared_symbols=2))
    make_run(tmp_path / "runs" / "R")
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    shown = opened(tmp_path / "report.html")
    shown.choose("choose-run", "0")
    assert " ".join(shown.page.inner_text("#groups").split()) == "group a group b 0 1"
    shown.choose("choose-other-run", "1")
    groups = " ".join(shown.page.inner_text("#groups").split())
    assert groups == "group a group b beside it: group a1 group b1 group a2 group b2 group o 0 1"


def test_iid_accuracy_has_median_interval_and_its_difference_from_the_published_one(
    opened: Open, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "runs" / "full", (0.3, 1.0, 0.9), analysed=False)
    (run / "config.json").write_text(json.dumps(full_size("ndr", "R") | {"seeds": [0, 1, 2]}))
    with_iid(run, 0.6, 0.9, 0.96)
    make_run(tmp_path / "runs" / "small", (0.3, 1.0, 0.9), analysed=False)
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    tables = opened(tmp_path / "report.html").page.locator("#results .cards tbody")
    interval, difference = (tables.first.locator(f"td[data-label='{name}']") for name in HEADS)
    assert interval.inner_text().splitlines()[1:] == ["median 0.90", "IID 0.60 … 0.94", "IID median 0.90"]
    gap, (low, high) = results(find_runs([tmp_path / "runs"]))[0]["published"]["difference"]["iid"]
    lines = [line.replace("−", "-") for line in difference.inner_text().splitlines()]
    assert lines[2:] == [f"IID {gap:+.2f}", f"{low:+.2f} … {high:+.2f}"]
    other = tables.last.locator(f"td[data-label='{HEADS[0]}']").inner_text().splitlines()
    assert other[2:] == ["IID 1.00 … 1.00", "IID median 1.00"]


def test_a_wide_grid_scrolls_by_itself_in_a_narrow_window(opened: Open, tmp_path: Path) -> None:
    for shared in range(2, 7):
        task = make_task("S", 8, 16, shared_functions=4, shared_symbols=shared)
        make_run(tmp_path / "runs" / str(shared), (0.2, 0.4), task, analysed=False)
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    page = opened(tmp_path / "report.html", width=360).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#staged .scroll").evaluate("(one) => one.scrollWidth > one.clientWidth")
    settings = page.locator("#results td.setting").all_inner_texts()
    assert [setting.splitlines()[0] for setting in settings] == [
        f"protocol paper, preset quick, 4 shared functions, {shared} shared symbols" for shared in range(2, 7)
    ]
