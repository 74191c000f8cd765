"""A task's two sampling graphs in one SVG drawing: columns of groups from IN to OUT, every edge a curve.

The SVG has no styles, so that a page with a strict content policy can hold it. Points are complex numbers (x
to the right, y downwards); a curve is a cubic Bézier curve that ends inside its arrowhead.

Example:
    >>> svg = draw_graph("CTL", {"f": 32}, train=[("IN", "f"), ("f", "OUT")], ood=[("IN", "f")])
    >>> svg.count('class="both"'), svg.count('class="train"')
    (1, 1)
"""

from __future__ import annotations

import cmath
import re
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

from ctlpp.benchmark.graph import IN, OUT, Edge
from ctlpp.benchmark.task import Task
from ctlpp.figures import IID, OOD

TITLES = {
    "CTL": "CTL (productivity)",
    "A": "CTL++ A (alternating)",
    "R": "CTL++ R (repeating)",
    "S": "CTL++ S (staged)",
}
RADIUS = 24.0  # of a node
ROW, COLUMN = 108.0, 144.0  # between the centres of neighbours
CLEAR = RADIUS + 6  # between an edge and the centre of a node that it passes
HEAD = 9.0  # length of an arrowhead
LINE = 19.0  # height of a line of text
FONTS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"

Curve = tuple[complex, complex, complex, complex]


class Look(NamedTuple):
    """How an edge is drawn: colour, width and dashes differ, so that edges can be told apart in grey, too."""

    meaning: str
    colour: str
    width: float
    dashes: str = "none"


LOOKS = {
    "both": Look("training and test", "#000000", 2.4),
    "train": Look("training only", IID, 1.5),
    "ood": Look("test (OOD) only", OOD, 2.4, "2.4 2.4"),
}
RESTRICTED = Look("training allows only some symbols", "#555555", 1.5, "8 4")


def draw_task(task: Task) -> str:
    """SVG text: training and OOD graph in one drawing."""
    home = {name: group for group, names in task.groups.items() for name in names}
    partial = [r for r in task.train_graph.restrictions if len(r.symbols) < task.n_symbols]
    return draw_graph(
        TITLES.get(task.variant, task.variant),
        {group: len(names) for group, names in task.groups.items()},
        train=task.train_graph.edges,
        ood=task.ood_graph.edges,
        restricted={(r.source, home[r.function]) for r in partial},
    )


def draw_graph(
    title: str,
    sizes: Mapping[str, int],
    *,
    train: Sequence[Edge],
    ood: Sequence[Edge],
    restricted: Collection[Edge] = (),
) -> str:
    """SVG text. sizes: functions of each group. restricted: edges where training allows only some symbols."""
    kinds = {
        edge: "ood" if edge not in train else "both" if edge in ood else "train" for edge in (*train, *ood)
    }
    at = place_nodes(sizes, kinds)
    curves = route_edges(at, kinds)
    legend = [look for kind, look in LOOKS.items() if kind in kinds.values()]
    legend += [RESTRICTED] * bool(restricted)
    corners = [centre + side * complex(RADIUS, RADIUS) for centre in at.values() for side in (1, -1)]
    points = [*corners, *(point for curve in curves.values() for point in sample(curve))]
    xs, ys = [point.real for point in points], [point.imag for point in points]
    width = max(max(xs) - min(xs), 250) + 20
    left, top, bottom = (min(xs) + max(xs) - width) / 2, min(ys) - 2 * LINE, max(ys) + 1.5 * LINE
    height = bottom - top + LINE * len(legend)
    size = {"width": number(width), "height": number(height)}
    view = f"{number(left)} {number(top)} {number(width)} {number(height)}"
    svg = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "viewBox": view, **size})
    svg.set("font-family", FONTS)
    ET.SubElement(svg, "title").text = clean(title)
    ET.SubElement(svg, "desc").text = clean(describe(sizes, kinds, restricted))
    ET.SubElement(svg, "rect", {"x": number(left), "y": number(top), **size, "fill": "#ffffff"})
    write(svg, title, complex(left + width / 2, top + LINE), 15, width - 20, {"font-weight": "bold"})
    for edge, curve in curves.items():
        group = ET.SubElement(svg, "g", {"class": kinds[edge], "data-edge": clean("→".join(edge))})
        look = LOOKS[kinds[edge]]
        draw_arrow(group, curve, look._replace(dashes=RESTRICTED.dashes) if edge in restricted else look)
    for name, centre in at.items():
        draw_node(svg, name, centre, sizes.get(name))
    for row, look in enumerate(legend):
        start = complex(left + 14, bottom + LINE * row)
        draw_arrow(svg, (start, start + 10, start + 20, start + 30), look)
        write(svg, look.meaning, start + 46 + 4.5j, 13, width - 70, {"text-anchor": "start"})
    ET.indent(svg, "")
    return ET.tostring(svg, encoding="unicode") + "\n"


