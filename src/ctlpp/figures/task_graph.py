"""The drawing of a task's two sampling graphs."""

from __future__ import annotations

from ctlpp.benchmark.graph import Edge
from ctlpp.benchmark.task import Task
from ctlpp.figures.sampling_graph import draw_sampling_graph

TITLES = {
    "CTL": "CTL (productivity)",
    "A": "CTL++ A (alternating)",
    "R": "CTL++ R (repeating)",
    "S": "CTL++ S (staged)",
}


def draw_task(task: Task) -> str:
    """SVG text: training and OOD graph in one drawing."""
    return draw_sampling_graph(
        title=TITLES.get(task.variant, task.variant),
        group_sizes={group: len(names) for group, names in task.groups.items()},
        train_edges=task.train_graph.edges,
        ood_edges=task.ood_graph.edges,
        restricted=restricted_edges(task),
    )


def restricted_edges(task: Task) -> list[Edge]:
    """The training edges on which some function may not receive every symbol."""
    home = {name: group for group, names in task.groups.items() for name in names}
    partial = [r for r in task.train_graph.restrictions if len(r.symbols) < task.n_symbols]
    return sorted({(r.source, home[r.function]) for r in partial})
