"""Models by name: what every model of the zoo can do, the sizes it takes, and your own models."""

import inspect
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ctlpp.models import PRESETS
from ctlpp.models.zoo import LARGEST, MODELS, build, find_model, load_callable, make_model, parameters


def refused(line: str) -> Any:
    return pytest.raises(ValueError, match=f"^{re.escape(line)}$")


def test_the_released_models_have_exactly_as_many_parameters_as_the_published_code_trains() -> None:
    counts = {"lstm": 407_816, "transformer": 155_018, "ndr": 673_299}
    assert {name: parameters(build(name, 32 + 8 + 1, 8)) for name in counts} == counts
    assert parameters(build("lstm", 32 + 8 + 1, 8).requires_grad_(False)) == 0


@pytest.mark.parametrize("name", MODELS)
def test_a_preset_sets_every_size_and_released_is_the_default(name: str) -> None:
    spec = MODELS[name]
    own: dict[str, Any] = {"transformer_untied": {"shared": False}, "transformer_looped": {"causal": True}}
    arguments = inspect.signature(spec.factory).parameters.values()
    defaults = {a.name: a.default for a in arguments if a.default is not a.empty} | own.get(name, {})
    switches = {name for name, value in defaults.items() if value is None or type(value) is bool}
    assert list(spec.sizes) == list(PRESETS)
    for preset in PRESETS:
        assert defaults.keys() >= spec.sizes[preset].keys() >= defaults.keys() - switches
        find_model(name, preset, spec.sizes[preset])  # none of them is refused
    assert defaults | spec.sizes["authors"] == defaults


