"""What the page *Does it reproduce?* and the tables behind it say, from everything run to a single seed."""

from __future__ import annotations

import re
from pathlib import Path

from tests.reproduce.making import make_piece

from ctlpp.reproduce.plan import plan
from ctlpp.reproduce.results.writing import write_page, write_results

NAME = "ndr-R-released"


def page_of(out: Path) -> str:
    return (out.parent / "docs" / "reproduction.md").read_text()


def chapter(text: str, title: str) -> str:
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_link_and_image_of_the_page_leads_somewhere(full: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", page_of(full))
    own = [target for target in targets if "/tests/" not in target]
    assert len(own) > 10
    for target in own:
        assert (full.parent / "docs" / target).exists(), target


def test_every_published_number_stands_above_ours_on_each_kind_of_data(full: Path) -> None:
    text = chapter(page_of(full), "In short")
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("| **NDR on R** | published |"))
    assert lines[at].endswith("| 1.00 ± 0.01 | 0.75 ± 0.27 | 8 of 25 |  |")
    assert [line.split(" | ")[1] for line in lines[at + 1 : at + 4]] == [
        "`released` with repeats",
        "`released`",
        "`paper`",
    ]
    assert lines[at + 3].endswith("| not run |  |  |  |")
    assert "|  | all three | not run |  |  |  |" in lines  # of the Transformer on A
    assert max(line.count(" | ") for line in lines) == 5  # it fits on a page


def test_the_verdicts_are_counted_for_each_kind_of_data(full: Path) -> None:
    points = [line for line in chapter(page_of(full), "In short").splitlines() if line.startswith("- **")]
    assert [point.split("**")[1] for point in points] == ["`released` with repeats", "`released`", "`paper`"]
    assert (
        "of 6 published OOD accuracies 1 reproduced (NDR on R), 1 higher (NDR on A) and 4 not run ("
        in points[0]
    )
    assert "1 lower (Bi-LSTM on A) and 5 not run (" in points[2]


def test_names_that_a_newcomer_may_misread_are_explained(full: Path) -> None:
    top = page_of(full).split("## In short")[0]
    assert (
        "`paper` and `released` name protocols of the data; hyper-parameters are those of the released code"
        in top
    )
    assert "*Published mean inside*: " in (full / "results.md").read_text().split("\n## ")[0]


def test_the_page_says_what_differs_and_asks_for_reasons(full: Path) -> None:
    text = chapter(page_of(full), "What differs, and why we think so")
    assert "**Bi-LSTM on A, paper: lower.** 0.80 ± 0.02 from 25 seeds, published 0.95 ± 0.03" in text
    assert "*The protocol?* It matters: with `released` it is" in text
    assert "IID accuracy is 1.00 ± 0.00, as published" in text


def test_the_page_says_what_repeated_sequences_do(full: Path) -> None:
    text = chapter(page_of(full), "Repeated function sequences")
    assert re.search(
        r"\*\*NDR on R, released\.\*\* They make no difference that so many seeds can show: .\d\.\d\d \(",
        text,
    )


def test_repeats_have_their_rows_in_the_tables_of_a_and_r(full: Path) -> None:
    text = chapter((full / "results.md").read_text(), "Models on A and R: OOD accuracy")
    assert re.search(
        r"\| NDR on R, released, repeated sequences \| 25 \| .* \| 0\.75 ± 0\.27 \| yes \|", text
    )


def test_the_page_tells_variance_between_and_within_tables(full: Path) -> None:
    text = chapter(page_of(full), "How much the function table matters")
    assert "| NDR on R, released | 3 | 25, 5, 5 |" in text
    assert re.search(
        r"The table matters \(p [<=] 0\.0\d+\): the means are \d\.\d\d \(25 seeds\), \d\.\d\d \(5 seeds\) and",
        text,
    )


def test_the_page_holds_the_grid_of_s_against_what_the_paper_says(full: Path) -> None:
    text = chapter(page_of(full), "Variant S")
    assert "1.00 with 16 and 6, in 2 of 20 cells so far | undecided" in text
    ours = "−0.80 (−0.80 to −0.80), in 1 of 5 cells so far | undecided |"
    assert f"| Bi-LSTM below the NDR with 16 shared functions | {ours}" in text
    assert "Transformer above" not in text  # has not run


def test_the_page_tells_who_was_left_out(full: Path) -> None:
    text = chapter(page_of(full), "Which seeds count")
    assert "| Transformer on R, released | 0 | 3 | 2 |" in text


def test_the_page_names_the_seeds_of_the_similarity_figures(full: Path) -> None:
    text = chapter(page_of(full), "Inside the NDR")
    assert text.count("NDR on R, released, seed ") == 2
    assert text.count("NDR on A, released, seed ") == 1
    assert "![Similarity matrices of 3 seeds](" in text


