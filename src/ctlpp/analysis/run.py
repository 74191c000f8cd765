"""The analysis of a run folder: its task, its seeds, and what `analysis.json` says of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

import ctlpp
from ctlpp.analysis.analysis import Analysis, analyze, count_bases
from ctlpp.analysis.folder import ANALYSIS, MEASURES, write_analysis
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.states import pick
from ctlpp.benchmark.task import Task
from ctlpp.files import UserError, check_folder, write_folder
from ctlpp.models.zoo import Factory
from ctlpp.runs.folder import check_kept, read_config
from ctlpp.runs.history import History
from ctlpp.statistics.summary import Correlation, correlate
from ctlpp.storage.folder import load
from ctlpp.storage.task_json import from_json
from ctlpp.training.train import Run, check_data_matches_run, load_run

check_target, fresh_folder = partial(check_folder, ANALYSIS), partial(write_folder, ANALYSIS)


@dataclass(frozen=True, eq=False)
class Study:
    """A run and its analysis."""

    config: dict[str, Any]
    analysis: Analysis
    history: History
    diverged: dict[int, int]  # seed -> the step at which it was frozen
    step: int
    finished: bool

    @property
    def trained(self) -> Array:
        """Which seeds have not diverged, (S,) bool."""
        return np.array([seed not in self.diverged for seed in self.analysis.seeds])

    @property
    def evaluated(self) -> bool:
        """Whether the run has an OOD accuracy of its own."""
        return bool(np.isfinite(self.history.final("ood")).any())

    @property
    def ood(self) -> Array:
        """OOD accuracy of every seed: that of the run, or, where it has none, on the new pairs."""
        return self.history.final("ood") if self.evaluated else self.analysis.measures["pairs_ood"]

    @property
    def outcome(self) -> str:
        """What `ood` is called."""
        return "OOD accuracy" if self.evaluated else MEASURES["pairs_ood"].label

    @cached_property
    def correlations(self) -> dict[str, Correlation]:
        """Each measure's correlation with OOD accuracy over the seeds that have not diverged."""
        ood = np.where(self.trained, self.ood, np.nan)
        measures = self.analysis.measures.items()
        return {
            name: correlate(values, ood) for name, values in measures if self.evaluated or name != "pairs_ood"
        }


def study_run(
    folder: Path,
    *,
    seeds: Sequence[int] | None = None,
    data: Path | None = None,
    bases: int | None = 1,
    unfinished: bool = False,
    device: str = "cpu",
    factory: Factory | None = None,
    start: Callable[[int], Callable[[int], None]] = lambda seeds: lambda done: None,
) -> Study:
    """Analyse the seeds of a run folder.

    bases: as `analyze` has it. data: the dataset folder, for a run that does not name its task. factory: that
    of your own model if it was given as a callable. start: told the number of seeds, gives what to call with
    progress.
    """
    config = read_config(folder)
    task = find_task(folder, config, data)
    run = load_run(folder, factory, device)
    finished = (folder / "result.json").is_file()
    if not finished and not unfinished:
        raise UserError(
            f"the run in {folder} is unfinished (step {run.step} of {config['recipe']['steps']}):"
            " train on with ‹resume=True›, or analyse its newest checkpoint with ‹unfinished=True›"
        )
    chosen = choose_seeds(run, seeds)
    count_bases(Inputs.of(task), bases)
    analysis = analyze(chosen.crowd, task, bases=bases, advance=start(len(chosen.crowd.seeds)))
    history = History.of(run.metrics.table(), chosen.crowd.seeds)
    study = Study(config, analysis, history, run.diverged, run.step, finished)
    analysis.notes.extend(run.notes)
    if not study.evaluated:
        analysis.notes.append("the run has no OOD accuracy: correlations are with the accuracy on new pairs")
    return study


