"""The page: one HTML file with its styles, its script and all data in it.

Whatever comes from files goes in as data. JSON stands in a block of its own that no text can leave, since `<`
is written as an escape; the script puts it on the page as text, never as HTML. A content security policy lets
the browser run this page's own script only, and connect to nothing.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import jinja2

import ctlpp
from ctlpp.analysis.geometry import SILHOUETTE
from ctlpp.figures.graph import draw_task
from ctlpp.files import UserError, check_writable, write_atomically
from ctlpp.report.compare import DATA, RULE, SPLITS, Setting, group_by_setting, kind_of_data
from ctlpp.report.package import FINEST, Package, correlate_settings, pack
from ctlpp.runs.folder import RunRecord, find_runs
from ctlpp.runs.history import accuracies
from ctlpp.runs.untrusted import as_dict, as_int, as_list, as_str
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import ENOUGH_SEEDS, MANY_SEEDS, summarise
from ctlpp.statistics.verdict import HIGHER, LOWER, REPRODUCED, UNDECIDED
from ctlpp.storage.folder import task_from_dict
from ctlpp.training.recipe import RECIPES
from ctlpp.words import plural

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("dom", "charts", "matrix", "state", "overview", "inside", "measures", "curves", "runs", "main")
LARGEST = 14_800_000  # bytes that a page should not exceed
LEVELS = (FINEST, 128, 64, 32, 16, 8)  # of similarity: as many as fit
PRESETS = {"authors": "authors’ code", "text": "paper’s text"}  # what pages call hyper-parameters
MOST_SETTINGS, MOST_LETTERS = 200, 400  # of a run, of a setting
MOST_GROUPS, MOST_EDGES = 40, 400  # that are drawn
NOT_RUN = "not run"


@dataclass(frozen=True)
class PageKind:
    """A kind of page that we write: only one of the same kind is ever replaced."""

    noun: str  # "a report"
    endings: tuple[str, ...]  # of its file
    mark: bytes  # among its first lines


REPORT = PageKind("a report of ctlpp", (".html", ".htm"), b"CTL++ report</title>")


@dataclass(frozen=True)
class Written:
    """What a report covers."""

    runs: int
    analysed: int
    size: int  # bytes
    notes: tuple[str, ...]


def write_report(
    folders: Sequence[Path | str],
    out: Path | str,
    *,
    force: bool = False,
    title: str = "",
    start: Callable[[int], Callable[[int], None]] = lambda runs: lambda done: None,
) -> Written:
    """Collect the runs in and under the folders and write one page about them.

    title: the headline; without one the page counts its verdicts.
    start: told the number of runs, gives what to call with progress.
    """
    out = Path(out)
    check_target(out, REPORT, force=force)
    records = find_runs([Path(folder) for folder in folders])
    advance, packages = start(len(records)), []
    for record in records:
        packages.append(pack(record))
        advance(1)
    page = make_page(records, packages, title=title).encode()
    write_atomically(out, page)
    analysed = sum("inside" in package.facts for package in packages)
    return Written(len(records), analysed, len(page), tuple(_notes(records, packages)))


def check_target(path: Path, kind: PageKind, *, force: bool) -> None:
    """Raise UserError if a page must not be written there: call it before the work for it."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name the file to write, like {path / f'page{kind.endings[0]}'}")
    if path.suffix.lower() not in kind.endings:
        raise UserError(f"{path} does not fit {kind.noun}: name a file that ends in {kind.endings[0]}")
    if os.path.lexists(path) and not _is_page(path, kind):
        raise UserError(f"{path} is not {kind.noun}, so it is not replaced: move it, or choose another place")
    if os.path.lexists(path) and not force:
        raise UserError(f"{path} exists already: choose another file, or replace it with ‹force=True›")
    check_writable(path)


def _is_page(path: Path, kind: PageKind) -> bool:
    """Whether a file is a page that we wrote, now or in an earlier version: by its first lines."""
    try:
        with path.open("rb") as file:
            return kind.mark in file.read(4_000)
    except OSError:
        return False


def _notes(records: Sequence[RunRecord], packages: Sequence[Package]) -> Iterator[str]:
    """Which runs are not finished ones of ours, and which analyses are damaged or old."""
    words = {"version": "of another version", "foreign": "no run of ctlpp"}
    for state in ("unfinished", "damaged", "version", "foreign"):
        if names := [record.name for record in records if record.state == state]:
            more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
            yield f"{len(names)} {words.get(state, state)}: {', '.join(names[:3])}{more}"
    for record, package in zip(records, packages, strict=True):
        if package.damage:
            yield f"the analysis of {record.name} is damaged: {'; '.join(package.damage)}"
        if stale := package.facts.get("inside", {}).get("stale"):
            remedy = stale["command"] or "there is no checkpoint to analyse"
            yield f"the analysis of {record.name} is older than its accuracies: {remedy}"


