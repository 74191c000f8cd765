"""Plans are lists of runs: the paper's experiments, two of our own, earlier ones, and the demo.

Example:
    >>> for run in plan("table1", only=["ndr/R"]):
    ...     print(run.name, len(run.seeds), "seeds", run.steps, "steps")
    ndr-R-authors 25 seeds 80000 steps
    ndr-R-clean 25 seeds 80000 steps
    ndr-R-text 25 seeds 80000 steps
    >>> sum(not run.ended for run in plan("staged"))
    60
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from ctlpp.benchmark.variants import PROTOCOLS
from ctlpp.files import UserError
from ctlpp.models import DEFAULT_PRESET
from ctlpp.plans.planned import REPEATS, Options, PlannedRun, current_name, name_run
from ctlpp.training.recipe import RECIPES
from ctlpp.words import OLD_PRESETS, OLD_PROTOCOLS

EXPERIMENTS = ("table1", "similarity", "data", "staged", "tables", "repeats")
# With `until="settled"`: every seed at IID 1.00, and no accuracy moves by more than this, in 20 evaluations.
SETTLED: Options = (("early_stop", 20), ("settled_accuracy", 0.995), ("settled_change", 0.05))


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large everything is at a scale; the structure of the plan is the same at both."""

    preset: str
    protocols: tuple[str, ...]  # of table1; the first is that of all else
    seeds: int  # of a run of table1
    transformers: int  # as many Transformers, for some never learn
    few: int  # seeds of a cell of the S grid …
    transformers_on_s: int  # … and of Transformers
    shared_functions: tuple[int, ...]  # the S grid
    shared_symbols: tuple[int, ...]
    data: Options = ()  # of A and R
    staged: Options = ()  # of S
    steps: Mapping[str, int] = field(default_factory=dict)  # by model or MODEL/VARIANT; else the preset's

    def changes(self, model: str, variant: str) -> Options:
        """What is not as in the preset: fewer steps, and still five evaluations."""
        steps = self.steps.get(f"{model}/{variant}", self.steps.get(model))
        return () if steps is None else (("steps", steps), ("eval_every", -(-steps // 5)))


FULL = Size(
    preset=DEFAULT_PRESET,
    protocols=("authors",),
    seeds=25,
    transformers=50,
    few=5,
    transformers_on_s=3,
    shared_functions=(4, 8, 12, 16),
    shared_symbols=(2, 3, 4, 5, 6),
)
_SMALL = {"symbols": 3, "functions": 6, "max_length": 5, "train": 1_500, "iid": 200, "ood": 400, "fill": 0.9}
_SMALL_S = _SMALL | {"symbols": 4, "functions": 16, "max_length": 4, "train": 2_200, "ood": 200}
# On A and R the smallest data we found that an NDR learns in so few steps, whatever the protocol.
QUICK = Size(
    preset="quick",
    protocols=("clean", "text"),
    seeds=2,
    transformers=2,
    few=2,
    transformers_on_s=2,
    shared_functions=(4, 8),
    shared_symbols=(3,),
    data=tuple(_SMALL.items()),
    staged=tuple(_SMALL_S.items()),
    steps={"ndr": 800, "ndr/S": 100, "transformer": 100, "lstm": 600},
)
SIZES: dict[str, Size] = {"full": FULL, "quick": QUICK}

# Which property of the data decides: from the authors' data down, from clean data up, one thing at a time.
# Twins are in the OOD split alone; whatever the run, the independent OOD split beside it shows what they do.
SWITCHES: tuple[dict[str, Any], ...] = (
    {"protocol": "authors", "table": 0},
    {"protocol": "authors", "repeats": False},
    {"protocol": "authors", "nesting": False},
    {"protocol": "authors", "doubled_pairs": False},
    {"protocol": "clean", "table": "authors"},
    {"protocol": "clean", "repeats": True},
    {"protocol": "clean", "doubled_pairs": True},
)
SWITCHED_SEEDS = 12
TABLES, TABLE_SEEDS = (1, 2, 3), 8  # other function tables

DEMO_DATA = _SMALL | {"protocol": "text", "symbols": 4, "functions": 8, "max_length": 4, "train": 2_200}
DEMO_MODELS = ("ndr", "transformer", "lstm")  # the longest first
DEMO_SEEDS = 8


def demo_plan(seeds: int = DEMO_SEEDS, steps: int | None = None) -> list[PlannedRun]:
    """The paper's phenomenon in a few minutes on two cores; docs/concepts has how its size was chosen."""
    return [
        PlannedRun(
            name=f"{model}-{variant}",
            model=model,
            variant=variant,
            seeds=tuple(range(seeds)),
            data=tuple(DEMO_DATA.items()),
            preset="quick",
            changes=() if steps is None else (("steps", steps), ("eval_every", steps)),
        )
        for model in DEMO_MODELS
        for variant in ("A", "R")
    ]


def plan(
    what: str = "all",
    scale: str = "full",
    *,
    seeds: Sequence[int] | None = None,
    only: Sequence[str] = (),
    protocol: str | None = None,
    preset: str | None = None,
    until: str | None = None,
) -> list[PlannedRun]:
    """The runs of an experiment, or of all, in the order in which they are to be trained.

    First A and R with Bi-LSTM and NDR; which property of the data decides; Transformers; S; other function
    tables. At full size also what has run earlier on other data than the authors': nothing of it is trained.

    seeds, protocol, preset: in place of the planned ones. only: `MODEL/VARIANT`, or names of runs.
    until: "settled" for runs of their own that stop when nothing changes any more.
    """
    protocol = protocol and OLD_PROTOCOLS.get(protocol, protocol)
    preset = preset and OLD_PRESETS.get(preset, preset)
    for argument, value, choices in (
        ("experiment", what, (*EXPERIMENTS, "all")),
        ("‹scale›", scale, tuple(SIZES)),
        ("‹protocol›", protocol, PROTOCOLS),
        ("‹preset›", preset, tuple(RECIPES)),
        ("‹until›", until, ("settled",)),
    ):
        if value is not None and value not in choices:
            raise UserError(f"{argument} {value}: choose from {', '.join(choices)}")
    if scale == "quick" and preset not in (None, "quick"):
        raise UserError(f"‹preset› {preset} is for the scale full: a miniature has its own, quick")
    runs: dict[str, PlannedRun] = {}
    for run in _every(SIZES[scale], protocol, preset):
        if what in ("all", *run.experiments):
            before = runs.get(run.name, run)
            asked = tuple(dict.fromkeys((*before.experiments, *run.experiments)))
            both = tuple(sorted({*before.seeds, *run.seeds})) if seeds is None else tuple(seeds)
            ended = before.ended and run.ended
            runs[run.name] = replace(before, experiments=asked, seeds=both, ended=ended)
    short = {name: f"{run.model}/{run.variant}" for name, run in runs.items()}
    only = [current_name(word) for word in only]
    for word in only:
        if word not in (*short, *short.values()):
            listed = ", ".join(dict.fromkeys(short.values()))
            raise UserError(f"‹only› {word}: {what} has {listed}; or give the name of a run (see ‹plan›)")
    chosen = [run for name, run in runs.items() if not only or {name, short[name]} & {*only}]
    if not until:
        return chosen
    return [
        replace(run, name=f"{run.name}-until-settled", changes=run.changes + SETTLED)
        for run in chosen
        if not run.ended
    ]


def _every(size: Size, protocol: str | None, preset: str | None) -> Iterator[PlannedRun]:
    """The whole plan; a run that several experiments ask for comes several times."""
    ours, *others = (protocol,) if protocol else size.protocols

    def run(experiment: str, model: str, variant: str, seeds: int, **data: Any) -> PlannedRun:
        data, chosen = {"protocol": ours, **data}, preset or size.preset
        return PlannedRun(
            name=name_run(model, variant, data, chosen),
            model=model,
            variant=variant,
            seeds=tuple(range(seeds)),
            data=tuple(data.items()),
            small=size.staged if variant == "S" else size.data,
            preset=chosen,
            changes=size.changes(model, variant),
            experiments=(experiment,),
        )

    def table1(model: str, seeds: int) -> Iterator[PlannedRun]:
        for used in (ours, *others):
            for variant in ("A", "R"):
                yield run("table1", model, variant, seeds, protocol=used)

    yield from table1("lstm", size.seeds)
    yield from table1("ndr", size.seeds)
    for variant in ("R", "A"):
        yield run("similarity", "ndr", variant, size.seeds)
    if size is FULL and not protocol:
        for switched in SWITCHES:
            for model in ("lstm", "ndr"):
                yield run("data", model, "A", SWITCHED_SEEDS, **switched)
    yield from table1("transformer", size.transformers)
    for model, seeds in {"ndr": size.few, "lstm": size.few, "transformer": size.transformers_on_s}.items():
        for functions in size.shared_functions:
            for symbols in size.shared_symbols:
                yield run("staged", model, "S", seeds, shared_functions=functions, shared_symbols=symbols)
    if size is FULL and not protocol:
        for variant in ("R", "A"):
            yield run("tables", "ndr", variant, TABLE_SEEDS)  # beside which the others are seen
            yield from (run("tables", "ndr", variant, TABLE_SEEDS, table=table) for table in TABLES)
        yield from (replace(one, ended=True) for one in _earlier(run))


def _earlier(run: Callable[..., PlannedRun]) -> Iterator[PlannedRun]:
    """What was planned before the authors' data were known."""
    repeated = {REPEATS: "n/7"}  # one function sequence to every 7 examples of a length
    for model, variant in product(("lstm", "ndr", "transformer"), ("A", "R")):
        seeds = FULL.transformers if model == "transformer" else FULL.seeds
        yield run("repeats", model, variant, seeds, protocol="clean", **repeated)
        for protocol in ("clean", "text"):
            yield run("table1", model, variant, seeds, protocol=protocol)
    for variant in ("R", "A"):
        yield run("similarity", "ndr", variant, FULL.seeds, protocol="clean")
    for model, functions, symbols in product(("ndr", "lstm"), FULL.shared_functions, FULL.shared_symbols):
        grid = {"shared_functions": functions, "shared_symbols": symbols}
        yield run("staged", model, "S", FULL.few, protocol="clean", **grid)
    for model, variant, data in (("ndr", "R", {}), ("lstm", "A", repeated)):  # else the latter learns little
        for table in range(5):
            seed = {"seed": table} if table else {}  # function table 0 is that of all others
            yield run("tables", model, variant, FULL.few, protocol="clean", **seed, **data)
