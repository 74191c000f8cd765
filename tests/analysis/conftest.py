"""Hand-made networks whose inner codes are known exactly, and a run that was really trained."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.cli.conftest import command as command  # fixtures
from tests.cli.conftest import refused as refused
from torch import Tensor, nn

from ctlpp.analysis.analysis import Study
from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.benchmark.task import Task, make_task
from ctlpp.benchmark.variants import Settings
from ctlpp.figures.run import analyze_run
from ctlpp.models.activations import record
from ctlpp.models.zoo import build
from ctlpp.training.crowd import Crowd, init_crowd
from ctlpp.training.recipe import Recipe
from ctlpp.training.train import train

SYMBOLS, FUNCTIONS = 4, 8
RECIPE = Recipe(steps=30, batch=32, lr=0.01, warmup=5, eval_every=10, checkpoint_every=10)
SMALL: dict[str, Any] = {"protocol": "text", "symbols": 3, "functions": 6, "max_length": 3}
SMALL |= {"train": 60, "iid": 9, "ood": 9}
TINY = {"width": 16, "heads": 2, "hidden": 16, "depth": 2, "test_depth": 2}


class Coded(nn.Module):
    """Applies functions by table, one column at a time, and carries the value of a prefix as a code.

    Layer i applies the (i + 1)-th function; its column then holds the result: one-hot over (code, symbol). A
    function writes code `writes[f]` and understands the codes `reads[f]`; of any other code it makes symbol
    0. With one code for all the network is systematic. With a code a group, the groups do not understand each
    other.
    """

    writes: Tensor
    reads: Tensor
    table: Tensor

    def __init__(self, task: Task, writes: list[int], reads: list[list[int]], noise: float = 0.0) -> None:
        super().__init__()
        self.n, self.functions, self.codes = task.n_symbols, task.n_functions, max(writes) + 1
        self.register_buffer("table", torch.tensor(task.table.astype(np.int64)))
        self.register_buffer("writes", torch.tensor(writes))
        understood = torch.zeros(self.functions, self.codes, dtype=torch.bool)
        for function, codes in enumerate(reads):
            understood[function, codes] = True
        self.register_buffer("reads", understood)
        self.width = self.codes * self.n
        self.embed = nn.Parameter(torch.zeros(task.vocabulary.size, self.width))  # what a column holds first
        with torch.no_grad():  # every function understands a plain symbol
            self.embed[self.functions : -1] = torch.eye(self.n).repeat(1, self.codes)
        self.classify = nn.Parameter(torch.eye(self.n).repeat(self.codes, 1))  # (W, C)
        self.noise = nn.Parameter(noise * torch.randn(self.functions, self.width))

    def forward(self, tokens: Tensor) -> Tensor:  # (B, L + 2): f_L … f_1 s end
        h = self.embed[tokens]  # (B, T, W)
        for column in reversed(range(tokens.shape[1] - 2)):
            new = self.apply_function(tokens[:, column], h[:, column + 1])
            here = (torch.arange(tokens.shape[1]) == column)[None, :, None]
            h = record("state", torch.where(here, new[:, None], h))
        readout = record("readout", h[:, 0])
        return readout @ self.classify

    def apply_function(self, function: Tensor, before: Tensor) -> Tensor:  # (B,), (B, W) -> (B, W)
        by_code = before.view(-1, self.codes, self.n)  # (B, codes, n)
        heard = (by_code * self.reads[function][..., None]).amax(1)  # (B, n)
        symbol = torch.where(heard.amax(-1) > 0.5, self.table[function, heard.argmax(-1)], 0)
        code = self.writes[function]
        where = torch.arange(self.width) == (code * self.n + symbol)[:, None]
        return where.float() + self.noise[function]


def bag(vocab_size: int, n_classes: int) -> nn.Module:
    """A model that records nothing."""
    return nn.Sequential(nn.Embedding(vocab_size, 8), nn.AdaptiveAvgPool2d((1, n_classes)), nn.Flatten(1))


def make_crowd(name: str, task: Task, seeds: list[int], device: str = "cpu") -> Crowd:
    """Untrained seeds of a model of the zoo."""
    sizes = task.vocabulary.size, task.n_symbols
    return init_crowd(lambda v, c: build(name, v, c, "quick"), *sizes, seeds, device)


@pytest.fixture(scope="session")
def task() -> Task:
    return make_task(Settings(variant="R", symbols=SYMBOLS, functions=FUNCTIONS, max_length=3))


@pytest.fixture(scope="session")
def systematic(task: Task) -> Crowd:
    """Two seeds with one code for everything."""
    codes = [0] * FUNCTIONS, [[0]] * FUNCTIONS
    return init_crowd(lambda v, c: Coded(task, *codes, noise=0.01), task.vocabulary.size, SYMBOLS, [3, 8])


@pytest.fixture(scope="session")
def two_codes(task: Task) -> Crowd:
    """Two seeds whose groups write and read codes of their own."""
    group = [0 if name in task.groups["a"] else 1 for name in task.functions]
    codes = group, [[code] for code in group]
    return init_crowd(lambda v, c: Coded(task, *codes, noise=0.01), task.vocabulary.size, SYMBOLS, [0, 1])


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    return generate("R", **SMALL)


@pytest.fixture(scope="session")
def trained(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "ndr-R"
    how: Any = {"preset": "quick", "sizes": TINY, "recipe": RECIPE, "device": "cpu"}
    train("ndr", dataset, seeds=[0, 2, 3, 7], out=folder, **how)
    return folder


@pytest.fixture(scope="session")
def written(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Study]:
    """Its analysis, without figures."""
    folder = tmp_path_factory.mktemp("analyses") / "analysis"
    return folder, analyze_run(trained, folder, figures=False, device="cpu")


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of it, to spoil."""
    return Path(shutil.copytree(trained, tmp_path / "run"))
