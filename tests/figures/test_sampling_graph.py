import math
import re
import xml.etree.ElementTree as ET
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ctlpp.figures.layout import RADIUS, flatten, lay_out
from ctlpp.figures.sampling_graph import COLOURS, DASHED, MEANINGS, clean, draw_sampling_graph

SVG = "{http://www.w3.org/2000/svg}"
Edges = list[tuple[str, str]]


def edges(text: str) -> Edges:
    """`"IN>a,b a>OUT"` -> [(IN, a), (IN, b), (a, OUT)]."""
    sides = (word.split(">") for word in text.split())
    return [edge for sources, targets in sides for edge in product(sources.split(","), targets.split(","))]


ALTERNATE, REPEAT = edges("IN>a,b a>b b>a a,b>OUT"), edges("IN>a,b a>a b>b a,b>OUT")
GRAPHS: dict[str, dict[str, Any]] = {
    "CTL": {
        "group_sizes": {"f": 32},
        "train_edges": edges("IN>f f>f,OUT"),
        "ood_edges": edges("IN>f f>f,OUT"),
    },
    "A": {"group_sizes": {"a": 16, "b": 16}, "train_edges": ALTERNATE, "ood_edges": REPEAT},
    "R": {"group_sizes": {"a": 16, "b": 16}, "train_edges": REPEAT, "ood_edges": ALTERNATE},
    "S": {
        "group_sizes": {"a1": 6, "b1": 6, "a2": 6, "b2": 6, "o": 8},
        "train_edges": edges("IN>a1,b1 a1>a2,o b1>b2,o a2,b2,o>a1,b1,OUT"),
        "ood_edges": edges("IN>a1,b1 a1>b2 b1>a2 a2,b2>a1,b1,OUT"),
        "restricted": edges("a1,b1>o"),
    },
    "a and b never meet": {
        "group_sizes": {"a": 12, "b": 12, "c": 8},
        "train_edges": edges("IN>a,b,c a,b>c c>a,b a,b,c>OUT"),
        "ood_edges": edges("IN>a,b a>b b>a a,b>OUT"),
    },
    "A B C": {
        "group_sizes": {"a": 12, "b": 10, "c": 10},
        "train_edges": edges("IN>a,b,c a>b b>c c>a a,b,c>OUT"),
        "ood_edges": edges("IN>a,b,c a>c c>b b>a a,b,c>OUT"),
    },
    "ring": {
        "group_sizes": dict.fromkeys("abcdef", 5),
        "train_edges": [*product(("IN", *"abcdef"), "abcdef"), *product("abcdef", ("OUT",))],
        "ood_edges": [],
    },
    "nothing": {"group_sizes": {}, "train_edges": [], "ood_edges": []},
}
each_graph = pytest.mark.parametrize("name", GRAPHS)


def draw(name: str) -> ET.Element:
    return ET.fromstring(draw_sampling_graph(title=name, **GRAPHS[name]))


def drawn_edges(root: ET.Element) -> dict[str, ET.Element]:
    found = [g for g in root.iter(f"{SVG}g") if "data-edge" in g.attrib]
    assert len({g.attrib["data-edge"] for g in found}) == len(found)
    return {g.attrib["data-edge"]: g for g in found}


def circles(root: ET.Element) -> dict[str, complex]:
    nodes = {
        g.attrib["data-node"]: g.find(f"{SVG}circle") for g in root.iter(f"{SVG}g") if "data-node" in g.attrib
    }
    return {
        name: complex(float(c.attrib["cx"]), float(c.attrib["cy"]))
        for name, c in nodes.items()
        if c is not None
    }


def first_point(text: str) -> complex:
    x, y = re.findall(r"-?[\d.]+", text)[:2]
    return complex(float(x), float(y))


def child(element: ET.Element, tag: str) -> ET.Element:
    found = element.find(SVG + tag)
    assert found is not None
    return found


