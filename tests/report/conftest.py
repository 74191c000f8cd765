"""Run folders made without training, and a browser without a network."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctlpp.benchmark.task import Task
from ctlpp.benchmark.task import make_task as task_from
from ctlpp.benchmark.variants import Settings
from ctlpp.storage.task_json import to_json

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
]


def make_task(variant: str = "R", symbols: int = 4, functions: int = 8, **other: Any) -> Task:
    return task_from(Settings(variant=variant, symbols=symbols, functions=functions, **other))


def config_of(task: Task, seeds: Sequence[int], **other: Any) -> dict[str, Any]:
    """The `config.json` of a run on a task."""
    recipe = {"max_length": 4, "train": 100, "iid": 10, "ood": 10}
    return {
        "format": 1,
        "model": "ndr",
        "preset": "quick",
        "options": {"width": 32},
        "variant": task.variant,
        "protocol": task.protocol,
        "vocab_size": task.vocabulary.size,
        "n_classes": task.n_symbols,
        "parameters": 11339,
        "seeds": list(seeds),
        "recipe": {"steps": 300, "batch": 64, "betas": [0.9, 0.999]},
        "data": {"train": "0" * 64},
        "task": json.loads(to_json(task, recipe, {})),
        "engine": {"device": "cpu", "device_name": "CPU", "vectorised": True, "seeds_at_a_time": len(seeds)},
        "versions": {"ctlpp": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
        "started": "2026-11-15T09:52:27+00:00",
        **other,
    }


def result_of(accuracies: Sequence[float], first: int = 0, lengths: Sequence[int] = (2, 3)) -> dict[str, Any]:
    """A `result.json`: seed `first + i` has accuracy i on ood, and 1 on iid."""
    seeds = [
        {
            "seed": number,
            "accuracy": {"iid": 1.0, "ood": ood},
            "by_length": {"iid": {str(n): 1.0 for n in lengths}, "ood": {str(n): ood for n in lengths}},
            "diverged": False,
            "diverged_at": None,
        }
        for number, ood in enumerate(accuracies, first)
    ]
    return {"model": "ndr", "variant": "R", "steps": 300, "seconds": 12.5, "seeds": seeds}


def write_history(path: Path, seeds: Sequence[int], steps: Sequence[int] = (100, 200, 300)) -> None:
    rows = [
        (step, seed, split, length, None if split == "training" else 0.5, 1.0 / step)
        for step in steps
        for seed in seeds
        for split in ("iid", "ood", "training")
        for length in ((0, 2) if split != "training" else (0,))
    ]
    names = ("step", "seed", "split", "length", "accuracy", "loss")
    pq.write_table(
        pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}),
        path,
    )


def write_analysis(folder: Path, task: Task, seeds: Sequence[int], random: int = 0) -> None:
    """An analysis in which seed 0 has a code for each group, and every other seed has one for all."""
    folder.mkdir(parents=True)
    draw = np.random.Generator(np.random.PCG64(random))
    functions, symbols, groups = (
        list(task.functions),
        list(task.symbols),
        {k: list(v) for k, v in task.groups.items()},
    )
    S, n, F, G = len(seeds), len(symbols), len(functions), len(groups)
    home = np.array([[name in own for own in groups.values()].index(True) for name in functions])
    apart = (np.arange(S) == 0)[:, None, None, None] * np.eye(G)[home][None, None]  # (S, 1, F, G)
    vectors = np.concatenate([np.ones((S, n, F, 1)), 3.0 * np.broadcast_to(apart, (S, n, F, G))], axis=-1)
    vectors = np.concatenate([vectors, 0.25 * draw.normal(size=(S, n, F, 16))], axis=-1)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    cosines = np.einsum("snfd,sngd->snfg", vectors, vectors).astype(np.float32)
    clusters = [[home if s == 0 else np.zeros(F, int)] * n for s in range(S)]
    at = np.indices((S, n)).reshape(2, -1)
    pq.write_table(
        pa.table(
            {
                "seed": np.array(seeds)[at[0]],
                "value": [symbols[v] for v in at[1]],
                "silhouette": [0.5] * (S * n),
                "clusters": pa.array([c.tolist() for own in clusters for c in own], pa.list_(pa.int16())),
                "order": pa.array([draw.permutation(F).tolist() for _ in range(S * n)], pa.list_(pa.int16())),
                "cosines": pa.array(list(cosines.reshape(S * n, -1)), pa.list_(pa.float32())),
            }
        ),
        folder / "similarity.parquet",
    )
    write_pairs(folder / "pairs.parquet", seeds, functions, symbols, home, draw)
    write_interchange(folder / "interchange.parquet", seeds, symbols, list(groups))
    measures = {
        "interchange_across": {
            "label": "interchange across",
            "meaning": "…",
            "values": [0.1, *[1.0] * (S - 1)],
        }
    }
    content = {
        "format": 1,
        "seeds": list(seeds),
        "step": 300,
        "finished": True,
        "functions": functions,
        "symbols": symbols,
        "groups": groups,
        "measures": measures,
        "correlations": {"interchange_across": {"pearson": 0.9, "low": 0.5, "high": 1.0}},
        "state": {"kind": "columns"},
        "places": [{"level": 3, "part": "column 2", "effect": 0.97}] * S,
        "notes": [],
    }
    (folder / "analysis.json").write_text(json.dumps(content))


def write_pairs(
    path: Path,
    seeds: Sequence[int],
    functions: list[str],
    symbols: list[str],
    home: Any,
    draw: np.random.Generator,
) -> None:
    """Seed 0 is right within a group only; the others nearly always."""
    shape = (len(seeds), len(functions), len(functions), len(symbols))
    seed, first, second, value = np.indices(shape).reshape(4, -1)
    same = home[first] == home[second]
    right = np.where(seed == 0, same, draw.random(len(seed)) < 0.9)

    def words(indices: Any, names: list[str]) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(names))

    columns = {
        "seed": np.array(seeds)[seed],
        "first": words(first, functions),
        "second": words(second, functions),
        "value": words(value, symbols),
        "right": right,
        "kind": words(np.where(same, 1, 2), ["other", "train", "ood"]),
    }
    pq.write_table(pa.table(columns), path)


def write_interchange(path: Path, seeds: Sequence[int], symbols: list[str], groups: list[str]) -> None:
    rows = [
        (seed, kind, donor, consumer, symbol, float(donor == consumer or at > 0), 8)
        for at, seed in enumerate(seeds)
        for kind in ("none", "orthogonal", "affine")
        for donor in groups
        for consumer in groups
        for symbol in symbols
    ]
    names = ("seed", "map", "donor", "consumer", "value", "accuracy", "examples")
    pq.write_table(
        pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}),
        path,
    )


def make_run(
    folder: Path,
    accuracies: Sequence[float] = (0.3, 1.0, 0.9),
    task: Task | None = None,
    analysed: bool = True,
    first: int = 0,
    **other: Any,
) -> Path:
    """A finished run folder; first: the number of its first seed."""
    task = task or make_task()
    seeds = range(first, first + len(accuracies))
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config_of(task, seeds, **other)))
    (folder / "result.json").write_text(json.dumps(result_of(accuracies, first)))
    write_history(folder / "metrics.parquet", seeds)
    if analysed:
        write_analysis(folder / "analysis", task, seeds)
    return folder


def outdate(run: Path, step: int = 164) -> Path:
    """The same run, with an analysis that was made at an earlier step."""
    path = run / "analysis" / "analysis.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"step": step, "finished": False}))
    return run


def with_seeds(run: Path, changes: Mapping[int, Mapping[str, Any]]) -> Path:
    """The same run, with other entries for some of its seeds, by their place."""
    result = json.loads((run / "result.json").read_text())
    for at, change in changes.items():
        result["seeds"][at] |= change
    (run / "result.json").write_text(json.dumps(result))
    return run


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium. Where it is missing its tests are skipped and say so; with CTLPP_BROWSER=required they fail."""
    refuse = pytest.fail if os.environ.get("CTLPP_BROWSER") == "required" else pytest.skip
    try:
        playwright = import_module("playwright.sync_api")
    except ImportError:
        refuse("the page was not tested: playwright is missing; pip install playwright")
    if CHROMIUM is None:
        refuse("the page was not tested: there is no chromium; apt-get install chromium")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@dataclass
