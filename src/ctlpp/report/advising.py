"""Why a run has no analysis, or only an old one, and what would give it one."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open

from ctlpp.runs.folder import RunRecord
from ctlpp.runs.untrusted import DamagedError, as_str, read_json


def advice(record: RunRecord) -> str:
    """A line for a run without an analysis; it names `ctlpp analyze` only where that would work."""
    return f"not analysed: {hindrance(record) or remedy(record)}"


def staleness(record: RunRecord, step: int | None) -> str:
    """A line for an analysis of a step before the one that the accuracies are of; empty if it is up to date."""
    if step is None or record.step is None or step >= record.step:
        return ""
    latest = "end" if record.state == "finished" else "last evaluation"
    return f"of step {step:,}, not of the {latest} (step {record.step:,})"


def renewal(record: RunRecord, folder: str = "") -> str:
    """What would give a run a new analysis, or why nothing does. folder: where it lies, if the reader may not know."""
    return hindrance(record) or remedy(record, "--force", folder)


def remedy(record: RunRecord, option: str = "", folder: str = "") -> str:
    """The command that analyses a run."""
    words = [
        "ctlpp analyze",
        folder,
        "--unfinished" * (record.state != "finished"),
        "--data DIR" * (not record.task),
    ]
    here, model = "" if folder else " on this folder", as_str(record.config.get("model"))
    importable = f" where {model} can be imported" if ":" in model else ""  # it is not tried here
    return f"`{' '.join(filter(None, [*words, option]))}`{here}{importable}, then the report again"


def hindrance(record: RunRecord) -> str:
    """Why a run cannot be analysed, as far as that can be told without its weights; empty if it can."""
    again = "train it again in a new folder to analyse it"
    checkpoints = sorted((record.folder / "checkpoint").glob("step-*.json"), reverse=True)
    if record.state == "damaged":
        return f"the run is damaged ({record.reason})"
    if not checkpoints and record.state == "finished":
        return f"its checkpoint was not kept; {again}"
    if not checkpoints:
        return "the run is unfinished and has no checkpoint yet"
    if not any(map(is_whole, checkpoints)):
        return f"its checkpoint is damaged; {again}"
    return refusal(record)


def refusal(record: RunRecord) -> str:
    """What `ctlpp analyze` would say of a run's settings before it loads the weights; empty if it takes them."""
    from ctlpp.analysis.run import find_task
    from ctlpp.models.zoo import find_model
    from ctlpp.runs.folder import read_config
    from ctlpp.training.crowd import check_seeds

    try:
        config = read_config(record.folder)
        check_seeds(config["seeds"])
        if config["task"]:
            find_task(record.folder, config, None)
        model = config["model"]
        if ":" not in model:  # else it would be imported: nothing that a run names is executed
            find_model(model, config["preset"], config["options"])
        elif not model.partition(":")[2].isidentifier():
            return (
                f"no command finds the model {model}; `ctlpp.figures.run.analyze_run` takes its factory"
            )
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
    ) as error:  # anybody may have written it
        return as_str(str(error).replace(str(record.folder), record.name).partition("\n")[0])
    return ""


def is_whole(path: Path) -> bool:
    """Whether a checkpoint, named by its JSON file, is all there; its checksum would take long over many runs."""
    try:
        read_json(path)
        with safe_open(path.with_suffix(".safetensors"), framework="np"):
            return True
    except (DamagedError, OSError, SafetensorError):
        return False
