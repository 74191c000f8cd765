"""Sampling graphs as SVG: complete, apart, readable, and the same bytes again."""

import xml.etree.ElementTree as ET
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ctlpp.benchmark.task import make_task
from ctlpp.benchmark.variants import Settings
from ctlpp.figures import graph as drawing
from ctlpp.figures.graph import LOOKS, RADIUS, RESTRICTED, clean, draw_graph, draw_task

SVG = "{http://www.w3.org/2000/svg}"
Edges = list[tuple[str, str]]


def edges(text: str) -> Edges:
    """`"IN>a,b a>OUT"` -> [(IN, a), (IN, b), (a, OUT)]."""
    sides = (word.split(">") for word in text.split())
    return [edge for sources, targets in sides for edge in product(sources.split(","), targets.split(","))]


S: dict[str, Any] = {
    "sizes": {"a1": 6, "b1": 6, "a2": 6, "b2": 6, "o": 8},
    "train": edges("IN>a1,b1 a1>a2,o b1>b2,o a2,b2,o>a1,b1,OUT"),
    "ood": edges("IN>a1,b1 a1>b2 b1>a2 a2,b2>a1,b1,OUT"),
    "restricted": edges("a1,b1>o"),
}


def drawn(svg: str, what: str) -> dict[str, ET.Element]:
    """Edges or nodes by name."""
    found = [g for g in ET.fromstring(svg.encode()).iter(f"{SVG}g") if f"data-{what}" in g.attrib]
    assert len({g.attrib[f"data-{what}"] for g in found}) == len(found)
    return {g.attrib[f"data-{what}"]: g for g in found}


def line(element: ET.Element) -> dict[str, str]:
    path = element.find(f"{SVG}path")
    assert path is not None
    return path.attrib


def texts(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_every_group_and_edge_of_s_is_drawn_once_and_the_legend_explains_what_occurs() -> None:
    looks = [(look.width, look.dashes) for look in (*LOOKS.values(), RESTRICTED)]
    assert len({*looks}) == len(looks), "kinds of edges can be told apart in grey"
    svg = draw_graph("S", **S)
    assert svg == draw_graph("S", **S | {"restricted": frozenset(S["restricted"])})  # the same bytes
    assert "style" not in svg
    assert set(drawn(svg, "node")) == {"IN", "OUT", *S["sizes"]}
    found = drawn(svg, "edge")
    assert set(found) == {"→".join(edge) for edge in S["train"] + S["ood"]}
    for name, element in found.items():
        edge = tuple(name.split("→"))
        kind = "ood" if edge not in S["train"] else "both" if edge in S["ood"] else "train"
        assert (element.attrib["class"], line(element)["stroke"]) == (kind, LOOKS[kind].colour)
        dashes = RESTRICTED.dashes if edge in S["restricted"] else LOOKS[kind].dashes
        assert line(element)["stroke-dasharray"] == dashes
    described = ET.fromstring(svg).findtext(f"{SVG}desc") or ""
    for words in ("o (8)", "test (OOD) only: a1 → b2, b1 → a2", f"{RESTRICTED.meaning}: a1 → o, b1 → o"):
        assert words in described, "for those who cannot see the drawing"
    assert {look.meaning for look in (*LOOKS.values(), RESTRICTED)} <= {*texts(svg)}
    assert texts(svg).count("6") == 4
    only = texts(draw_graph("", {"f": 1}, train=edges("IN>f f>OUT"), ood=[]))
    assert only == ["", "IN", "f", "1", "OUT", LOOKS["train"].meaning]


def test_only_restrictions_that_exclude_a_symbol_are_drawn() -> None:
    for symbols, dashed in ((6, True), (8, False)):
        task = make_task(Settings(variant="S", shared_functions=8, shared_symbols=symbols))
        assert (RESTRICTED.meaning in texts(draw_task(task))) == dashed


HOSTILE = (
    "<script>alert(1)</script>",
    "a&amp;b",
    "\"'><g/>",
    "]]>",
    "a\n\t\0b",
    "\ud800",
    "語彙" * 9,
    "",
    "x" * 999,
)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name: str) -> None:
    svg = draw_graph(name, {name: 1}, train=[("IN", name), (name, name)], ood=[(name, "OUT")])
    assert set(drawn(svg, "edge")) == {clean(f"IN→{name}"), clean(f"{name}→{name}"), clean(f"{name}→OUT")}
    ours = {"svg", "title", "desc", "rect", "g", "path", "polygon", "circle", "text"}
    assert {element.tag.removeprefix(SVG) for element in ET.fromstring(svg.encode()).iter()} <= ours


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], Edges]:
    groups = list("abcdefgh"[: draw(st.integers(1, 8))])
    possible = list(product(["IN", *groups], [*groups, "OUT"]))
    return groups, draw(st.lists(st.sampled_from(possible), unique=True, max_size=30))


@settings(max_examples=30)
@given(graphs())
@example(([*"abcdefgh"], edges("IN>a,b d>a")))  # a tall column, one way back
@example(([*"abcdef"], edges("IN,a,b,c,d,e,f>a,b,c,d,e,f a,b,c,d,e,f>OUT")))
@example(([], []))
def test_any_graph_is_drawn_whole_and_no_edge_crosses_a_node(graph: tuple[list[str], Edges]) -> None:
    groups, every = graph
    at = drawing.place_nodes(groups, dict.fromkeys(every, "train"))
    assert all(abs(p - q) > 2 * RADIUS + 8 for p, q in combinations(at.values(), 2))
    routes = drawing.route_edges(at, every)
    assert set(routes) == set(every)
    for (u, v), curve in routes.items():
        assert abs(curve[0] - at[u]) == pytest.approx(RADIUS)
        assert abs(curve[3] - at[v]) == pytest.approx(RADIUS + drawing.HEAD - 2)
        others = [centre for name, centre in at.items() if name not in (u, v)]
        assert all(
            abs(point - centre) > drawing.CLEAR - 3 for point in drawing.sample(curve) for centre in others
        )
    svg = draw_graph("any", dict.fromkeys(groups, 4), train=every, ood=[])
    left, top, width, height = map(float, ET.fromstring(svg).attrib["viewBox"].split())
    inside = [*at.values(), *(point for curve in routes.values() for point in drawing.sample(curve))]
    assert all(left < p.real < left + width and top < p.imag < top + height for p in inside)
