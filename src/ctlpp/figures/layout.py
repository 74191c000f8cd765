"""Where the nodes of a sampling graph stand and how its edges run.

Points are complex numbers (x to the right, y downwards). A route is a polyline from border to border whose corners
are rounded when it is drawn: one corner makes an arc, two make a loop, and bundled edges share whole stretches.

Example:
    >>> plan = lay_out(["f"], {("IN", "f"): "both", ("f", "OUT"): "both"})
    >>> plan.routes["IN", "f"].points == (plan.centres["IN"] + RADIUS, plan.centres["f"] - RADIUS)
    True
"""

import cmath
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations, product

from ctlpp.benchmark.graph import IN, OUT

KINDS = ("both", "train", "ood")  # in which graph an edge is: also its colour
RADIUS = 24.0  # of a node
ROW, COLUMN = 88.0, 116.0  # distance between the centres of neighbours
FAN = 62.0  # from the centres of a column to the point where a bundle forks or joins
TRACK = 10.0  # distance between parallel lines of a bundle
CLEAR = 3.0  # between an edge of a bundle and a node that it passes, at least
ARROW = 9.0  # length of an arrowhead: the straight end of every route

Edge = tuple[str, str]


@dataclass(frozen=True)
class Route:
    """A polyline; its corners are cut at most `cut` before and after, and rounded."""

    points: tuple[complex, ...]
    cut: float = math.inf


@dataclass(frozen=True)
class Layout:
    """Centres of the nodes and routes of the edges."""

    centres: dict[str, complex]
    routes: dict[Edge, Route]
    penalty: float = 0.0  # how ugly: edges over nodes, crossings, detours


def lay_out(groups: Sequence[str], kinds: Mapping[Edge, str], restricted: Collection[Edge] = ()) -> Layout:
    """The best of a few layouts: columns from IN to OUT (with the bundled loop of a staged graph), or a ring."""
    columns = columns_of(groups, kinds)
    if is_staged(columns, kinds, restricted) and is_clear(plan := staged(columns, kinds)):
        return route_rest(plan, kinds)
    bows = (0.0, 0.9) if max(map(len, columns), default=0) in (3, 4) else (0.0,)
    plans = [Layout(in_columns(columns, bow), {}) for bow in bows]
    plans.append(Layout(on_ring(columns), {}, penalty=8.0))  # columns read better
    return min((route_rest(plan, kinds) for plan in plans), key=lambda plan: round(plan.penalty, 6))


def columns_of(groups: Sequence[str], kinds: Mapping[Edge, str]) -> list[tuple[str, ...]]:
    """Groups by their distance from IN; in a column, the order that keeps training edges short."""
    layers, reached, left = [], {IN}, list(groups)
    while left:
        layer = [g for g in left if any((seen, g) in kinds for seen in reached)] or left
        layers.append(layer)
        reached.update(layer)
        left = [g for g in left if g not in reached]
    heights: dict[str, float] = {}  # of the columns to the left
    columns = []
    for layer in layers:
        orders = permutations(layer) if len(layer) <= 6 else [tuple(layer)]
        best = min(orders, key=lambda order: _length({**heights, **_heights(order)}, kinds))
        heights.update(_heights(best))
        columns.append(best)
    return columns


def _heights(order: Sequence[str]) -> dict[str, float]:
    """Heights from -1 to 1, evenly spaced."""
    return {g: 2 * i / (len(order) - 1) - 1 if len(order) > 1 else 0.0 for i, g in enumerate(order)}


def _length(heights: Mapping[str, float], kinds: Mapping[Edge, str]) -> float:
    known = [(u, v) for (u, v), kind in kinds.items() if kind != "ood" and u in heights and v in heights]
    return sum(abs(heights[u] - heights[v]) for u, v in known)


def in_columns(columns: Sequence[Sequence[str]], bow: float, extra: float = 0.0) -> dict[str, complex]:
    """Columns from left to right, with `extra` room at IN and OUT.

    `bow` bends a column of three or more, so that its ends see each other past the middle.
    """
    tallest = max(map(len, columns), default=1)
    centres, x = {IN: 0j}, extra
    for column in columns:
        half = ROW / 2 * min(tallest - 1, 2 * (len(column) - 1))  # a shorter column spreads, up to twofold
        depth = bow * half if len(column) > 2 else 0.0
        x += COLUMN
        for group, height in _heights(column).items():
            centres[group] = complex(x + depth * (1 - height**2), half * height)
        x += depth
    return {**centres, OUT: complex(x + COLUMN + extra, 0)}


