"""What commands print fits 80 columns and ends with what to do next."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.plans.small import DATA as TINY

from ctlpp.cli import output
from ctlpp.cli.output import TrainingDisplay, fill
from ctlpp.runs.history import StepStats

DATA = "--protocol clean --symbols 4 --functions 8 --max-length 4 --fill 0.9 --train 2200 --iid 200 --ood 400"
COMMANDS = (  # as a newcomer would type them, one after the other
    f"generate R {DATA} --out data/R",
    "check data/R",
    "show S",
    "show data/R",
    "train lstm data/R --preset quick --steps 2 --eval-every 1 --seeds 2 --out runs/a-name-that-is-long",
    "evaluate runs/a-name-that-is-long --data data/R",
    "analyze runs/a-name-that-is-long",
    "report runs --out report.html",
    "models",
    "ask data/R --limit 2 --out questions",
    "reproduce all --plan --out results",
    "reproduce all --plan --scale quick --out results",
    "reproduce table1 --scale quick --only lstm-R-clean-quick --seeds 7-7 --device cpu --out small",
    "demo --seeds 1 --steps 2",
    "sweep file.toml --out sweeps/a-name-that-is-long --device cpu --workers 1 --plan",
    "sweep file.toml --out sweeps/a-name-that-is-long --device cpu --workers 1",
    "compare sweeps/a-name-that-is-long/lstm-R-steps2-warmup1-lr0.001 runs/a-name-that-is-long",
)
SWEEP = """
[sweep]
models = ["lstm"]
variants = ["data/R"]
seeds = 2
preset = "quick"
[sweep.grid]
steps = 2
warmup = 1
lr = [1e-3, 3e-3]
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str, str]]]:
    """Output and errors of every command, 80 columns wide."""
    from ctlpp.cli.main import main
    from ctlpp.reproduce import plan

    seen = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("newcomer"))
        patch.setenv("COLUMNS", "80")
        quick = plan.SCALES["quick"]
        patch.setitem(quick.small, "R", dict(TINY))
        patch.setitem(quick.steps, "lstm", 2)
        Path("file.toml").write_text(SWEEP)
        for command in COMMANDS:
            out, err = io.StringIO(), io.StringIO()
            patch.setattr(sys, "argv", ["ctlpp", *command.split()])
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            main()
            seen[command] = (out.getvalue(), err.getvalue())
        yield seen


@pytest.mark.parametrize("command", COMMANDS)
def test_the_output_fits_80_columns_and_names_the_next_step(
    said: dict[str, tuple[str, str]], command: str
) -> None:
    out, err = said[command]
    assert [line for line in (out + err).splitlines() if len(line) > 80] == []
    last = [line for line in out.splitlines() if not line.startswith("    ")][-1]
    assert last.startswith("Next: ")


def test_every_next_step_that_is_a_command_is_understood(
    said: dict[str, tuple[str, str]], command: Callable[..., Any]
) -> None:
    for out, _ in said.values():
        step = out.partition("Next: ")[2].replace("\\\n", "")
        if step.startswith("ctlpp "):
            assert command(f"{step.split()[1]} --help").code == 0


def test_the_plan_of_the_whole_paper_is_a_screen_with_hints(said: dict[str, tuple[str, str]]) -> None:
    out, _ = said["reproduce all --plan --out results"]
    assert len(out.splitlines()) <= 30
    assert "--scale quick" in out
    assert "H200" in out


@pytest.mark.parametrize("width", [20, 40, 80])
def test_sentences_are_broken_between_words(width: int) -> None:
    text = "Every output is right; every example is in its graph.\n  runs/with-a-long-name-kept-whole"
    lines = fill(text, width).splitlines()
    assert " ".join(lines).split() == text.split()
    assert all(len(line) <= width or len(line.split()) == 1 for line in lines)


def test_a_log_says_speed_and_end_within_the_first_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(output, "monotonic", lambda: now)
    log = io.StringIO()
    display = TrainingDisplay("ndr on R", Console(file=log, width=80))
    display.on_start({"parameters": 1000, "recipe": {"steps": 80_000}}, 0)
    for _ in range(120):  # a minute, two reports a second
        now += 0.5
        speed = {"steps_per_second": 20.0, "rate": 1e-3, "losses": (), "norms": (), "diverged": ()}
        display.on_step(StepStats(step=int(20 * now), steps=80_000, **speed))  # type: ignore[arg-type]
    lines = [line for line in log.getvalue().split("ndr on R: ") if "steps/s" in line]
    assert len(lines) == 1
    assert "20.0 steps/s" in lines[0]
    assert "left (until " in lines[0]
