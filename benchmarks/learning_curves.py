"""Does learning stay the same on the fast path? Training curves of fast path and reference, in one figure.

    python benchmarks/learning_curves.py measure curves.json     # needs a CUDA card; two minutes on an H200
    python benchmarks/learning_curves.py draw curves.json docs/images/fast-and-reference

Full-size models learn a small task (R with 4 symbols and 8 functions) within a few thousand steps: once with
the kernels, once without (`vmap` and autograd over the readable modules), with the same seeds, random
streams and batches. `draw` also prints the largest difference of the means beside the spread of the seeds.
"""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

STEPS = {"lstm": 3000, "transformer": 5000, "ndr": 3000}
SEEDS = 5
TASK: dict[str, int] = {"symbols": 4, "functions": 8, "max_length": 5, "train": 3000, "iid": 200, "ood": 500}
EVERY = 100  # steps between evaluations
RECIPE: dict[str, Any] = {"lr": 5e-4, "batch": 128, "eval_every": EVERY, "precision": "bf16"}
PATHS = ("fast path", "reference")
SPLITS = ("iid", "ood")


def measure(to: Path) -> None:
    """Train all models on both paths; what is in the file already is left alone."""
    from ctlpp import generate, recipe_for, train
    from ctlpp.kernels import fast

    found = json.loads(to.read_text()) if to.exists() else {}
    data = generate("R", **TASK)
    for path in PATHS:
        for model, steps in STEPS.items():
            if path in found.setdefault(model, {}):
                continue
            without = (
                patch.object(fast, "available", lambda device: False)
                if path == "reference"
                else nullcontext()
            )
            with without:
                recipe = recipe_for(model, steps=steps, **RECIPE)
                run = train(model, data, seeds=range(SEEDS), recipe=recipe, device="cuda")
            found[model][path] = {split: run.history.accuracy[split, 0].T.tolist() for split in SPLITS}
            to.write_text(json.dumps(found))
            ends = {
                split: np.round([curve[-1] for curve in found[model][path][split]], 3) for split in SPLITS
            }
            print(f"{model}, {path}: {run.seconds:.0f} s, {ends}", flush=True)


def draw(source: Path, to: Path) -> None:
    """Mean of the seeds as a line, their range as an area; a row a split, a column a model."""
    from ctlpp.figures import DARK, PUBLISHED
    from ctlpp.figures.style import DOUBLE, new_figure, save, style
    from ctlpp.statistics.published import TITLES

    found = json.loads(source.read_text())
    looks = dict(zip(PATHS, ((DARK, "-"), (PUBLISHED, "--")), strict=True))
    with style():
        figure = new_figure(DOUBLE, 8)
        axes = figure.subplots(len(SPLITS), len(found), sharey=True, sharex="col", squeeze=False)
        for column, (model, paths) in enumerate(found.items()):
            for row, split in enumerate(SPLITS):
                of_paths = {path: np.array(paths[path][split]) for path in PATHS if path in paths}
                for path, seeds in of_paths.items():
                    colour, dashes = looks[path]
                    steps = EVERY * (1 + np.arange(seeds.shape[1]))
                    mean = seeds.mean(0)
                    axes[row, column].fill_between(
                        steps, seeds.min(0), seeds.max(0), color=colour, alpha=0.2, lw=0
                    )
                    axes[row, column].plot(steps, mean, dashes, color=colour, lw=1.2)
                axes[row, column].set(ylim=(0, 1.03))
                tell(model, split, of_paths)
            axes[0, column].set_title(TITLES[model])
            axes[-1, column].set_xlabel("training step")
        for row, split in enumerate(SPLITS):
            axes[row, 0].set_ylabel(f"{split.upper()} accuracy")
        for path, height in zip(PATHS, (0.3, 0.12), strict=True):  # where the first panel is empty
            place = {"ha": "right", "transform": axes[0, 0].transAxes}
            axes[0, 0].text(0.97, height, path, color=looks[path][0], **place)
        save(figure, to, ("svg",))


def tell(model: str, split: str, of_paths: dict[str, "np.ndarray[Any, Any]"]) -> None:
    """How far the paths are apart, beside the spread of the seeds."""
    if len(of_paths) < len(PATHS):
        return
    fast, reference = of_paths.values()
    apart = np.abs(fast.mean(0) - reference.mean(0))
    spread = np.maximum(fast.std(0, ddof=1), reference.std(0, ddof=1))
    at = int(apart.argmax())
    print(f"{model} {split}: means differ by at most {apart[at]:.3f} (seeds there: ± {spread[at]:.3f})")


if __name__ == "__main__":
    if sys.argv[1] == "measure":
        measure(Path(sys.argv[2]))
    else:
        draw(Path(sys.argv[2]), Path(sys.argv[3]))
