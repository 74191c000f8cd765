"""The documentation is true: commands and Python run, in an empty folder, and print what stands there."""

import os
import re
import shlex
import subprocess
import sys
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
DOCS = sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)
PAGES = [ROOT / "README.md", *DOCS]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    (ctlpp .*)$", re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.\d+")
AFTER = "\x1e"  # printed after each block
ROOM = 0.15  # other processors add in another order, and training amplifies it


class Step(NamedTuple):
    """What a reader would type, and what the page says that it prints ("" for nothing said)."""

    at: int
    kind: str  # "python" or "sh"
    code: str
    shown: str = ""


def steps(text: str) -> list[Step]:
    """All of them, in order."""
    found = []
    for block, after in pairwise([*BLOCK.finditer(text), None]):
        if block and block[1] in ("python", "sh"):
            prints = after and after[1] == "text" and not text[block.end() : after.start()].strip()
            found.append(Step(block.start(), block[1], block[2], after[2] if after and prints else ""))
    without_blocks = BLOCK.sub(lambda block: " " * len(block[0]), text)
    found += [Step(line.start(), "sh", line[1]) for line in INDENTED.finditer(without_blocks)]
    return sorted(found)


def alike(printed: str, shown: str) -> bool:
    """The same words and whole numbers, and nearly the same others."""
    if NUMBER.sub("#", printed).split() != NUMBER.sub("#", shown).split():
        return False
    both = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
    return all(abs(float(one) - float(other)) <= ROOM for one, other in both)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_tells_to_type_works_and_prints_what_stands_there(
    page: Path, preloaded: list[str], tmp_path: Path
) -> None:
    if "from datasets import" in page.read_text():
        pytest.importorskip("datasets")
    for name in ("examples", "results"):
        (tmp_path / name).symlink_to(ROOT / name)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_DATASETS_OFFLINE": "1", "HOME": str(tmp_path)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ours = f'set -e; ctlpp() {{ {shlex.join(preloaded)} "$@"; }}; '  # also where it is not installed
    program = ""
    for kind, group in groupby(steps(page.read_text()), key=lambda step: step.kind):
        part = [*group]
        if kind == "python":  # later blocks use the names of earlier ones
            before = program.count(AFTER)
            program += "".join(f'{step.code}\nprint("{AFTER}")\n' for step in part)
            command = [*preloaded, "-c", program]
        else:
            before = 0
            command = ["bash", "-c", ours + "".join(f"{step.code}\necho '{AFTER}'\n" for step in part)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{part}\n{done.stderr}"
        for step, printed in zip(part, done.stdout.split(AFTER)[before:], strict=False):
            assert not step.shown or alike(printed, step.shown), f"{step.code}\nprints\n{printed}"


def test_every_link_within_the_repository_leads_somewhere() -> None:
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and target != "../../results/report.html":  # made by `make docs`
                assert (page.parent / target).exists(), (page, target)


def test_readme_and_architecture_name_every_command_and_every_folder() -> None:
    from ctlpp.cli.main import make_app

    readme = (ROOT / "README.md").read_text()
    for command in make_app().registered_commands:
        assert command.callback is not None
        assert f"`ctlpp {command.callback.__name__}" in readme
    tree = (ROOT / "docs" / "project" / "architecture.md").read_text()
    for folder in (ROOT / "src" / "ctlpp").iterdir():
        if folder.is_dir() and any(folder.glob("*.py")):
            assert f"  {folder.name}/ " in tree


def test_the_readme_is_short_and_plain() -> None:
    text = (ROOT / "README.md").read_text()
    prose = re.sub(r"\]\([^)]*\)", "]", BLOCK.sub("", text))
    assert len(text.splitlines()) <= 120
    assert max(map(len, text.splitlines())) <= 100
    assert len(re.findall(r"[A-Za-z][\w'-]*", prose)) <= 600


def test_prose_is_wrapped() -> None:
    apart = ("|", "![", "    ", "<!--")  # tables, figures, commands, and what stands for generated text
    for page in (*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"):
        if page.name != "reproduction.md":
            lines = [
                line for line in BLOCK.sub("", page.read_text()).splitlines() if not line.startswith(apart)
            ]
            assert [line for line in lines if len(line) > 100] == [], page


def sentences(text: str) -> list[str]:
    """The sentences of a page, without code, tables, links' targets and headings."""
    prose = re.sub(r"\]\([^)]*\)", "]", BLOCK.sub("", text))
    kept = [line for line in prose.splitlines() if not line.startswith(("|", "#", "    ", "<", "![", ">"))]
    paragraphs = re.split(r"\n\s*\n|\n(?=- )", "\n".join(kept))
    return [sentence for part in paragraphs for sentence in re.split(r"(?<=[.?!:])\W*\s", part)]


def test_no_sentence_is_longer_than_thirty_words() -> None:
    pages = [page for page in PAGES if page.name != "reproduction.md"]  # that one comes from a template
    long = [one for page in pages for one in sentences(page.read_text()) if len(one.split()) > 30]
    assert long == []
