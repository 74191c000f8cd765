"""The whole analysis: of all seeds of a crowd, one after the other, and of a run folder.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> from ctlpp.models.zoo import build
    >>> from ctlpp.training.crowd import init_crowd
    >>> task = generate("R", symbols=4, functions=8, max_length=3, train=100, iid=9, ood=9).task
    >>> crowd = init_crowd(lambda v, c: build("gru", v, c, "quick"), task.vocabulary.size, 4, seeds=[0, 1])
    >>> found = analyze(crowd, task)
    >>> found.answers.shape, found.similarity.shape, sorted(found.measures)[:3]
    ((2, 8, 8, 4), (2, 4, 8, 8), ['cka', 'clusters', 'codes'])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ctlpp.analysis import geometry
from ctlpp.analysis.folder import MEASURES
from ctlpp.analysis.inputs import Array, Inputs
from ctlpp.analysis.interchange import (
    Donors,
    count_turns,
    find_positions,
    interchange,
    split_consumers,
    subsample,
)
from ctlpp.analysis.states import Layout, Model, PatchableModel, answers, device_of, look_into
from ctlpp.benchmark.dataset import Dataset
from ctlpp.benchmark.task import Task
from ctlpp.files import UserError
from ctlpp.models.zoo import Factory
from ctlpp.runs.folder import check_data_matches_run, read_config
from ctlpp.runs.history import History
from ctlpp.statistics.summary import Correlation, correlate
from ctlpp.storage.folder import load, task_from_dict
from ctlpp.training.crowd import Crowd
from ctlpp.training.run import Run, load_run
from ctlpp.words import plural

Advance = Callable[[float], None]  # called with the number of seeds that are done, in fractions
Progress = Callable[[int], Advance]  # called with a total, gives what to call with what is done
Result = TypeVar("Result")
MAPS = {"none": "interchange_across", "orthogonal": "stitch_orthogonal", "affine": "stitch_affine"}
SAMPLE = 256  # pairs that stitching tries
TRIED = 8  # inputs at least, of all consumers alike, to see how a model goes on from a state


def no_progress(total: int) -> Callable[[float], None]:
    """Progress that is not shown."""
    return lambda done: None


@dataclass(frozen=True, eq=False)
class Interchange:
    """What came of exchanging states."""

    kind: str  # of the state: "columns", "steps" or "directions"
    changed: tuple[str, ...]  # the names of what can be changed at a layer or step
    effect: Array  # of every position, (S, layers or steps, what is changed there)
    position: Array  # of every seed: layer or step, and what is changed there, (S, 2)
    bases: int  # for every (donor's function, consumer, donor's symbol)
    right: dict[str, Array]  # share of bases by map ("none", …), (S, F, F, n); nan where nothing was tried


@dataclass(eq=False)
class Analysis:
    """What was found. S seeds, F functions, n symbols; pairs are (first, second, start symbol)."""

    inputs: Inputs
    seeds: tuple[int, ...]
    answers: Array  # to all pairs, (S, F, F, n)
    codes: Array  # by the value for which the first function leaves a state, (S, values, F); -1: never first
    measures: dict[str, Array]  # one number per seed, (S,); nan where it is not defined
    similarity: Array | None = None  # of readouts, (S, values, F, F)
    clusters: list[list[geometry.Clustering]] | None = None  # of them, by seed and value
    interchange: Interchange | None = None
    notes: list[str] = field(default_factory=list)  # what could not be done, or says less than usual, and why

    @property
    def right(self) -> Array:
        """Which pairs are answered right, (S, F, F, n) bool."""
        return np.asarray(self.answers == self.inputs.answer)


def analyze(
    model: Run | Crowd | nn.Module | Callable[[Tensor], Tensor],
    task: Task | Dataset,
    *,
    seeds: Sequence[int] | None = None,
    bases: int | None = 1,
    start: Progress = no_progress,
) -> Analysis:
    """Analyse the seeds of a run or crowd, or one model: any callable that makes logits of tokens.

    Args:
        model: A run, its crowd, a module, or any callable.
        task: The task that it was trained on, or its dataset.
        seeds: Of a run or crowd; by default all.
        bases: On how many of a consumer's inputs interchange tries each donor's state; None for all of
            another value.
        start: For a progress bar: it is called with the number of seeds, and what it returns with
            numbers that add up to it.

    Returns:
        Answers, similarities and codes of every seed, and one number per seed and measure.
    """
    model = model.crowd if isinstance(model, Run) else model
    inputs = Inputs(task.task if isinstance(task, Dataset) else task)
    most = count_turns(inputs)
    if bases is not None and not 1 <= bases <= most:
        raise UserError(
            f"‹bases› {bases}: every donor and consumer has {most} bases of another value:"
            f" use 1 to {most}, or all"
        )
    member: Callable[[int], Model]
    if isinstance(model, Crowd):
        wanted, device, member = tuple(seeds or model.seeds), model.device, model.member
    else:
        alone = _single(model)
        wanted, device, member = (0,), device_of(alone), lambda seed: alone
    workers = torch.get_num_threads() if device.type == "cpu" else 1

    def work(seed: int, advance: Advance) -> dict[str, Any]:
        return _run_model(member(seed), advance, inputs, bases or most)

    parts = work_side_by_side(wanted, work, workers, start(len(wanted)))
    found = {
        name: np.stack([part[name] for part in parts]) if isinstance(value, np.ndarray) else value
        for name, value in parts[0].items()
    }
    return _compute_measures(inputs, wanted, bases or most, found)


def _single(model: object) -> Model:
    """A model that is not one of many seeds, in evaluation mode."""
    if not callable(model):
        kinds = "give a run, a crowd, a module, or a function that makes logits of tokens"
        raise UserError(f"model of type {type(model).__name__}: {kinds}")
    return model.eval() if isinstance(model, nn.Module) else model


def work_side_by_side(
    seeds: Sequence[int], work: Callable[[int, Advance], Result], workers: int, advance: Advance
) -> list[Result]:
    """`work(seed, advance)` for every seed; several workers share the seeds, those left over all threads.

    If one fails, or at Ctrl-C, `advance` raises in the others.
    """
    workers = min(workers, len(seeds))
    if workers < 2:  # here, with all threads: another one would have to start threads of its own
        return [work(seed, advance) for seed in seeds]
    whole_rounds = len(seeds) // workers * workers
    if left_over := seeds[whole_rounds:]:
        first = work_side_by_side(seeds[:whole_rounds], work, workers, advance)
        return first + work_side_by_side(left_over, work, len(left_over), advance)
    threads, stop = torch.get_num_threads(), Event()
    each = max(1, threads // workers)

    def advance_unless_stopped(done: float) -> None:
        if stop.is_set():
            raise RuntimeError("another part of the analysis has failed")
        advance(done)

    torch.set_num_threads(each)
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(each,))
    try:
        return list(pool.map(lambda seed: work(seed, advance_unless_stopped), seeds))
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)  # what has not begun does not begin
        torch.set_num_threads(threads)


def _run_model(model: Model, advance: Advance, inputs: Inputs, bases: int) -> dict[str, Any]:
    """Everything that needs the model itself."""
    seen, _ = look_into(model, inputs.singles())
    found: dict[str, Any] = {}
    if [value.ndim for value in seen.get("readout", [])] == [2]:
        found["readout"] = seen["readout"][0].float().cpu().numpy().reshape(*inputs.value.shape, -1)
    layout = Layout.of(seen)
    if layout is None:
        by_second = answers(model, inputs.pairs_with(np.arange(inputs.n_functions))).numpy()
        found["answers"] = by_second.reshape(inputs.answer.shape).swapaxes(0, 1)
        advance(1)
        return found
    tried = inputs.base_tokens()
    patchable = PatchableModel.of(model, layout, tried[:: max(1, len(tried) // TRIED)])
    chosen = find_positions(patchable, inputs)
    found |= {"kind": layout.kind, "changed": chosen.options, "effect": chosen.effect.numpy()}
    found["position"] = np.array([chosen.level, chosen.option])
    at_level = replace(patchable, level=chosen.level)
    return found | _measure_states(at_level, inputs, chosen.where, bases, advance)


def _measure_states(
    model: PatchableModel, inputs: Inputs, where: Tensor, bases: int, advance: Advance
) -> dict[str, Array]:
    """Everything about the states at the model's position."""
    _, states = model.answers_and_states(inputs.donor_tokens())
    donors = states * where[:, None]  # (F · n, K, W)
    table = donors.cpu().double().numpy().reshape(*inputs.value.shape, -1)  # linear algebra needs the digits
    table = inputs.vectors_by_value(np.nan_to_num(table))
    within, across = geometry.probe(table, inputs)
    found = {"probe_within": within, "probe_across": across, "cka": geometry.cka(table, inputs)}
    tried = {"none": Donors(donors, np.ones_like(inputs.train), bases)}
    if inputs.partners:
        sample = subsample(inputs.ood, SAMPLE)
        for kind in ("orthogonal", "affine"):
            functions = np.arange(inputs.n_functions)[:, None]
            mapped = geometry.stitch(table, inputs, kind)[functions, inputs.value]
            tried[kind] = Donors(torch.from_numpy(mapped).to(donors).view_as(donors), sample)
    calls = len(split_consumers(inputs)) * (1 + bases)
    found["answers"], right = interchange(model, inputs, where, tried, lambda: advance(1 / calls))
    return found | right


