"""Does a dataset fit a run? Its tokens must mean what they meant in training."""

from pathlib import Path
from typing import Any

from ctlpp.benchmark.task import Task
from ctlpp.files import UserError


def check_fit(config: dict[str, Any], task: Task, run: Path, data: Path) -> None:
    """Refuse data whose tokens mean something else than in training."""
    for what, ours, theirs in (
        ("tokens", config["vocab_size"], task.vocabulary.size),
        ("symbols", config["n_classes"], task.n_symbols),
    ):
        if ours != theirs:
            raise UserError(
                f"{data} has {theirs} {what}, the run in {run} was trained with {ours}: they do not fit"
            )
    trained = config.get("task")
    if not trained:
        return
    if trained["order"] != task.order:
        raise UserError(f"{data} is written {task.order}, the run in {run} was trained {trained['order']}")
    tables = {name: list(table) for name, table in task.functions.items()}
    if trained["functions"] != tables:
        other = next(
            (name for name in tables if trained["functions"].get(name) != tables[name]), "the order of names"
        )
        raise UserError(
            f"{data} has other functions than the run in {run} was trained with ({other}); use its task"
        )