def make_page(
    records: Sequence[RunRecord],
    packages: Sequence[Package] | None = None,
    *,
    title: str = "",
    planned: int | None = None,
) -> str:
    """The HTML text of a report.

    packages: what `pack` makes of each record; made here unless given. planned: seeds of a plan that runs.
    """
    packages = [pack(record) for record in records] if packages is None else packages
    correlate_settings(records, packages)
    graphs: list[str] = []
    runs = [describe(record, package, graphs) for record, package in zip(records, packages, strict=True)]
    settings = group_by_setting(records)
    entries = [entry for setting in settings for entry in describe_setting(setting, records)]
    verdicts = count_verdicts(settings)
    data: dict[str, Any] = {
        "version": ctlpp.__version__,
        "date": max((as_str(record.config.get("started"))[:10] for record in records), default=""),
        "planned": planned,
        "title": title,
        "verdicts": verdicts,
        "titles": paper.TITLES,
        "names": DATA,
        "solved": paper.SOLVED,
        "learned": paper.LEARNED,
        "converged": paper.CONVERGED,
        "published_seeds": paper.SEEDS,
        "staged": paper.STAGED,
        "enough": ENOUGH_SEEDS,
        "few": MANY_SEEDS,
        "silhouette": SILHOUETTE,
        "runs": runs,
        "results": entries,
    }
    room = LARGEST - len(embed(data)) - sum(map(len, graphs)) - 200_000
    for levels in LEVELS:
        texts = [package.text(levels) for package in packages]
        if sum(map(len, texts)) <= room:
            break
    scripts = "\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    template = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS), autoescape=True, trim_blocks=True, keep_trailing_newline=True
    ).get_template("page.html")
    text = template.render(
        headline=title or headline(verdicts, settings),
        means=[(runs[entry["runs"][0]], entry) for entry in entries],  # for browsers that run no script
        data=data | {"levels": levels},
        graphs=graphs,
        packages=texts,
        style=(ASSETS / "page.css").read_text(encoding="utf-8"),
        script=f'"use strict";\n(() => {{\n{scripts}}})();\n',
        digest=digest,
        embed=embed,
    )
    return text.encode(errors="replace").decode()  # names may have lone surrogates, which no file can hold


def describe_setting(setting: Setting, records: Sequence[RunRecord]) -> Iterator[dict[str, Any]]:
    """What the page has of a setting: statistics of both splits, and the published numbers if they apply.

    Where the paper counted by its rule there is a second entry for the seeds that this keeps.
    """
    first, published = setting.first, setting.published
    home = {seed.number: records.index(run) for run in reversed(setting.runs) for seed in run.seeds}
    ways = {"": setting.every} | ({f"as published: {RULE}": setting.by_rule} if setting.needs_rule else {})
    for note, counted in ways.items():
        entry = {
            "runs": sorted({records.index(run) for run in setting.runs}),
            "note": note,
            "reasons": setting.mismatches,
            "cell": first.cell if first.variant == "S" else None,
            "table": setting.table,
            "seeds": [[home[seed.number], seed.number] for seed in counted.seeds],
            "summary": {split: asdict(counted.summaries[split, 0]) for split in SPLITS},
            "lengths": {
                split: {length: one.mean for length, one in counted.by_length(split).items()}
                for split in SPLITS
            },
        }
        if published:
            verdicts = counted.verdicts.items()
            entry["published"] = {
                **asdict(published),
                "seeds": paper.SEEDS,
                "difference": {split: one.difference for split, one in verdicts},
                "interval": {split: one.interval for split, one in verdicts},
                "verdict": {split: one.word for split, one in verdicts},
            }
        yield entry


def count_verdicts(settings: Sequence[Setting]) -> dict[str, list[str]]:
    """For each verdict the published accuracies that have it, on the data nearest to the authors'."""
    found: dict[str, list[str]] = {word: [] for word in (REPRODUCED, HIGHER, LOWER, UNDECIDED, NOT_RUN)}
    for model, variant in paper.PUBLISHED:
        verdicts = {
            kind_of_data(setting.first): setting.as_published.verdicts["ood"].word
            for setting in settings
            if setting.published and not setting.table
            if (setting.first.model, setting.first.variant) == (model, variant)
        }
        word = next((verdicts[data] for data in DATA if data in verdicts), NOT_RUN)
        found[word].append(f"{paper.TITLES[model]} on {variant}")
    return {word: places for word, places in found.items() if places or word == REPRODUCED}


