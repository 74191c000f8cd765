"""Running a command as a user does, but within this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ctlpp.cli.main import main


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`command("generate A --out", path)` is `ctlpp generate A --out PATH` in an empty folder."""

    def run(*arguments: str | Path) -> Done:
        words = [word for one in arguments for word in ([str(one)] if isinstance(one, Path) else one.split())]
        monkeypatch.setattr(sys, "argv", ["ctlpp", *words])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        seen = capsys.readouterr()
        return Done(code, seen.out, seen.err)

    return run


@pytest.fixture
def refused(command: Command, tmp_path: Path) -> Callable[..., str]:
    """Run a command that must fail for the user's mistake; gives its one line without `ctlpp: `."""

    def run(*arguments: str | Path) -> str:
        before = sorted(tmp_path.rglob("*"))
        done = command(*arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("ctlpp: ")
        assert done.err.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before, "something was left behind"
        return done.err.removeprefix("ctlpp: ").removesuffix("\n")

    return run
