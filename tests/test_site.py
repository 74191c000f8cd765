"""The documentation site: it builds without a warning, and every link within it leads somewhere."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import ctlpp

ROOT = Path(__file__).parents[1]


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """Every page of the site by its file."""
    for library in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(library)
    folder = tmp_path_factory.mktemp("site")
    (folder / "report").mkdir()
    (folder / "report" / "report.html").write_text("<title>in place of the report</title>")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "-b", "html"]
    command += ["-d", str(folder / "trees"), str(ROOT / "docs"), str(folder / "html")]
    environment = os.environ | {"CTLPP_REPORT": str(folder / "report"), "CTLPP_SOURCE": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {file: Page(file) for file in (folder / "html").rglob("*.html")}


def test_every_link_within_the_site_and_to_the_repository_leads_somewhere(site: dict[Path, Page]) -> None:
    dangling = []
    for file, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                assert not link.endswith((".js", ".css")), "no page loads anything from elsewhere"
                continue
            target = Path(os.path.normpath(file.parent / unquote(parts.path))) if parts.path else file
            anchors = site[target].anchors if target in site else {parts.fragment}
            if not target.exists() or (parts.fragment and parts.fragment not in anchors):
                dangling.append((file.name, link))
    assert dangling == []


def test_the_reference_has_every_public_name_and_every_command(site: dict[Path, Page]) -> None:
    from ctlpp.cli.main import make_app

    page = next(page for file, page in site.items() if file.parts[-2:] == ("reference", "python.html"))
    public = [name for name in ctlpp.__all__ if not name.startswith("__")]
    assert [name for name in public if f"ctlpp.{name}" not in page.anchors] == []
    page = next(page for file, page in site.items() if file.name == "command-line.html")
    names = {command.callback.__name__ for command in make_app().registered_commands if command.callback}
    assert names <= {anchor.removeprefix("ctlpp-") for anchor in page.anchors}