@each_graph
def test_every_group_and_edge_is_drawn_once_in_its_colour(name: str) -> None:
    root, graph = draw(name), GRAPHS[name]
    assert set(circles(root)) == {"IN", "OUT", *graph["group_sizes"]}
    train, ood = set(graph["train_edges"]), set(graph["ood_edges"])
    drawn = drawn_edges(root)
    assert set(drawn) == {f"{u}→{v}" for u, v in train | ood}
    for edge in train | ood:
        element = drawn["→".join(edge)]
        kind = "both" if edge in train & ood else "train" if edge in train else "ood"
        assert element.attrib["class"] == kind
        assert (
            child(element, "path").attrib["stroke"]
            == child(element, "polygon").attrib["fill"]
            == COLOURS[kind]
        )


@each_graph
def test_edges_start_and_end_on_the_borders_of_their_nodes(name: str) -> None:
    root = draw(name)
    nodes = circles(root)
    for edge, element in drawn_edges(root).items():
        source, target = edge.split("→")
        start, tip = child(element, "path").attrib["d"], child(element, "polygon").attrib["points"]
        assert abs(first_point(start) - nodes[source]) == pytest.approx(RADIUS, abs=0.02)
        assert abs(first_point(tip) - nodes[target]) == pytest.approx(RADIUS, abs=0.02)


@each_graph
def test_everything_lies_within_the_view_box(name: str) -> None:
    root = draw(name)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    points = [complex(float(t.attrib["x"]), float(t.attrib["y"])) for t in root.iter(f"{SVG}text")]
    points += [c + d for c in circles(root).values() for d in (RADIUS, -RADIUS, RADIUS * 1j, -RADIUS * 1j)]
    points += [first_point(p.attrib["points"]) for p in root.iter(f"{SVG}polygon")]
    assert all(left <= p.real <= left + width and top <= p.imag <= top + height for p in points)


@each_graph
def test_the_legend_explains_what_occurs_and_nothing_else(name: str) -> None:
    root = draw(name)
    texts = {text.text for text in root.iter(f"{SVG}text")}
    kinds = {element.attrib["class"] for element in drawn_edges(root).values()}
    assert texts & set(MEANINGS.values()) == {MEANINGS[kind] for kind in kinds}
    assert (DASHED in texts) == bool(GRAPHS[name].get("restricted"))


def test_restricted_edges_and_only_those_are_dashed() -> None:
    drawn = drawn_edges(draw("S"))
    dashed = {edge for edge, element in drawn.items() if "stroke-dasharray" in child(element, "path").attrib}
    assert dashed == {"a1→o", "b1→o"}


def test_the_two_stages_of_s_are_columns_with_the_shared_group_between_the_paths() -> None:
    at = circles(draw("S"))
    assert at["IN"].real < at["a1"].real == at["b1"].real < at["a2"].real == at["o"].real == at["b2"].real
    assert (
        at["a1"].imag == at["a2"].imag < at["o"].imag == at["IN"].imag == 0 < at["b1"].imag == at["b2"].imag
    )


def test_the_returns_of_s_share_one_loop_above_the_stages_with_a_track_for_each_colour() -> None:
    graph = GRAPHS["S"]
    kinds = {e: "both" if e in graph["ood_edges"] else "train" for e in graph["train_edges"]}
    routes = lay_out(list(graph["group_sizes"]), kinds).routes
    black = {routes[edge].points[1:5] for edge in edges("a2,b2>a1,b1")}
    blue = {routes[edge].points[1:5] for edge in edges("o>a1,b1")}
    assert len(black) == len(blue) == 1
    tops = [min(p.imag for p in track) for (track,) in (black, blue)]
    assert abs(tops[0] - tops[1]) >= 8  # told apart
    assert max(tops) < min(c.imag for c in circles(draw("S")).values()) - RADIUS


def test_returns_are_not_bundled_when_a_bundle_would_claim_edges_that_do_not_exist() -> None:
    kinds = dict.fromkeys(edges("IN>a,b a>c b>d c>a,b d>b c,d>OUT"), "both")  # no d -> a
    routes = lay_out(list("abcd"), kinds).routes
    assert all(len(route.points) <= 4 for route in routes.values())


