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

Command = Callable[..., Any]
COMMANDS = [*entry.COMMANDS, "bench data", "bench train"]


def test_help_is_quick() -> None:
    def processor_seconds() -> float:  # unlike the clock, they do not depend on what else the machine does
        before = os.times()
        subprocess.run([sys.executable, "-m", "ctlpp", "--help"], check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(processor_seconds() for _ in range(3)) < 0.5


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


LOADED = """
import sys
from ctlpp.cli.main import main
sys.argv = ["ctlpp", *{arguments}]
try:
    main()
finally:
    loaded = {modules} & set(sys.modules)
    assert not loaded, loaded
"""


@pytest.mark.parametrize(
    ("arguments", "modules"),
    [
        (["--help"], {"torch", "pyarrow", "numpy", "scipy", "matplotlib"}),
        (["report", "--help"], {"ctlpp.cli.data", "ctlpp.cli.train", "ctlpp.cli.reproduce"}),
    ],
)
def test_help_loads_no_heavy_library_and_a_command_no_other(arguments: list[str], modules: set[str]) -> None:
    done = run_python(LOADED.format(arguments=arguments, modules=modules))
    assert done.returncode == 0, done.stderr
    assert "Usage: ctlpp" in done.stdout


BUSY = """
import sys, threading, torch
from ctlpp.cli.main import program

def compute():
    square = torch.ones(300, 300)
    while True:
        square @ square

threading.Thread(target=compute, daemon=True).start()
sys.argv = ["ctlpp", "--version"]
program()
"""


def test_threads_that_still_compute_do_not_abort_a_command_that_is_done() -> None:
    done = run_python(BUSY)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ctlpp {ctlpp.__version__}\n", "")


LATE = """
import atexit, os, signal, sys
import ctlpp.cli.main as cli

def work(main=cli.main):
    atexit.register(os.kill, os.getpid(), signal.{name})
    main()

cli.main, sys.argv = work, ["ctlpp", "--version"]
cli.program()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_that_comes_after_the_work_leaves_no_traceback(name: str) -> None:
    done = run_python(LATE.format(name=name))
    assert (done.returncode, done.stderr) == (-getattr(signal, name), "")
    assert done.stdout == f"ctlpp {ctlpp.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen_and_shows_an_example(
    command: Command, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    done = command(name, "--help")
    assert done.code == 0
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 100
    body = done.out.partition("Usage:")[2].partition("\n")[2]
    assert f"ctlpp {name}" in " ".join(body.split())
    assert "<bool>" not in body.lower()


@pytest.mark.parametrize("arguments", ["", "--help"])
def test_the_main_help_names_every_command(command: Command, arguments: str) -> None:
    done = command(arguments)
    assert (done.code, done.err) == (0, "")
    words = done.out.split()
    assert {*entry.COMMANDS} <= {*words}
    assert "124 the minutes allowed are over" in " ".join(words)


@pytest.mark.skipif(os.name == "nt", reason="no such signals")
@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "ended by SIGTERM; nothing is left half written"),
    ],
)
def test_a_command_that_is_stopped_says_so_in_one_line_and_leaves_nothing_behind(
    tmp_path: Path, number: int, code: int, line: str
) -> None:
    arguments = "-m ctlpp generate A --protocol clean --train 3000000 --functions 64 --out deep/data"
    command = [sys.executable, *arguments.split()]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True)
    while not list(tmp_path.glob("deep/.data.*.part/train.parquet")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(number)
    assert (process.communicate(), process.returncode) == (("", f"ctlpp: {line}\n"), code)
    assert not list(tmp_path.iterdir())


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
