"""A sampling graph as an SVG drawing, in the paper's colours: black both, blue training only, red test only.

Example:
    >>> svg = draw_sampling_graph(
    ...     title="CTL", group_sizes={"f": 32}, train_edges=[("IN", "f"), ("f", "OUT")], ood_edges=[("IN", "f")]
    ... )
    >>> svg.count('class="both"'), svg.count('class="train"')
    (1, 1)
"""

import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from xml.sax.saxutils import escape, quoteattr

from ctlpp.benchmark.graph import IN, OUT
from ctlpp.figures.layout import ARROW, KINDS, RADIUS, Edge, Layout, Route, flatten, lay_out, rounded
from ctlpp.files import UserError

COLOURS = {
    "both": "#000000",
    "train": "#0072B2",
    "ood": "#D55E00",
}  # colour-blind readers can tell them apart
MEANINGS = {"both": "training and test", "train": "training only", "ood": "test (OOD) only"}
DASHED = "training allows only some symbols"
DASHES = "5 3.5"
SANS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
SERIF = "'Times New Roman', Times, 'Liberation Serif', 'DejaVu Serif', serif"
MARGIN = 8.0
LINE = 18.0  # height of a line of the legend
CHARACTER_WIDTHS = {
    character: width
    for characters, width in (
        (" .,:;'|!/ijlftI", 0.29),
        ("()[]r-", 0.34),
        ("cksvxyz", 0.52),
        ("mwMW@%…", 0.9),
    )
    for character in characters
} | dict.fromkeys("ABCDEFGHKNOPQRSTUVXYZ&", 0.74)


def draw_sampling_graph(
    *,
    title: str,
    group_sizes: Mapping[str, int],
    train_edges: Sequence[Edge],
    ood_edges: Sequence[Edge],
    restricted: Collection[Edge] = (),
) -> str:
    """SVG text of both graphs in one; `restricted` edges, on which training allows only some symbols, are dashed."""
    check_edges(group_sizes, train_edges, ood_edges, restricted)
    kinds = {edge: kind_of(edge, train_edges, ood_edges) for edge in chain(train_edges, ood_edges)}
    plan = lay_out(list(group_sizes), kinds, restricted)
    left, top, right, bottom = bounds(plan)
    heading = textwrap.wrap(clean(title), max(24, int((right - left) / 8)))
    legend = legend_rows(kinds, dashed=bool(restricted), width=max(right - left + 16, 280.0))
    width = (
        max(right - left, *map(row_width, legend), *(1.1 * text_width(line, 15) for line in heading), 0.0)
        + 2 * MARGIN
    )
    middle, top = (left + right) / 2, top - 22 * len(heading) - MARGIN
    height = bottom - top + LINE * len(legend) + 10 + MARGIN
    corner = f'x="{number(middle - width / 2)}" y="{number(top)}"'
    view = " ".join(map(number, (middle - width / 2, top, width, height)))
    size = f'width="{number(width)}" height="{number(height)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="{view}" {size} font-family="{SANS}">',
        f"<title>{escape(clean(title))}</title>",
        f"<desc>{escape(clean(describe(group_sizes, kinds, restricted)))}</desc>",
        f'<rect {corner} {size} fill="#ffffff"/>',
    ]
    for row, text in enumerate(heading):
        lines.append(draw_text(text, complex(middle, top + MARGIN + 14 + 22 * row), 15, 'font-weight="bold"'))
    order = sorted(plan.routes, key=lambda edge: -KINDS.index(kinds[edge]))  # black last, on top
    lines += [draw_edge(edge, plan.routes[edge], kinds[edge], dashed=edge in restricted) for edge in order]
    lines += [draw_node(name, centre, group_sizes.get(name)) for name, centre in plan.centres.items()]
    lines += draw_legend(legend, complex(middle, bottom + 10 + LINE / 2))
    return "\n".join([*lines, "</svg>", ""])


