"""The documentation is true: commands and Python run, in order, in an empty folder; links lead on."""

import os
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    (ctlpp .*)$", re.MULTILINE)


def steps(text: str) -> list[tuple[str, str]]:
    """What a reader would type, in order: ("python", code) or ("sh", command)."""
    found = []
    for block in BLOCK.finditer(text):
        if block[1] == "python":
            found.append((block.start(), "python", block[2]))
        elif block[1] == "sh":
            found += [(block.start(), "sh", line) for line in block[2].splitlines() if line]
    without_blocks = BLOCK.sub(lambda block: " " * len(block[0]), text)
    found += [(line.start(), "sh", line[1]) for line in INDENTED.finditer(without_blocks)]
    return [(kind, code) for _, kind, code in sorted(found, key=lambda step: step[0])]


def page_name(page: Path) -> str:
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_what_a_page_tells_to_type_works(page: Path, tmp_path: Path) -> None:
    if "from datasets import" in page.read_text():
        pytest.importorskip("datasets")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {
        "PATH": path,
        "OMP_NUM_THREADS": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HOME": str(tmp_path),
    }
    python = ""
    for kind, codes in groupby(steps(page.read_text()), key=lambda step: step[0]):
        if kind == "python":
            python += "\n".join(code for _, code in codes)  # later blocks use the names of earlier ones
            commands = [[sys.executable, "-c", python]]
        else:
            ours = f'ctlpp() {{ {sys.executable} -m ctlpp "$@"; }}; '  # also where it is not installed
            commands = [["bash", "-c", ours + code] for _, code in codes]
        for command in commands:
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command[-1]}\n{done.stderr}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=page_name)
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_readme_names_every_command_and_every_folder() -> None:
    from ctlpp.cli.main import app

    text = (ROOT / "README.md").read_text()
    for command in app.registered_commands:
        assert command.callback is not None
        assert f"`ctlpp {command.callback.__name__}" in text
    for folder in (ROOT / "src" / "ctlpp").iterdir():
        if folder.is_dir() and any(folder.glob("*.py")):
            assert f"  {folder.name}/ " in text