def describe(sizes: Mapping[str, int], kinds: Mapping[Edge, str], restricted: Collection[Edge]) -> str:
    """Groups, and the edges by meaning, for those who cannot see the drawing."""
    edges = {look.meaning: [e for e in kinds if kinds[e] == kind] for kind, look in LOOKS.items()}
    edges[RESTRICTED.meaning] = [edge for edge in kinds if edge in restricted]
    groups = ", ".join(f"{name} ({size})" for name, size in sizes.items())
    lists = [f"{meaning}: {', '.join(map(' → '.join, own))}" for meaning, own in edges.items() if own]
    return "; ".join([f"functions by group: {groups}", *lists])


def place_nodes(groups: Collection[str], kinds: Mapping[Edge, str]) -> dict[str, complex]:
    """A column for each distance from IN, in it the order that keeps training edges short; OUT behind all."""
    columns, reached = [], [IN]
    while left := [group for group in groups if group not in reached]:
        columns.append([v for v in left if any((u, v) in kinds for u in reached)] or left)
        reached += columns[-1]
    tallest = max(map(len, columns), default=1)
    at = {IN: 0j}
    for column in columns:
        x = max(centre.real for centre in at.values()) + COLUMN
        orders = permutations(column) if len(column) <= 6 else [tuple(column)]
        places = (at | place_column(order, x, tallest) for order in orders)
        at = min(places, key=lambda one: _length(one, kinds))
    return at | {OUT: complex(max(centre.real for centre in at.values()) + COLUMN)}


def place_column(order: Sequence[str], x: float, tallest: int) -> dict[str, complex]:
    """Nodes one below the other; three or more on a bend, so that edges pass those in the middle."""
    half = (len(order) - 1) / 2
    down = ROW * min(2.0, (tallest - 1) / max(2 * half, 1))  # a short column spreads
    bend = 0.7 * ROW if len(order) > 2 else 0.0
    return {
        name: complex(x + bend * (half - abs(i - half)), down * (i - half)) for i, name in enumerate(order)
    }


def _length(at: Mapping[str, complex], kinds: Mapping[Edge, str]) -> float:
    known = [(u, v) for (u, v), kind in kinds.items() if kind != "ood" and u in at and v in at]
    return round(sum(abs(at[u].imag - at[v].imag) for u, v in known), 3)


def route_edges(at: Mapping[str, complex], edges: Collection[Edge]) -> dict[Edge, Curve]:
    """Edges as straight as the nodes allow, beside those that come back; loops where there is room."""
    routes: dict[Edge, Curve] = {}
    for u, v in (edge for edge in edges if edge[0] != edge[1]):
        others = [centre for name, centre in at.items() if name not in (u, v)]
        straight = 9 if (v, u) in edges else 0
        arcs = [arc(at[u], at[v], bow * side) for bow in range(24, 600, 12) for side in (1, -1)]
        arcs.insert(0, arc(at[u], at[v], straight))
        routes[u, v] = next((one for one in arcs if _gap(sample(one), others) > CLEAR), arcs[0])
    taken = [point for curve in routes.values() for point in sample(curve)]
    turns = sorted(range(16), key=lambda turn: turn % 8)  # up and down first
    for u in (u for u, v in edges if u == v):
        others = [*taken, *(centre for name, centre in at.items() if name != u)]
        loops = [loop(at[u], cmath.rect(1, cmath.pi * (turn / 8 - 0.5))) for turn in turns]
        routes[u, u] = max(loops, key=lambda one: min(round(_gap(sample(one)[8:25], others)), 20))
    return {edge: routes[edge] for edge in edges}


