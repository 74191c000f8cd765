"""Files of a dataset folder that are damaged, missing, or not what task.json says."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ctlpp.storage.folder import load
from ctlpp.storage.proof import check

Folders = Callable[..., Path]


def assert_refused(folder: Path, text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        check(folder)
    assert str(folder) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("format", ["parquet", "jsonl", "text"])
@pytest.mark.parametrize("damage", ["truncated", "emptied", "removed", "a folder", "noise"])
def test_a_damaged_file_is_named(copies: Folders, format: str, damage: str) -> None:
    folder = copies("A", format=format)
    (path,) = folder.glob("train.*")
    content = path.read_bytes()
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    elif damage != "removed":
        kept = {"truncated": content[: len(content) // 2], "emptied": b"", "noise": bytes(range(256))}
        path.write_bytes(kept[damage])
    for read in (check, load):
        with pytest.raises(
            ValueError, match=r"train\.\w+(: the file is (damaged|missing)| has \d+ rows)"
        ) as caught:
            read(folder)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("format", ["parquet", "jsonl", "text"])
def test_changed_bytes_are_refused_in_one_line_or_change_no_row(copies: Folders, format: str) -> None:
    folder = copies("A", format=format)
    (path,) = folder.glob("ood.*")
    content, random = path.read_bytes(), Random(0)
    for _ in range(60):
        edited = bytearray(content)
        for _ in range(random.choice([1, 2, 8])):
            edited[random.randrange(len(edited))] = random.randrange(256)
        path.write_bytes(edited[: random.choice([None, None, random.randrange(len(edited))])])
        try:
            check(folder)
        except ValueError as error:
            assert str(folder) in str(error)  # noqa: PT017
            assert len(str(error).splitlines()) == 1  # noqa: PT017


@pytest.mark.parametrize("change", [b"\n", b"\r\n", b"\xef\xbb\xbf"], ids=["a blank line", "CRLF", "BOM"])
def test_a_text_file_with_the_same_rows_but_other_bytes_is_caught(copies: Folders, change: bytes) -> None:
    folder = copies("A", format="text")
    content = (folder / "train.txt").read_bytes()
    edited = {
        b"\n": content + b"\n",
        b"\r\n": content.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf": change + content,
    }
    (folder / "train.txt").write_bytes(edited[change])
    assert_refused(folder, r"train\.txt does not have the sha256 in task\.json: the file was changed")


def test_a_stray_file_is_named(copies: Folders) -> None:
    folder = copies("A")
    shutil.copy(folder / "ood.parquet", folder / "validation.parquet")
    assert_refused(folder, r"validation\.parquet: task\.json does not list this file; remove it")


@pytest.mark.parametrize("change", ["removed", "another file"])
def test_a_card_that_leads_to_other_files_is_caught(copies: Folders, change: str) -> None:
    card = copies("A") / "README.md"
    if change == "removed":
        card.unlink()
    else:
        card.write_text(
            card.read_text(encoding="utf-8").replace('"ood.parquet"', '"iid.parquet"'), encoding="utf-8"
        )
    assert_refused(card.parent, r"README\.md: its header does not name the files of task\.json")


def test_a_note_in_the_card_is_welcome(copies: Folders) -> None:
    card = copies("A") / "README.md"
    card.write_text(card.read_text(encoding="utf-8") + "\n- split: mine\n  path: x\n", encoding="utf-8")
    check(card.parent)


def test_loading_checks_the_sums(copies: Folders) -> None:
    folder = copies("A", format="text")
    path = folder / "iid.txt"
    path.write_bytes(path.read_bytes().replace(b"\t0\n", b"\t1\n", 1))
    with pytest.raises(
        ValueError, match=r"iid\.txt does not have the sha256 in task\.json: the file was changed"
    ):
        load(folder)
