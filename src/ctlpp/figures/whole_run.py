"""Everything `ctlpp analyze` writes: the numbers of a run's analysis and all its figures."""

from __future__ import annotations

import gc
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ctlpp.analysis.run import Study, check_left, check_target, fresh_folder, study_run, write_numbers
from ctlpp.figures.accuracy import draw_accuracy, draw_compatibility
from ctlpp.figures.curves import draw_curves, draw_lengths, shown
from ctlpp.figures.exchange import draw_interchange, draw_places
from ctlpp.figures.predictors import draw_ranking, draw_scatter
from ctlpp.figures.similarity import Matrices, draw_contrast, draw_symbols
from ctlpp.figures.style import FORMATS, save, style
from ctlpp.models.zoo import Factory

Progress = Callable[[int], Callable[[int], None]]  # told a total, gives what to call with steps done
MANY = 20  # figures: fewer are drawn before a second process has begun
BEGIN = (
    "fork" if sys.platform == "linux" else "spawn"
)  # a fork has everything imported; drawing needs no threads
Drawing = tuple[str, Callable[[], Figure]]  # file name without its ending


def analyze_run(
    folder: Path | str,
    out: Path | str | None = None,
    *,
    seeds: Sequence[int] | None = None,
    data: Path | None = None,
    bases: int | None = 1,
    unfinished: bool = False,
    force: bool = False,
    device: str = "auto",
    factory: Factory | None = None,
    figures: bool = True,
    formats: Sequence[str] = FORMATS,
    workers: int = 1,
    computing: Progress = lambda total: lambda done: None,
    drawing: Progress = lambda total: lambda done: None,
) -> Study:
    """Analyse a run folder and write numbers and figures to `out`, by default its folder `analysis`.

    bases: on how many inputs interchange tries each donor's state with each consumer; None for all.
    figures: whether to draw them; without, there are the numbers alone.
    workers: processes that draw; but for Linux, several need a program that may be imported again, as `ctlpp` itself.
    """
    folder = Path(folder)
    target = folder / "analysis" if out is None else Path(out)
    check_left(folder)
    check_target(target, force=force)
    study = study_run(
        folder,
        seeds=seeds,
        data=data,
        bases=bases,
        unfinished=unfinished,
        device=device,
        factory=factory,
        start=computing,
    )
    with fresh_folder(target, force=force) as place:
        write_numbers(study, place)
        if figures:
            draw_all(study, place / "figures", formats, drawing, workers)
    return study


def draw_all(
    study: Study,
    place: Path,
    formats: Sequence[str] = FORMATS,
    start: Progress = lambda total: lambda done: None,
    workers: int = 1,
) -> None:
    """Draw every figure that this study allows into a folder."""
    place.mkdir(parents=True, exist_ok=True)
    every = [(place / name, draw, formats) for name, draw in drawings(study)]
    advance = start(len(every))
    if workers == 1 or len(every) < MANY:
        for task in every:
            draw_one(task)
            advance(1)
        return
    with ProcessPoolExecutor(workers - 1, multiprocessing.get_context(BEGIN)) as pool:
        elsewhere = [pool.submit(draw_one, task) for task in every]
        for task, drawn in zip(reversed(every), reversed(elsewhere), strict=True):
            if drawn.cancel():  # not begun there: this process is a worker, too
                draw_one(task)
            else:
                drawn.result()
            advance(1)


def draw_one(task: tuple[Path, Callable[[], Figure], Sequence[str]]) -> None:
    """One figure in all its formats."""
    stem, draw, formats = task
    collecting = gc.isenabled()
    gc.disable()  # cutting out the letters of a font makes so many objects that looking for unused ones takes a tenth
    try:
        with style():
            save(draw(), stem, formats)
    finally:
        if collecting:
            gc.enable()


def drawings(study: Study) -> Iterator[Drawing]:
    """The figures by name, each with the call that draws it."""
    found = study.analysis
    rows, titles, value = examples(study)
    if shown(study.history):
        yield "curves", partial(draw_curves, study.history, study.diverged)
        yield "lengths", partial(draw_lengths, study.history, study.diverged)
    yield "accuracy", partial(draw_accuracy, found, rows, value, titles)
    yield "compatibility", partial(draw_compatibility, found, rows, value, titles)
    if found.interchange is not None:
        counted = study.trained if study.trained.any() else ~study.trained
        yield "interchange", partial(draw_interchange, found, counted)
        yield "places", partial(draw_places, found, counted)
    if len(found.seeds) > 1:
        yield "measures", partial(draw_scatter, study)
        if any(np.isfinite(one.pearson) for one in study.correlations.values()):
            yield "correlations", partial(draw_ranking, study)
    if found.similarity is not None:
        yield "similarity", partial(draw_contrast, found, rows, value, titles)
        for row, seed in enumerate(found.seeds):
            yield (
                f"similarity-seed-{seed}",
                partial(draw_symbols, Matrices.of(found, row, title_of(study, row))),
            )


def examples(study: Study) -> tuple[list[int], list[str], int]:
    """The seeds with least and most OOD accuracy, their titles, and the symbol with which the first fails most."""
    trained = [row for row, seed in enumerate(study.analysis.seeds) if seed not in study.diverged]
    by_accuracy = sorted(
        trained or range(len(study.analysis.seeds)), key=lambda row: np.nan_to_num(study.ood[row])
    )
    rows = list(dict.fromkeys([by_accuracy[0], by_accuracy[-1]]))
    inputs = study.analysis.inputs
    pairs = inputs.ood if inputs.ood.any() else np.ones_like(inputs.ood)
    between = np.broadcast_to(inputs.value[:, None, :], pairs.shape)
    right = study.analysis.right[rows[0]]
    value = min(range(inputs.n_symbols), key=lambda symbol: right[pairs & (between == symbol)].mean())
    return rows, [title_of(study, row) for row in rows], value


def title_of(study: Study, row: int) -> str:
    """Seed and accuracies."""
    seed, ood = study.analysis.seeds[row], study.ood[row]
    iid = study.history.final("iid")[row]
    known = [
        f"{name} {number:.2f}"
        for name, number in (("IID", iid), ("OOD" if study.evaluated else "new pairs", ood))
        if np.isfinite(number)
    ]
    state = [f"diverged at step {study.diverged[seed]}"] if seed in study.diverged else []
    return ", ".join([f"seed {seed}", *known, *state])