def check_edges(
    groups: Collection[str], train: Collection[Edge], ood: Collection[Edge], restricted: Collection[Edge]
) -> None:
    """Refuse edges between nodes that do not exist and restrictions of edges that training does not have."""
    for reserved in (IN, OUT):
        if reserved in groups:
            raise UserError(f"a group cannot be called {reserved}; that is an end of every sampling graph")
    for u, v in chain(train, ood):
        if u not in groups and u != IN:
            raise UserError(f"edge {u} -> {v}: no edge starts at {u}; choose from {', '.join((IN, *groups))}")
        if v not in groups and v != OUT:
            raise UserError(f"edge {u} -> {v}: no edge ends at {v}; choose from {', '.join((*groups, OUT))}")
    for u, v in restricted:
        if (u, v) not in train:
            raise UserError(
                f"restricted edge {u} -> {v} is not in the training graph; restrict one of its edges"
            )


def kind_of(edge: Edge, train: Collection[Edge], ood: Collection[Edge]) -> str:
    """`both`, `train` or `ood`: the graphs that have this edge."""
    if edge in train:
        return "both" if edge in ood else "train"
    return "ood"


def bounds(plan: Layout) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of everything that is drawn."""
    points = [p for route in plan.routes.values() for p in flatten(route)]
    points += [c + d for c in plan.centres.values() for d in (RADIUS, -RADIUS, RADIUS * 1j, -RADIUS * 1j)]
    xs, ys = [p.real for p in points], [p.imag for p in points]
    return min(xs) - 2, min(ys) - 2, max(xs) + 2, max(ys) + 2


def describe(group_sizes: Mapping[str, int], kinds: Mapping[Edge, str], restricted: Collection[Edge]) -> str:
    """The drawing in words, for those who cannot see it."""
    groups = ", ".join(f"{name} ({size})" for name, size in group_sizes.items())
    sentences = [f"Sampling graph. Groups and their numbers of functions: {groups}."]
    for kind in KINDS:
        edges = ", ".join(f"{u} → {v}" for (u, v), own in kinds.items() if own == kind)
        sentences += [f"Edges, {MEANINGS[kind]}: {edges}."] if edges else []
    dashed = ", ".join(f"{u} → {v}" for u, v in kinds if (u, v) in restricted)
    return " ".join(sentences + ([f"Dashed ({DASHED}): {dashed}."] if dashed else []))


def draw_edge(edge: Edge, route: Route, kind: str, *, dashed: bool) -> str:
    """One edge: a line with rounded corners and an arrowhead whose first point is its tip."""
    name = quoteattr(clean("→".join(edge)))
    return f'<g class="{kind}" data-edge={name}>{draw_arrow(route, COLOURS[kind], dashed=dashed)}</g>'


def draw_arrow(route: Route, colour: str, *, dashed: bool) -> str:
    """The line stops inside the arrowhead, so that the tip stays sharp."""
    before, tip = route.points[-2:]
    path = f"M{pair(route.points[0])}"
    for begin, control, end in rounded(route):
        path += f" L{pair(begin)} Q{pair(control)} {pair(end)}"
    path += f" L{pair(tip + (ARROW - 2) * (before - tip) / abs(before - tip))}"
    dash = f' stroke-dasharray="{DASHES}"' if dashed else ""
    line = f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.7"{dash}/>'
    heads = draw_head(before, tip, colour)
    if len(route.points) > 4:  # a long way: show its direction on the way, too
        begin, end = max(pairwise(route.points), key=lambda side: abs(side[1] - side[0]))
        heads += draw_head(begin, (begin + end) / 2, colour)
    return line + heads


def draw_head(before: complex, tip: complex, colour: str) -> str:
    """An arrowhead that comes from `before`."""
    along = (tip - before) / abs(tip - before)
    base = tip - ARROW * along
    corners = (tip, base + 3.8j * along, base + 2 * along, base - 3.8j * along)
    return f'<polygon points="{" ".join(map(pair, corners))}" fill="{colour}"/>'


def draw_node(name: str, centre: complex, size: int | None) -> str:
    """IN and OUT in grey; a group as G with its name as subscript, the number of its functions below."""
    fill = "#ffffff" if size is not None else "#ececec"
    circle = (
        f'<circle {xy(centre, "c")} r="{number(RADIUS)}" fill="{fill}" stroke="#000000" stroke-width="1.4"/>'
    )
    if size is None:
        return f"<g data-node={quoteattr(name)}>{circle}{draw_text(name, centre + 4.5j, 13)}</g>"
    short, font = fit(clean(name))
    subscript = f'<tspan font-size="{number(font)}" dy="3.5">{escape(short)}</tspan>'
    label = (
        f'<text {xy(centre + 0.5j)} font-family="{SERIF}" font-size="19" font-style="italic" text-anchor="middle">'
        f"G{subscript}</text>"
    )
    count = draw_text(str(size), centre + 18j, 12)
    return f"<g data-node={quoteattr(clean(name))}><title>{escape(clean(name))}</title>{circle}{label}{count}</g>"


def fit(name: str) -> tuple[str, float]:
    """A name that fits into its circle, and its font size: made smaller first, then shortened in the middle."""
    for font in (13.5, 12, 10.5, 9):
        if text_width(name, font) <= 25:
            return name, font
    keep = len(name)
    while text_width(short := f"{name[: (keep + 1) // 2]}…{name[len(name) - keep // 2 :]}", 9) > 25:
        keep -= 1
    return short, 9


def legend_rows(
    kinds: Mapping[Edge, str], *, dashed: bool, width: float
) -> list[list[tuple[str, str, bool]]]:
    """Entries (text, colour, dashed) of what occurs in the drawing, broken into rows no wider than `width`."""
    entries = [(MEANINGS[kind], COLOURS[kind], False) for kind in KINDS if kind in kinds.values()]
    entries += [(DASHED, "#555555", True)] if dashed else []
    rows: list[list[tuple[str, str, bool]]] = []
    for entry in entries:
        if rows and row_width([*rows[-1], entry]) <= width:
            rows[-1].append(entry)
        else:
            rows.append([entry])
    return rows


def row_width(row: Sequence[tuple[str, str, bool]]) -> float:
    """Each entry: an arrow of 26, a space, its text; 14 between entries."""
    return sum(32 + text_width(text, 12.5) for text, _, _ in row) + 14 * (len(row) - 1)


def draw_legend(rows: Sequence[Sequence[tuple[str, str, bool]]], top: complex) -> Iterator[str]:
    """Centred rows under `top`."""
    for i, row in enumerate(rows):
        at = top - row_width(row) / 2 + LINE * i * 1j
        for text, colour, dashed in row:
            yield draw_arrow(Route((at, at + 26)), colour, dashed=dashed)
            yield draw_text(text, at + 32 + 4.3j, 12.5, anchor="start")
            at += 46 + text_width(text, 12.5)


def draw_text(text: str, at: complex, size: float, more: str = "", anchor: str = "middle") -> str:
    """One line of text, escaped."""
    more = f" {more}" if more else ""
    return (
        f'<text {xy(at)} font-size="{number(size)}" text-anchor="{anchor}"{more}>{escape(clean(text))}</text>'
    )


def clean(text: str) -> str:
    """Text that XML can hold: control characters, surrogates and non-characters become U+FFFD."""
    return re.sub("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)


def text_width(text: str, size: float) -> float:
    """An estimate for common sans-serif fonts."""
    widths = (1.0 if c > "\u10ff" else CHARACTER_WIDTHS.get(c, 0.57) for c in text)
    return size * sum(widths)


def xy(point: complex, prefix: str = "") -> str:
    return f'{prefix}x="{number(point.real)}" {prefix}y="{number(point.imag)}"'


def pair(point: complex) -> str:
    return f"{number(point.real)},{number(point.imag)}"


def number(value: float) -> str:
    """At most two decimals, and no minus zero."""
    return f"{round(value, 2) + 0.0:.2f}".rstrip("0").rstrip(".")