def on_ring(columns: Sequence[Sequence[str]]) -> dict[str, complex]:
    """All nodes on a circle large enough that no straight line between two of them touches a third."""
    groups = [g for column in columns for g in column]
    upper, lower = groups[::2], groups[1::2]
    step = math.pi / (len(upper) + 1)
    size = max((RADIUS + 22) / (1 - math.cos(step)), (2 * RADIUS + 40) / (2 * math.sin(step / 2)))
    centres = {IN: complex(-size, 0), OUT: complex(size, 0)}
    for side, half in ((-1, upper), (1, lower)):
        for i, group in enumerate(half, start=1):
            centres[group] = cmath.rect(size, side * math.pi * (1 - i / (len(half) + 1)))
    return centres


def is_staged(
    columns: Sequence[Sequence[str]], kinds: Mapping[Edge, str], restricted: Collection[Edge]
) -> bool:
    """Whether the last column returns to the first as a whole, so that bundling the edges claims nothing false."""
    if len(columns) < 2 or min(len(columns[0]), len(columns[-1])) < 2:
        return False
    first, last = columns[0], columns[-1]
    loops = {edge for edge in product(last, first) if edge in kinds}

    def is_full(sources: Collection[str], targets: Collection[str]) -> bool:
        for kind in KINDS:
            edges = {e for e in product(sources, targets) if kinds.get(e) == kind}
            if edges != set(product({u for u, _ in edges}, {v for _, v in edges})):
                return False
        return loops.isdisjoint(restricted)

    return bool(loops) and is_full(last, (*first, OUT)) and is_full((IN, *last), first)


def staged(columns: Sequence[Sequence[str]], kinds: Mapping[Edge, str]) -> Layout:
    """Columns between IN and OUT, and one loop above them with a track for each colour.

    The edges of a colour run like trains: they join behind the last column, go on to OUT or turn up and back, meet
    those that come from IN, and fork before the first column.
    """
    centres = in_columns(columns, 0.0, extra=26.0)
    first, last = columns[0], columns[-1]
    used = [kind for kind in KINDS if any(kinds.get(edge) == kind for edge in product(last, first))]
    top = min(c.imag for c in centres.values()) - RADIUS - 12 - TRACK * len(used)
    routes = {}
    for i, kind in enumerate(used):  # the first is the outermost track
        low, far = -TRACK * i * 1j, TRACK * ((len(used) - 1) / 2 - i) * 1j  # heights at IN and at OUT
        fork, join = centres[first[0]].real - FAN + low, centres[last[0]].real + FAN + far
        down, up = RADIUS + 16 + TRACK * i, centres[OUT].real - RADIUS - 16 - TRACK * i
        high = (top + TRACK * i) * 1j
        back = (up + far, up + high, down + high, down + low)
        for u, v in (edge for edge, own in kinds.items() if own == kind):
            start = far if centres[u].imag == 0 else 0j
            if u == IN and v in first:
                route = connect(centres[u], (fork,), centres[v], low, 1.6 * low)
            elif u in last and v == OUT:
                route = connect(centres[u], (join,), centres[v], start, far)
            elif u in last and v in first:
                route = connect(centres[u], (join, *back, fork), centres[v], start, 1.6 * low)
            else:
                continue
            routes[u, v] = replace(route, cut=14.0)
    return Layout(centres, routes)


def is_clear(plan: Layout) -> bool:
    """Whether no route comes near a node that is not its own: in a tall column the way to where edges join may."""
    others = [
        (c, route)
        for edge, route in plan.routes.items()
        for name, c in plan.centres.items()
        if name not in edge
    ]
    return all(abs(point - centre) > RADIUS + CLEAR for centre, route in others for point in flatten(route))


def connect(
    source: complex, way: tuple[complex, ...], target: complex, aim: complex = 0j, aim_end: complex = 0j
) -> Route:
    """From border to border by way of the given points; `aim` moves the line off the centre of its node."""
    inner = way or ((source + target) / 2,)
    return Route((_border(source, inner[0], aim), *way, _border(target, inner[-1], aim_end)))


def _border(centre: complex, outside: complex, aim: complex) -> complex:
    """Where the line from `outside` to `centre + aim` first meets the circle around `centre`."""
    line = centre + aim - outside
    line /= abs(line)
    across = (aim * line.conjugate()).imag  # distance of the line from the centre
    foot = centre + aim - line * (aim * line.conjugate()).real
    return foot - line * math.sqrt(max(RADIUS**2 - across**2, 0.0))


