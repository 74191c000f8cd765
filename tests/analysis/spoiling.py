"""What may have become of a run folder before somebody analyses it."""

import json
import os
import shutil
from pathlib import Path


def spoil_nothing(run: Path) -> None:
    pass


def remove_config(run: Path) -> None:
    (run / "config.json").unlink()


def unfinish(run: Path) -> None:
    (run / "result.json").unlink()


def lose_code(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"model": "no_such_module:model"}))


def forget_task(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"task": None}))


def damage(run: Path) -> None:
    for path in (run / "checkpoint").glob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-100] + bytes(100))


def damage_newest(run: Path) -> None:
    os.truncate(run / "checkpoint" / "step-000000030.safetensors", 3000)


def name_python(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"model": "os:system"}))


def lose_checkpoints(run: Path) -> None:
    shutil.rmtree(run / "checkpoint")
    (run / "checkpoint").mkdir()


def stop_early(run: Path) -> None:
    lose_checkpoints(run)
    unfinish(run)


def keep_the_analysis_alone(run: Path) -> None:
    lose_checkpoints(run)
    (run / "analysis").mkdir()
    (run / "analysis" / "analysis.json").write_text("{}")


def become_a_file(run: Path) -> None:
    shutil.rmtree(run)
    run.write_text("mine")


def occupy(run: Path) -> None:
    (run / "analysis").mkdir()


def move_one_level_down(run: Path) -> None:
    run.rename(run.with_name("moved"))
    shutil.copytree(run.with_name("moved"), run / "ndr-R")