def arc(source: complex, target: complex, bow: float) -> Curve:
    """From border to border, in the middle `bow` to the left of a straight line."""
    along = (target - source) / abs(target - source)
    control = (source + target) / 2 - 2j * bow * along
    start = source + RADIUS * (control - source) / abs(control - source)
    end = target + (RADIUS + HEAD - 2) * (control - target) / abs(control - target)
    return start, start + (control - start) * 2 / 3, end + (control - end) * 2 / 3, end


def loop(centre: complex, out: complex) -> Curve:
    """From a node to itself, in the direction `out`."""
    before, after = out * cmath.rect(1, -0.5), out * cmath.rect(1, 0.5)
    end = centre + (RADIUS + HEAD - 2) * after
    return centre + RADIUS * before, centre + 66 * before, centre + 66 * after, end


def sample(curve: Curve) -> list[complex]:
    """Points along a curve."""
    a, b, c, d = curve
    steps = [k / 32 for k in range(33)]
    return [(1 - t) ** 3 * a + 3 * t * (1 - t) ** 2 * b + 3 * t**2 * (1 - t) * c + t**3 * d for t in steps]


def _gap(points: Iterable[complex], others: Collection[complex]) -> float:
    return min((abs(point - other) for point in points for other in others), default=cmath.inf)


def draw_arrow(parent: ET.Element, curve: Curve, look: Look) -> None:
    """A curve and its head, whose first point is the tip."""
    start, first, second, end = curve
    along = (end - second) / abs(end - second)
    tip, base = end + (HEAD - 2) * along, end - 2 * along
    stroke = {"stroke": look.colour, "stroke-width": number(look.width), "stroke-dasharray": look.dashes}
    ET.SubElement(parent, "path", {"d": f"M{xy(start)} C{xy(first, second, end)}", "fill": "none", **stroke})
    corners = xy(tip, base + 4j * along, end, base - 4j * along)
    ET.SubElement(parent, "polygon", {"points": corners, "fill": look.colour})


def draw_node(parent: ET.Element, name: str, centre: complex, size: int | None) -> None:
    """A circle with the group's name and its number of functions; IN and OUT in grey."""
    group = ET.SubElement(parent, "g", {"data-node": clean(name)})
    ET.SubElement(group, "title").text = clean(name)
    place = {"cx": number(centre.real), "cy": number(centre.imag), "r": number(RADIUS)}
    fill = "#ececec" if size is None else "#ffffff"
    ET.SubElement(group, "circle", {**place, "fill": fill, "stroke": "#000000", "stroke-width": "1.4"})
    write(group, name, centre + (5j if size is None else -1j), 14, 1.7 * RADIUS)
    if size is not None:
        write(group, str(size), centre + 14j, 12, 1.3 * RADIUS)


def write(
    parent: ET.Element, text: str, at: complex, size: int, room: float, more: dict[str, str] | None = None
) -> None:
    """One line of text, shortened and squeezed if it needs more room."""
    shown = clean(text)
    most = int(room / (0.35 * size))
    shown = shown if len(shown) <= most else shown[: most - 1] + "…"
    place = {"x": number(at.real), "y": number(at.imag), "font-size": str(size), "text-anchor": "middle"}
    wide = sum(1.0 if character > "\u10ff" else 0.6 for character in shown) * size > room
    squeezed = {"textLength": number(room), "lengthAdjust": "spacingAndGlyphs"} if wide else {}
    ET.SubElement(parent, "text", place | squeezed | (more or {})).text = shown


def clean(text: str) -> str:
    """Text that XML can hold: control characters, surrogates and non-characters become U+FFFD."""
    return re.sub("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)


def xy(*points: complex) -> str:
    return " ".join(f"{number(point.real)},{number(point.imag)}" for point in points)


def number(value: float) -> str:
    """At most two decimals, and no minus zero."""
    return f"{round(value, 2) + 0.0:.2f}".rstrip("0").rstrip(".")
