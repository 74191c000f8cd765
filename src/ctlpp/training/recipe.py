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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from math import cos, pi
from typing import Any

from ctlpp.files import UserError
from ctlpp.models import DEFAULT_PRESET, PRESETS
from ctlpp.runs.folder import SAVING
from ctlpp.words import OLD_PRESETS, plain

OWN_CODE = ("schedule", "optimizer")  # may be functions, or "package.module:function"
_OPTIONS = ("steps", "batch", "lr", "precision", "eval_every")  # arguments of their own on the command line
_CHOICES = {
    "schedule": ("constant", "cosine"),
    "optimizer": ("adamw", "adam"),
    "batch_order": ("shared", "per_seed"),
    "length_mix": ("natural", "even"),
    "precision": ("auto", "float32", "bf16"),
}
_COUNTS = ("steps", "batch", "restarts")
_COUNTS_OR_NONE = ("warmup", "batch_seed", "early_stop", "eval_every", "checkpoint_every")
_SHARES = ("weight_decay", "settled_accuracy", "settled_change", "swap")


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _are_betas(value: object) -> bool:
    return type(value) is tuple and len(value) == 2 and all(_is_number(b) and 0 <= b < 1 for b in value)


_RULES: list[tuple[tuple[str, ...], Callable[[Any], bool], str]] = [  # settings, their test, and it in words
    (_COUNTS, lambda n: type(n) is int and n >= 1, "must be a whole number, 1 or more"),
    (_COUNTS_OR_NONE, lambda n: type(n) is int and n >= 0, "must be a whole number, 0 or more"),
    (_COUNTS + _COUNTS_OR_NONE, lambda n: n < 2**63, "must be below 2 to the power of 63"),
    (("lr", "eps"), lambda x: _is_number(x) and 0 < x <= 1, "must be above 0 and at most 1"),
    (_SHARES, lambda x: _is_number(x) and 0 <= x <= 1, "must be 0 to 1"),
    (("clip",), lambda x: _is_number(x) and 0 <= x < 1e6, "must be 0 (none) to a million"),
    (("checkpoint_minutes",), lambda x: _is_number(x) and x > 0, "must be above 0"),
    (("betas",), _are_betas, "must be two numbers from 0 to below 1"),
    (("curriculum",), lambda x: type(x) is str, "must be text, like short_first or package.module:function"),
    (("tied",), lambda value: type(value) is bool, "must be True or False"),
    (("preset",), lambda name: name in ("", *PRESETS), f"choose from {', '.join(PRESETS)}, or empty"),
]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of one training run, checked when made."""

    steps: int = 80_000  #: updates of every seed
    batch: int = 512  #: examples per seed per step, all of one length
    lr: float = 1.5e-4  #: learning rate once warmed up
    warmup: int = 500  #: steps over which the rate rises linearly
    #: after the warm-up: "constant", or "cosine" down to 0 at the last step; or a function of the step
    #: (0, 1, …) that gives the share of `lr`, without a warm-up
    schedule: str | Callable[[int], float] = "constant"
    #: "adamw", "adam" (its weight decay is part of the gradient), or a class like those in `torch.optim`,
    #: called as (parameters, lr=lr)
    optimizer: str | Callable[..., Any] = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)  #: memory of the mean and of the mean square of the gradient
    eps: float = 1e-8  #: keeps the division by the root mean square finite
    weight_decay: float = 0.0  #: pull of every weight toward 0
    clip: float = 1.0  #: limit of each seed's own gradient norm; 0 for none
    batch_order: str = "shared"  #: "shared": every seed sees the same batches; "per_seed": each seed its own
    #: "natural": lengths as often as the data has them; "even": all equally often
    length_mix: str = "natural"
    batch_seed: int = 0  #: decides the order of the examples
    precision: str = "auto"  #: "float32", "bf16" (autocast), or "auto": bf16 on CUDA, float32 elsewhere
    eval_every: int = 1000  #: steps between evaluations; one more at the end; 0 for the end only
    checkpoint_every: int = 5000  #: steps between checkpoints; 0 for the end only
    checkpoint_minutes: float = 10.0  #: save at least this often, whatever the steps
    early_stop: int = 0  #: stop once all seeds are settled for so many evaluations in a row; 0 for never
    settled_accuracy: float = 0.99  #: a settled seed has at least this iid accuracy (or the first split's) …
    settled_change: float = 0.005  #: … and no split's moved by more than this in these evaluations
    #: which examples come first: "short_first+shared_first", "package.module:function"; "" for none
    curriculum: str = ""
    swap: float = 0.0  #: share of the loss after states are exchanged, see `ctlpp.training.swap`; 0 for none
    tied: bool = False  #: the classifier is the embedding of the symbols
    restarts: int = 1  #: so many seeds in a row are tries of one: that of the lowest training loss is chosen
    preset: str = ""  #: whose sizes a model of the zoo has with this recipe; "" for those of the default

    def __post_init__(self) -> None:
        for setting in fields(self):
            object.__setattr__(self, setting.name, plain(getattr(self, setting.name)))
        for names, fits, rule in _RULES:
            for name in names:
                self._check(name, fits(getattr(self, name)), rule)
        for name, choices in _CHOICES.items():
            value, may_be_own = getattr(self, name), name in OWN_CODE
            own = may_be_own and (callable(value) or ":" in str(value))
            code = ", or give a function" * may_be_own
            self._check(name, own or value in choices, f"choose from {', '.join(choices)}{code}")
        if self.optimizer not in _CHOICES["optimizer"]:
            self._check("weight_decay", not self.weight_decay, "an optimiser of your own has its own; set 0")

    def _check(self, name: str, right: bool, rule: str) -> None:
        if not right:
            value = getattr(self, name)
            shown = value if rule.startswith("choose") else repr(value)  # '3' is not the number 3
            raise UserError(f"{f'‹{name}›' if name in _OPTIONS else name} {shown}: {rule}")

    @property
    def warmup_steps(self) -> int:
        """The steps of the warm-up; of one that is longer than the training, a tenth of the steps."""
        fits = self.warmup < self.steps or callable(self.schedule)
        return self.warmup if fits else max(1, self.steps // 10)

    def rate(self, step: int) -> float:
        """The learning rate of step 0, 1, …"""
        if callable(self.schedule):
            return self.lr * float(self.schedule(step))
        if step < self.warmup_steps:
            return self.lr * (step + 1) / self.warmup_steps
        if self.schedule == "constant":
            return self.lr
        done = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return self.lr * (1 + cos(pi * done)) / 2

    def progress(self, step: int) -> float:
        """How much of the training is over at a step: 0 at the first, 1 after the last."""
        return step / self.steps


OWN = Recipe()  # for your own model, and for the NDR
_recurrent = replace(OWN, clip=5.0)
_transformer = replace(OWN, clip=5.0, weight_decay=0.0025, steps=300_000)
# As in the released sweep.
_LSTM_ON_S = replace(_recurrent, preset="authors", batch=128, lr=1e-3, optimizer="adam")
_quick = replace(OWN, batch=32, lr=5e-3, warmup=100, schedule="cosine", length_mix="even", eval_every=200)
_quick = replace(_quick, checkpoint_every=1000)
# Models with codes learn in seconds, and some of their seeds get stuck.
_perm = replace(_quick, steps=800, batch=128, lr=0.05, warmup=20, restarts=2)
_sym = replace(_perm, steps=1000, batch=256, lr=3e-3, curriculum="short_first")
_CODES = {"permrnn": _perm, "symrnn": _sym}
_CODES_ON_S: dict[str, dict[str, Any]] = {
    "permrnn": {"curriculum": "shared_first", "steps": 500, "batch": 64},
    "symrnn": {"curriculum": "short_first+shared_first"},
}


def _by_model(preset: str, ndr: Recipe, transformer: Recipe, recurrent: Recipe) -> dict[str, Recipe]:
    transformers = dict.fromkeys(("transformer", "transformer_untied", "transformer_looped"), transformer)
    recurrents = dict.fromkeys(("lstm", "lstm_uni", "gru", "rnn", "deltanet", "ssm"), recurrent)
    every = {"ndr": ndr, "slots": ndr, **transformers, **recurrents, **_CODES}
    return {name: replace(recipe, preset=preset) for name, recipe in every.items()}


RECIPES: dict[str, dict[str, Recipe]] = {
    "authors": _by_model("authors", OWN, _transformer, _recurrent),
    "text": _by_model("text", OWN, _transformer, _recurrent),  # other sizes; and the Bi-LSTM on S differs
    "quick": _by_model(
        "quick",
        replace(_quick, steps=2000),
        replace(_quick, steps=1000, lr=2e-3, weight_decay=1.0),
        replace(_quick, steps=1000),
    ),
}


def watching(recipe: Mapping[str, Any]) -> tuple[str, ...]:
    """The settings of a recipe that only watch: its results are the same without them.

    Evaluations are among them, unless they decide when training stops.
    """
    return SAVING if recipe.get("early_stop") else ("eval_every", *SAVING)


def recipe_for(model: str, preset: str = DEFAULT_PRESET, variant: str = "", **changes: Any) -> Recipe:
    """The recipe of a model, with some settings changed.

    Args:
        model: A name of the zoo; your own, `package.module:factory`, has the recipe of the NDR.
        preset: `authors`, `text` or `quick`.
        variant: The variant it is for: the Bi-LSTM has another recipe on S.
        changes: Fields of `Recipe`.

    Returns:
        The recipe, checked.
    """
    preset = OLD_PRESETS.get(preset, preset)
    if preset not in RECIPES:
        raise UserError(f"‹preset› {preset}: choose from {', '.join(RECIPES)}")
    if ":" not in model and model not in RECIPES[preset]:
        choices = f"{', '.join(RECIPES[preset])}, or package.module:factory"
        raise UserError(f"unknown model {model!r}: choose from {choices}")
    names = [field.name for field in fields(Recipe)]
    if unknown := [name for name in changes if name not in names]:
        raise UserError(f"unknown setting {unknown[0]!r}: choose from {', '.join(names)}")
    on_s = (model, preset, variant) == ("lstm", "authors", "S")
    recipe = _LSTM_ON_S if on_s else RECIPES[preset].get(model, RECIPES[preset]["ndr"])
    if model in _CODES_ON_S and variant == "S":
        changes = _CODES_ON_S[model] | changes
    return replace(recipe, **changes)


def find_preset(preset: str | None, recipe: object) -> str:
    """The one preset of sizes and recipe."""
    if not isinstance(recipe, Recipe | Mapping | None):
        kinds = "give a Recipe, as `recipe_for` makes it, or a dictionary of changes"
        raise UserError(f"recipe of type {type(recipe).__name__}: {kinds}")
    theirs = recipe.preset if isinstance(recipe, Recipe) else ""
    preset = OLD_PRESETS.get(preset or "", preset) or theirs or DEFAULT_PRESET
    if theirs not in ("", preset):
        remedy = "leave one of them out, or give other ‹sizes›"
        raise UserError(f"‹preset› {preset}: the recipe is that of the preset {theirs}; {remedy}")
    return preset