class Opened:
    """A page, and all that went wrong on it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def picture(self, at: int = 0) -> str:
        """The pixels of a matrix; the chosen seed's similarity is the first."""
        canvas = f"document.querySelectorAll('.matrix canvas')[{at}]"
        self.page.wait_for_function(f"() => {canvas}.width === {canvas}.height")  # not so before it is drawn
        return str(self.page.evaluate(f"{canvas}.toDataURL()"))

    def column(self, number: int) -> list[str]:
        """The cells of a column of the table of runs."""
        return list(self.page.locator(f"#run-table tbody td:nth-child({number})").all_inner_texts())

    def choose(self, id: str, value: str) -> None:
        """Pick an option and wait until the page has drawn it."""
        with self.redrawn():
            self.page.select_option(f"#{id}", value)

    @contextmanager
    def redrawn(self) -> Iterator[None]:
        """Wait in the end until the page has been drawn again."""
        before = self.page.get_attribute("html", "data-drawn")
        yield
        self.page.wait_for_selector(f"html:not([data-drawn='{before}'])")


Open = Callable[..., Opened]


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Open a file; in the end there must have been no errors and no requests but for the file itself."""
    seen: list[Opened] = []

    def open_file(path: Path, width: int = 1280, **options: Any) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)
        found = Opened(context.new_page())
        found.page.on("console", lambda message: found.errors.append(message.text))
        found.page.on("pageerror", lambda error: found.errors.append(str(error)))
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.goto(path.as_uri())
        found.page.wait_for_selector("html[data-ready]")
        seen.append(found)
        return found

    yield open_file
    for found in seen:
        assert found.errors == []
        assert [url for url in found.requests if not url.startswith("data:")] == [
            found.page.url.partition("#")[0]
        ]
        found.page.context.close()
