"""An analysis that was made before the run went on is shown as what it is."""

from pathlib import Path

import torch
from tests.report.conftest import Open, make_run, outdate

from ctlpp.report.page import pack, write_report
from ctlpp.runs.checkpoint import save
from ctlpp.runs.folder import read_run


def test_an_analysis_made_before_the_end_says_so_and_what_renews_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    save(run / "checkpoint", 300, {"weights": torch.ones(2, 3)}, {})

    def stale() -> object:
        return pack(read_run(run, "run")).facts["inside"].get("stale")

    assert stale() is None
    outdate(run)
    old, renew = "This analysis is of step 164, not of the", "on this folder, then the report again."
    assert stale() == f"{old} end (step 300): `ctlpp analyze --force` {renew}"
    (run / "result.json").unlink()
    assert stale() == f"{old} last evaluation (step 300): `ctlpp analyze --unfinished --force` {renew}"
    for path in (run / "checkpoint").iterdir():
        path.unlink()
    assert stale() == f"{old} last evaluation (step 300): the run is unfinished and has no checkpoint yet."


def test_an_analysis_made_before_the_end_is_marked_wherever_it_is_shown(opened: Open, tmp_path: Path) -> None:
    outdate(make_run(tmp_path / "runs" / "old", (0.3, 1.0)))
    make_run(tmp_path / "runs" / "renewed", (0.4, 1.0))
    write_report([tmp_path / "runs"], tmp_path / "report.html")
    shown = opened(tmp_path / "report.html")
    shown.choose("choose-run", "0")
    assert shown.column(13) == ["analysed\nof step 164, not of the end (step 300)", "analysed"]
    note = "This analysis is of step 164, not of the end (step 300): its checkpoint was not kept"
    for place in ("#inside .stale", "#measures .stale"):
        assert shown.page.locator(place).count() == 1, "once for both seeds"
        assert shown.page.inner_text(place).startswith(note)
    shown.choose("choose-run", "1")
    assert shown.page.locator(".stale").count() == 0
    shown.choose("choose-other-run", "0")
    assert note in shown.page.locator(".who").nth(1).inner_text()
