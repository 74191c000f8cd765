"""Plans are lists of runs: the paper's experiments, two of our own, earlier ones, and the demo; their cost.

Example:
    >>> for run in plan("table1", only=["ndr/R"]):
    ...     print(run.name, len(run.seeds), "seeds", run.steps, "steps")
    ndr-R-authors 25 seeds 80000 steps
    ndr-R-clean 25 seeds 80000 steps
    ndr-R-text 25 seeds 80000 steps
    >>> sum(not run.ended for run in plan("staged"))
    60
    >>> (run,) = plan("table1", only=["ndr-R-authors"])
    >>> round(seconds(run, len(run.seeds), "cuda") / 60)  # 25 seeds on an H200
    15
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from ctlpp.benchmark.variants import PROTOCOLS, Settings
from ctlpp.files import UserError
from ctlpp.models import DEFAULT_PRESET
from ctlpp.training.recipe import RECIPES, Recipe, recipe_for
from ctlpp.words import OLD_PRESETS, OLD_PROTOCOLS

Options = tuple[tuple[str, Any], ...]  # keyword arguments, hashable

EXPERIMENTS = ("table1", "similarity", "data", "staged", "tables", "repeats")
SHARED = {"shared_functions": "o", "shared_symbols": "s"}  # of a cell of S, and how a run's name says it
REPEATS = "distinct_sequences"  # how the data of `repeats` were limited; they are no longer made
# With `until="settled"`: every seed at IID 1.00, and no accuracy moves by more than this, in 20 evaluations.
SETTLED: Options = (("early_stop", 20), ("settled_accuracy", 0.995), ("settled_change", 0.05))
CHECKPOINTS: dict[str, Any] = {"checkpoint_every": 0, "checkpoint_minutes": 0.75}  # what a kill may cost


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """Seeds of one model on one dataset with one recipe."""

    name: str  # its folder
    model: str
    variant: str
    seeds: tuple[int, ...]
    data: Options = ()  # any options of `ctlpp.generate`, besides the variant …
    small: Options = ()  # … and those that make the data smaller than the paper's
    preset: str = DEFAULT_PRESET
    sizes: Options = ()  # of the model, where they are not the preset's
    changes: Options = ()  # to the preset's recipe
    experiments: tuple[str, ...] = ()  # the parts of the paper that ask for it
    ended: bool = False  # what has run is shown, nothing more is trained

    @property
    def recipe(self) -> Recipe:
        """How it is trained."""
        return recipe_for(self.model, self.preset, self.variant, **{**CHECKPOINTS, **dict(self.changes)})

    @property
    def steps(self) -> int:
        """Of its recipe."""
        return self.recipe.steps

    @property
    def options(self) -> dict[str, Any]:
        """Of its data."""
        return dict(self.data + self.small)

    @property
    def protocol(self) -> str:
        """Of its data."""
        return str(self.options.get("protocol", Settings.protocol))

    @property
    def special(self) -> list[str]:
        """Options of the data for which results have no column, in words: `table 3`, `no nesting`."""
        rest = {
            name: value for name, value in self.data if name not in ("protocol", "seed", *SHARED, REPEATS)
        }
        return [_words(name.replace("_", " "), value, " ") for name, value in rest.items()]

    def setting(self, **changes: Any) -> tuple[object, ...]:
        """What tells it from other runs, with these options of the data changed; None leaves one out."""
        data = {**dict(self.data), **changes}
        special = frozenset(pair for pair in data.items() if pair[1] is not None)
        return self.model, self.variant, self.preset, special


def name_run(model: str, variant: str, data: Mapping[str, Any], preset: str = DEFAULT_PRESET) -> str:
    """A name for a run, from all that is special about it.

    >>> name_run("ndr", "S", {"protocol": "clean", "shared_functions": 16, "shared_symbols": 6}, "quick")
    'ndr-S-clean-o16-s6-quick'
    >>> name_run("lstm", "A", {"protocol": "authors", "table": 3, "nesting": False}, "text")
    'lstm-A-authors-table3-no-nesting-text-preset'
    """
    parts = [model, variant]
    for option, value in data.items():
        word = {"protocol": "", **SHARED}.get(option, option)
        parts.append("repeats" if option == REPEATS else _words(word, value))
    parts += {"authors": [], "text": ["text-preset"]}.get(preset, [preset])
    return "-".join(parts).replace("_", "-").replace(" ", "-")


def current_name(name: str) -> str:
    """The name of a run, from one that may have old words: `ndr-R-released` is `ndr-R-clean`."""
    return "-".join(OLD_PROTOCOLS.get(part, part) for part in name.split("-"))


def _words(option: str, value: object, between: str = "") -> str:
    """`table3`, `with nesting`, `no nesting`."""
    if isinstance(value, bool):
        return f"{'with' if value else 'no'} {option}"
    return f"{option}{' ' if option and isinstance(value, str) else between}{value}"


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
    """The paper's phenomenon in a few minutes on two cores; docs/training.md explains its size."""
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


DEVICES = {"cuda": "one NVIDIA H200", "cpu": "two CPU cores"}  # where this was measured
START = {"cuda": 50.0, "cpu": 0.0}  # seconds, once: kernels are compiled

# Milliseconds of a step for each seed, by the number of seeds that are trained together.
_FULL: dict[str, dict[str, Mapping[int, float]]] = {
    "cuda": {
        "lstm": {1: 0.2315, 2: 0.1386, 5: 0.0771, 10: 0.0573, 25: 0.0486, 50: 0.0448, 100: 0.0423},
        "transformer": {1: 1.281, 2: 0.712, 5: 0.366, 10: 0.255, 25: 0.214, 50: 0.199, 100: 0.189},
        "ndr": {1: 1.492, 2: 0.927, 5: 0.590, 10: 0.506, 25: 0.456, 50: 0.447, 100: 0.440},
    },
    "cpu": {"lstm": {1: 80.0}, "transformer": {1: 400.0}, "ndr": {1: 700.0}},
}
_QUICK: dict[str, dict[str, Mapping[int, float]]] = {
    "cuda": {"lstm": {1: 0.5, 50: 0.01}, "transformer": {1: 1.0, 50: 0.02}, "ndr": {1: 2.0, 100: 0.02}},
    "cpu": {"lstm": {1: 6.0, 4: 1.6}, "transformer": {1: 30.0, 2: 16.0}, "ndr": {1: 30.0, 2: 17.0}},
}
_BATCH = {"quick": 32}  # with which it was measured; 512 otherwise
_AROUND = {"cuda": 10.0, "cpu": 3.0}  # seconds a piece: beginning, evaluations, analysis


def seconds(run: PlannedRun, seeds: int, device: str = "cuda", steps: int | None = None) -> float:
    """For training so many seeds of a planned run in one piece, with all that belongs to it.

    Between the crowds that were measured a step takes a straight line, beyond them it is in proportion.
    """
    if not seeds:
        return 0.0
    each = (_QUICK if run.preset == "quick" else _FULL)[device][run.model]
    crowd = seeds * run.recipe.batch / _BATCH.get(run.preset, 512)
    most = max(each)
    step = np.interp(min(crowd, most), list(each), [many * time for many, time in each.items()])
    milliseconds = float(step) * max(1.0, crowd / most)
    return (run.steps if steps is None else steps) * milliseconds / 1000 + _AROUND[device]
