"""A model of one's own: `package.module:factory`, or any callable `factory(vocab_size, n_classes) -> nn.Module`.

Whatever is wrong with it is said in one line, before anything is trained.

Example:
    >>> from torch import nn
    >>> class Bag(nn.Module):  # knows which tokens there are, but not their order
    ...     def __init__(self, vocab_size, n_classes):
    ...         super().__init__()
    ...         self.embed, self.classify = nn.Embedding(vocab_size, 16), nn.Linear(16, n_classes)
    ...     def forward(self, tokens):
    ...         return self.classify(self.embed(tokens).mean(1))
    >>> type(make(Bag, vocab_size=41, n_classes=8)).__name__
    'Bag'
    >>> make(lambda vocab_size, n_classes: nn.Embedding(vocab_size, n_classes), vocab_size=41, n_classes=8)
    Traceback (most recent call last):
    ctlpp.files.UserError: model <lambda>: forward returns (2, 4, 8) for tokens of shape (2, 4); it should return (2, 8)
"""

import importlib
import sys
from collections.abc import Callable
from inspect import isclass, isroutine
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ctlpp.files import UserError

Factory = Callable[[int, int], nn.Module]  # (vocab_size, n_classes) -> a model of one seed


def load(name: str, kind: str = "model", what: str = "factory") -> Any:
    """The callable that `package.module:factory` names; modules of the working directory can be imported too.

    kind, what: what error messages call it.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute.isidentifier():
        raise UserError(f"{kind} {name!r}: write it as package.module:{what}")
    _refuse_python(module_name, f"{kind} {name!r} is no {kind}")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        remedy = "; start where it lies, or name its folder in PYTHONPATH" * isinstance(
            error, ModuleNotFoundError
        )
        raise UserError(
            f"{kind} {name!r}: cannot import {module_name}: {_one_line(error)}{remedy}"
        ) from error
    if not hasattr(module, attribute):
        raise UserError(f"{kind} {name!r}: {module_name} has no {attribute!r}")
    found = getattr(module, attribute)
    if not callable(found):
        raise UserError(f"{kind} {name!r}: {attribute} is of type {type(found).__name__}, not a callable")
    if isroutine(found) or isclass(found):  # also by another module's name for it
        _refuse_python(getattr(found, "__module__", None) or "", f"{kind} {name!r} is no {kind}")
    return found


def _refuse_python(module_name: str, who: str) -> None:
    """Raise UserError if a module is Python's own: names come from files, and those of strangers must do no harm."""
    top = module_name.partition(".")[0]
    if top in sys.stdlib_module_names:
        raise UserError(f"{who}: {top} is part of Python")


def make(
    factory: Factory, vocab_size: int, n_classes: int, name: str | None = None, *, trial: bool = True
) -> nn.Module:
    """Call `factory` and try the model on a tiny batch. `name` is what error messages call it."""
    who = f"model {getattr(factory, '__name__', factory) if name is None else repr(name)}"
    try:
        model = factory(vocab_size, n_classes)
    except Exception as error:
        raise UserError(f"{who}: the factory raised {_one_line(error)}") from error
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
        raise UserError(f"{who}: forward raised {_one_line(error)}") from error
    finally:
        model.train(training)
    if not isinstance(out, Tensor):
        raise UserError(f"{who}: forward returns {type(out).__name__}; it should return a Tensor")
    if out.shape != (2, n_classes):
        shapes = f"{tuple(out.shape)} for tokens of shape (2, 4); it should return (2, {n_classes})"
        raise UserError(f"{who}: forward returns {shapes}")
    if not out.is_floating_point():
        raise UserError(f"{who}: forward returns {out.dtype}; it should return floating-point logits")


def _one_line(error: Exception) -> str:
    """The error's type and the first line of its text."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
