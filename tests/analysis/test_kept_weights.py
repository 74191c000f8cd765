"""The analysis of three committed runs is what it was: to 1e-5, from the weights that `results/` keeps.

`kept_weights.json` was computed in float32 on a CPU before the analysis was rewritten. The committed analyses
of the NDRs say the same. That of the Bi-LSTM was made by an earlier version on another machine. It differs in
how many answers are right after stitching (by at most 0.014), and in nothing else.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch

from ctlpp.analysis.analysis import analyze
from ctlpp.benchmark.task import Task
from ctlpp.models.zoo import find_model
from ctlpp.runs.history import read_history
from ctlpp.statistics.summary import correlate
from ctlpp.storage.folder import task_from_dict
from ctlpp.training.crowd import Crowd, init_crowd

RUNS = Path(__file__).parents[2] / "results" / "runs"
EXPECTED = json.loads(Path(__file__).with_name("kept_weights.json").read_text())
DIFFERS = {"lstm-R-clean/0-24": ("stitch_orthogonal", "stitch_affine")}


def load_kept(run: Path, seeds: list[int]) -> tuple[Crowd, Task]:
    """A crowd of the seeds whose weights are kept, and the task they were trained on."""
    config = json.loads((run / "config.json").read_text())
    task = task_from_dict(config["task"])
    _, factory, _ = find_model(config["model"], config["preset"], config["options"])
    crowd = init_crowd(factory, config["vocab_size"], config["n_classes"], seeds)
    for row, seed in enumerate(seeds):
        for name, value in safetensors.torch.load_file(run / "weights" / f"seed-{seed}.safetensors").items():
            crowd.parameters()[name][row] = value
    return crowd, task


@pytest.mark.parametrize("name", EXPECTED)
def test_measures_and_places_are_what_they_were(name: str) -> None:
    expected = EXPECTED[name]
    crowd, task = load_kept(RUNS / name, [int(seed) for seed in expected])
    found = analyze(crowd, task)
    places = found.interchange
    assert places is not None
    for row, own in enumerate(expected.values()):
        measures = {measure: float(values[row]) for measure, values in found.measures.items()}
        assert measures == pytest.approx(own["measures"], abs=1e-5)
        level, part = places.position[row].tolist()
        assert (level, places.changed[part]) == (own["place"]["level"], own["place"]["part"])
        assert places.effect[row, level, part] == pytest.approx(own["place"]["effect"], abs=1e-5)


@pytest.mark.parametrize("name", EXPECTED)
def test_committed_analyses_say_the_same(name: str) -> None:
    committed = json.loads((RUNS / name / "analysis" / "analysis.json").read_text())
    history = read_history(RUNS / name / "metrics.parquet")
    ood = history.final("ood")
    for split, values in committed["accuracy"].items():
        assert history.final(split) == pytest.approx(values, abs=1e-5)
    for measure, entry in committed["measures"].items():
        found = correlate(np.array(entry["values"], dtype=float), ood)
        for number, value in committed["correlations"][measure].items():
            expected = np.nan if value is None else value
            assert getattr(found, number) == pytest.approx(expected, abs=1e-5, nan_ok=True)
        for seed, own in EXPECTED[name].items():
            value = entry["values"][committed["seeds"].index(int(seed))]
            tolerance = 0.015 if measure in DIFFERS.get(name, ()) else 1e-5
            assert value == pytest.approx(own["measures"][measure], abs=tolerance)
