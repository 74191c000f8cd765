"""A finished (or saved) run: its crowd, its settings, its history, its results."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ctlpp.files import UserError
from ctlpp.runs.history import TRAINING, Metrics, Score
from ctlpp.training.batches import Split
from ctlpp.training.crowd import Crowd
from ctlpp.training.evaluate import Tally, evaluate
from ctlpp.words import plural


@dataclass
class Run:
    """What `train` and `load_run` give back."""

    config: dict[str, Any]  # as in config.json
    crowd: Crowd  # trained; `crowd.member(seed)` is an ordinary module
    metrics: Metrics  # all evaluations
    diverged: dict[int, int]  # seed -> the step at which it was frozen
    step: int  # steps done
    seconds: float  # spent, over all sittings …
    aside: float = 0.0  # … and how many of them on evaluations and checkpoints
    folder: Path | None = None
    notes: tuple[str, ...] = ()  # what was not as usual when it was loaded

    def __repr__(self) -> str:
        about, many = self.config, plural(len(self.crowd.seeds))
        return f"<{about['model']} on {about['variant'] or 'own data'}: {many}, {plural(self.step, 'step')}>"

    @staticmethod
    def from_checkpoint(
        config: dict[str, Any],
        crowd: Crowd,
        tensors: Mapping[str, Tensor],
        facts: dict[str, Any],
        folder: Path,
    ) -> "Run":
        """Fill a fresh crowd with the weights of a checkpoint."""
        check_facts(facts, folder)
        fill(crowd, tensors)
        crowd.set_progress(facts["step"] / config["recipe"]["steps"])
        metrics = Metrics.from_columns(strip(tensors, "metrics."), facts["splits"])
        frozen = tensors["diverged"].tolist()
        diverged = {seed: step for seed, step in zip(crowd.seeds, frozen, strict=True) if step >= 0}
        return Run(
            config, crowd, metrics, diverged, facts["step"], facts["seconds"], facts.get("aside", 0.0), folder
        )

    def evaluate(self, splits: Mapping[str, Split]) -> list[Score]:
        """Scores of all seeds on other data."""
        return evaluate(
            self.crowd, splits, tally=Tally.of(self.crowd, self.config["engine"]["seeds_at_a_time"])
        )

    def table(self) -> list[dict[str, Any]]:
        """One row a seed: its number, its final accuracy on every split, the step it diverged at or None."""
        rows = {seed: {"seed": seed, "diverged": self.diverged.get(seed)} for seed in self.crowd.seeds}
        for score in self.metrics.at_end():
            if score.length == 0 and score.split != TRAINING:
                rows[score.seed][score.split] = score.accuracy  # type: ignore[assignment]
        return list(rows.values())

    def result(self) -> dict[str, Any]:
        """As in result.json."""
        seeds: dict[int, dict[str, Any]] = {
            seed: {
                "seed": seed,
                "accuracy": {},
                "loss": {},
                "by_length": {},
                "diverged": seed in self.diverged,
                "diverged_at": self.diverged.get(seed),
            }
            for seed in self.crowd.seeds
        }
        for score in self.metrics.at_end():
            of_seed = seeds[score.seed]
            if score.split == TRAINING:
                continue
            if score.length == 0:
                of_seed["accuracy"][score.split], of_seed["loss"][score.split] = score.accuracy, score.loss
            else:
                of_seed["by_length"].setdefault(score.split, {})[str(score.length)] = score.accuracy
        about = {key: self.config[key] for key in ("model", "variant", "protocol", "parameters")}
        spent = {"steps": self.step, "seconds": round(self.seconds, 3), "seconds_aside": round(self.aside, 3)}
        spent["device"] = self.config["engine"]["device_name"]
        if "continued" in self.config:
            spent["continued"] = self.config["continued"]
        return about | spent | {"versions": self.config["versions"], "seeds": list(seeds.values())}


def check_facts(facts: Mapping[str, Any], folder: Path | None) -> None:
    """Refuse a checkpoint that does not say what a run needs to know of it."""
    kinds: dict[str, type] = {
        "step": int,
        "seconds": float,
        "splits": list,
        "loss_count": int,
        "stopped": bool,
    }
    for key, kind in kinds.items():
        if not isinstance(facts.get(key), kind):
            raise UserError(
                f"the checkpoint in {folder} is damaged ({key} is {facts.get(key)}): train in a new folder"
            )


def fill(crowd: Crowd, tensors: Mapping[str, Tensor]) -> None:
    """Put the weights of a checkpoint into a crowd of the same seeds and module."""
    if tensors["weights"].shape != crowd.weights.shape:
        raise UserError("the checkpoint is of another model: its weights have another shape")
    crowd.weights.copy_(tensors["weights"])
    for name, extra in strip(tensors, "extras.").items():
        crowd.extras[name] = extra.to(crowd.device)


def strip(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose name begins with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