def _compute_measures(inputs: Inputs, seeds: tuple[int, ...], bases: int, found: dict[str, Any]) -> Analysis:
    """Clusters, codes and one number per seed and measure."""
    right = found["answers"] == inputs.answer
    codes = geometry.extract_codes(found["answers"], inputs)
    measures = {
        "pairs_train": _share(right, inputs.train),
        "pairs_ood": _share(right, inputs.ood),
        "codes": (codes.max(axis=-1) + 1).mean(axis=1),
    }
    analysis = Analysis(inputs, seeds, found["answers"], codes, measures)
    if "readout" in found:
        vectors = inputs.vectors_by_value(found["readout"])
        analysis.similarity = geometry.similarity(vectors)
        analysis.clusters = geometry.cluster_all(vectors, analysis.similarity, inputs.group_of)
        across, within = geometry.across_and_within(analysis.similarity, inputs)
        measures |= {"cosine_across": across, "cosine_within": within}
        measures["clusters"] = np.array([np.mean([one.count for one in own]) for own in analysis.clusters])
    else:
        analysis.notes.append('the model records no "readout": no similarity of representations')
    if "position" not in found:
        analysis.notes.append('the model records no "state": no interchange, stitching, probes or CKA')
        return analysis
    by_map = {str(kind): found[kind] for kind in MAPS if kind in found}
    places = found["kind"], found["changed"], found["effect"], found["position"]
    analysis.interchange = Interchange(*places, bases, by_map)
    measures |= {MAPS[kind]: _share(right, inputs.ood) for kind, right in by_map.items()}
    measures["interchange_within"] = _share(by_map["none"], inputs.train)
    measures |= {name: found[name] for name in ("probe_within", "probe_across", "cka")}
    if together := [found["changed"][part] for _, part in found["position"]].count("prefix"):
        analysis.notes.append(
            f"{together} of {plural(len(seeds))}: no single column carries the value; all columns of the"
            " prefix are exchanged together, which early in the network comes near to exchanging the input"
        )
    if not inputs.partners:
        analysis.notes.append(
            "no group meets new consumers in the test: measures across groups are not defined"
        )
    return analysis


