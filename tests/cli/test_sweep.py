"""`ctlpp sweep` in one process: files, grids, merged run folders, and mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.plans.small import DATA as SMALL

import ctlpp
from ctlpp.cli.sweep import overview
from ctlpp.plans.sweep_file import plan_sweep
from ctlpp.plans.sweep_folder import Sweep
from ctlpp.plans.work import WorkSettings

Command = Callable[..., Any]
Refused = Callable[..., str]
DATA = {"protocol": "clean"} | dict(SMALL)
LINES = "\n".join(f"{name} = {json.dumps(value)}" for name, value in DATA.items())
FILE = f"""
[sweep]
models = ["lstm"]
variants = ["R"]
seeds = 3
preset = "quick"
[sweep.data]
{LINES}
[sweep.grid]
steps = 4
warmup = 2
lr = [1e-3, 3e-3]
size.width = [8, 16]
[[run]]
name = "long"
model = "gru"
variant = "A"
steps = 6
warmup = 2
"""
HERE = ("--device", "cpu", "--workers", "1")
ROW = {"model": "lstm", "variant": "R", "preset": "quick", "data": DATA, "steps": 4, "warmup": 2}


@pytest.fixture(autouse=True)
def _file(tmp_path: Path) -> None:
    Path("file.toml").write_text(FILE)


def test_a_file_becomes_run_folders_and_a_second_time_nothing_is_trained(command: Command) -> None:
    done = command("sweep", "file.toml", "--out", "out", "--seeds-a-piece", "2", *HERE)
    assert done.code == 0
    assert "15 of 15 seeds asked for have run." in done.out
    grid = [f"lstm-R-steps4-warmup2-lr{lr}-width{width}" for lr in (0.001, 0.003) for width in (8, 16)]
    runs = json.loads(Path("out/sweep.json").read_text())["runs"]
    assert [(run["name"], run["state"], run["finished"]) for run in runs] == [
        (name, "finished", "0-2") for name in (*grid, "long")
    ]
    for name in (*grid, "long"):
        run = ctlpp.load_run(Path("out", name))
        assert run.crowd.seeds == (0, 1, 2)
        assert [part["seeds"] for part in run.config["about"]["parts"]] == [[0, 1], [2]]
    assert run.config["model"] == "gru"
    assert not list(Path("out/.pieces/runs").iterdir())
    before = {path: path.stat().st_mtime_ns for path in Path("out").glob("*/*.json")}
    assert command("sweep", "file.toml", "--out", "out", *HERE).code == 0
    assert {path: path.stat().st_mtime_ns for path in Path("out").glob("*/*.json")} == before


def test_whatever_the_cutting_the_merged_run_is_the_same_also_with_seeds_of_tomorrow() -> None:
    """Up to the order of floating-point sums, which is that of the crowd."""
    settings = WorkSettings(device="cpu", analysis=False)
    Sweep(plan_sweep([ROW | {"seeds": "0-3"}]), Path("whole")).carry_out(settings)
    today = Sweep(plan_sweep([ROW | {"seeds": "1-3"}]), Path("cut"))
    today.carry_out(WorkSettings(device="cpu", analysis=False, seeds_a_piece=2))
    Sweep(plan_sweep([ROW | {"seeds": "0-3"}]), Path("cut")).carry_out(settings)
    (name,) = (run.name for run in today.plan)
    whole, cut = (ctlpp.load_run(Path(out, name)) for out in ("whole", "cut"))
    assert cut.crowd.seeds == whole.crowd.seeds
    assert cut.crowd.weights.allclose(whole.crowd.weights, atol=1e-5)
    assert cut.history.accuracy.keys() == whole.history.accuracy.keys()
    columns = ["step", "seed", "split", "length"]
    tables = [pq.read_table(Path(out, name, "metrics.parquet"), columns=columns) for out in ("whole", "cut")]
    order = [(one, "ascending") for one in columns]
    assert tables[0].sort_by(order) == tables[1].sort_by(order)
    assert overview(today, 1.0).startswith("3 of 3 seeds, 0 pieces running, ")


def test_from_python_a_row_per_seed_comes_back() -> None:
    rows = ctlpp.sweep([ROW | {"name": "one", "seeds": [3, 5]}], "out", on="", device="cpu")
    assert [(row["run"], row["model"], row["variant"], row["seed"]) for row in rows] == [
        ("one", "lstm", "R", 3),
        ("one", "lstm", "R", 5),
    ]
    assert 0 <= rows[0]["ood"] <= 1


def test_a_python_file_may_name_a_dataset_folder_whose_data_must_stay_the_same(command: Command) -> None:
    ctlpp.generate("R", **DATA).save("data")
    rows = [ROW | {"variant": "data", "data": {}, "name": "stored", "seeds": 1}]
    Path("mine.py").write_text(f"RUNS = {rows!r}")
    for _ in range(2):
        assert command("sweep", "mine.py", "--out", "out", *HERE).code == 0
    ctlpp.generate("R", **DATA | {"seed": 1}).save("data", force=True)
    done = command("sweep", "mine.py", "--out", "out", *HERE)
    assert done.code == 2
    line = f"the run in out/stored was trained on other data than {Path('data').absolute()} has now"
    assert done.err == f"ctlpp: {line}: choose another --out\n"


def test_the_plan_and_the_script_of_a_queues_job_are_printed_without_a_queue(command: Command) -> None:
    queue = ['system = "slurm"', 'queue = "gpu"', "cores = 4", 'memory = "8GB"', 'walltime = "02:00:00"']
    queue.append('job_extra_directives = ["--gres=gpu:1"]')
    Path("cluster.toml").write_text("\n".join(queue))
    done = command("sweep", "file.toml", "--out", "out", "--plan", "--on", "cluster.toml", "--device", "cuda")
    assert done.code == 0
    for line in ("#SBATCH -p gpu", "#SBATCH -t 02:00:00", "#SBATCH --gres=gpu:1", "export OMP_NUM_THREADS=4"):
        assert line in done.out
    assert "--nthreads 1" in done.out
    assert not Path("out").exists()
    done = command("sweep", "file.toml", "--out", "out", "--on", "cluster.toml")
    assert done.code == 2
    assert "--on cluster.toml: there is no sbatch here: go to where jobs are handed in" in done.err
    assert not Path("out").exists()


def test_a_schedule_of_your_own_is_code_that_workers_get_too() -> None:
    Path("rates_of_mine.py").write_text("def falling(progress, recipe):\n    return 1 - progress / 2\n")
    (run,) = plan_sweep([ROW | {"schedule": "rates_of_mine:falling"}])
    assert [Path(path).name for path, _ in run.code] == ["rates_of_mine.py"]
    assert run.name.endswith("-schedulerates_of_mine.falling")


LAST = FILE[FILE.index("[[run]]") :]
GRID = "the data of lstm-R-steps4-warmup2-lr0.001-width8"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('["lstm"]', '["lstn"]', "file.toml: unknown model 'lstn': choose from lstm, transformer, ndr, "),
        ("[1e-3, 3e-3]", "[]", "file.toml: lr has no values: give at least one"),
        ("warmup = 2\nlr", "warmup = 2\nlrr", "file.toml: unknown setting 'lrr': choose from steps, "),
        ("[1e-3, 3e-3]", "[1e-3, 2]", "file.toml: --lr 2: must be above 0 and at most 1"),
        ("size.width", "size.breadth", "file.toml: --size breadth=8: lstm has no breadth; choose from "),
        ("symbols", "symbol", "file.toml: unknown option of the data 'symbol': choose from symbols, "),
        ("models", "model", "file.toml: unknown key of [sweep] 'model': choose from models, "),
        ('name = "long"', 'name = "../x"', "file.toml: the name '../x': use letters, digits and . _ -"),
        ("seeds = 3", "seeds = 0", "file.toml: --seeds 0: write 25 (that is 0 … 24), 3,7,9, 25-49 or 7-7, "),
        ("train = 200", "train = 999999", f"{GRID}: --train 999999: only "),
        ("[sweep]", "[sweep", "file.toml cannot be read: "),
        (LAST, LAST * 2, "file.toml: two runs are called long: "),
        (FILE, "[sweep]\nmodels = ['lstm']", "file.toml: there are no runs: give models and variants, "),
        (FILE, "[[run]]\nmodel = 'lstm'", "file.toml: a run has no variant: give it one, as text"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_and_nothing_is_started(
    refused: Refused, old: str, new: str, line: str
) -> None:
    assert old in FILE
    Path("file.toml").write_text(FILE.replace(old, new))
    assert refused("sweep", "file.toml", "--out", "out", *HERE).startswith(line)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("none.toml --out out", "none.toml is no file: name a sweep file, TOML or Python with a list RUNS"),
        ("file.toml --out .", ". holds other files (file.toml, …): choose an empty or a new folder as --out"),
        ("file.toml --out out --on x", "--on x: choose from local, tcp://HOST:PORT, or a TOML file of a"),
        ("file.toml --out out --on x.toml --plan", "--on x.toml cannot be read: [Errno 2] No such file"),
        ("file.toml --out out --on file.toml --plan", "--on file.toml: system None: choose from slurm, "),
        ("file.toml --out out --only ndr/R", "--only ndr/R: the sweep has lstm/R, gru/A; or give the name"),
        ("file.toml --out out --workers 0", "--workers 0: must be 1 or more"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(refused: Refused, arguments: str, line: str) -> None:
    assert refused("sweep", arguments).startswith(line)
