"""Run folders made without training, and a browser without a network."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctlpp.benchmark.task import Task
from ctlpp.benchmark.task import make_task as task_from
from ctlpp.benchmark.variants import Settings
from ctlpp.models.zoo import MODELS
from ctlpp.report.page import write_report
from ctlpp.storage.folder import task_to_dict
from ctlpp.training.recipe import recipe_for

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
DIVERGED = {"diverged": True, "diverged_at": 100}


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
        "task": task_to_dict(task, recipe, {}),
        "engine": {"device": "cpu", "device_name": "CPU", "vectorised": True, "seeds_at_a_time": len(seeds)},
        "versions": {"ctlpp": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
        "started": "2026-11-15T09:52:27+00:00",
        **other,
    }


def full_size(model: str, variant: str, preset: str = "authors", **recipe: Any) -> dict[str, Any]:
    """The config of a run at the paper's size."""
    own = asdict(recipe_for(model, preset, variant, **recipe))
    task, options = make_task(variant, 8, 32, max_length=6), dict(MODELS[model].sizes[preset])
    config = config_of(task, range(25), model=model, preset=preset, options=options)
    config["recipe"] = json.loads(json.dumps(own))
    config["task"]["recipe"] |= {"train": 300_000}
    return config


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


def write_rows(path: Path, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    columns = zip(*rows, strict=True)
    pq.write_table(pa.table(dict(zip(names, map(list, columns), strict=True))), path)


def write_history(path: Path, seeds: Sequence[int], steps: Sequence[int] = (100, 200, 300)) -> None:
    rows = [
        (step, seed, split, length, None if split == "training" else 0.5, 1.0 / step)
        for step, seed, split in product(steps, seeds, ("iid", "ood", "training"))
        for length in ((0, 2) if split != "training" else (0,))
    ]
    write_rows(path, ("step", "seed", "split", "length", "accuracy", "loss"), rows)


def write_analysis(folder: Path, task: Task, seeds: Sequence[int], random: int = 0) -> None:
    """An analysis in which seed 0 has a code for each group, and every other seed has one for all."""
    folder.mkdir(parents=True)
    draw = np.random.Generator(np.random.PCG64(random))
    functions, symbols = list(task.functions), list(task.symbols)
    groups = {name: list(members) for name, members in task.groups.items()}
    home = np.array([[name in own for own in groups.values()].index(True) for name in functions])
    alike, F = home[:, None] == home, len(functions)  # (F, F)
    rows: list[tuple[Any, ...]] = []
    for (at, seed), symbol in product(enumerate(seeds), symbols):
        cosines = np.where(alike | (at > 0), 0.9, 0.2) + 0.1 * draw.random((F, F))
        clusters = (home * (at == 0)).tolist()
        rows.append((seed, symbol, 0.5, clusters, draw.permutation(F).tolist(), cosines.ravel().tolist()))
    names = ["seed", "value", "silhouette", "clusters", "order", "cosines"]
    write_rows(folder / "similarity.parquet", names, rows)
    lucky = draw.random((len(seeds), len(symbols), F, F)) < 0.9
    rows = []
    for (at, seed), (v, symbol), a, b in product(enumerate(seeds), enumerate(symbols), range(F), range(F)):
        right = bool(lucky[at, v, a, b] if at else alike[a, b])
        kind = "train" if alike[a, b] else "ood"
        if task.variant == "S" and home[a] == home[b] == 0:
            kind = "other"
        rows.append((seed, functions[a], functions[b], symbol, right, kind))
    write_rows(folder / "pairs.parquet", ("seed", "first", "second", "value", "right", "kind"), rows)
    maps = ("none", "orthogonal", "affine")
    rows = [
        (seed, map_, donor, consumer, symbol, float(donor == consumer or at > 0), 8)
        for (at, seed), map_, donor, consumer, symbol in product(
            enumerate(seeds), maps, groups, groups, symbols
        )
    ]
    names = ["seed", "map", "donor", "consumer", "value", "accuracy", "examples"]
    write_rows(folder / "interchange.parquet", names, rows)
    values = [0.1, *[1.0] * (len(seeds) - 1)]
    content = {
        "format": 1,
        "seeds": list(seeds),
        "step": 300,
        "finished": True,
        "functions": functions,
        "symbols": symbols,
        "groups": groups,
        "measures": {"interchange_across": {"label": "across", "meaning": "…", "values": values}},
        "correlations": {"interchange_across": {"pearson": 0.9, "low": 0.5, "high": 1.0}},
        "state": {"kind": "columns"},
        "places": [{"level": 3, "part": "column 2", "effect": 0.97}] * len(seeds),
        "notes": [],
    }
    (folder / "analysis.json").write_text(json.dumps(content))


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


def edit(path: Path, **changes: Any) -> None:
    """Change entries of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def outdate(run: Path, step: int = 164) -> Path:
    """The same run, with an analysis that was made at an earlier step."""
    edit(run / "analysis" / "analysis.json", step=step, finished=False)
    return run


def with_seeds(run: Path, changes: Mapping[int, Mapping[str, Any]]) -> Path:
    """The same run, with other entries for some of its seeds, by their place."""
    result = json.loads((run / "result.json").read_text())
    for at, change in changes.items():
        result["seeds"][at] |= change
    edit(run / "result.json", seeds=result["seeds"])
    return run


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium. Where it is missing its tests are skipped; with CTLPP_BROWSER=required they fail."""
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
    address: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def picture(self, kind: str = "compatibility", at: int = 0) -> str:
        """The pixels of a matrix; at: 0 for the left seed, 1 for the right one."""
        canvas = self.page.locator(f".matrix[data-kind={kind}] canvas").nth(at)
        return str(canvas.evaluate("(one) => one.toDataURL()"))

    def seeds(self) -> list[str]:
        """The seeds that are shown, left and right."""
        return [" ".join(text.split()) for text in self.page.locator(".who").all_inner_texts()]

    def again(self) -> Opened:
        """The same page, as it is opened first."""
        self.page.goto("about:blank")
        self.page.goto(self.address)
        self.page.wait_for_selector("html[data-ready]")
        return self

    def saved(self, selector: str) -> str:
        """The text of the file that a button gives."""
        with self.page.expect_download() as download:
            self.page.locator(selector).first.click()
        return str(Path(download.value.path()).read_text())

    def column(self, name: str) -> list[str]:
        """The cells of a column of the table of runs."""
        heads = [text.split()[0] for text in self.page.locator("#run-table thead th").all_inner_texts()]
        place = heads.index(name) + 1
        return list(self.page.locator(f"#run-table tbody td:nth-child({place})").all_inner_texts())

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


@pytest.fixture(scope="session")
def opened(browser: Any) -> Iterator[Open]:
    """Open a file; in the end there must have been no errors and no requests but for the file itself."""
    seen: list[Opened] = []

    def open_file(path: Path, width: int = 1280, **options: Any) -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, offline=True, reduced_motion="reduce", **options
        )
        found = Opened(context.new_page(), path.as_uri())
        found.page.on("console", lambda message: found.errors.append(message.text))
        found.page.on("pageerror", lambda error: found.errors.append(str(error)))
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.goto(found.address)
        if options.get("java_script_enabled", True):
            found.page.wait_for_selector("html[data-ready]")
        seen.append(found)
        return found

    yield open_file
    for found in seen:
        assert found.errors == []
        foreign = [url for url in found.requests if not url.startswith(("data:", "blob:"))]
        assert {url.partition("#")[0] for url in foreign} == {found.address}
        found.page.context.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page over runs of every kind."""
    root = tmp_path_factory.mktemp("report")
    runs = root / "runs"
    make_run(runs / "ndr-R", (0.3, 1.0, 0.9))
    make_run(runs / "own", (0.6, 0.7), model="my.models:tiny", analysed=False)
    name = HOSTILE.replace("/", "")
    make_run(runs / "hostile" / name, (0.5, 0.4), model=HOSTILE, preset="</script><script>alert(1)")
    for shared in (4, 5):
        task = make_task("S", 4, 16, shared_functions=shared, shared_symbols=2)
        make_run(runs / f"staged-{shared}", (0.2, 0.4), task)
    (make_run(runs / "unfinished", analysed=False) / "result.json").unlink()
    with_seeds(make_run(runs / "diverged", (0.5, 0.6), variant="A"), {0: DIVERGED})
    (make_run(runs / "broken") / "config.json").write_text("{")
    return write_page(runs)


@pytest.fixture(scope="session")
def every(opened: Open, report: Path) -> Opened:
    """That page, opened once; `again()` opens it anew."""
    return opened(report)


@pytest.fixture(scope="session")
def table1(opened: Open, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A page over runs that can be compared with published numbers."""
    root = tmp_path_factory.mktemp("table1")
    draw = np.random.Generator(np.random.PCG64(3))
    accuracies = {
        ("lstm", "R"): [1.0] * 25,
        ("ndr", "R"): (0.3 + 0.2 * draw.random(25)).tolist(),
        ("ndr", "A"): [0.2, 0.3, 1.0, 0.6],
        ("transformer", "A"): [0.3, 0.2],
    }
    for (model, variant), values in accuracies.items():
        task = make_task(variant, 8, 32, max_length=6)
        run = make_run(root / "runs" / f"{model}-{variant}", values, task, analysed=False)
        edit(run / "config.json", **full_size(model, variant) | {"seeds": list(range(len(values)))})
        if len(values) == 4:
            write_analysis(run / "analysis", task, range(4))
    return opened(write_page(root / "runs"))


def write_page(folder: Path) -> Path:
    """A page over the runs in a folder."""
    write_report([folder], folder / "report.html")
    return folder / "report.html"
