"""Train a crowd of seeds, from a notebook or the command line.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> data = generate("R", symbols=4, functions=8, max_length=3, train=200, iid=20, ood=20)
    >>> run = train("gru", data, seeds=range(2), preset="quick", recipe=Recipe(steps=4, batch=16))
    >>> sorted(run.table()[0])
    ['diverged', 'iid', 'ood', 'ood_independent', 'seed']
"""

import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor, nn

from ctlpp.files import Terminated, UserError, write_json
from ctlpp.models.zoo import Factory, error_line, find_model, load_callable, tie
from ctlpp.runs import checkpoint
from ctlpp.runs.folder import FORMAT
from ctlpp.runs.history import TRAINING, History, Notes, Score, StepStats, read_observers, tell
from ctlpp.training.batches import Batches, Curriculum, Split, find_curriculum, read_data
from ctlpp.training.crowd import init_crowd
from ctlpp.training.engine import computing_with, prepare, threads_for
from ctlpp.training.recipe import OWN_CODE, Recipe, find_preset, recipe_for
from ctlpp.training.run import Run, describe, find_device, first_states
from ctlpp.training.step import Stepper, Tally
from ctlpp.words import plural, read_seeds

_REPORT_SECONDS = 0.5


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM during training; the text says how to go on."""


def train(
    model: str | Factory,
    data: Any,
    *,
    seeds: Iterable[int] = range(5),
    recipe: Recipe | Mapping[str, Any] | None = None,
    preset: str | None = None,
    sizes: Mapping[str, Any] | None = None,
    device: str | torch.device = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    splits: str | Sequence[str] | None = None,
    curriculum: Curriculum | str | None = None,
    start: Run | Path | str | nn.Module | Mapping[str, Tensor] | None = None,
    observers: Sequence[object] = (Notes(),),
    memory: int | None = None,
    about: Mapping[str, Any] | None = None,
) -> Run:
    """Train seeds of a model together and evaluate them.

    Args:
        model: A name of the zoo, `package.module:factory`, or a callable that makes a module of
            `(vocab_size, n_classes)`.
        data: A dataset, or `{"train": {length: (tokens, targets)}, "iid": …}`.
        seeds: The seeds to train, such as `range(25)`.
        recipe: By default that of the model and preset; or what to change in it, as a dictionary.
        preset: Of sizes and recipe; by default that of the recipe, or else `authors`.
        sizes: Other sizes for the model, by keyword.
        device: `auto`, `cpu` or `cuda`.
        out: The run folder, if the run is to be kept.
        resume: Go on with the run in the folder.
        splits: Those to evaluate; by default `iid` and `ood`.
        curriculum: The chance of each example to take part, from `(progress, length, tokens)`; or a name, as
            in a recipe.
        start: Weights to begin with. A run or its folder lends those of the same seeds; a module, or its
            `state_dict()`, is for all seeds.
        observers: Objects with some of the methods `on_start`, `on_note`, `on_step`, `on_evaluate`,
            `on_checkpoint`, `on_end` and `on_close`.
        memory: Bytes that activations may take; by default measured.
        about: Anything to note in `config.json`.

    Returns:
        The run, with the trained crowd, its settings and its history.
    """
    if resume and out is None:
        raise UserError("‹resume=True›: name the run folder, too, as ‹out›")
    observers = read_observers(observers)
    seeds, known, device = read_seeds(seeds), read_data(data, splits), find_device(str(device))
    preset = find_preset(preset, recipe)
    name, factory, every_size = find_model(model, preset, sizes)
    if not isinstance(recipe, Recipe):
        recipe = recipe_for(name, preset, known.variant, **(recipe or {}))
    if isinstance(curriculum, str):
        recipe, curriculum = replace(recipe, curriculum=curriculum), None
    recipe = _with_own_code(recipe)
    if recipe.swap and known.task and known.task["order"] != "right-to-left":
        raise UserError("swap: the data must be written right-to-left")
    factory = tie(factory, name) if recipe.tied else factory
    if curriculum is None and recipe.curriculum:
        curriculum = find_curriculum(recipe.curriculum, known.task, known.splits["train"])
    batches = Batches(known.splits["train"], recipe, seeds, device, curriculum)
    if curriculum is not None:
        batches.at(0)  # one that fails does so before anything is written
    begin = None if start is None else first_states(start, factory, seeds)
    crowd = init_crowd(factory, known.vocab_size, known.n_classes, seeds, device, name, begin)
    bf16 = recipe.precision == "bf16" or (recipe.precision == "auto" and device.type == "cuda")
    stepper = Stepper(crowd, recipe, 1, bf16)
    notes = prepare(stepper, batches.shapes(), memory)
    threads = threads_for(stepper, batches.shapes()[-1])
    if recipe.warmup_steps != recipe.warmup:
        rises = f"a warm-up of {recipe.warmup} steps does not fit into {recipe.steps}"
        notes.append(f"{rises}: the learning rate rises over {plural(recipe.warmup_steps, 'step')}")
    for note in notes:
        tell(observers, "on_note", note)
    config = {"format": FORMAT, "model": name, "preset": preset, "options": every_size}
    if start is not None:
        config["start"] = sha256(crowd.weights.cpu().numpy().tobytes()).hexdigest()[:16]
    config |= describe(known, stepper, threads, curriculum) | {"about": dict(about or {})}
    run = Run(config, crowd, History.empty(seeds))
    held_out = {split: known.splits[split] for split in known.held_out}
    training = Training(run, stepper, batches, held_out, observers)
    if out is None:
        training.fit()
        return run
    with checkpoint.claimed(Path(out), config, resume) as run.config:
        run.folder = Path(out)
        if resume:
            training.resume(here=config)
        training.fit()
    return run


def _with_own_code(recipe: Recipe) -> Recipe:
    """The recipe with functions in place of their names, `package.module:function`; tries its schedule."""
    chosen = {name: getattr(recipe, name) for name in OWN_CODE}
    named = {name: own for name, own in chosen.items() if isinstance(own, str) and ":" in own}
    recipe = replace(recipe, **{name: load_callable(own, name, "function") for name, own in named.items()})
    try:
        rates = [recipe.rate(step) for step in (0, recipe.steps - 1)]
    except Exception as error:
        raise UserError(f"the schedule failed: {error_line(error)}") from error
    if not all(0 <= rate < inf for rate in rates):
        raise UserError(f"the schedule gives rates of {rates[0]} and {rates[1]}: they must be 0 or more")
    return recipe


@dataclass
class Training:
    """A run in the making."""

    run: Run
    stepper: Stepper
    batches: Batches
    held_out: dict[str, Split]
    observers: tuple[object, ...]
    loss_count: int = 0  # steps since the last evaluation …
    loss_sum: Tensor = field(init=False)  # … and their summed losses, (S,)
    saved: int = -1  # the step of the last checkpoint
    stopped: bool = False  # early, or by an observer
    tally: Tally | None = None  # of the evaluations

    def __post_init__(self) -> None:
        self.loss_sum = torch.zeros_like(self.stepper.losses, dtype=self.run.crowd.sum_dtype)

    @property
    def over(self) -> bool:
        """Whether no step is left."""
        return self.stopped or self.run.step >= self.stepper.recipe.steps

    def fit(self) -> None:
        """Train to the end; on Ctrl-C or SIGTERM save and raise `Interrupted`."""
        tell(self.observers, "on_start", self.run.config, self.run.step)
        try:
            with computing_with(self.run.threads):
                self._fit()
            self._finish()
        finally:
            tell(self.observers, "on_close")

    def _fit(self) -> None:
        run = self.run
        self.began, self.began_at, self.earlier = monotonic(), run.step, run.seconds
        self.saved_at, self.reported_at = self.began, 0.0
        every, last = self.stepper.recipe.eval_every, self.stepper.recipe.steps
        whole = True  # a step and the evaluation that is due after it are done
        with _graceful_interrupt() as interrupted:
            try:
                while not self.over:
                    whole = False
                    self._advance()
                    due = run.step == last or (every > 0 and run.step % every == 0)
                    scores = self._evaluate() if due else None
                    whole = True
                    self._after_step(scores)
                    if interrupted:
                        raise interrupted[0]
            except KeyboardInterrupt as error:
                if whole:
                    self.save()
                if run.folder is None or self.saved < 0:
                    raise
                why = f"{str(error) or 'interrupted'}: step {self.saved} is saved in {run.folder}"
                raise Interrupted(f"{why}; go on with resume=True") from error

    def _finish(self) -> None:
        """Write the results, and the history again, in case it was lost after an earlier end."""
        self.run.seconds = self._spent()
        self.run.set_diverged(self.stepper.optimizer.diverged)
        if self.run.folder is not None:
            self.run.history.write(self.run.folder / "metrics.parquet")
            write_json(self.run.folder / "result.json", self.run.result())
        tell(self.observers, "on_end", self.run)

    def _advance(self) -> None:
        """Take one step."""
        run, group = self.run, self.stepper.group
        self.stepper.step(run.step, *self.batches.at(run.step))
        self.loss_sum += self.stepper.losses
        self.loss_count += 1
        run.step += 1
        if self.stepper.group < group:
            fewer = f"from step {run.step} on each step takes {self.stepper.group} seeds at a time"
            tell(self.observers, "on_note", f"out of memory: {fewer}")

    def _evaluate(self) -> list[Score]:
        """The scores of all seeds; they go into the history, too."""
        run, recipe = self.run, self.stepper.recipe
        run.crowd.set_progress(recipe.progress(run.step))
        if self.tally is None or self.tally.group > self.stepper.group:
            self.tally = Tally.of(run.crowd, self.stepper.group)
        with self._timing_overhead():
            scores = self.tally.evaluate(self.held_out, run.step)
        losses = (self.loss_sum / max(1, self.loss_count)).tolist()
        scores += [
            Score(run.step, seed, TRAINING, 0, float("nan"), loss)
            for seed, loss in zip(run.crowd.seeds, losses, strict=True)
        ]
        run.history.add(scores)
        self.loss_sum.zero_()
        self.loss_count = 0
        run.set_diverged(self.stepper.optimizer.diverged)
        rule = recipe.early_stop, recipe.settled_accuracy, recipe.settled_change
        self.stopped = run.history.settled(*rule, list(run.diverged))
        return scores

    def _after_step(self, scores: list[Score] | None) -> None:
        """Whatever is due after a step and its evaluation: reports, a checkpoint."""
        recipe, step, stop = self.stepper.recipe, self.run.step, False
        if scores is not None:
            stop = tell(self.observers, "on_evaluate", step, scores)
        if self.over or monotonic() - self.reported_at > _REPORT_SECONDS:
            self.reported_at = monotonic()
            stop |= tell(self.observers, "on_step", self._stats())
        if stop and scores is None:
            tell(self.observers, "on_evaluate", step, self._evaluate())
        self.stopped |= stop
        late = monotonic() - self.saved_at > 60 * recipe.checkpoint_minutes
        due = recipe.checkpoint_every > 0 and step % recipe.checkpoint_every == 0
        if late or due or self.over:
            self.save()

    def _stats(self) -> StepStats:
        run, recipe, stepper = self.run, self.stepper.recipe, self.stepper
        run.set_diverged(stepper.optimizer.diverged)
        return StepStats(
            step=run.step,
            steps=recipe.steps,
            rate=recipe.rate(run.step - 1),
            steps_per_second=(run.step - self.began_at) / max(monotonic() - self.began, 1e-9),
            losses=tuple(stepper.losses.tolist()),
            norms=tuple(stepper.norms.tolist()),
            diverged=tuple(run.diverged),
        )

    def _spent(self) -> float:
        """Seconds of training, in all sittings."""
        return self.earlier + monotonic() - self.began

    @contextmanager
    def _timing_overhead(self) -> Iterator[None]:
        """Wait for all steps so far, then count the seconds as overhead."""
        if self.run.crowd.device.type == "cuda":
            torch.cuda.synchronize(self.run.crowd.device)
        began = monotonic()
        yield
        self.run.overhead_seconds += monotonic() - began

    def save(self) -> None:
        """Write a checkpoint and the history so far."""
        run = self.run
        if run.folder is None or self.saved == run.step:
            return
        tensors, splits = run.to_tensors()
        tensors |= vars(self.stepper.optimizer) | {"loss_sum": self.loss_sum}
        if self.stepper.own is not None:
            tensors |= self.stepper.own.to_tensors()
        facts = {
            "seconds": self._spent(),
            "aside": run.overhead_seconds,
            "loss_count": self.loss_count,
            "splits": splits,
            "stopped": self.stopped,
            "planned": self.stepper.recipe.steps,
        }
        with self._timing_overhead():
            checkpoint.save(run.folder, run.step, tensors, facts)
            run.history.write(run.folder / "metrics.parquet")
        self.saved, self.saved_at = run.step, monotonic()
        tell(self.observers, "on_checkpoint", run.step)

    def resume(self, here: Mapping[str, Any]) -> None:
        """Go on from the newest checkpoint. here: the config that the run would have if it began here."""
        run = self.run
        assert run.folder is not None
        found = checkpoint.newest(run.folder)
        if found is not None:
            self._restore(*found)
        if not self.over and (line := checkpoint.note_move(run.folder, run.config, here, run.step)):
            tell(self.observers, "on_note", line)
        if found is None:
            tell(self.observers, "on_note", f"nothing is saved in {run.folder} yet: the run begins at step 0")

    def _restore(self, tensors: dict[str, Tensor], facts: dict[str, Any], damaged: list[str]) -> None:
        for line in damaged:
            tell(self.observers, "on_note", f"warning: {line}: falling back to the checkpoint before")
        self.run.restore(tensors, facts)
        for name, tensor in vars(self.stepper.optimizer).items():
            tensor.copy_(tensors[name])
        if self.stepper.own is not None:
            self.stepper.own.restore(tensors)
        self.loss_sum.copy_(tensors["loss_sum"])
        self.saved, self.loss_count, self.stopped = facts["step"], facts["loss_count"], facts["stopped"]
        self._note_more_steps(facts.get("planned", self.stepper.recipe.steps))
        engine = self.run.config["engine"]
        if engine["device"] == self.run.crowd.device.type:  # the same order of floating-point sums
            self.stepper.regroup(engine["seeds_at_a_time"])

    def _note_more_steps(self, planned: int) -> None:
        """Go on with a run that was over; note what would have been different with more steps planned."""
        recipe, step = self.stepper.recipe, self.run.step
        if recipe.steps == planned:
            return
        self.stopped = False
        before = replace(recipe, steps=planned)
        rates = any(before.rate(one) != recipe.rate(one) for one in range(step))
        progress = self.batches.curriculum is not None or bool(self.run.crowd.progress_buffers())
        if other := ["the learning rate"] * rates + ["the progress"] * progress:
            was = f"was that of a run of {plural(planned, 'step')}, not of {recipe.steps:,}"
            tell(self.observers, "on_note", f"up to step {step:,} {' and '.join(other)} {was}")


@contextmanager
def _graceful_interrupt() -> Iterator[list[KeyboardInterrupt]]:
    """Hold the first Ctrl-C or SIGTERM back until a step has ended; a second one acts at once."""
    asked: list[KeyboardInterrupt] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: object) -> None:
        asked.append(Terminated("ended by SIGTERM") if number == signal.SIGTERM else KeyboardInterrupt())
        if len(asked) > 1:
            raise asked[-1]

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