def route_rest(plan: Layout, kinds: Mapping[Edge, str]) -> Layout:
    """Route every edge that has no route yet, short ones first, self loops last; each takes the cheapest curve."""
    centres, routes, penalty = plan.centres, dict(plan.routes), plan.penalty
    span = {(u, v): abs(centres[u] - centres[v]) or math.inf for u, v in kinds}
    cells = Counter(cell for route in routes.values() for cell in _cells(route))
    for edge in sorted((e for e in kinds if e not in routes), key=lambda e: round(span[e], 3)):
        u, v = edge
        paired = (v, u) in kinds and (v, u) not in plan.routes
        curves = self_loops(centres[u]) if u == v else arcs(centres[u], centres[v], paired=paired)
        ends = [end for route in routes.values() for end in (route.points[0], route.points[-1])]
        cost, route = min(
            ((_cost(edge, curve, centres, cells, ends) + bend, curve) for bend, curve in curves),
            key=lambda c: round(c[0], 6),
        )
        routes[edge] = route
        penalty += cost
        cells.update(_cells(route))
    return replace(plan, routes={edge: routes[edge] for edge in kinds}, penalty=penalty)


def arcs(source: complex, target: complex, *, paired: bool) -> Iterator[tuple[float, Route]]:
    """A straight line (unless another edge comes back the same way) and arcs to both sides, with their cost."""
    middle, aside = (source + target) / 2, 1j * (target - source) / abs(target - source)
    for size in (*((7, 12) if paired else (0, 10)), 20, 30, 45, 65, 90, 120, 160, 200, 260):
        for side in (-1, 1) if size else (0,):
            way = (middle + 2 * side * size * aside,) if size else ()
            yield size / 10 + (2 if size and (side > 0 or not paired) else 0), connect(source, way, target)


def self_loops(centre: complex) -> Iterator[tuple[float, Route]]:
    """Loops in twelve directions, up and down preferred."""
    for turn in sorted(range(12), key=lambda t: (t % 6 != 0, t)):
        out = cmath.rect(1, math.pi * (turn / 6 - 0.5))
        corners = (RADIUS * cmath.rect(1, -0.42), 54 - 24j, 54 + 24j, RADIUS * cmath.rect(1, 0.42))
        yield float(turn % 6 != 0), Route(tuple(centre + out * corner for corner in corners))


def rounded(route: Route) -> list[tuple[complex, complex, complex]]:
    """The corners of a route as (begin, control, end) of quadratic curves; straight lines join them."""
    sides = [abs(b - a) for a, b in pairwise(route.points)]
    sides[-1] -= ARROW
    room = [side / (1 if i in (0, len(sides) - 1) else 2) for i, side in enumerate(sides)]
    curves = []
    for i, corner in enumerate(route.points[1:-1]):
        cut = max(0.0, min(room[i], room[i + 1], route.cut))
        begin, end = (
            corner + cut * (p - corner) / abs(p - corner) for p in (route.points[i], route.points[i + 2])
        )
        curves.append((begin, corner, end))
    return curves


def flatten(route: Route) -> list[complex]:
    """Points along the rounded route, about 4 apart."""
    corners = [route.points[0]]
    for begin, control, end in rounded(route):
        for t in (k / 8 for k in range(9)):
            corners.append((1 - t) ** 2 * begin + 2 * t * (1 - t) * control + t**2 * end)
    points = []
    for a, b in pairwise([*corners, route.points[-1]]):
        steps = max(1, round(abs(b - a) / 4))
        points += [a + (b - a) * k / steps for k in range(steps)]
    return [*points, route.points[-1]]


def _cells(route: Route) -> set[tuple[int, int]]:
    """The squares of 6 × 6 through which a route runs, except its ends; round coordinates are never on a border."""
    start, *_, end = route.points
    inner = (p for p in flatten(route) if min(abs(p - start), abs(p - end)) > 12)
    return {(math.floor(p.real / 6 + 0.137), math.floor(p.imag / 6 + 0.137)) for p in inner}


def _cost(
    edge: Edge,
    route: Route,
    centres: Mapping[str, complex],
    taken: Mapping[tuple[int, int], int],
    ends: list[complex],
) -> float:
    """Nodes that a route touches (prohibitive), squares and ends that it shares with other routes, and its length."""
    points = flatten(route)
    hits = 0
    for name, centre in centres.items():
        room = RADIUS - 0.5 if name in edge else RADIUS + 6
        hits += min(abs(p - centre) for p in points) < room
    near = sum(min(abs(end - route.points[0]), abs(end - route.points[-1])) < 8 for end in ends)
    return 1000 * hits + 0.5 * sum(taken[cell] for cell in _cells(route)) + 2 * near + len(points) / 50
