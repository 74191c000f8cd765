"""Everything `ctlpp analyze` writes: the numbers of a run's analysis and all its figures."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ctlpp.analysis.run import Study, check_left, check_target, fresh_folder, study_run, write_numbers
from ctlpp.figures.learning import draw_run_learning, draw_run_lengths, shown_splits
from ctlpp.figures.pairs import (
    Matrices,
    draw_accuracy,
    draw_compatibility,
    draw_interchange,
    draw_places,
    draw_side_by_side,
    draw_symbols,
)
from ctlpp.figures.seeds import draw_ranking, draw_scatter
from ctlpp.figures.style import FORMATS, save, style

Progress = Callable[[int], Callable[[int], None]]  # told a total, gives what to call with steps done
Drawing = tuple[str, Callable[[], Figure]]  # file name without its ending, and the call that draws it
MANY = 20  # figures: fewer are drawn before a second process has begun
START = "fork" if sys.platform == "linux" else "spawn"  # a fork has everything imported


def analyze_run(
    folder: Path | str,
    out: Path | str | None = None,
    *,
    force: bool = False,
    figures: bool = True,
    formats: Sequence[str] = FORMATS,
    workers: int = 1,
    computing: Progress = lambda total: lambda done: None,
    drawing: Progress = lambda total: lambda done: None,
    **options: Any,
) -> Study:
    """Analyse a run folder and write numbers and figures to `out`, by default its folder `analysis`.

    figures: whether to draw them; without, there are the numbers alone.
    workers: processes that draw; except on Linux, several need a main program that may be imported again.
    options: seeds, data, bases, unfinished, device and factory, as `study_run` has them.
    """
    folder = Path(folder)
    target = folder / "analysis" if out is None else Path(out)
    check_left(folder)
    check_target(target, force=force)
    study = study_run(folder, start=computing, **{"device": "auto", **options})
    with fresh_folder(target, force=force) as place:
        write_numbers(study, place)
        if figures:
            draw_all(study, place / "figures", formats, workers, drawing)
    return study


def draw_all(
    study: Study,
    folder: Path,
    formats: Sequence[str] = FORMATS,
    workers: int = 1,
    start: Progress = lambda total: lambda done: None,
) -> None:
    """Draw every figure that this study allows into a folder."""
    tasks = [(draw, folder / name, formats) for name, draw in drawings(study)]
    advance = start(len(tasks))
    with ProcessPoolExecutor(workers, multiprocessing.get_context(START)) as pool:
        run = map if workers == 1 or len(tasks) < MANY else pool.map
        for _ in run(draw_one, *zip(*tasks, strict=True)):
            advance(1)


def draw_one(draw: Callable[[], Figure], stem: Path, formats: Sequence[str]) -> None:
    """One figure in all its formats."""
    with style():
        save(draw(), stem, formats)


def drawings(study: Study) -> Iterator[Drawing]:
    """The figures of a study."""
    found, several = study.analysis, len(study.analysis.seeds) > 1
    rows, value = examples(study)
    titles = [title_of(study, row) for row in rows]
    if shown_splits(study.history):
        yield "curves", partial(draw_run_learning, study.history, study.diverged)
        yield "lengths", partial(draw_run_lengths, study.history, study.diverged)
    yield "accuracy", partial(draw_accuracy, found, rows, value, titles)
    yield "compatibility", partial(draw_compatibility, found, rows, value, titles)
    if found.interchange is not None:
        counted = study.trained if study.trained.any() else ~study.trained
        yield "interchange", partial(draw_interchange, found, counted)
        yield "places", partial(draw_places, found, counted)
    if several:
        yield "measures", partial(draw_scatter, study)
    if several and any(np.isfinite(one.pearson) for one in study.correlations.values()):
        yield "correlations", partial(draw_ranking, study)
    if found.similarity is not None:
        matrices = [Matrices.of(found, row, title_of(study, row)) for row in range(len(found.seeds))]
        yield "similarity", partial(draw_side_by_side, [matrices[row] for row in rows], [value] * len(rows))
        for seed, own in zip(found.seeds, matrices, strict=True):
            yield f"similarity-seed-{seed}", partial(draw_symbols, own)


def examples(study: Study) -> tuple[list[int], int]:
    """The seeds with least and most OOD accuracy, and the symbol with which the first fails most."""
    trained = np.flatnonzero(study.trained) if study.trained.any() else np.arange(len(study.trained))
    ranked = sorted(trained.tolist(), key=lambda row: np.nan_to_num(study.ood[row]))
    rows = list(dict.fromkeys([ranked[0], ranked[-1]]))
    inputs = study.analysis.inputs
    pairs = inputs.ood if inputs.ood.any() else np.ones_like(inputs.ood)
    right, between = study.analysis.right[rows[0]], inputs.value[:, None, :]
    return rows, min(range(inputs.n_symbols), key=lambda symbol: right[pairs & (between == symbol)].mean())


def title_of(study: Study, row: int) -> str:
    """Seed and accuracies."""
    seed = study.analysis.seeds[row]
    numbers = {"IID": study.history.final("iid"), "OOD" if study.evaluated else "new pairs": study.ood}
    parts = [f"{name} {values[row]:.2f}" for name, values in numbers.items() if np.isfinite(values[row])]
    parts += [f"diverged at step {study.diverged[seed]}"] if seed in study.diverged else []
    return ", ".join([f"seed {seed}", *parts])
