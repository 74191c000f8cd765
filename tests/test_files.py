"""Files and folders are written completely or not at all, and nothing else is ever replaced."""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ctlpp.files import FolderKind, UserError, check_folder, lock, make_folder, write_atomically, write_folder

BOX = FolderKind("a box", mark="box.txt")


def everything_below(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder, hidden ones included."""
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


def write_box(
    folder: Path, content: str = "new", *, force: bool = False, meanwhile: Callable[[], Any] = lambda: None
) -> None:
    with write_folder(BOX, folder, force=force) as place:
        (place / "box.txt").write_text(content)
        (place / "inside").mkdir()
        meanwhile()


def refused(line: str) -> AbstractContextManager[Any]:
    return pytest.raises(UserError, match=f"^{re.escape(line)}$")


@pytest.fixture
def box(tmp_path: Path) -> Path:
    write_box(tmp_path / "box", "old")
    return tmp_path / "box"


def test_force_replaces_a_folder_of_the_kind_or_an_empty_one(box: Path) -> None:
    before = everything_below(box.parent)
    with refused(f"{box} exists already: choose another folder, or replace it with force=True"):
        write_box(box)
    assert everything_below(box.parent) == before
    write_box(box, force=True)
    assert (box / "box.txt").read_text() == "new"
    (box.parent / "empty").mkdir()
    write_box(box.parent / "empty", force=True)
    assert sorted(path.name for path in box.parent.iterdir()) == ["box", "empty"]


def test_nothing_else_is_ever_replaced(box: Path) -> None:
    here = box.parent
    (here / "thesis").mkdir()
    (here / "thesis" / "thesis.tex").write_text("precious")
    (here / "file").write_text("precious")
    (here / "link").symlink_to(box)
    (here / "broken").symlink_to(here / "nowhere")
    before = everything_below(here)
    link = "is a link, so it is not replaced: choose another folder"
    said = {"thesis": "is not a box, so it is not replaced: choose another folder"}
    said |= {"file": "is a file: choose a folder", "link": link, "broken": link}
    for name, line in said.items():
        for force in (True, False):
            with refused(f"{here / name} {line}"):
                write_box(here / name, force=force)
    assert everything_below(here) == before


@pytest.mark.parametrize("out", [".", "..", "../../box", "inside/.."])
def test_the_current_folder_is_not_replaced(box: Path, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    (box / "inside" / "inside").mkdir()
    monkeypatch.chdir(box / "inside" if out.startswith("..") else box)
    before = everything_below(box.parent)
    with refused(f"{out} is the current folder or has it inside, so it is not replaced: choose another"):
        write_box(Path(out), force=True)
    assert everything_below(box.parent) == before


def test_a_folder_may_be_named_by_way_of_others(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")
    for force in (False, True):
        write_box(tmp_path / "link" / ".." / "box", force=force)
        assert (tmp_path / "real" / "box" / "box.txt").is_file()
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_while_writing_leaves_everything_as_it_was(box: Path, failure: BaseException) -> None:
    def fail() -> None:
        raise failure

    before = everything_below(box.parent)
    for folder in (box, box.parent / "new" / "deep"):
        with pytest.raises((UserError, KeyboardInterrupt)) as caught:
            write_box(folder, force=True, meanwhile=fail)
        line = f"cannot write {folder}: No space left on device; what was there before is unchanged: "
        assert str(caught.value).startswith(line if isinstance(failure, OSError) else "")
        assert everything_below(box.parent) == before


@pytest.mark.parametrize("moved", [True, False])
def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_place(
    box: Path, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    """A failure before the second of two renames, or an interrupt after the first."""
    before = everything_below(box.parent)
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if not moved and path.name.endswith(".part"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        result = rename(path, target)
        if moved and path == box:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises((UserError, KeyboardInterrupt)):
        write_box(box, force=True)
    assert everything_below(box.parent) == before


def test_a_place_where_nothing_can_be_written_is_named_also_beforehand(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    inside_file, proc, long = tmp_path / "file" / "deep" / "box", Path("/proc/ctlpp/box"), "x" * 250
    for folder in (inside_file, proc, tmp_path / long, tmp_path / (long * 2)):
        for attempt in (write_box, partial(check_folder, BOX, force=False)):
            with pytest.raises(UserError, match=r"^cannot write .*: [^\n]*choose another place$"):
                attempt(folder)
    with pytest.raises(UserError, match=r"^cannot make the folder .*; choose another$"):
        make_folder(inside_file)
    with pytest.raises(UserError, match=r"file: it is a file; choose another$"):
        make_folder(tmp_path / "file")
    assert everything_below(tmp_path) == {"file": b"precious"}


def test_of_two_writers_the_second_gives_way(box: Path) -> None:
    folder = box.parent / "wanted"
    with pytest.raises(UserError, match=r"cannot write .*: Directory not empty"):
        write_box(folder, "second", meanwhile=lambda: box.rename(folder))
    assert (folder / "box.txt").read_text() == "old"
    assert [path.name for path in folder.parent.iterdir()] == ["wanted"]


def test_what_a_killed_writer_has_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    program = f"""
import os
from pathlib import Path
from ctlpp.files import FolderKind, write_folder
with write_folder(FolderKind("a box", mark="box.txt"), Path("{tmp_path}/box[1]"), force=False) as place:
    (place / "box.txt").write_text("half")
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    (left,) = tmp_path.iterdir()
    assert left.suffix == ".part"
    (tmp_path / ".box[1].living.part").mkdir()
    with lock(tmp_path / ".box[1].living.part" / ".lock"):
        write_box(tmp_path / "box[1]")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".box[1].living.part", "box[1]"]
    assert sorted(path.name for path in (tmp_path / "box[1]").iterdir()) == ["box.txt", "inside"]


def test_a_full_disk_leaves_no_dataset_behind(tmp_path: Path) -> None:
    """A process that may not write files above 20 kB."""
    program = """
import resource, signal
from ctlpp import generate
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
data = generate("A", train=30_000, iid=100, ood=100)
for format in ("parquet", "jsonl", "text"):
    try:
        data.save("new/deep/data", format=format)
    except ValueError as error:
        print(error)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 3
    for line in done.stdout.splitlines():
        assert line.startswith("cannot write new/deep/data: ")
        assert "File too large" in line
    assert everything_below(tmp_path) == {}


def test_a_file_is_replaced_only_once_the_new_one_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deep" / "file"
    write_atomically(path, b"old")

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UserError, match=r"Input/output error; .*unchanged: make room"):
        write_atomically(path, b"new")
    assert everything_below(tmp_path) == {"deep": None, "deep/file": b"old"}
