"""How Sphinx builds the site (`make docs`). Pages are Markdown that reads well on GitHub, too."""

import os
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import ctlpp

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))
import generated  # noqa: E402

SOURCE = os.environ.get("CTLPP_SOURCE", "")  # address of the repository's files; by default beside the site
REPORT = os.environ.get("CTLPP_REPORT", "_build/report")  # folder of the page of `ctlpp report results/runs`

project = "ctlpp"
author = copyright = "The ctlpp authors"
version = release = ctlpp.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", generated.REPRODUCTION]  # its sections are pages of results/
default_role = "code"  # docstrings write `code`
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_use_legacy_class_based = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
autodoc_preserve_defaults = True
add_module_names = False
toc_object_entries = False
html_theme = "furo"
html_title = f"ctlpp {version}"
html_extra_path = [REPORT] if (DOCS / REPORT).exists() else []
html_static_path, html_css_files = ["_static"], ["site.css"]
html_copy_source = False

LINK = re.compile(r"(?<!!)(\[[^\]]*\])\(((?:\.\./)+[^)#\s]*)(#[^)]*)?\)")


def read_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Fill in what is generated, and let links that leave `docs/` lead to the repository's files."""
    source[0] = LINK.sub(
        lambda link: lead(app, docname, *link.groups("")), generated.fill(source[0], docname)
    )


def lead(app: Sphinx, docname: str, words: str, target: str, anchor: str) -> str:
    """A link where it leads on the site; the report page is part of it."""
    path, up = Path(os.path.normpath(DOCS / docname / ".." / target)), "../" * docname.count("/")
    if path == DOCS / generated.REPRODUCTION:
        return f"{words}({up}{generated.homes().get(anchor[1:], 'results/index.md')})"
    if path.is_relative_to(DOCS):
        return f"{words}({target}{anchor})"
    if path == ROOT / "results" / "report.html":
        return f'<a href="{up}report.html">{words[1:-1]}</a>'
    base = SOURCE or Path(os.path.relpath(ROOT, app.outdir / docname / "..")).as_posix()
    return f'<a href="{base}/{path.relative_to(ROOT).as_posix()}{anchor}">{words[1:-1]}</a>'


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", read_source)
