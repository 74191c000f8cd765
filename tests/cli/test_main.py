"""How `ctlpp` starts, helps, stops and fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

import ctlpp
from ctlpp.cli import main as entry
from ctlpp.files import TimeUp

Command = Callable[..., Any]
COMMANDS = [
    *("generate", "check", "show", "train", "evaluate", "analyze", "report", "models"),
    *("bench", "bench data", "bench train"),
]


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_is_quick() -> None:
    def processor_seconds() -> float:  # unlike the clock, they do not depend on what else the machine does
        before = os.times()
        subprocess.run([sys.executable, "-m", "ctlpp", "--help"], check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(processor_seconds() for _ in range(3)) < 0.5


def test_help_needs_neither_torch_nor_the_other_heavy_libraries() -> None:
    code = """
import sys
from ctlpp.cli.main import main
sys.argv = ["ctlpp", "--help"]
try:
    main()
finally:
    loaded = {"torch", "pyarrow", "numpy", "scipy", "matplotlib"} & set(sys.modules)
    assert not loaded, loaded
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert "Usage: ctlpp" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_shows_an_example(command: Command, name: str) -> None:
    done = command(*name.split(), "--help")
    assert done.code == 0
    body = done.out.partition("Usage:")[2].partition("\n")[2]
    assert f"ctlpp {name}" in " ".join(body.split())
    assert "<bool>" not in body.lower()


def test_the_main_help_names_every_command(command: Command) -> None:
    done = command("--help")
    for name in COMMANDS:
        assert name.split()[0] in done.out


def test_without_arguments_the_help_is_shown(command: Command) -> None:
    done = command()
    assert (done.code, done.err) == (0, "")
    assert "Usage: ctlpp" in done.out


def test_the_version_is_printed(command: Command) -> None:
    assert command("--version").out == f"ctlpp {ctlpp.__version__}\n"


def test_an_interrupted_command_exits_with_130(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ctlpp.storage.proof.check", interrupt)
    done = command("check", "data")
    assert (done.code, done.out, done.err) == (130, "", "ctlpp: interrupted\n")


def test_the_end_of_the_allowed_time_has_an_exit_code_of_its_own(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise TimeUp("the time is up; go on with: ctlpp check data")

    monkeypatch.setattr("ctlpp.storage.proof.check", stop)
    done = command("check", "data")
    assert (done.code, done.err) == (124, "ctlpp: the time is up; go on with: ctlpp check data\n")
    assert "124 the minutes allowed are over" in " ".join(command("--help").out.split())


@pytest.mark.skipif(os.name == "nt", reason="no SIGTERM")
def test_sigterm_is_told_in_one_line_and_leaves_nothing_behind(tmp_path: Path) -> None:
    asked = "-m ctlpp generate A --protocol clean --train 3000000 --functions 64 --out deep/data"
    command = [sys.executable, *asked.split()]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True)
    while not list(tmp_path.glob("deep/.data.*.part/train.parquet")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    line = "ctlpp: ended by SIGTERM; nothing is left half written\n"
    assert (process.communicate(), process.returncode) == (("", line), 143)
    assert not list(tmp_path.iterdir())


def test_a_bug_of_ours_keeps_its_traceback(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object, **__: object) -> None:
        int("seven")  # a ValueError that is nobody's mistake but ours

    monkeypatch.setattr("ctlpp.storage.proof.check", stumble)
    with pytest.raises(ValueError, match="invalid literal"):
        command("check", "data")


def test_a_message_of_several_lines_becomes_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        entry.fail("one\n  two")
    assert end.value.code == 2
    assert capsys.readouterr().err == "ctlpp: one two\n"


def test_a_reader_who_has_seen_enough_causes_no_traceback() -> None:
    code = f"{sys.executable} -m ctlpp show S | head -n 1"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("S: 32 functions")
    assert done.stderr == ""
