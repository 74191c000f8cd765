import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ctlpp.models.own import load, make
from ctlpp.models.zoo import build

BAG = """
from torch import nn

class Bag(nn.Module):
    def __init__(self, vocab_size, n_classes):
        super().__init__()
        self.embed, self.classify = nn.Embedding(vocab_size, 4), nn.Linear(4, n_classes)

    def forward(self, tokens):
        return self.classify(self.embed(tokens).mean(1))

answer = 42
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a module into the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # what `load` appends goes with the test

    def write(name: str, text: str) -> None:
        Path(f"{name}.py").write_text(text)

    return write


def test_a_factory_is_found_by_name_in_the_working_directory(write: Callable[[str, str], None]) -> None:
    write("own_bag", BAG)
    model = build("own_bag:Bag", vocab_size=9, n_classes=4)
    assert type(model).__name__ == "Bag"
    assert model.training
    assert model(torch.zeros(3, 5, dtype=torch.long)).shape == (3, 4)


@pytest.mark.parametrize("name", ["own_bag", ":Bag", "own_bag:", "own_bag:Bag:Bag", "own_bag:a b"])
def test_a_name_that_is_no_module_and_factory(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^model '{name}': write it as package\.module:factory$"):
        load(name)


@pytest.mark.parametrize(
    ("module", "text", "complaint"),
    [
        (
            "no_such_module",
            None,
            "cannot import no_such_module: ModuleNotFoundError: No module named 'no_such_module';"
            " start where it lies, or name its folder in PYTHONPATH",
        ),
        (
            "own_typo",
            "def Bag(:",
            "cannot import own_typo: SyntaxError: invalid syntax (own_typo.py, line 1)",
        ),
        ("own_bug", "1 / 0", "cannot import own_bug: ZeroDivisionError: division by zero"),
        ("own_empty", "", "own_empty has no 'Bag'"),
        ("own_number", "Bag = 42", "Bag is of type int, not a callable"),
        ("own_raises", "def Bag(v, c): raise KeyError", "the factory raised KeyError"),
    ],
)
def test_a_module_that_does_not_help(
    module: str, text: str | None, complaint: str, write: Callable[[str, str], None]
) -> None:
    if text is not None:
        write(module, text)
    with pytest.raises(ValueError, match="model") as caught:
        build(f"{module}:Bag", vocab_size=9, n_classes=4)
    assert str(caught.value) == f"model '{module}:Bag': {complaint}"


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("os:system", "os"),
        ("builtins:exec", "builtins"),
        ("xml.dom:minidom", "xml"),
        ("own_door:system", "posix"),
    ],
)
def test_what_is_part_of_python_is_no_model(
    name: str, module: str, write: Callable[[str, str], None]
) -> None:
    write("own_door", "from os import system")
    with pytest.raises(ValueError, match=f"^model '{name}' is no model: {module} is part of Python$"):
        load(name)


def test_a_module_of_python_is_not_even_imported() -> None:
    with pytest.raises(
        ValueError, match=r"^model 'antigravity:fly' is no model: antigravity is part of Python$"
    ):
        load("antigravity:fly")
    assert "antigravity" not in sys.modules


def test_a_partial_of_a_model_is_a_factory(write: Callable[[str, str], None]) -> None:
    write("own_partial", BAG + "from functools import partial; small = partial(Bag)")
    assert type(build("own_partial:small", vocab_size=9, n_classes=4)).__name__ == "Bag"


class Returns(nn.Module):
    """Its forward returns what it is told."""

    def __init__(self, forward: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.answer = forward

    def forward(self, tokens: Tensor) -> Any:
        return self.answer(tokens)


def raises(tokens: Tensor) -> Tensor:
    raise RuntimeError("mat1 and mat2\ndo not fit")


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        (3, "the factory returned int; it should return an nn.Module"),
        (Returns(raises), "forward raised RuntimeError: mat1 and mat2"),
        (Returns(lambda tokens: "yes"), "forward returns str; it should return a Tensor"),
        (
            Returns(lambda tokens: torch.zeros(2, 4, 5)),
            "forward returns (2, 4, 5) for tokens of shape (2, 4); it should return (2, 5)",
        ),
        (
            Returns(lambda tokens: torch.zeros(5)),
            "forward returns (5,) for tokens of shape (2, 4); it should return (2, 5)",
        ),
        (
            Returns(lambda tokens: torch.zeros(2, 5, dtype=torch.long)),
            "forward returns torch.int64; it should return floating-point logits",
        ),
    ],
)
def test_a_factory_whose_result_is_no_classifier(made: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match="model") as caught:
        make(lambda vocab_size, n_classes: made, vocab_size=9, n_classes=5, name="mine")
    assert str(caught.value) == f"model 'mine': {complaint}"


def test_a_factory_that_takes_other_arguments() -> None:
    with pytest.raises(
        ValueError, match=r"^model nothing: the factory raised TypeError: .*nothing\(\) takes 0 pos"
    ):
        make(nothing, vocab_size=9, n_classes=5)  # type: ignore[arg-type]


def nothing() -> nn.Module:
    return nn.Identity()


def test_the_trial_leaves_the_model_in_its_mode_and_without_gradients() -> None:
    seen: list[tuple[bool, bool]] = []

    def look(tokens: Tensor) -> Tensor:
        seen.append((model.training, torch.is_grad_enabled()))
        return torch.zeros(2, 5)

    model = Returns(look)
    for training in (False, True):
        assert make(lambda vocab_size, n_classes, training=training: model.train(training), 9, 5) is model  # type: ignore[misc]
        assert bool(model.training) is training
    assert seen == [(False, False), (False, False)]


def test_modules_that_cannot_run_under_vmap_are_welcome() -> None:
    class Library(nn.Module):
        def __init__(self, vocab_size: int, n_classes: int) -> None:
            super().__init__()
            self.embed, self.lstm = nn.Embedding(vocab_size, 4), nn.LSTM(4, n_classes, batch_first=True)

        def forward(self, tokens: Tensor) -> Tensor:
            last: Tensor = self.lstm(self.embed(tokens))[1][0][0]
            return last

    assert isinstance(make(Library, 9, 5), Library)
