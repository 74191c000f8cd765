"""When a dataset folder cannot be written: one line, what stood there stays, and nothing half-written is left."""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctlpp.benchmark.dataset import Dataset
from ctlpp.cli import main as cli
from ctlpp.storage import writing
from ctlpp.storage.folder import save
from ctlpp.storage.proof import check

Folders = Callable[..., Path]


def everything_below(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder, hidden ones included."""
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


def test_an_existing_folder_is_left_alone(small: Callable[..., Dataset], copies: Folders) -> None:
    folder = copies("A")
    before = everything_below(folder.parent)
    with pytest.raises(
        ValueError, match="exists already; choose another folder, or say --force to replace it"
    ):
        small("R").save(folder)
    assert everything_below(folder.parent) == before


def test_force_replaces_a_dataset_folder_and_nothing_else_remains(
    small: Callable[..., Dataset], copies: Folders
) -> None:
    folder = copies("A", format="jsonl")
    small("R").save(folder, force=True)
    assert check(folder).task.variant == "R"
    assert not list(folder.glob("*.jsonl"))
    assert [path.name for path in folder.parent.iterdir()] == ["data"]


def test_force_writes_into_an_empty_folder(small: Callable[..., Dataset], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    small("R").save(tmp_path / "data", force=True)
    check(tmp_path / "data")


@pytest.mark.parametrize(
    "kind", ["a folder with something else", "a file", "a link to a dataset", "a broken link"]
)
def test_force_does_not_replace_what_is_no_dataset_folder(
    small: Callable[..., Dataset], copies: Folders, kind: str, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    if kind == "a folder with something else":
        target.mkdir()
        (target / "thesis.tex").write_text("precious")
    elif kind == "a file":
        target.write_text("precious")
    else:
        target.symlink_to(copies("A") if "dataset" in kind else tmp_path / "nowhere")
    before = everything_below(tmp_path)
    line = {"a file": "is a file; choose a folder"}.get(
        kind, "is not a dataset folder, so it is not replaced; choose"
    )
    with pytest.raises(
        ValueError, match="is a link, so it is not replaced; choose" if "link" in kind else line
    ):
        small("R").save(target, force=True)
    assert everything_below(tmp_path) == before


@pytest.mark.parametrize("out", [".", "..", "../../data", "figures/.."])
@pytest.mark.parametrize("force", [True, False])
def test_the_folder_one_is_in_is_not_replaced(
    small: Callable[..., Dataset], copies: Folders, monkeypatch: pytest.MonkeyPatch, out: str, force: bool
) -> None:
    folder = copies("A")
    (folder / "figures" / "figures").mkdir(parents=True)
    monkeypatch.chdir(folder / "figures" if out.startswith("..") else folder)
    before = everything_below(folder.parent)
    line = f"{out} is the folder you are in or one above it, so it is not replaced; choose another folder"
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        small("R").save(Path(out), force=force)
    assert everything_below(folder.parent) == before


@pytest.mark.parametrize(
    ("out", "line"),
    [
        (".", ". is the folder you are in or one above it, so it is not replaced; choose another folder"),
        ("/", "/ is not a dataset folder, so it is not replaced; choose another folder"),
    ],
)
def test_a_folder_without_a_name_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], out: str, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["ctlpp", "generate", "R", "--train", "60", "--out", out, "--force"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"ctlpp: {line}\n"
    assert everything_below(tmp_path) == {}


def test_a_folder_may_be_named_by_way_of_others(small: Callable[..., Dataset], tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")
    for force in (False, True):
        small("R").save(tmp_path / "link" / ".." / "data", force=force)
        check(tmp_path / "real" / "data")
    assert sorted(path.name for path in tmp_path.rglob(".*")) == []


def test_the_old_folder_stays_if_the_new_one_cannot_be_written(
    small: Callable[..., Dataset], copies: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copies("A")
    before = everything_below(folder.parent)
    monkeypatch.setattr(writing, "dataset_card", lambda *_: fail(errno.ENOSPC))
    with pytest.raises(
        ValueError, match=r"cannot write .*: No space left on device; choose another folder or make room"
    ):
        small("R").save(folder, force=True)
    assert everything_below(folder.parent) == before


def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_place(
    small: Callable[..., Dataset], copies: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copies("A")
    before = everything_below(folder.parent)
    rename = Path.rename

    def fail_once(path: Path, target: Path) -> Path:
        return fail(errno.EIO) if path.name.endswith(".part") else rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_once)
    with pytest.raises(ValueError, match=r"cannot write .*: Input/output error"):
        small("R").save(folder, force=True)
    assert everything_below(folder.parent) == before


def test_an_interrupt_between_the_two_moves_brings_the_old_folder_back(
    small: Callable[..., Dataset], copies: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copies("A")
    before = everything_below(folder.parent)
    rename = Path.rename

    def interrupt_after(path: Path, target: Path) -> Path:
        moved = rename(path, target)
        if path == folder:
            raise KeyboardInterrupt
        return moved

    monkeypatch.setattr(Path, "rename", interrupt_after)
    with pytest.raises(KeyboardInterrupt):
        small("R").save(folder, force=True)
    assert everything_below(folder.parent) == before


def fail(number: int) -> Any:
    raise OSError(number, os.strerror(number))


def test_an_interrupt_leaves_nothing_behind(
    small: Callable[..., Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "dataset_card", interrupt)
    with pytest.raises(KeyboardInterrupt):
        small("R").save(tmp_path / "new" / "data")
    assert everything_below(tmp_path) == {}


@pytest.mark.parametrize("below", ["a file", "/proc", "a very long name"])
def test_a_place_where_nothing_can_be_written_is_named(
    small: Callable[..., Dataset], tmp_path: Path, below: str
) -> None:
    (tmp_path / "file").write_text("precious")
    places = {"a file": tmp_path / "file" / "deep" / "data", "/proc": Path("/proc/ctlpp/data")}
    folder = places.get(below, tmp_path / ("x" * 300))
    with pytest.raises(
        ValueError, match=r"^cannot write .*: .*; choose another folder( or make room)?$"
    ) as caught:
        small("R").save(folder)
    assert len(str(caught.value).splitlines()) == 1
    assert everything_below(tmp_path) == {"file": b"precious"}


@pytest.mark.parametrize("format", ["parquet", "jsonl", "text"])
def test_a_full_disk_leaves_nothing_behind(format: str, tmp_path: Path) -> None:
    """A process that may not write files above 20 kB."""
    program = f"""
import resource, signal
from pathlib import Path
from ctlpp.benchmark.dataset import generate
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    generate("A", train=30_000, iid=100, ood=100).save(Path("new/deep/data"), format={format!r})
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("cannot write new/deep/data: ")
    assert "File too large" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert everything_below(tmp_path) == {}


def test_of_two_writers_the_second_gives_way(
    small: Callable[..., Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small("R").save(tmp_path / "quicker")

    def be_overtaken(*_: object) -> str:
        (tmp_path / "quicker").rename(tmp_path / "data")
        return "card"

    monkeypatch.setattr(writing, "dataset_card", be_overtaken)
    with pytest.raises(ValueError, match=r"cannot write .*: Directory not empty"):
        small("A").save(tmp_path / "data")
    assert check(tmp_path / "data").task.variant == "R"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_an_unknown_format_is_named(small: Callable[..., Dataset], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown format 'csv': choose from parquet, jsonl, text"):
        save(small("R"), tmp_path / "data", format="csv")
    assert not list(tmp_path.iterdir())
