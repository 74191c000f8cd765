"""What the data commands print."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from ctlpp.benchmark.dataset import Dataset
from ctlpp.benchmark.drawing import draw
from ctlpp.benchmark.graph import OUT
from ctlpp.benchmark.streams import Stream
from ctlpp.benchmark.task import Task
from ctlpp.storage.card import span
from ctlpp.storage.checking import Proof


def table(title: str, *columns: str, left: int = 1) -> Table:
    """A table whose first `left` columns are text and whose others are numbers; no title if it is empty."""
    result = Table(title=title or None, box=SIMPLE_HEAD, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        result.add_column(column, justify="left" if i < left else "right", no_wrap=i < left)
    return result


def print_table(*parts: Table | str) -> None:
    """Print to stdout, as wide as the content wants if it is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    for part in parts:
        if isinstance(part, Table):
            print_whole(part, console)
        else:
            console.print(part, markup=False, soft_wrap=True)


def print_whole(table: Table, console: Console) -> None:
    """Numbers are never cut: a table that is too wide gives up its padding, then it runs over the edge."""
    screen, endless = console.width, console.options.update(max_width=10_000)
    if Measurement.get(console, endless, table).minimum > screen:
        table.padding = (0, 0)
    console.width = max(screen, Measurement.get(console, endless, table).minimum)
    console.print(table, markup=False)
    console.width = screen


def print_splits(dataset: Dataset, folder: Path) -> None:
    """The splits of a dataset and their sizes by length."""
    lengths = sorted({length for split in dataset.splits.values() for length in split})
    rows = table("", "split", "examples", *(f"L={n}" for n in lengths))
    for name, split in dataset.splits.items():
        sizes = [f"{len(split[n]):,}" if n in split else "" for n in lengths]
        rows.add_row(name, f"{dataset.size(name):,}", *sizes)
    notes = []
    if dataset.task.protocol == "released" and "iid" in dataset.splits:
        notes += [
            f"The released protocol adds all pairs: {dataset.shared('train', 'iid')} iid examples are in train."
        ]
    if limit := dataset.recipe.get("distinct_sequences"):
        notes += [f"Of each length, train and iid were drawn from at most {limit} function sequences."]
    print_table(title_of(dataset.task), rows, *notes, f"Written to {folder}")


def print_proof(proof: Proof, folder: Path) -> None:
    """What was proved of a dataset folder."""
    rows = table("", "split", "examples", "lengths", "shared with train", "with iid")
    for name, n in proof.examples.items():
        shared = [
            str(proof.overlaps[one, name]) if (one, name) in proof.overlaps else ""
            for one in ("train", "iid")
        ]
        rows.add_row(name, f"{n:,}", span(proof.lengths[name]), *shared)
    shared_count = sum(proof.overlaps.values())
    notes = [
        "Every output is right, every example is in its graph and occurs once, every count and checksum holds."
    ]
    notes.append(
        "No two of the sampled splits share what they must not share."
        if not shared_count
        else f"{shared_count} test examples are in train, as the released protocol has it."
    )
    notes.append("The train and OOD graphs have no example in common.")
    if proof.sequences:
        numbers = ", ".join(f"{n:,} (L={length})" for length, n in proof.sequences.items())
        notes.append(
            f"Train and iid have {numbers} function sequences, at most {proof.max_sequences} as the recipe says."
        )
    print_table(title_of(proof.task), rows, *notes, f"{folder} is proved.")


def print_task(task: Task) -> None:
    """Groups, edges and counts."""
    groups = table("Groups", "group", "functions", "names", left=3)
    groups.columns[-1].no_wrap = False
    for group, names in task.groups.items():
        groups.add_row(group, str(len(names)), _shortened(" ".join(names)))
    edges = table("Edges", "from", "to", "in", "restricted", left=4)
    both = dict.fromkeys((*task.train_graph.edges, *task.ood_graph.edges))
    for edge in both:
        in_train, in_ood = edge in task.train_graph.edges, edge in task.ood_graph.edges
        where = "both" if in_train and in_ood else "training" if in_train else "OOD"
        edges.add_row(*edge, where, _restriction(task, edge))
    counts = table("Distinct examples", "length", "training", "OOD")
    for length in sorted({*task.train_graph.lengths, *task.ood_graph.lengths}):
        counts.add_row(str(length), *(f"{task.language(name).count(length):,}" for name in ("train", "ood")))
    examples = table("Examples", "graph", "example", "that is", "groups in order", left=4)
    for name, graph in (("train", "training"), ("ood", "OOD")):
        examples.add_row(graph, *map(_shortened, _example(task, name)))
    print_table(title_of(task), groups, edges, counts, examples)


def title_of(task: Task) -> str:
    """One line that names a task."""
    shared = (
        f", {task.shared_functions} shared functions, {task.shared_symbols} shared symbols"
        if task.shared_functions
        else ""
    )
    return (
        f"{task.variant}: {task.n_functions} functions, {task.n_symbols} symbols{shared} "
        f"(protocol {task.protocol}, seed {task.seed}, {task.order})"
    )


def _example(task: Task, split: str) -> tuple[str, str, str]:
    """An example as it is written, as an equation, and the groups of its functions, first one first."""
    language = task.language(split)
    lengths = [n for n in language.graph.lengths if language.count(n)]
    length = max((n for n in lengths if n <= 4), default=lengths[0])
    drawn = draw(language, length, 1, "uniform", Stream(task.seed, split, length))
    names, groups = list(task.functions), [*task.groups]
    applied = drawn.functions[0].tolist()
    output = task.symbols[drawn.outputs(task.table)[0]]
    equation = task.symbols[drawn.starts[0]]
    for function in applied:
        equation = f"{names[function]}({equation})"
    order = " ".join(groups[language.group_of[function] - 1] for function in applied)
    return task.describe(drawn), f"{equation} = {output}", order


def _restriction(task: Task, edge: tuple[str, str]) -> str:
    source, target = edge
    if target == OUT:
        return ""
    sizes = [
        len(r.symbols)
        for r in task.train_graph.restrictions
        if r.source == source and r.function in task.groups[target]
    ]
    if not sizes or min(sizes) == task.n_symbols:
        return ""
    span = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    return f"{span} of {task.n_symbols} symbols"


def _shortened(text: str, width: int = 72) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
