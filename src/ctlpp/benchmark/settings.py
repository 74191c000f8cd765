"""What a user may choose about a dataset.

Example:
    >>> Settings(variant="A", train=1000).weighting
    'uniform'
    >>> Settings(variant="A", symbols=0)
    Traceback (most recent call last):
    ctlpp.files.UserError: symbols 0: use 2 to 1000
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ctlpp.benchmark.drawing import WEIGHTINGS, Weighting
from ctlpp.benchmark.graph import LONGEST
from ctlpp.benchmark.own_graph import MOST_FUNCTIONS, read_plan
from ctlpp.benchmark.sequences import Limit, parse_limit
from ctlpp.benchmark.task import ORDERS, PROTOCOLS, Protocol, Task, make_task
from ctlpp.benchmark.variants import VARIANTS, Plan, plan_variant
from ctlpp.benchmark.vocabulary import Order
from ctlpp.files import UserError

MOST_PAIRS = 50_000_000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that decides the bytes of a dataset."""

    variant: str  # CTL, A, R, S, or the path of a TOML file
    symbols: int = 8
    functions: int | None = None  # 32, or what the TOML file says
    max_length: int = 6  # functions in an example, at most
    train: int = 300_000  # examples
    iid: int = 1_000
    ood: int = 1_000  # also the size of the diagnostic splits that are sampled
    seed: int = 0
    protocol: Protocol = "paper"
    order: Order = "right-to-left"
    shared_functions: int | None = None  # S only: |G_o|, default 8
    shared_symbols: int | None = None  # S only: default 4
    ood_max_length: int | None = None  # CTL only: default max_length + 4
    fill: float = 0.5  # share of the existing examples of a length ≥ 2 that train and iid may use
    weighting: Weighting | None = None  # default: sequential for S, uniform otherwise
    distinct_sequences: Limit | None = (
        None  # of a length in train and iid together, at most: a number, or "n/7"
    )

    def __post_init__(self) -> None:
        is_file = self.variant not in VARIANTS
        if is_file and not self.variant.endswith(".toml"):
            raise UserError(
                f"unknown variant {self.variant!r}: choose from {', '.join(VARIANTS)}, or a TOML file with a graph"
            )
        defaults: dict[str, str | int] = {"weighting": "sequential" if self.variant == "S" else "uniform"}
        defaults |= {} if is_file else {"functions": 32}
        defaults |= {"shared_functions": 8, "shared_symbols": 4} if self.variant == "S" else {}
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        self._check()
        if self.distinct_sequences is not None:
            object.__setattr__(self, "distinct_sequences", parse_limit(self.distinct_sequences))

    def _check(self) -> None:
        for option, low, high in (
            ("symbols", 2, 1000),
            ("functions", {"A": 2, "R": 2, "S": 5}.get(self.variant, 1), MOST_FUNCTIONS),
            ("max_length", 2, 64),
            ("ood_max_length", 3, LONGEST),
            ("train", 1, 10**9),
            ("iid", 0, 10**9),
            ("ood", 0, 10**9),
            ("seed", 0, 2**63 - 1),
        ):
            value = getattr(self, option)
            if value is not None and not (isinstance(value, int) and low <= value <= high):
                raise UserError(f"{option} {value!r}: use {low} to {high}")
        if self.functions is not None and self.functions > (most := math.factorial(min(self.symbols, 20))):
            raise UserError(
                f"functions {self.functions}: only {most} different bijections of {self.symbols} symbols exist"
            )
        if not (isinstance(self.fill, float | int) and 0 < self.fill <= 1):
            raise UserError(f"fill {self.fill!r}: use a share above 0 and up to 1")
        for option, value, choices in (
            ("protocol", self.protocol, PROTOCOLS),
            ("order", self.order, ORDERS),
            ("weighting", self.weighting, WEIGHTINGS),
        ):
            if value not in choices:
                raise UserError(f"unknown {option} {value!r}: choose from {', '.join(choices)}")
        for option, owner in (("shared_functions", "S"), ("shared_symbols", "S"), ("ood_max_length", "CTL")):
            if self.variant != owner and getattr(self, option) is not None:
                raise UserError(f"{option} is an option of {owner} alone; leave it out for {self.variant}")

    def recipe(self) -> dict[str, Any]:
        """The settings that `task.json` does not say elsewhere."""
        names = (
            "max_length",
            "ood_max_length",
            "train",
            "iid",
            "ood",
            "fill",
            "weighting",
            "distinct_sequences",
        )
        return {name: value for name, value in asdict(self).items() if name in names and value is not None}


def make_task_from(settings: Settings, plan: Plan | None = None) -> Task:
    """The task that the settings describe; a plan of one's own takes the place of the variant's."""
    variant = settings.variant
    if plan is None and variant in VARIANTS:
        assert settings.functions is not None
        plan = plan_variant(
            variant,
            n_symbols=settings.symbols,
            n_functions=settings.functions,
            max_length=settings.max_length,
            seed=settings.seed,
            shared_functions=settings.shared_functions or 0,
            shared_symbols=settings.shared_symbols or 0,
            ood_max_length=settings.ood_max_length,
        )
    else:
        plan = plan or read_plan(Path(variant), settings.max_length)
        variant = plan.name
    n_functions = sum(map(len, plan.groups.values()))
    if settings.functions not in (None, n_functions):
        raise UserError(
            f"functions {settings.functions}: the groups of {variant} have {n_functions} together; leave the option out"
        )
    if n_functions > (most := math.factorial(min(settings.symbols, 20))):
        raise UserError(
            f"{n_functions} functions: only {most} different bijections of {settings.symbols} symbols exist"
        )
    if (pairs := n_functions**2 * settings.symbols) > MOST_PAIRS:
        raise UserError(
            f"{n_functions} functions on {settings.symbols} symbols make {pairs:,} pairs, and the split `pairs` holds "
            f"them all; use fewer, for at most {MOST_PAIRS:,}"
        )
    return make_task(
        plan,
        variant=variant,
        n_symbols=settings.symbols,
        seed=settings.seed,
        protocol=settings.protocol,
        order=settings.order,
        shared_functions=settings.shared_functions,
        shared_symbols=settings.shared_symbols,
    )
