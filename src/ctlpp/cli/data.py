"""`ctlpp generate`, `check` and `show`: datasets and their sampling graphs."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from functools import wraps
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

from typer import Argument, Option

from ctlpp.benchmark.variants import VARIANTS, Settings
from ctlpp.cli.options import DatasetFolder, Force
from ctlpp.cli.output import make_table, print_next, print_table, progress, working
from ctlpp.files import UserError

if TYPE_CHECKING:
    from ctlpp.benchmark.dataset import Dataset
    from ctlpp.benchmark.task import Task
    from ctlpp.storage.proof import Proof

GRAPH = f"{', '.join(VARIANTS)}, or a TOML file with your own graph"
Variant = Annotated[str, Argument(metavar="VARIANT", help=f"{GRAPH}; or a dataset folder.")]
Data = dict[str, Any]  # the settings of a dataset that stand on the command line
COMMON = ("symbols", "functions", "max_length", "train", "iid", "ood", "seed", "protocol")
TASK = ("symbols", "functions", "max_length", "seed", "shared_functions", "shared_symbols", "ood_max_length")
METAVARS = {int: "N", float: "X", bool: ""}
_KINDS = get_type_hints(Settings)
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def data_options(
    *names: str, shown: Sequence[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add options for these settings of a dataset (or all) to a command, which gets those given as `data`.

    shown: those that its help has; the others work, too.
    """
    settings = [one for one in fields(Settings)[1:] if not names or one.name in names]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            data = {one.name: values.pop(one.name) for one in settings}
            command(**values, data={name: value for name, value in data.items() if value is not None})

        own = inspect.signature(command, eval_str=True).parameters
        parameters = [parameter.replace(kind=_KEYWORD) for name, parameter in own.items() if name != "data"]
        parameters += [_parameter(one, shown is None or one.name in shown) for one in settings]
        del run.__wrapped__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _parameter(setting: Field[Any], shown: bool) -> inspect.Parameter:
    """The option for a setting. Its default is None, so that those that were given are known."""
    hint = _KINDS[setting.name]
    kind = (*get_args(hint), hint)[0]  # of several, the first
    default = "" if setting.default is None else f" [default: {setting.default}]"
    help, metavar = setting.metadata["help"] + default, METAVARS.get(kind, "NAME")
    option = Option(help=help, metavar=metavar, rich_help_panel="The data", hidden=not shown)
    return inspect.Parameter(setting.name, _KEYWORD, default=None, annotation=Annotated[kind | None, option])


def check_unused(data: Data, folder: str) -> None:
    """Refuse settings that a dataset folder has answered already."""
    for name in data:
        raise UserError(f"‹{name}›: {folder} is a dataset folder that has this already; leave it out")


@data_options()
def generate(
    variant: Annotated[str, Argument(metavar="VARIANT", help=f"{GRAPH}.")],
    out: Annotated[Path, Option(help="The folder to write.", metavar="DIR")],
    data: Data,
    format: Annotated[
        Literal["parquet", "jsonl", "text"], Option(help="Format of the split files.")
    ] = "parquet",
    force: Force = False,
) -> None:
    """Write a dataset: train, iid, ood and diagnostic splits, task.json and a dataset card.

    `ctlpp generate A --out data/A`

    `ctlpp generate S --shared-functions 16 --shared-symbols 6 --out data/S-16-6`

    `ctlpp generate my-graph.toml --max-length 4 --train 5000 --format jsonl --out data/mine`
    """
    from ctlpp.benchmark.dataset import generate as draw
    from ctlpp.storage.folder import check_target, save

    check_target(out, force=force)
    with working("Drawing the examples"):
        dataset = draw(variant, **data)
    with progress("Writing", sum(map(dataset.size, dataset.splits))) as written:
        save(dataset, out, format=format, force=force, advance=written)
    print_splits(dataset, out)


def check(folder: DatasetFolder) -> None:
    """Prove a dataset folder from its task.json alone; fail with the first offending example.

    Proved are: outputs, membership in the sampling graph, no duplicates, disjoint splits, the fill rule,
    counts and checksums.

    `ctlpp check data/A`
    """
    from ctlpp.storage.proof import check as prove

    print_proof(prove(folder), folder)


@data_options(*TASK)
def show(
    variant: Variant,
    data: Data,
    out: Annotated[Path | None, Option(help="Draw the graph into this SVG file.", metavar="FILE.svg")] = None,
    force: Force = False,
    solutions: Annotated[
        bool, Option("--solutions", help="Count the assignments of codes that fit the training data.")
    ] = False,
) -> None:
    """The sampling graph of a variant: groups, edges, distinct examples of each length, and two examples.

    `ctlpp show S`

    `ctlpp show S --shared-functions 4 --shared-symbols 2 --solutions`

    `ctlpp show A --out a.svg`

    `ctlpp show data/A`
    """
    from ctlpp.benchmark.task import make_task
    from ctlpp.figures.graph import draw_task
    from ctlpp.files import write_atomically
    from ctlpp.storage.folder import read_task

    if Path(variant).is_dir():
        check_unused(data, variant)
        task = read_task(Path(variant))[0]
    else:
        task = make_task(Settings(variant=variant, **data))
    if out is not None:
        if out.suffix != ".svg":
            raise UserError(f"‹out› {out}: the drawing is SVG; name a file that ends in .svg")
        if os.path.lexists(out) and not force:
            raise UserError(f"{out} exists already: choose another file, or replace it with ‹force=True›")
        write_atomically(out, draw_task(task).encode())
    print_task(task)
    if solutions:
        print_solutions(task)
    if out is not None:
        print_table(f"Drawn in {out}.")
    if Path(variant).is_dir():
        print_next("check", variant)
    else:
        print_next("generate", variant, "--out", f"data/{task.variant}")


