"""How a crowd is trained: every number besides the model and the data.

Example:
    >>> recipe_for("ndr").clip, recipe_for("transformer").steps
    (1.0, 300000)
    >>> recipe_for("lstm", variant="S").batch
    128
    >>> recipe_for("lstm", steps=1000).steps
    1000
    >>> Recipe(lr=0)
    Traceback (most recent call last):
    ctlpp.files.UserError: lr 0: must be above 0 and at most 1
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import cos, pi
from typing import Any

from ctlpp.files import UserError
from ctlpp.runs.folder import SAVING

_FROM_ZERO = ("warmup", "batch_seed", "early_stop", "eval_every", "checkpoint_every")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of one training run, checked when made."""

    steps: int = 80_000  # updates of every seed
    batch: int = 512  # examples per seed per step, all of one length
    lr: float = 1.5e-4  # learning rate once warmed up
    warmup: int = 500  # steps over which the rate rises linearly
    schedule: str = "constant"  # after the warm-up: "constant", or "cosine" down to 0 at the last step
    optimizer: str = "adamw"  # "adamw", or "adam" (its weight decay is part of the gradient)
    betas: tuple[float, float] = (0.9, 0.999)  # memory of the mean and of the mean square of the gradient
    eps: float = 1e-8  # keeps the division by the root mean square finite
    weight_decay: float = 0.0  # pull of every weight toward 0
    clip: float = 1.0  # limit of each seed's own gradient norm; 0 for none
    batch_order: str = "shared"  # "shared": every seed sees the same batches; "per_seed": each seed its own
    length_mix: str = "natural"  # "natural": lengths as often as the data has them; "even": all equally often
    batch_seed: int = 0  # decides the order of the examples
    precision: str = "auto"  # "float32", "bf16" (autocast), or "auto": bf16 on CUDA, float32 elsewhere
    eval_every: int = 1000  # steps between evaluations; one more at the end; 0 for the end only
    checkpoint_every: int = 5000  # steps between checkpoints; 0 for the end only
    checkpoint_minutes: float = 10.0  # save at least this often, whatever the steps
    early_stop: int = 0  # stop once all seeds are settled for so many evaluations in a row; 0 for never
    settled_accuracy: float = 0.99  # a settled seed has at least this iid accuracy (or the first split's) …
    settled_change: float = (
        0.005  # … and no split's accuracy moved by more than this since the last evaluation
    )
    curriculum: str = ""  # "package.module:function", see `ctlpp.training.batches`; "" for none

    def __post_init__(self) -> None:
        wholes = {"steps": 1, "batch": 1} | dict.fromkeys(_FROM_ZERO, 0)
        for name, least in wholes.items():
            value = getattr(self, name)
            self._check(name, _is_whole(value, least), f"must be a whole number, {least} or more")
            self._check(name, value < 2**63, "must be below 2 to the power of 63")
        self._check("lr", _is_number(self.lr) and 0 < self.lr <= 1, "must be above 0 and at most 1")
        self._check("eps", _is_number(self.eps) and 0 < self.eps <= 1, "must be above 0 and at most 1")
        self._check(
            "weight_decay", _is_number(self.weight_decay) and 0 <= self.weight_decay <= 1, "must be 0 to 1"
        )
        self._check("clip", _is_number(self.clip) and 0 <= self.clip < 1e6, "must be 0 (none) to a million")
        betas = (
            isinstance(self.betas, tuple) and len(self.betas) == 2 and all(_is_number(b) for b in self.betas)
        )
        self._check(
            "betas", betas and all(0 <= b < 1 for b in self.betas), "must be two numbers from 0 to below 1"
        )
        self._check(
            "checkpoint_minutes",
            _is_number(self.checkpoint_minutes) and self.checkpoint_minutes > 0,
            "must be above 0",
        )
        for name in ("settled_accuracy", "settled_change"):
            value = getattr(self, name)
            self._check(name, _is_number(value) and 0 <= value <= 1, "must be 0 to 1")
        self._choose("schedule", "constant", "cosine")
        self._choose("optimizer", "adamw", "adam")
        self._choose("batch_order", "shared", "per_seed")
        self._choose("length_mix", "natural", "even")
        self._choose("precision", "auto", "float32", "bf16")
        self._check(
            "curriculum", isinstance(self.curriculum, str), "must be package.module:function, or empty"
        )

    def _check(self, name: str, right: bool, rule: str) -> None:
        if not right:
            raise UserError(f"{name} {getattr(self, name)!r}: {rule}")

    def _choose(self, name: str, *choices: str) -> None:
        self._check(name, getattr(self, name) in choices, f"choose from {', '.join(choices)}")

    def rate(self, step: int) -> float:
        """The learning rate of step 0, 1, …"""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        if self.schedule == "constant":
            return self.lr
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.lr * (1 + cos(pi * done)) / 2

    def progress(self, step: int) -> float:
        """How much of the training is over at a step: 0 at the first, 1 after the last."""
        return step / self.steps


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


OWN = Recipe()  # for a model of one's own, and for those without a recipe below
_recurrent = replace(OWN, clip=5.0)
_transformer = replace(OWN, clip=5.0, weight_decay=0.0025, steps=300_000)
_released = {
    "ndr": OWN,
    "transformer": _transformer,
    "transformer_untied": _transformer,
    "lstm": _recurrent,
    "lstm_uni": _recurrent,
    "gru": _recurrent,
    "rnn": _recurrent,
}
_LSTM_ON_S = replace(_recurrent, batch=128, lr=1e-3, optimizer="adam")  # as in the released sweep

_quick = replace(
    OWN,
    batch=32,
    lr=5e-3,
    warmup=100,
    schedule="cosine",
    length_mix="even",
    eval_every=200,
    checkpoint_every=1000,
)
_quick_recurrent = replace(_quick, steps=1000)
_quick_transformer = replace(_quick, steps=1000, lr=2e-3, weight_decay=1.0)

RECIPES: dict[str, dict[str, Recipe]] = {
    "released": _released,
    "paper": _released,  # the two differ in the models' sizes, and in the Bi-LSTM on S
    "quick": {
        "ndr": replace(_quick, steps=2000),
        "transformer": _quick_transformer,
        "transformer_untied": _quick_transformer,
        "lstm": _quick_recurrent,
        "lstm_uni": _quick_recurrent,
        "gru": _quick_recurrent,
        "rnn": _quick_recurrent,
    },
}


def watching(recipe: Mapping[str, Any]) -> tuple[str, ...]:
    """The settings of a recipe that only watch: its results are the same without them.

    Evaluations are among them, unless they decide when training stops.
    """
    return SAVING if recipe.get("early_stop") else ("eval_every", *SAVING)


def recipe_for(model: str, preset: str = "released", variant: str = "", **changes: Any) -> Recipe:
    """The recipe of a model of the zoo, with some settings changed. One of your own, `a.b:c`, has that of the NDR."""
    if preset not in RECIPES:
        raise UserError(f"unknown preset {preset!r}: choose from {', '.join(RECIPES)}")
    if ":" not in model and model not in RECIPES[preset]:
        choices = f"{', '.join(RECIPES[preset])}, or package.module:factory"
        raise UserError(f"unknown model {model!r}: choose from {choices}")
    names = [field.name for field in fields(Recipe)]
    if unknown := [name for name in changes if name not in names]:
        raise UserError(f"unknown setting {unknown[0]!r}: choose from {', '.join(names)}")
    on_s = (model, preset, variant) == ("lstm", "released", "S")
    recipe = _LSTM_ON_S if on_s else RECIPES[preset].get(model, RECIPES[preset]["ndr"])
    return replace(recipe, **changes)
