"""How Sphinx builds the site (`make docs`). Pages are Markdown that reads well on GitHub, too."""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

import ctlpp

DOCS = Path(__file__).parent
ROOT = DOCS.parent
SOURCE = os.environ.get(
    "CTLPP_SOURCE", ""
)  # address of the repository's files; by default they are beside the site
REPORT = os.environ.get(
    "CTLPP_REPORT", "_build/report"
)  # folder with the page of `ctlpp report results/runs`

project = "ctlpp"
author = "The ctlpp authors"
version = release = ctlpp.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
default_role = "code"  # docstrings write `code`
suppress_warnings = ["toc.empty_glob"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
html_theme = "furo"
html_title = f"ctlpp {version}"
html_extra_path = [REPORT] if (DOCS / REPORT).exists() else []
html_copy_source = False

LINK = re.compile(r"(?<!!)(\[[^\]]*\])\(((?:\.\./)+[^)#\s]*)(#[^)]*)?\)")


def point_outside(app: Sphinx, docname: str, source: list[str]) -> None:
    """Let links that leave `docs/` lead to the repository's files; the report page is part of the site."""

    def rewrite(link: re.Match[str]) -> str:
        words, target, anchor = link.groups()
        path = Path(os.path.normpath(DOCS / docname / ".." / target))
        if path.is_relative_to(DOCS):
            return link[0]
        up = "../" * docname.count("/")
        if path == ROOT / "results" / "report.html":
            return f'<a href="{up}report.html">{words[1:-1]}</a>'
        base = SOURCE or Path(os.path.relpath(ROOT, app.outdir / docname / "..")).as_posix()
        return f'<a href="{base}/{path.relative_to(ROOT).as_posix()}{anchor or ""}">{words[1:-1]}</a>'

    source[0] = LINK.sub(rewrite, source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", point_outside)
