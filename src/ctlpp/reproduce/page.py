"""From the runs of a results folder to its tables, figures and page: they depend on nothing else.

    OUT/results.parquet, OUT/predictors.parquet    the numbers
    OUT/results.md                                 the same as tables, from `results.md.j2`
    OUT/figures/                                   drawings
    OUT/report.html                                the page of `ctlpp report`
    OUT/findings.md                                written by people; the page includes it

The page is made from `page.md.j2`; both templates take their tables from `tables.md.j2`, and what they need
for it from here: numbers as text, and tables that are not simply rows of `results.parquet`.

Example:
    >>> mean({"mean": 0.7512, "std": 0.2704}), signed(-0.0312)
    ('0.75 ± 0.27', '−0.03')
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import jinja2
import pyarrow.parquet as pq

from ctlpp.analysis.folder import MEASURES, PREDICTORS
from ctlpp.files import write_atomically
from ctlpp.models import DEFAULT_PRESET
from ctlpp.plans.pieces import read_failure
from ctlpp.plans.planned import DEVICES, seconds
from ctlpp.report.compare import ALL, RULE
from ctlpp.report.page import PageKind, make_page
from ctlpp.reproduce.drawings import FORMATS, NAMES, draw_all
from ctlpp.reproduce.examples import find_examples
from ctlpp.reproduce.plan import CONDITIONS
from ctlpp.reproduce.results import (
    RUNS,
    Results,
    Row,
    RunResult,
    correlations_table,
    load_results,
    results_table,
)
from ctlpp.runs.folder import RunRecord, find_runs
from ctlpp.runs.untrusted import as_dict, as_str
from ctlpp.statistics import published as paper
from ctlpp.statistics.verdict import UNDECIDED
from ctlpp.words import duration

PAGE = PageKind("a page of ctlpp reproduce", (".md",), b"# Does it reproduce?")
FIGURES = "figures"
NONE = "–"


def write_results(folder: Path, page: Path | None = None) -> str:
    """Write tables, figures, report and page of everything that has run; gives what there is to say of it."""
    results = load_results(folder)
    for name, table in (("results", results_table(results)), ("predictors", correlations_table(results))):
        pq.write_table(table, file := BytesIO())
        _replace(folder / f"{name}.parquet", file.getvalue())
    _replace(folder / "results.md", render("results.md.j2", results, folder / "results.md").encode())
    figures = dict(draw_all(results))
    for name, content in figures.items():
        _replace(folder / FIGURES / name, content)
    for gone in {f"{stem}.{kind}" for stem in NAMES for kind in FORMATS} - figures.keys():
        (folder / FIGURES / gone).unlink(missing_ok=True)
    total = remaining(results)[-1]
    if any(run.setting.runs or run.unusable for run in results.runs.values()):
        report = make_page(find_runs([folder / RUNS]), planned=total["planned"])
        _replace(folder / "report.html", report.encode())
    else:
        (folder / "report.html").unlink(missing_ok=True)
    if page is not None:
        _replace(page, render("page.md.j2", results, page).encode())
    unusable = [record for run in results.runs.values() for record in run.unusable]
    notes = [f"{RUNS}/{record.name}: {record.state}, {record.reason}" for record in unusable]
    return "\n".join([f"{total['finished']:,} of {total['planned']:,} planned seeds have run", *notes])


def _replace(path: Path, content: bytes) -> None:
    """Write a file, unless it is the same already."""
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)


def render(template: str, results: Results, page: Path) -> str:
    """Fill a template; links lead from the page to the results folder."""
    here, findings = page.parent.resolve(), results.folder / "findings.md"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    filters = (number, signed, mean, estimate, share, solved, verdict, name_of, cell, time)
    functions = (cost, remaining, grid_table, describe_record, problems, find_examples)
    environment.filters |= {function.__name__: function for function in filters}
    environment.globals |= {function.__name__: function for function in functions}
    environment.globals |= {
        "results": results,
        "paper": paper,
        "ALL": ALL,
        "RULE": RULE,
        "conditions": CONDITIONS,
        "measures": {name: MEASURES[name].label for name in PREDICTORS},
        "folder": results.folder.resolve().name,
        "device": DEVICES[device(results)],
        "link": lambda name: Path(os.path.relpath(results.folder.resolve() / name, here)).as_posix(),
        "has_figure": lambda name: (results.folder / FIGURES / f"{name}.png").is_file(),
        "findings": findings.read_text(encoding="utf-8") if findings.is_file() else "",
    }
    return environment.get_template(template).render()


def number(value: float | None, digits: int = 2) -> str:
    """With so many digits, a real minus sign and commas; an accuracy as the paper prints it."""
    return NONE if value is None else f"{round(value, digits) + 0.0:,.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 2) -> str:
    """A difference, with its sign."""
    return f"+{number(value, digits)}" if value and round(value, digits) > 0 else number(value, digits)


def mean(row: Row, prefix: str = "") -> str:
    """Mean ± standard deviation; a single seed has no deviation."""
    own, std = row.get(f"{prefix}mean"), row.get(f"{prefix}std")
    return number(own) if std is None else f"{number(own)} ± {number(std)}"


def estimate(row: Row, column: str, digits: int = 2) -> str:
    """A difference with its interval."""
    value, *ends = (signed(row[name], digits) for name in (column, f"{column}_low", f"{column}_high"))
    return value if row[f"{column}_low"] is None else f"{value} ({' to '.join(ends)})"


def share(row: Row) -> str:
    """How many seeds are above 0.95, and the interval of their share."""
    if row["above_95_share_low"] is None:
        return NONE
    low, high = 100 * row["above_95_share_low"], 100 * row["above_95_share_high"]
    return f"{solved(row)} ({low:.0f} – {high:.0f} %)"


def solved(row: Row) -> str:
    """How many seeds are above 0.95, of all, those that diverged among them."""
    tried = row["seeds"] + row["diverged"] * (row["selection"] == ALL)
    return f"{row['above_95']} of {tried}" if tried else NONE


def verdict(row: Row) -> str:
    """The verdict, with the difference from the published mean if it says something."""
    word = row.get("verdict")
    if word is None:
        return "not compared"
    if row["iid_differs"]:
        return f"undecided: IID is **{row['iid_differs']}**"
    return word if word == UNDECIDED else f"**{word}**"


def name_of(row: Row) -> str:
    """Model, variant and whatever is special about the data."""
    parts = [f"{paper.TITLES.get(row['model'], row['model'])} on {row['variant']}"]
    parts += [f"{row['shared_functions']} + {row['shared_symbols']}"] if row["shared_functions"] else []
    parts += [f"table {row['table']}"] if row["table"] else []
    parts += [row["protocol"], *row["special"]]
    parts += ["repeated sequences"] if row["repeated_sequences"] else []
    parts += [f"preset {row['preset']}"] if row["preset"] != DEFAULT_PRESET else []
    return cell(", ".join(parts))


def cell(text: object) -> str:
    """Text of others in one cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def time(value: float | None) -> str:
    """A time, roughly."""
    return duration(value) if value else NONE


