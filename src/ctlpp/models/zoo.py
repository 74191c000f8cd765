"""The zoo: every model by name, with its sizes in each preset; and your own, as `package.module:factory`.

`authors` is what the code behind the published numbers uses, `text` what the paper's text says, and `quick`
is small enough to train in a minute on a CPU. How a preset trains is the recipe's business.

Example:
    >>> for name in ("lstm", "transformer", "ndr"):  # 32 functions, 8 symbols and the end mark
    ...     print(f"{name}: {parameters(build(name, vocab_size=41, n_classes=8)):,}")
    lstm: 407,816
    transformer: 155,018
    ndr: 673,299
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.files import UserError
from ctlpp.models import DEFAULT_PRESET, PRESETS
from ctlpp.models.codes import PermRNN, SymRNN
from ctlpp.models.linear import SSM, DeltaNet
from ctlpp.models.ndr import NDR
from ctlpp.models.recurrent import GRU, LSTM, RNN, BiLSTM
from ctlpp.models.slots import Slots
from ctlpp.models.transformer import Transformer
from ctlpp.words import OLD_PRESETS, plain

LARGEST = 65_536  # size of anything: beyond it no machine has the memory
Sizes = dict[str, Any]  # keyword arguments of a model
Factory = Callable[[int, int], nn.Module]  # (vocab_size, n_classes) -> a model of one seed


@dataclass(frozen=True)
class ModelSpec:
    """One model of the zoo."""

    name: str
    about: str  # one line
    factory: Callable[..., nn.Module]  # (vocab_size, n_classes, **sizes)
    sizes: Mapping[str, Sizes]  # by preset


def _spec(
    name: str, about: str, factory: Callable[..., nn.Module], text: Sizes, quick: Sizes, **always: bool
) -> ModelSpec:
    """`authors` is what the factory does by itself; the other presets differ from it."""
    arguments = inspect.signature(factory).parameters.values()
    authors = {a.name: a.default for a in arguments if type(a.default) in (int, float)} | always
    sizes = {"authors": authors, "text": authors | text, "quick": authors | quick}
    return ModelSpec(name, about, factory, sizes)


_SMALL: Sizes = {"embedding": 32, "width": 32, "dropout": 0.0}
_TRANSFORMER: tuple[Sizes, Sizes] = (
    {"hidden": 512, "dropout": 0.5, "key_dropout": 0.0},
    {"width": 64, "hidden": 128, "depth": 5, "dropout": 0.0, "key_dropout": 0.0},
)
_UNDROPPED: Sizes = {"dropout": 0.0, "key_dropout": 0.0, "gate_dropout": 0.0}
_NDR: tuple[Sizes, Sizes] = (
    {"hidden": 1024, "test_depth": 8, "key_dropout": 0.0},
    {"width": 64, "hidden": 64, "depth": 5, "test_depth": 5} | _UNDROPPED,
)
_ONE_LAYER = "Transformer with relative positions, one layer shared by all depths."
_OWN_LAYERS = "The Transformer with weights of its own in every layer."
_CAUSAL = "Looped decoder: a Transformer whose columns see only what is applied before them."
_ROUTER = "Neural Data Router: geometric attention and copy gates, one shared layer."
_ONE_WAY = "LSTM that reads only from the last token to the first, the order of application."

_BOUND = "Structured upper bound"  # it is given some of what the others have to find
_SMALL_NET: Sizes = {"width": 32, "hidden": 64}
_SLOTS: Sizes = _SMALL_NET | {"depth": 5}
_LINEAR: Sizes = _SMALL_NET | {"dropout": 0.0}

_specs = [
    _spec("lstm", "Bi-directional LSTM; both final states feed the classifier.", BiLSTM, {}, _SMALL),
    _spec("transformer", _ONE_LAYER, Transformer, *_TRANSFORMER),
    _spec("ndr", _ROUTER, NDR, *_NDR),
    _spec("lstm_uni", _ONE_WAY, LSTM, {}, _SMALL),
    _spec("gru", "GRU that reads from the last token to the first.", GRU, {}, _SMALL),
    _spec("rnn", "Plain tanh RNN that reads from the last token to the first.", RNN, {}, _SMALL),
    _spec("transformer_untied", _OWN_LAYERS, Transformer, *_TRANSFORMER, shared=False),
    _spec("transformer_looped", _CAUSAL, Transformer, *_TRANSFORMER, causal=True),
    _spec(
        "deltanet", "Linear recurrence with eigenvalues in [-1, 1] (the delta rule).", DeltaNet, {}, _LINEAR
    ),
    _spec("ssm", "Diagonal state-space model, the negative control of deltanet.", SSM, {}, _LINEAR),
    _spec("slots", f"{_BOUND}: looped Transformer that sees only codes of other columns.", Slots, {}, _SLOTS),
    _spec("symrnn", f"{_BOUND}: RNN that carries only a distribution over codes.", SymRNN, {}, _SMALL_NET),
    _spec("permrnn", f"{_BOUND}: every function is a permutation of codes.", PermRNN, {}, {}),
]
MODELS = {spec.name: spec for spec in _specs}


def build(name: str, vocab_size: int, n_classes: int, preset: str = DEFAULT_PRESET) -> nn.Module:
    """A model of the zoo, or your own."""
    return make_model(find_model(name, preset)[1], vocab_size, n_classes, name, trial=":" in name)


def parameters(model: nn.Module) -> int:
    """How many numbers of the model are trained."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def find_model(
    model: str | Factory, preset: str = DEFAULT_PRESET, sizes: Mapping[str, Any] | None = None
) -> tuple[str, Factory, Sizes]:
    """Name, factory and all sizes of a model; `sizes` override those of the preset (your own has none)."""
    preset, sizes = OLD_PRESETS.get(preset, preset), {name: plain(n) for name, n in (sizes or {}).items()}
    if preset not in PRESETS:
        raise UserError(f"‹preset› {preset}: choose from {', '.join(PRESETS)}")
    if isinstance(model, str) and ":" not in model:
        if model not in MODELS:
            choices = f"{', '.join(MODELS)}, or package.module:factory"
            raise UserError(f"unknown model {model!r}: choose from {choices}")
        maker, every = MODELS[model].factory, MODELS[model].sizes[preset] | sizes
        _check_sizes(model, maker, sizes, every)
        return model, partial(maker, **every), every
    kind = type(model).__name__
    if isinstance(model, nn.Module):
        raise UserError(
            f"model: one {kind} cannot be all seeds; give what makes it: {kind}, without brackets"
        )
    if isinstance(model, str):
        return model, partial(load_callable(model), **sizes), sizes
    if not callable(model):
        raise UserError(f"model of type {kind}: give a name, package.module:factory or a callable")
    return name_of(model), partial(model, **sizes), sizes