@pytest.mark.parametrize("name", MODELS)
def test_whatever_a_model_makes_on_the_way_is_on_its_device(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # the device has none
    for training in (True, False):
        model = build(name, 9, 4).train(training).to("meta")  # a device that does not mix with the CPU
        assert model(torch.zeros(2, 5, dtype=torch.long, device="meta")).shape == (2, 4)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_runs_under_autocast(name: str) -> None:
    model, tokens = build(name, 9, 4, "quick"), torch.randint(9, (4, 6))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(tokens)
    torch.testing.assert_close(logits.float(), model(tokens), rtol=0.1, atol=0.1)


def test_an_unknown_model_or_preset_is_named_with_what_there_is() -> None:
    zoo = ", ".join(MODELS)
    with refused(f"unknown model 'ndrr': choose from {zoo}, or package.module:factory"):
        build("ndrr", 9, 4)
    with refused("preset fast: choose from authors, text, quick"):
        build("ndr", 9, 4, preset="fast")


def test_a_wrong_size_is_answered_with_what_would_be_right() -> None:
    whole, share = f"use a whole number from 1 to {LARGEST}", "use a number from 0 to below 1"
    sizes = "width, heads, hidden, depth, dropout, key_dropout, shared, causal"
    for name, size, value, rule in [
        ("lstm", "width", 0, whole),
        ("gru", "embedding", LARGEST + 1, whole),
        ("ndr", "width", 64.0, whole),
        ("ndr", "depth", True, whole),
        ("ndr", "test_depth", 0, f"{whole}, or None"),
        ("ndr", "gate_dropout", -0.1, share),
        ("ndr", "dropout", float("nan"), share),
        ("transformer", "shared", 1, "use True or False"),
        ("transformer", "test_depth", 4, f"transformer has no test_depth; choose from {sizes}"),
        ("transformer", "width", 7, "must be a multiple of the heads, 4"),
        ("transformer", "heads", 100, "must divide the width, 64"),
    ]:
        with refused(f"size {size}={value}: {rule}"):
            find_model(name, "quick", {size: value})


@pytest.mark.parametrize("name", MODELS)
def test_the_smallest_and_odd_sizes_make_a_model_for_sequences_of_any_length(name: str) -> None:
    ones = {size: 1 for size, value in MODELS[name].sizes["quick"].items() if type(value) is int}
    for width, length in ((1, 1), (7, 9)):
        _, factory, _ = find_model(name, "quick", ones | ({"width": width} if "width" in ones else {}))
        logits = factory(9, 4)(torch.randint(9, (2, length)))
        assert logits.shape == (2, 4)
        assert logits.isfinite().all()


BAG = """
from functools import partial
from torch import nn

class Bag(nn.Module):
    def __init__(self, vocab_size, n_classes):
        super().__init__()
        self.embed, self.classify = nn.Embedding(vocab_size, 4), nn.Linear(4, n_classes)

    def forward(self, tokens):
        return self.classify(self.embed(tokens).mean(1))

small = partial(Bag)
"""


Write = Callable[[str, str], object]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Puts a module into the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # what `load_callable` appends goes with the test
    return lambda name, text: Path(f"{name}.py").write_text(text)


def test_your_own_factory_is_found_by_name_in_the_working_directory(write: Write) -> None:
    write("own_bag", BAG)
    for factory in ("Bag", "small"):
        model = build(f"own_bag:{factory}", vocab_size=9, n_classes=4)
        assert type(model).__name__ == "Bag"
        assert model.training


def test_a_name_that_finds_no_factory_is_told_why(write: Write) -> None:
    for name in ("own_bag", ":Bag", "own_bag:", "own_bag:Bag:Bag", "own_bag:a b"):
        with refused(f"model '{name}': write it as package.module:factory"):
            load_callable(name)
    remedy = "start where it lies, or name its folder in PYTHONPATH"
    missing, typo = "own_none: ModuleNotFoundError:", "own_typo: SyntaxError:"
    for module, text, complaint in [
        ("own_none", None, f"cannot import {missing} No module named 'own_none'; {remedy}"),
        ("own_typo", "def Bag(:", f"cannot import {typo} invalid syntax (own_typo.py, line 1)"),
        ("own_bug", "1 / 0", "cannot import own_bug: ZeroDivisionError: division by zero"),
        ("own_empty", "", "own_empty has no 'Bag'"),
        ("own_number", "Bag = 42", "Bag is of type int, not a callable"),
        ("own_raises", "def Bag(v, c): raise KeyError", "the factory raised KeyError"),
    ]:
        if text is not None:
            write(module, text)
        with refused(f"model '{module}:Bag': {complaint}"):
            build(f"{module}:Bag", vocab_size=9, n_classes=4)


def test_what_is_part_of_python_is_no_model_and_not_even_imported(write: Write) -> None:
    write("own_door", "from os import system")
    modules = {"os:system": "os", "builtins:exec": "builtins", "xml.dom:minidom": "xml"}
    for name, module in (modules | {"own_door:system": "posix", "antigravity:fly": "antigravity"}).items():
        with refused(f"model '{name}' is no model: {module} is part of Python"):
            load_callable(name)
    assert "antigravity" not in sys.modules


class Returns(nn.Module):
    """Its forward returns what it is told."""

    def __init__(self, forward: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.answer = forward

    def forward(self, tokens: Tensor) -> Any:
        return self.answer(tokens)


def raises(tokens: Tensor) -> Tensor:
    raise RuntimeError("mat1 and mat2\ndo not fit")


def test_a_factory_whose_result_is_no_classifier_is_told_why() -> None:
    wrong = "for tokens of shape (2, 4); it should return (2, 5)"
    for made, complaint in [
        (3, "the factory returned int; it should return an nn.Module"),
        (Returns(raises), "forward raised RuntimeError: mat1 and mat2"),
        (Returns(lambda tokens: "yes"), "forward returns str; it should return a Tensor"),
        (Returns(lambda tokens: torch.zeros(2, 4, 5)), f"forward returns (2, 4, 5) {wrong}"),
        (Returns(lambda tokens: torch.zeros(2, 5).long()), "forward returns torch.int64; it should return"),
    ]:
        with pytest.raises(ValueError, match=f"^model 'mine': {re.escape(complaint)}"):
            make_model(lambda vocab_size, n_classes, made=made: made, 9, 5, "mine")  # type: ignore[misc]


def test_the_trial_leaves_the_model_in_its_mode_and_without_gradients() -> None:
    seen: list[tuple[bool, bool]] = []

    def look(tokens: Tensor) -> Tensor:
        seen.append((model.training, torch.is_grad_enabled()))
        return torch.zeros(2, 5)

    model = Returns(look)
    for training in (False, True):
        model.train(training)
        assert make_model(lambda vocab_size, n_classes: model, 9, 5) is model
        assert bool(model.training) is training
    assert seen == [(False, False), (False, False)]
