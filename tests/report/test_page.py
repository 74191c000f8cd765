"""The text of a page: self-contained, and nothing from a file is anything but text."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.report.conftest import config_of, edit, make_run, make_task

from ctlpp.figures.graph import draw_task
from ctlpp.files import UserError
from ctlpp.report.package import Package
from ctlpp.report.page import describe, embed, make_page, write_report
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


def described(graphs: list[str] | None = None, **config: Any) -> dict[str, Any]:
    record = RunRecord(Path("run"), "run", "finished", config=json.loads(json.dumps(config)))
    return describe(record, Package(), [] if graphs is None else graphs)


def test_what_tells_data_apart_is_labelled() -> None:
    for task, labels in (
        ({"seed": 0, "recipe": {"train": 100}}, []),
        ({"recipe": {"distinct_sequences": "n/7"}, "seed": 1}, ["function table 1"]),
        ({"shared_functions": 16, "shared_symbols": 1}, ["16 shared functions", "1 shared symbol"]),
        ({"shared_functions": None, "shared_symbols": "6", "seed": "1"}, []),
    ):
        assert described(task=task)["task"] == labels


def test_the_sampling_graph_is_that_of_the_task_and_is_drawn_once() -> None:
    task, graphs = make_task("S", 8, 16), list[str]()
    config = config_of(task, [0])
    assert [described(graphs, **config)["graph"] for _ in range(2)] == [0, 0]
    assert graphs == [draw_task(task)]
    for edges in (None, [["a"]], [["a1", "nowhere"]], "ab"):
        config["task"]["train_graph"]["edges"] = edges
        assert described(**config)["graph"] is None


def test_every_setting_is_listed_and_none_is_endless() -> None:
    about = {"note": "x" * 9999}
    rows = described(model="ndr", recipe={"steps": 300}, about=about, task={"seed": 3})["settings"]
    wanted = (["recipe", "steps", "300"], ["task", "seed", "3"], ["run", "model", "ndr"])
    assert all(row in rows for row in wanted)
    assert len(json.dumps(rows)) < 1000


def test_json_in_a_page_cannot_end_its_element() -> None:
    text = embed({"name": HOSTILE, "odd": "\ud800\u2028"})
    assert "<" not in text
    assert text.isascii()
    assert json.loads(text)["name"] == HOSTILE


def test_a_page_names_no_other_place_and_runs_its_own_script_only(tmp_path: Path) -> None:
    page = make_page(find_runs([make_run(tmp_path / "run").parent]))
    elements = Elements(page).found
    links = [value for _, own in elements for name, value in own.items() if name in ("src", "href")]
    assert all(link is not None and link.startswith(("#", "data:")) for link in links)
    (policy,) = [own["content"] or "" for _, own in elements if "http-equiv" in own]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "innerHTML" not in page
    assert not re.search(r"\s(style|on\w+)=\"", page)
    assert make_page(find_runs([tmp_path])) == page, "the same runs give the same page"


def test_hostile_text_adds_no_element(tmp_path: Path) -> None:
    plain = make_run(tmp_path / "one" / "run", model="plain")
    hostile = make_run(tmp_path / "two" / "<b>run", model=HOSTILE, preset=HOSTILE, about={HOSTILE: HOSTILE})
    groups = json.loads((hostile / "config.json").read_text())["task"]
    edit(hostile / "config.json", task=groups | {"variant": HOSTILE})
    pages = [make_page(find_runs([run.parent]), title=run.name) for run in (plain, hostile)]
    kinds = [[tag for tag, _ in Elements(page).found] for page in pages]
    assert kinds[0] == kinds[1]


def test_a_name_that_no_file_can_hold_is_replaced(tmp_path: Path) -> None:
    make_run(tmp_path / "run", model="odd\ud800")
    write_report([tmp_path], tmp_path / "report.html")
    assert "odd? on R" in (tmp_path / "report.html").read_text()


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", HOSTILE, "R", "7", "\ud800"])
)
anything = st.recursive(leaves, lambda own: st.lists(own) | st.dictionaries(st.text(), own), max_leaves=6)
FILES = ("config.json", "result.json", "analysis/analysis.json")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "run", (0.5, 0.5))


@settings(max_examples=40)
@given(data=st.data(), file=st.sampled_from(FILES))
def test_whatever_a_file_says_there_is_a_page(run: Path, data: st.DataObject, file: str) -> None:
    before = (run / file).read_text()
    content = json.loads(before)
    at, keys = content, data.draw(st.permutations(list(content)))
    if isinstance(content[keys[0]], dict) and content[keys[0]] and data.draw(st.booleans()):
        at = content[keys[0]]  # one level deeper
        keys = data.draw(st.permutations(list(at)))
    at[keys[0]] = data.draw(anything)
    (run / file).write_text(json.dumps(content))
    try:
        assert make_page(find_runs([run])).startswith("<!doctype html>")
    except UserError as error:
        assert str(error).startswith("no runs in or under")  # noqa: PT017
    finally:
        (run / file).write_text(before)