def _check_sizes(model: str, factory: Callable[..., nn.Module], chosen: Sizes, every: Sizes) -> None:
    """Refuse what the factory cannot take. every: all keyword arguments; chosen: those that the user gave."""
    known = {
        name: parameter.annotation
        for name, parameter in inspect.signature(factory, eval_str=True).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    for name, value in chosen.items():
        if name not in known:
            raise UserError(f"‹size› {name}={value}: {model} has no {name}; choose from {', '.join(known)}")
        fits, rule = _RULES[known[name]]
        if not fits(value):
            raise UserError(f"‹size› {name}={value!r}: use {rule}")
    width, heads = every.get("width", 1), every.get("heads", 1)
    if width % heads and "heads" in chosen:
        raise UserError(f"‹size› heads={heads}: must divide the width, {width}")
    if width % heads:
        raise UserError(f"‹size› width={width}: must be a multiple of the heads, {heads}")


def _is_whole(value: Any) -> bool:
    return type(value) is int and 1 <= value <= LARGEST


_WHOLE = f"a whole number from 1 to {LARGEST}"
_RULES: dict[Any, tuple[Callable[[Any], bool], str]] = {  # by the annotation of the keyword argument
    int: (_is_whole, _WHOLE),
    int | None: (lambda value: value is None or _is_whole(value), f"{_WHOLE}, or None"),
    float: (lambda value: type(value) in (int, float) and 0 <= value < 1, "a number from 0 to below 1"),
    bool: (lambda value: type(value) is bool, "True or False"),
}


def name_of(own: Callable[..., Any]) -> str:
    """The name of a callable, as in `config.json`: `package.module:function`, with what a partial fixes."""
    if isinstance(own, partial):
        fixed = [*map(repr, own.args), *(f"{key}={value!r}" for key, value in own.keywords.items())]
        return f"{name_of(own.func)}({', '.join(fixed)})"
    return f"{getattr(own, '__module__', '?')}:{getattr(own, '__qualname__', type(own).__name__)}"


def load_callable(name: str, kind: str = "model", what: str = "factory") -> Any:
    """The callable that `package.module:factory` names; modules of the working directory can be imported too.

    kind, what: what error messages call it.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute.isidentifier():
        raise UserError(f"{kind} {name!r}: write it as package.module:{what}")
    _refuse_python(module_name, name, kind)
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError)
        remedy = "; start where it lies, or name its folder in PYTHONPATH" * missing
        why = f"cannot import {module_name}: {error_line(error)}{remedy}"
        raise UserError(f"{kind} {name!r}: {why}") from error
    if not hasattr(module, attribute):
        raise UserError(f"{kind} {name!r}: {module_name} has no {attribute!r}")
    found = getattr(module, attribute)
    if not callable(found):
        raise UserError(f"{kind} {name!r}: {attribute} is of type {type(found).__name__}, not a callable")
    if inspect.isroutine(found) or inspect.isclass(found):  # also by another module's name for it
        _refuse_python(getattr(found, "__module__", None) or "", name, kind)
    return found


def _refuse_python(module_name: str, name: str, kind: str) -> None:
    """Refuse modules of Python itself: names come from files, and those of strangers must do no harm."""
    top = module_name.partition(".")[0]
    if top in sys.stdlib_module_names:
        raise UserError(f"{kind} {name!r} is no {kind}: {top} is part of Python")


def make_model(
    factory: Factory, vocab_size: int, n_classes: int, name: str | None = None, *, trial: bool = True
) -> nn.Module:
    """Call `factory` and try the model on a tiny batch. `name` is what error messages call it."""
    who = f"model {getattr(factory, '__name__', factory) if name is None else repr(name)}"
    try:
        model = factory(vocab_size, n_classes)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{who}: the factory raised {error_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise UserError(f"{who}: the factory returned {type(model).__name__}; it should return an nn.Module")
    if trial:
        _try(model, vocab_size, n_classes, who)
    return model


def _try(model: nn.Module, vocab_size: int, n_classes: int, who: str) -> None:
    """Evaluate two sequences of four tokens."""
    tokens = torch.arange(8).remainder(vocab_size).view(2, 4)
    training = model.training
    try:
        with torch.no_grad():
            out = model.eval()(tokens)
    except Exception as error:
        raise UserError(f"{who}: forward raised {error_line(error)}") from error
    finally:
        model.train(training)
    if not isinstance(out, Tensor):
        raise UserError(f"{who}: forward returns {type(out).__name__}; it should return a Tensor")
    if out.shape != (2, n_classes):
        shapes = f"{tuple(out.shape)} for tokens of shape (2, 4); it should return (2, {n_classes})"
        raise UserError(f"{who}: forward returns {shapes}")
    if not out.is_floating_point():
        raise UserError(f"{who}: forward returns {out.dtype}; it should return floating-point logits")


class TiedClassifier(nn.Module):
    """Scores by likeness to the embeddings of the symbols, the last tokens of the vocabulary but the end."""

    def __init__(self, embed: nn.Embedding, first: int, n_classes: int) -> None:
        super().__init__()
        self.rows = slice(first, first + n_classes)
        self.bias = nn.Parameter(torch.zeros(n_classes))
        self.lookup = [embed]  # in a list: as a submodule it would have the same weights twice

    def forward(self, h: Tensor) -> Tensor:  # (…, D) -> (…, C)
        return F.linear(h, self.lookup[0].weight[self.rows] * h.shape[-1] ** -0.5, self.bias)


def tie(factory: Factory, name: str) -> Factory:
    """A factory of the same model with its classifier tied to its embedding."""

    def tied(vocab_size: int, n_classes: int) -> nn.Module:
        model = factory(vocab_size, n_classes)
        embed: Any = getattr(model, "embed", None)
        classify: Any = getattr(model, "classify", None)
        known = isinstance(embed, nn.Embedding) and isinstance(classify, nn.Linear)
        if not known or embed.embedding_dim != classify.in_features:
            wanted = "an nn.Embedding `embed` and an nn.Linear `classify` of one width"
            raise UserError(f"tied: {name} must have {wanted}; leave it out, or change its sizes")
        model.classify = TiedClassifier(embed, vocab_size - 1 - n_classes, n_classes)
        return model

    return tied


def error_line(error: BaseException) -> str:
    """An error's type and the first line of its text."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