def test_what_is_missing_is_said_with_its_cost(full: Path) -> None:
    text = chapter(page_of(full), "What has not been run yet")
    assert "of 940 planned seeds have run; the rest takes about" in text
    assert re.search(r"\| A and R \| Transformer \| paper \| 0 of 2 \| 0 of 100 \| \d+ h \d+ min \|", text)
    assert "5 of 25" not in page_of(full).split("## In short")[0]
    assert "20 of 25 seeds to come" in page_of(full)  # of NDR on A
    assert (
        "| `transformer-R-released` | table1, repeats | 300,000 | 50 | 30 | 30 – 49 |"
        in (full / "results.md").read_text()
    )


def test_runs_of_the_miniature_are_compared_with_nothing(tmp_path: Path) -> None:
    (cell,) = plan("table1", "quick", only=["ndr-R-released-quick"])
    make_piece(tmp_path, cell, [0.5, 0.9])
    write_results(tmp_path)
    write_page(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "Not compared: 6 functions, 3 symbols, " in text
    assert "No run is of the paper's size and settings" in text
    assert "two CPU cores" in text
    assert "hyper-parameters are those of the preset `quick` in both." in text
    assert "Published mean inside" not in (tmp_path / "results.md").read_text()
    for page in ("page.md", "results.md"):
        assert (tmp_path / page).read_text().splitlines()[2].startswith("> **This is a miniature**: ")


def test_one_seed_alone_stands_for_one_figure_and_is_not_called_what_it_is_not(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.4], analysed=True)
    figures = write_results(tmp_path).figures
    write_page(tmp_path, tmp_path / "page.md")
    assert "similarity-success-R.png" in figures
    assert "similarity-failure-R.png" not in figures
    assert "No seed on R is above 0.95: shown is the best." in (tmp_path / "page.md").read_text()


def test_a_run_that_nobody_looked_into_is_shown_as_that(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.4, 0.5], analysed=True)
    make_piece(tmp_path, NAME, [0.6], first=2)
    write_results(tmp_path)
    lines = (tmp_path / "results.md").read_text().splitlines()
    states = {
        line.split("`")[1]: line.split("|")[-2].strip() for line in lines if line.startswith(f"| `{NAME}/")
    }
    assert states == {f"{NAME}/0-1": "finished", f"{NAME}/2-2": "finished, not analysed"}


def test_a_cell_in_which_no_seed_converged_has_rows_figures_and_a_line_on_the_page(tmp_path: Path) -> None:
    make_piece(tmp_path, "transformer-R-released", [0.1, 0.2], iid=0.2)
    assert "table1.png" in write_results(tmp_path).figures
    write_page(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| Transformer on R, released | 0 | 2 | 0 | 0.15 ± 0.07 (2 seeds) |" in text
    assert (
        "| – | undecided, no seed counts; 2 left out (IID ≤ 0.5, or beyond 25); 48 of 50 seeds to come |"
        in text
    )


def test_a_reproduced_ood_accuracy_beside_an_iid_accuracy_that_is_not_says_so(tmp_path: Path) -> None:
    make_piece(tmp_path, "ndr-A-paper", [0.2, 0.3, 0.5] * 8 + [0.36], iid=0.8)
    write_results(tmp_path)
    write_page(tmp_path, tmp_path / "page.md")
    text = chapter((tmp_path / "page.md").read_text(), "In short")
    assert "| 0 of 25 | undecided: −0.01, but IID is **lower** |" in text
    assert "1 undecided (NDR on A)" in text


def test_what_was_asked_for_under_another_protocol_is_on_the_page(tmp_path: Path) -> None:
    for cell in plan("staged", "quick", protocol="paper", only=["lstm/S"]):
        make_piece(tmp_path, cell, [0.5, 0.7])
    for cell in plan("tables", "quick", protocol="paper", only=["ndr/R"]):
        make_piece(tmp_path, cell, [0.5, 0.7])
    written = write_results(tmp_path)
    write_page(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert written.seeds == 8
    assert "staged.png" in written.figures
    assert "**This is a miniature**" in text
    assert "Bi-LSTM, paper:" in chapter(text, "Variant S")
    assert "| NDR on R, paper, preset quick | 2 | 2, 2 |" in chapter(
        text, "How much the function table matters"
    )


def test_a_single_seed_has_a_mean_and_nothing_that_needs_two(tmp_path: Path) -> None:
    make_piece(tmp_path, NAME, [0.5])
    make_piece(tmp_path, "ndr-R-released-seed1", [0.7])
    write_results(tmp_path)
    write_page(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| 0.50 | 0 of 1 | undecided with 1 seed; 24 of 25 seeds to come |" in text
    assert "Too few seeds on these tables so far." in text