def find_task(folder: Path, config: dict[str, Any], data: Path | None) -> Task:
    """The task that a run was trained on: from its config, or from the dataset folder that the user names."""
    noted = config.get("task")
    trained = from_json(json.dumps({"splits": {}, **noted}))[0] if noted else None
    if data is not None:
        task = load(data).task
        check_data_matches_run(config, task, folder, data)
        if trained is not None and _rules(trained) != _rules(task):
            raise UserError(
                f"{data} has other symbols, groups or graphs than the run in {folder} was trained with:"
                " leave out ‹data›, the run names its task"
            )
        return task
    if trained is None:
        raise UserError(
            f"the run in {folder} does not say which task it was trained on: name its dataset with ‹data›"
        )
    if (trained.vocabulary.size, trained.n_symbols) != (config["vocab_size"], config["n_classes"]):
        raise UserError(
            f"the run in {folder} has {config['vocab_size']} tokens and {config['n_classes']} classes,"
            f" its task {trained.vocabulary.size} and {trained.n_symbols}: name its dataset with ‹data›"
        )
    return trained


def _rules(task: Task) -> tuple[object, ...]:
    """What decides how a run is looked at; lengths do not."""
    graphs = [(graph.edges, graph.restrictions) for graph in (task.train_graph, task.ood_graph)]
    return task.symbols, task.groups, graphs


def check_left(folder: Path) -> None:
    """Raise UserError if there is nothing left of a run that could be analysed."""
    read_config(folder)
    made = (folder / "analysis" / "analysis.json").is_file()
    again = "train it again in a new folder to analyse it"
    check_kept(folder, f"its analysis is in {folder / 'analysis'}" if made else again)


def choose_seeds(run: Run, seeds: Sequence[int] | None) -> Run:
    """The run with only some of its seeds."""
    if seeds is None:
        return run
    have = run.crowd.seeds
    for seed in seeds:
        if seed not in have:
            raise UserError(f"no seed {seed} in this run: choose from {', '.join(map(str, have))}")
    rows = [have.index(seed) for seed in dict.fromkeys(seeds)]
    return replace(run, crowd=pick(run.crowd, rows))


def summary(study: Study) -> dict[str, Any]:
    """The content of `analysis.json`."""
    found, inputs, config = study.analysis, study.analysis.inputs, study.config
    about = {key: config[key] for key in ("model", "preset", "variant", "protocol", "parameters")}
    final = {split: _plain(study.history.final(split)) for split in study.history.splits}
    content: dict[str, Any] = {
        **about,
        "seeds": list(found.seeds),
        "step": study.step,
        "finished": study.finished,
        "diverged": [seed for seed in found.seeds if seed in study.diverged],
        "functions": list(inputs.task.functions),
        "symbols": list(inputs.task.symbols),
        "groups": {group: list(names) for group, names in inputs.task.groups.items()},
        "compared": {group: list(partners) for group, partners in inputs.partners.items()},
        "pairs": {"train": int(inputs.train.sum()), "ood": int(inputs.ood.sum())},
        "accuracy": final,
        "measures": {
            name: {**MEASURES[name]._asdict(), "values": _plain(v)} for name, v in found.measures.items()
        },
        "correlations": {name: _finite(asdict(c)) for name, c in study.correlations.items()},
        "notes": found.notes,
        "versions": {"ctlpp": ctlpp.__version__},
    }
    if found.layout is not None and found.position is not None and found.effect is not None:
        levels, parts = found.effect.shape[1], list(found.changed)
        content |= {
            "state": {"kind": found.layout.kind, "levels": levels, "parts": parts},
            "bases": found.bases,
        }
        content["places"] = []
        for row, (level, part) in enumerate(found.position.tolist()):
            effect = round(float(found.effect[row, level, part]), 6)
            content["places"].append({"level": level, "part": parts[part], "effect": effect})
    return content


def write_numbers(study: Study, place: Path) -> None:
    """`analysis.json` and the Parquet files."""
    write_analysis(place, summary(study), study.analysis)


def _plain(values: Array) -> list[float | None]:
    return [round(float(value), 6) if np.isfinite(value) else None for value in values]


def _finite(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(n, float) and not np.isfinite(n) else n for name, n in numbers.items()}