def print_splits(dataset: Dataset, folder: Path) -> None:
    """The splits of a dataset and their sizes by length."""
    lengths = sorted({length for split in dataset.splits.values() for length in split})
    rows = make_table("", "split", "examples", *(f"L={n}" for n in lengths), "in\ntrain")
    for name, split in dataset.splits.items():
        sizes = [f"{len(split[n]):,}" if n in split else "" for n in lengths]
        shared = f"{dataset.shared('train', name):,}" if name in ("iid", "ood") else ""
        rows.add_row(name, f"{dataset.size(name):,}", *sizes, shared)
    print_table(title_of(dataset.task), rows, f"Written to {folder}.")
    print_next("check", folder)


def print_proof(proof: Proof, folder: Path) -> None:
    """What was proved of a dataset folder."""
    from ctlpp.storage.card import span

    rows = make_table("", "split", "examples", "lengths", "in train", "in iid")
    for name, split in proof.dataset.splits.items():
        common = [str(proof.overlaps.get((one, name), "")) for one in ("train", "iid")]
        rows.add_row(name, f"{proof.dataset.size(name):,}", span(split), *common)
    shared = make_table("", "split", "function sequences", "in train", "twins in train")
    for name, own in proof.shared.items():
        shared.add_row(name, f"{own.distinct:,}", f"{own.in_train:,}", f"{own.twins:,}")
    print_table(
        title_of(proof.dataset.task),
        rows,
        shared,
        "Every output is right; every example is in its graph; counts and checksums hold.",
        f"Pairs that occur twice in train: {proof.doubled:,}. No other example occurs twice.",
        "The training and OOD graphs have no example in common; no other splits share what they must not.",
        f"{folder} is proved.",
    )
    print_next("train", "lstm", folder, "--preset", "quick", "--out", "runs/lstm")


def print_task(task: Task) -> None:
    """Groups, edges, counts and examples."""
    groups = make_table("Groups", "group", "functions", "names", left=2, wrap=("names",))
    for group, names in task.groups.items():
        groups.add_row(group, str(len(names)), shorten(" ".join(names), 300, placeholder=" …"))
    edges = make_table("Edges", "from", "to", "in", "restricted", left=4)
    for edge in dict.fromkeys((*task.train_graph.edges, *task.ood_graph.edges)):
        in_train, in_ood = edge in task.train_graph.edges, edge in task.ood_graph.edges
        where = "both" if in_train and in_ood else "training" if in_train else "OOD"
        edges.add_row(*edge, where, _restriction(task, edge))
    counts = make_table("Distinct examples", "length", "training", "OOD")
    for length in sorted({*task.train_graph.lengths, *task.ood_graph.lengths}):
        counts.add_row(str(length), *(f"{task.language(name).count(length):,}" for name in ("train", "ood")))
    texts = ("example", "that is", "groups in order")
    examples = make_table("Examples", "graph", *texts, wrap=texts)
    for name, graph in (("train", "training"), ("ood", "OOD")):
        examples.add_row(graph, *(shorten(text, 300, placeholder=" …") for text in _example(task, name)))
    print_table(title_of(task), groups, edges, counts, examples)


def print_solutions(task: Task) -> None:
    """How many assignments of codes fit the training data, without and with codes to spare."""
    from ctlpp.benchmark.solutions import MOST, count_solutions

    rows = make_table("", "codes", "fit the training data", "of these compose")
    for codes in (task.n_symbols, task.n_symbols + 1, task.n_symbols + 2):
        found = count_solutions(task, codes)
        more = "more than " if found.fit == MOST else ""
        rows.add_row(str(codes), f"{more}{found.fit:,}", f"{found.compose:,}")
    note = "One that fits: the data determine the answers. See docs/concepts/models-that-compose.md"
    print_table("Assignments of codes to the values that groups hand on", rows, note)


def title_of(task: Task) -> str:
    """One line that names a task."""
    sizes = f"{task.n_functions} functions, {task.n_symbols} symbols"
    if task.shared_functions:
        sizes += f", {task.shared_functions} shared functions, {task.shared_symbols} shared symbols"
    return f"{task.variant}: {sizes} (protocol {task.protocol}, seed {task.seed}, {task.order})"


def _example(task: Task, split: str) -> tuple[str, str, str]:
    """An example as it is written, as an equation, and the groups of its functions, first one first."""
    from ctlpp.benchmark.sampling import Stream, draw

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
    """How many symbols may pass along an edge in training; empty if all may."""
    from ctlpp.benchmark.graph import OUT

    source, target = edge
    functions = () if target == OUT else task.groups[target]
    rules = task.train_graph.restrictions
    sizes = [len(rule.symbols) for rule in rules if rule.source == source and rule.function in functions]
    if not sizes or min(sizes) == task.n_symbols:
        return ""
    span = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    return f"{span} of {task.n_symbols} symbols"
