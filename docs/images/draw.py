"""Draws the sampling graphs of the documentation, and the README's figure from `results/`.

python docs/images/draw.py
"""

import re
from pathlib import Path

from matplotlib.axes import Axes

from ctlpp.benchmark.task import make_task
from ctlpp.benchmark.variants import VARIANTS, Settings
from ctlpp.figures import DARK, DATA, GROUPS, PUBLISHED
from ctlpp.figures.graph import FONTS, draw_task
from ctlpp.figures.style import new_figure, render, style, swarm
from ctlpp.reproduce.results import Results, load_results
from ctlpp.statistics import published as paper

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WIDTH, HEIGHT, LEFT = 900, 380, 300  # pixels; the graph stands in the left part
SHOWN = ("authors", "repeats")  # the data settings nearest to the published experiment
CHANCE = 1 / 8
WORDS = {
    PUBLISHED: "published (± sd)",
    DATA["authors"].colour: "authors' data",
    DATA["repeats"].colour: "clean data with repeats",
}
EXAMPLES = (("training", "k a n 3", "a a a"), ("OOD test", "q d t 6", "b a b"))


def graphs() -> dict[str, str]:
    """File name -> drawing of the sampling graphs that pages show."""
    own = {path.stem: str(path) for path in (ROOT / "examples" / "graphs").glob("*.toml")}
    variants = dict.fromkeys(VARIANTS) | own
    return {
        f"{name}.svg": draw_task(make_task(Settings(variant=path or name))) for name, path in variants.items()
    }


def readme() -> str:
    """The README's figure: a sampling graph, and every seed on A and R beside the published numbers."""
    with style():
        figure = new_figure((WIDTH - LEFT) / 96 * 2.54, HEIGHT / 96 * 2.54)
        draw_strip(figure.subplots(), load_results(ROOT / "results"))
        strip = render(figure, "svg", 72).decode()
    graph = draw_task(make_task(Settings(variant="R")))
    parts = [
        _placed(graph, 20, 8, LEFT - 40, 268),
        *_examples(),
        _placed(strip, LEFT, 0, WIDTH - LEFT, HEIGHT),
    ]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    head = f'<svg {names} {size} font-family="{FONTS}">'
    return (
        "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', *parts, "</svg>"])
        + "\n"
    )


def _placed(svg: str, x: float, y: float, width: float, height: float) -> str:
    """A drawing as a part of another one, without its preamble."""
    body = svg[svg.index("<svg") :]
    view = re.search(r'viewBox="[^"]*"', body)
    assert view is not None
    return f'<svg x="{x}" y="{y}" width="{width}" height="{height}" {view[0]}>' + body[body.index(">") + 1 :]


def _examples() -> list[str]:
    """An example of each graph, with the groups of its functions."""
    lines = []
    for row, (split, example, groups) in enumerate(EXAMPLES):
        y = 312 + 42 * row
        lines.append(f'<text x="24" y="{y}" font-size="13" fill="{DARK}">{split}</text>')
        for place, token in enumerate(example.split()):
            group = [*groups.split(), ""][place]
            colour = {"a": GROUPS[0], "b": GROUPS[1], "": "#000000"}[group]
            at = f'x="{120 + 34 * place}" text-anchor="middle" fill="{colour}"'
            lines.append(f'<text {at} y="{y}" font-size="17" font-weight="bold">{token}</text>')
            lines.append(f'<text {at} y="{y + 15}" font-size="11">{group}</text>')
    return lines


def draw_strip(axes: Axes, results: Results) -> None:
    """For each published number a group of rows: itself, then every seed on the two data settings."""
    found = {condition: results.runs_on(condition) for condition in SHOWN}
    for group, (place, known) in enumerate(paper.PUBLISHED.items()):
        top = -4.0 * group
        mean, deviation = known.ood
        ends = [[min(deviation, mean)], [min(deviation, 1 - mean)]]  # of accuracies
        axes.errorbar(mean, top, xerr=ends, color=PUBLISHED, marker="D", markersize=5, linewidth=1.6)
        axes.text(
            -0.03, top - 1, f"{paper.TITLES[place[0]]} on {place[1]}", ha="right", va="center", fontsize=9
        )
        for line, condition in enumerate(SHOWN, start=1):
            run, kind = found[condition].get(place), DATA[condition]
            if run is None:
                axes.text(1.04, top - line, "not run yet", va="center", fontsize=8, color=kind.colour)
                continue
            values = [seed.accuracy["ood"] for seed in run.setting.seeds]
            look = {"color": kind.colour, "marker": kind.marker, "markersize": 4.5, "alpha": 0.6}
            axes.plot(values, top - line + swarm(values, 0.4), linestyle="none", markeredgewidth=0, **look)
            solved = sum(value > paper.SOLVED for value in values)
            axes.text(
                1.04, top - line, f"{solved} of {len(values)}", va="center", fontsize=8, color=kind.colour
            )
    axes.set_xlim(-0.02, 1.03)
    axes.set_ylim(-4.0 * len(paper.PUBLISHED) + 1.0, 2.4)
    axes.axvline(CHANCE, color=DARK, linestyle=":", linewidth=0.8, zorder=0)
    axes.text(CHANCE + 0.01, -5.4, "chance", fontsize=8, color=DARK)
    axes.text(1.04, 1.6, "solved", fontsize=9, color=DARK)
    for at, (colour, text) in zip((-0.02, 0.31, 0.56), WORDS.items(), strict=True):
        axes.text(at, 1.6, text, fontsize=9, color=colour, fontweight="bold")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel("OOD accuracy of every seed", fontsize=9)


if __name__ == "__main__":
    for name, svg in {**graphs(), "readme.svg": readme()}.items():
        (HERE / name).write_text(svg)
        print(f"docs/images/{name}")