def test_labels_have_subscripts_and_the_number_of_functions() -> None:
    texts = list(draw("S").iter(f"{SVG}text"))
    labels = [(text.text, child(text, "tspan").text) for text in texts if len(text)]
    assert labels == [("G", name) for name in ("a1", "b1", "a2", "o", "b2")]
    assert [text.text for text in texts].count("6") == 4


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "a&amp;b",
        "\"'><g/>",
        "]]>",
        "a\n\t\0\x07b",
        "\ud800",
        "語彙" * 9,
        "",
        "x" * 999,
    ],
)
def test_hostile_names_stay_text(name: str) -> None:
    svg = draw_sampling_graph(
        title=name, group_sizes={name: 1}, train_edges=[("IN", name), (name, name)], ood_edges=[(name, "OUT")]
    )
    root = ET.fromstring(svg.encode())
    assert set(drawn_edges(root)) == {clean(edge) for edge in (f"IN→{name}", f"{name}→{name}", f"{name}→OUT")}
    ours = {"svg", "title", "desc", "rect", "g", "path", "polygon", "circle", "text", "tspan"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= ours


def test_the_drawing_is_described_for_those_who_cannot_see_it() -> None:
    root = draw("S")
    assert root.attrib["role"] == "img"
    assert child(root, "title").text == "S"
    description = child(root, "desc").text or ""
    assert "o (8)" in description
    assert "test (OOD) only: a1 → b2, b1 → a2." in description
    assert f"Dashed ({DASHED}): a1 → o, b1 → o." in description


@each_graph
def test_the_same_graph_gives_the_same_bytes(name: str) -> None:
    graph = GRAPHS[name]
    again = {**graph, "restricted": frozenset(graph.get("restricted", ()))}
    assert draw_sampling_graph(title=name, **graph) == draw_sampling_graph(title=name, **again)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_edges": [("a", "x")]}, "edge a -> x: no edge ends at x; choose from a, b, OUT"),
        ({"ood_edges": [("OUT", "a")]}, "edge OUT -> a: no edge starts at OUT; choose from IN, a, b"),
        ({"group_sizes": {"IN": 3}}, "a group cannot be called IN; that is an end of every sampling graph"),
        (
            {"restricted": [("a", "a")]},
            "restricted edge a -> a is not in the training graph; restrict one of its edges",
        ),
    ],
)
def test_a_wrong_edge_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        draw_sampling_graph(title="", **{**GRAPHS["A"], **change})


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], Edges, Edges]:
    groups = list("abcdefgh"[: draw(st.integers(1, 8))])
    possible = list(product(["IN", *groups], [*groups, "OUT"]))
    some = st.lists(st.sampled_from(possible), unique=True, max_size=24)
    return groups, draw(some), draw(some)


@settings(max_examples=40)
@given(graphs())
@example(([*"abcdefgh"], [("d", "a")], [("IN", "a"), ("IN", "b")]))  # a tall column, one way back
def test_any_graph_is_drawn_whole_without_overlapping_nodes_or_edges_over_nodes(
    graph: tuple[list[str], Edges, Edges],
) -> None:
    groups, train, ood = graph
    svg = draw_sampling_graph(
        title="any", group_sizes=dict.fromkeys(groups, 4), train_edges=train, ood_edges=ood
    )
    root = ET.fromstring(svg)
    assert set(drawn_edges(root)) == {f"{u}→{v}" for u, v in train + ood}
    nodes = circles(root)
    assert all(abs(p - q) > 2 * RADIUS + 8 for p, q in combinations(nodes.values(), 2))
    plan = lay_out(
        groups,
        {e: "both" if {*train} & {*ood} & {e} else "train" if e in train else "ood" for e in train + ood},
    )
    for edge, route in plan.routes.items():
        clear = min(
            (abs(p - nodes[n]) for n in nodes if n not in edge for p in flatten(route)), default=math.inf
        )
        assert clear > RADIUS + 2
        assert abs(route.points[0] - plan.centres[edge[0]]) == pytest.approx(RADIUS)
        assert abs(route.points[-1] - plan.centres[edge[1]]) == pytest.approx(RADIUS)
