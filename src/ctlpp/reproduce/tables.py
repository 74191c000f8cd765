"""What the templates need: numbers as text, and tables that are not simply rows of `results.parquet`.

Example:
    >>> mean({"mean": 0.7512, "std": 0.2704}), signed(-0.0312)
    ('0.75 ± 0.27', '−0.03')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ctlpp.analysis.folder import MEASURES, PREDICTORS
from ctlpp.reproduce.judge import UNDECIDED
from ctlpp.reproduce.pieces import read_failure
from ctlpp.reproduce.plan import PlannedRun, seconds
from ctlpp.reproduce.results import RUNS, Results, correlations
from ctlpp.reproduce.run_result import ALL, RULE, Row, RunResult
from ctlpp.runs.folder import RunRecord
from ctlpp.runs.untrusted import as_dict, as_str
from ctlpp.statistics.published import TITLES
from ctlpp.statistics.summary import Correlation
from ctlpp.words import duration

NONE = "–"


def number(value: float | None, digits: int = 2) -> str:
    """An accuracy as the paper prints it, with a real minus sign."""
    return NONE if value is None else f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 2) -> str:
    """A difference, with its sign."""
    return f"+{number(value, digits)}" if value and round(value, digits) > 0 else number(value, digits)


def mean(row: Row, prefix: str = "") -> str:
    """Mean ± standard deviation; a single seed has no deviation."""
    own, std = row.get(f"{prefix}mean"), row.get(f"{prefix}std")
    return number(own) if std is None else f"{number(own)} ± {number(std)}"


def interval(row: Row, column: str, digits: int = 2) -> str:
    """The interval of a column: signed for a difference."""
    low, high = row.get(f"{column}_low"), row.get(f"{column}_high")
    if low is None or high is None:
        return NONE
    if column == "interval":
        return f"{number(low, digits)} – {number(high, digits)}"
    return f"{signed(low, digits)} to {signed(high, digits)}"


def estimate(row: Row, column: str, digits: int = 2) -> str:
    """A difference with its interval."""
    value = signed(row[column], digits)
    return value if row[f"{column}_low"] is None else f"{value} ({interval(row, column, digits)})"


def share(row: Row) -> str:
    """How many seeds are above 0.95, and the interval of their share."""
    if not row["seeds"]:
        return NONE
    low, high = row["above_95_share_low"], row["above_95_share_high"]
    return f"{row['above_95']} of {row['seeds']} ({100 * low:.0f} – {100 * high:.0f} %)"


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
    parts = [f"{title(row['model'])} on {row['variant']}"]
    parts += [f"{row['shared_functions']} + {row['shared_symbols']}"] if row["shared_functions"] else []
    parts += [f"table {row['table']}"] if row["table"] else []
    parts += [row["protocol"], *(["repeated sequences"] if row["repeated_sequences"] else [])]
    parts += [f"preset {row['preset']}"] if row["preset"] != "released" else []
    return cell(", ".join(parts))


def whole(value: int | None) -> str:
    """A number of steps."""
    return NONE if value is None else f"{value:,}"


def title(model: str) -> str:
    """A model's name in a table."""
    return TITLES.get(model, model)


def cell(text: object) -> str:
    """Text of others in one cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def time(value: float | None) -> str:
    """A time, roughly."""
    return duration(value) if value else NONE


def counted(results: Results, runs: Iterable[RunResult], split: str) -> Iterator[Row]:
    """The rows of runs: one where both ways to count seeds are the same."""
    for run in runs:
        yield results.row(run, split, ALL)
        if run.select(RULE) != run.seeds:
            yield results.row(run, split, RULE)


def device(results: Results) -> str:
    """The device for which times are estimated: a GPU, or a CPU for the miniature."""
    return "cpu" if results.is_miniature else "cuda"


def cost(results: Results, planned: Iterable[PlannedRun]) -> float:
    """Seconds for all that is missing of some runs."""
    return sum(seconds(one, len(results.missing(one)), device(results)) for one in planned)


def remaining(results: Results) -> list[Row]:
    """Planned and finished seeds by experiment, model and protocol, the time for the rest, and a total."""
    groups: dict[tuple[str, str, str], list[PlannedRun]] = {}
    for one in results.plan:
        groups.setdefault((one.experiments[0], title(one.model), one.protocol), []).append(one)
    rows: list[Row] = []
    for key, runs in [*groups.items(), (("all", "", ""), results.plan)]:
        row: Row = dict(zip(("experiment", "model", "protocol"), key, strict=True))
        done = sum(len(results.trained(one)) for one in runs)
        left = sum(len(results.missing(one)) for one in runs)
        rows.append(row | {"planned": done + left, "finished": done, "seconds": cost(results, runs)})
    return rows


def grid_table(results: Results) -> str:
    """OOD accuracy on S: a line for each model and number of shared functions, a column for symbols."""
    rows: dict[tuple[str, str, int], dict[int, str]] = {}
    for planned in results.asked("staged"):
        functions, symbols = (planned.options[f"shared_{name}"] for name in ("functions", "symbols"))
        run = results.finished(planned)
        line = rows.setdefault((title(planned.model), planned.protocol, functions), {})
        line[symbols] = f"{mean(row := results.row(run))} ({row['seeds']})" if run else NONE
    head = sorted({symbols for line in rows.values() for symbols in line})
    body = [[*map(str, key), *(line.get(symbols, NONE) for symbols in head)] for key, line in rows.items()]
    return markdown(["", "", "shared functions", *(f"{symbols} shared symbols" for symbols in head)], body)


def predictors_table(results: Results) -> str:
    """Pearson's correlation with OOD accuracy: a line for each measure, a column for each run."""
    every = {run.name: found for run in results.main_runs() if (found := correlations(run))}
    seeds = {name: max(one.seeds for one in found.values()) for name, found in every.items()}
    head = [f"{name_of(results.row(results.runs[name]))} ({seeds[name]} seeds)" for name in every]
    body = [
        [MEASURES[measure].label, *(_correlation(found.get(measure)) for found in every.values())]
        for measure in (PREDICTORS if every else ())
    ]
    return markdown(["", *head], body)


def _correlation(one: Correlation | None) -> str:
    return NONE if one is None else f"{number(one.pearson)} ({number(one.low)} to {number(one.high)})"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


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
        *((run.name, "unplanned", "the plan has no such run") for run in results.unplanned_runs),
    ]