def _share(right: Array, pairs: Array) -> Array:
    """The share of right answers among some pairs, of those that were tried. (S, F, F, n) -> (S,)"""
    tried = np.ma.masked_invalid(right[:, pairs].astype(float))
    return np.asarray(tried.mean(axis=1).filled(np.nan))


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
    start: Progress = no_progress,
) -> Study:
    """Analyse the seeds of a run folder.

    bases, start: as `analyze` has them. data: the dataset folder, for a run that does not name its task.
    factory: that of your own model if it was given as a callable.
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
    have = run.crowd.seeds
    wanted = have if seeds is None else tuple(dict.fromkeys(seeds))
    for seed in wanted:
        if seed not in have:
            raise UserError(f"no seed {seed} in this run: choose from {', '.join(map(str, have))}")
    analysis = analyze(run, task, seeds=wanted, bases=bases, start=start)
    history = History.of(run.history.scores(), wanted)
    study = Study(config, analysis, history, run.diverged, run.step, finished)
    analysis.notes.extend(run.notes)
    if not study.evaluated:
        analysis.notes.append("the run has no OOD accuracy: correlations are with the accuracy on new pairs")
    return study


def find_task(folder: Path, config: dict[str, Any], data: Path | None) -> Task:
    """The task that a run was trained on: from its config, or from the dataset folder that the user names."""
    trained = task_from_dict(config["task"]) if config.get("task") else None
    task = load(data).task if data else trained
    if task is None:
        raise UserError(
            f"the run in {folder} does not say which task it was trained on: name its dataset with ‹data›"
        )
    check_data_matches_run(config, task, folder, data or folder / "config.json")
    if trained and _rules(trained) != _rules(task):
        raise UserError(
            f"{data} has other symbols, groups or graphs than the run in {folder} was trained with:"
            " leave out ‹data›, the run names its task"
        )
    return task


def _rules(task: Task) -> tuple[object, ...]:
    """What decides how a run is looked at; lengths do not."""
    graphs = [(graph.edges, graph.restrictions) for graph in (task.train_graph, task.ood_graph)]
    return task.symbols, task.groups, graphs