def headline(verdicts: dict[str, list[str]], settings: Sequence[Setting]) -> str:
    """What the page says first: verdicts, or without any the share of solved seeds."""
    if len(verdicts.get(NOT_RUN, ())) < len(paper.PUBLISHED):
        (_, reproduced), *rest = verdicts.items()
        others = "".join(f", {len(places)} {word}" for word, places in rest)
        return f"{len(reproduced)} of {len(paper.PUBLISHED)} published accuracies reproduced{others}"
    own = [setting.every.summaries["ood", 0] for setting in settings]
    solved, seeds = sum(one.solved for one in own), sum(one.seeds + one.diverged for one in own)
    share = f"{solved:,} of {seeds:,} seeds solved: OOD accuracy above {paper.SOLVED}"
    return share if own else "No finished run yet"


def embed(data: object) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def digest(content: str) -> str:
    """What a content security policy calls a text."""
    return "sha256-" + b64encode(sha256(content.encode()).digest()).decode()


def describe(record: RunRecord, package: Package, graphs: list[str]) -> dict[str, Any]:
    """The entry of one run; a sampling graph that no run before had is appended to `graphs`."""
    graph = draw_sampling_graph(json.dumps(record.task))
    if graph and graph not in graphs:
        graphs.append(graph)
    summaries = {split: summarise(accuracies(record.seeds, split), interval=(0, 0)) for split in SPLITS}
    inside = package.facts.get("inside", {})
    return {
        **{name: getattr(record, name) for name in ("model", "variant", "name", "state", "reason", "step")},
        "data": kind_of_data(record),
        "hyper": PRESETS.get(record.preset, record.preset),
        "own": bool(record.config) and record.model not in RECIPES["authors"],
        "task": _task_labels(record.task),
        "symbols": len(as_list(record.task.get("symbols"))) or as_int(record.config.get("n_classes")),
        "parameters": as_int(record.config.get("parameters")),
        "diverged": sum(seed.diverged for seed in record.seeds),
        "seeds": [[seed.number, *map(seed.accuracy.get, SPLITS), seed.diverged] for seed in record.seeds],
        "summary": {
            split: {"mean": one.mean, "std": one.std, "solved": one.solved}
            for split, one in summaries.items()
        },
        "settings": list_settings(record),
        "graph": graphs.index(graph) if graph else None,
        "inside": "similarity" in package.arrays or "right" in package.arrays,
        "stale_step": inside["step"] if "stale" in inside else None,
    }


def _task_labels(task: dict[str, Any]) -> list[str]:
    """What tells data apart: sizes, what S shares, another function table."""
    counts = {
        "function": len(as_dict(task.get("functions"))) or None,
        "symbol": len(as_list(task.get("symbols"))) or None,
        "shared function": as_int(task.get("shared_functions")),
        "shared symbol": as_int(task.get("shared_symbols")),
    }
    found = [plural(number, noun) for noun, number in counts.items() if number is not None]
    table = as_int(task.get("seed"))
    return [*found, f"function table {table}"] if table else found


def list_settings(record: RunRecord) -> list[list[str]]:
    """Everything that decided the result: section, name, value."""
    config, task = record.config, record.task
    sections = {"run": {name: value for name, value in config.items() if not isinstance(value, dict)}}
    sections |= {name: value for name, value in config.items() if isinstance(value, dict)}
    plain = {name: value for name, value in task.items() if not isinstance(value, dict | list)}
    sections["task"] = plain | as_dict(task.get("recipe"))
    rows = []
    for section, values in sections.items():
        for name, value in values.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            rows.append([as_str(section), as_str(name), text[:MOST_LETTERS]])
    return rows[:MOST_SETTINGS]


@lru_cache(maxsize=1000)
def draw_sampling_graph(text: str) -> str | None:
    """The SVG of the graphs of a task, given as JSON; None for what is no task or too large to draw."""
    try:
        task = task_from_dict(json.loads(text))
    except UserError:
        return None
    few = len(task.groups) <= MOST_GROUPS and len(task.train_graph.edges + task.ood_graph.edges) <= MOST_EDGES
    return draw_task(task) if few else None
