"""The text of a page: self-contained, and nothing from a file is anything but text."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.report.conftest import make_run

from ctlpp.report.describing import describe
from ctlpp.report.page import embedded, make_page
from ctlpp.runs.folder import RunRecord, find_runs

HOSTILE = "</script><img src=x onerror=alert(1)><!--<script>"


class Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))


@pytest.mark.parametrize(
    ("task", "draw"),
    [
        ({}, []),
        ({"seed": 0, "recipe": {"train": 100}}, []),
        (
            {"seed": 1, "recipe": {"distinct_sequences": "n/7"}},
            ["repeated sequences n/7", "function table 1"],
        ),
        (
            {"seed": 2, "recipe": {"distinct_sequences": 3000}},
            ["repeated sequences 3000", "function table 2"],
        ),
        ({"shared_functions": 16, "shared_symbols": 1}, ["16 shared functions", "1 shared symbol"]),
        ({"shared_functions": None, "shared_symbols": "6"}, []),
        ({"seed": "1", "recipe": {"distinct_sequences": [7]}}, []),
    ],
)
def test_data_drawn_otherwise_is_told(task: dict[str, object], draw: list[str]) -> None:
    assert describe(RunRecord(Path("run"), "run", "finished", config={"task": task}), {})["draw"] == draw


def test_json_in_a_page_cannot_end_its_element() -> None:
    text = embedded({"name": HOSTILE, "odd": "\ud800\u2028"})
    assert "<" not in text
    assert text.isascii()
    assert json.loads(text)["name"] == HOSTILE


def test_a_page_names_no_other_place_and_runs_its_own_script_only(tmp_path: Path) -> None:
    page = make_page(find_runs([make_run(tmp_path / "run").parent]))
    elements = Elements(page).found
    links = [
        value for _, attributes in elements for name, value in attributes.items() if name in ("src", "href")
    ]
    assert all(link is not None and link.startswith(("#", "data:")) for link in links)
    (policy,) = [a["content"] or "" for _, a in elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "innerHTML" not in page
    assert not re.search(r"\s(style|on\w+)=\"", page)


def test_hostile_text_adds_no_element(tmp_path: Path) -> None:
    plain = make_run(tmp_path / "one" / "run", model="plain")
    hostile = make_run(tmp_path / "two" / "<b>run", model=HOSTILE, preset=HOSTILE, about={HOSTILE: HOSTILE})
    pages = [make_page(find_runs([folder.parent])) for folder in (plain, hostile)]
    kinds = [[tag for tag, _ in Elements(page).found] for page in pages]
    assert kinds[0] == kinds[1]


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", HOSTILE, "R", "7", "\ud800"])
)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6
)
FILES = ("config.json", "result.json", "analysis/analysis.json")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), file=st.sampled_from(FILES))
def test_whatever_a_file_says_there_is_a_page(tmp_path: Path, data: st.DataObject, file: str) -> None:
    with TemporaryDirectory(dir=tmp_path) as place:
        path = make_run(Path(place) / "run", (0.5, 0.5)) / file
        content = json.loads(path.read_text())
        at, keys = content, data.draw(st.permutations(list(content)))
        if isinstance(content[keys[0]], dict) and content[keys[0]] and data.draw(st.booleans()):
            at, keys = content[keys[0]], list(content[keys[0]])  # one level deeper
        at[keys[0]] = data.draw(anything)
        path.write_text(json.dumps(content))
        try:
            records = find_runs([Path(place)])
        except ValueError as error:
            assert str(error).startswith("no runs in or under")  # noqa: PT017
        else:
            assert make_page(records).startswith("<!doctype html>")


@pytest.mark.parametrize("names", ["symbols", "functions", "groups"])
def test_names_that_no_file_can_hold_are_damage(tmp_path: Path, names: str) -> None:
    path = make_run(tmp_path / "run", (0.5, 0.5)) / "analysis" / "analysis.json"
    content = json.loads(path.read_text())
    content[names] = ["\ud800"] * len(content[names])
    path.write_text(json.dumps(content))
    assert make_page(find_runs([tmp_path])).startswith("<!doctype html>")


def test_the_same_runs_give_the_same_page(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    assert make_page(find_runs([tmp_path])) == make_page(find_runs([tmp_path]))