def device(results: Results) -> str:
    """The device for which times are estimated: a GPU, or a CPU for the miniature."""
    return "cpu" if results.is_miniature else "cuda"


def cost(results: Results, runs: Iterable[RunResult]) -> float:
    """Seconds for all that is missing of some planned runs."""
    kind = device(results)
    return sum(seconds(run.planned, len(run.missing), kind) for run in runs if run.planned)


def remaining(results: Results) -> list[Row]:
    """Planned and finished seeds by experiment, model and protocol, the time for the rest, and a total."""
    groups: dict[tuple[str, str, str], list[RunResult]] = {}
    for name, planned in results.plan.items():
        key = planned.experiments[0], paper.TITLES[planned.model], planned.protocol
        groups.setdefault(key, []).append(results.runs[name])
    groups["all", "", ""] = [results.runs[name] for name in results.plan]
    rows: list[Row] = []
    for key, runs in groups.items():
        row: Row = dict(zip(("experiment", "model", "protocol"), key, strict=True))
        done, left = sum(len(run.trained) for run in runs), sum(len(run.missing) for run in runs)
        rows.append(row | {"planned": done + left, "finished": done, "seconds": cost(results, runs)})
    return rows


def grid_table(results: Results) -> str:
    """OOD accuracy on S: a line for each model and number of shared functions, a column for symbols."""
    rows: dict[tuple[str, str, int], dict[int, str]] = {}
    for name, planned in results.plan.items():
        if "staged" in planned.experiments:
            run, options = results.runs[name], planned.options
            key = paper.TITLES[planned.model], planned.protocol, options["shared_functions"]
            text = f"{mean(run.row())} ({run.row()['seeds']})" if run.setting.seeds else NONE
            rows.setdefault(key, {})[options["shared_symbols"]] = text
    head = sorted({symbols for line in rows.values() for symbols in line})
    lines = [["", "", "shared functions", *(f"{symbols} shared symbols" for symbols in head)]]
    lines.append(["---"] * len(lines[0]))
    lines += [[*map(str, key), *(line.get(symbols, NONE) for symbols in head)] for key, line in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def describe_record(record: RunRecord) -> list[str]:
    """Where and with what a run folder was trained, and whether it counts."""
    engine, versions = (as_dict(record.config.get(name)) for name in ("engine", "versions"))
    analysed = (record.folder / "analysis" / "analysis.json").is_file()
    return [
        f"`{record.name}`",
        as_str(engine.get("device_name")),
        time(record.seconds),
        as_str(versions.get("torch")),
        as_str(record.config.get("started"))[:10],
        record.state if analysed or record.state != "finished" else "finished, not analysed",
    ]


def problems(results: Results) -> list[tuple[str, str, str]]:
    """Runs that are not as planned: name, state, and why."""
    notes = sorted((results.folder / RUNS).glob("*/*.failed.json"))
    failed = [note.with_name(note.name.removesuffix(".failed.json")) for note in notes]
    return [
        *((one.name, one.state, one.reason) for run in results.runs.values() for one in run.unusable),
        *((f"{one.parent.name}/{one.name}", "failed", why) for one in failed if (why := read_failure(one))),
        *((run.name, "unplanned", "the plan has no such run") for run in results.finished if not run.planned),
    ]
