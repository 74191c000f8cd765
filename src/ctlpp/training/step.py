"""One training step of a crowd: loss, gradient, clipping and update per seed; and its evaluation.

Nothing in here waits for the device: what differs from step to step (rates, keys, progress) lies in small
tensors that are filled beforehand, so that a step can be captured and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.files import UserError
from ctlpp.kernels import fast
from ctlpp.runs.history import Score
from ctlpp.training.batches import Split
from ctlpp.training.crowd import DROPOUT, Crowd, seed_keys, step_keys
from ctlpp.training.optimizer import OwnOptimizer
from ctlpp.training.swap import swapped_logits

if TYPE_CHECKING:
    from ctlpp.training.recipe import Recipe

_TRIALS = 2  # steps of a shape before it is captured

Work = Callable[[Tensor, Tensor], None]
Shape = tuple[torch.Size, torch.Size]


class Loss(nn.Module):
    """The loss of one seed on one batch: the model's own if it has one, cross-entropy otherwise.

    A model may define `loss(logits, targets)`, or `training_loss(tokens, targets)` where the logits are not
    enough (an auxiliary loss on inner states, say). Both return one number and may use the buffer `progress`.
    """

    def __init__(self, model: nn.Module, swap: float = 0.0) -> None:
        super().__init__()
        self.model, self.swap = model, swap

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:  # (B, T), (B,) -> ()
        own = getattr(self.model, "training_loss", None)
        plain: Tensor = own(tokens, targets) if own else self.of_logits(self.model(tokens), targets)
        if not self.swap or tokens.shape[1] <= 3:  # a single function has no prefix
            return plain
        return plain.lerp(self.of_logits(swapped_logits(self.model, tokens), targets), self.swap)

    def of_logits(self, logits: Tensor, targets: Tensor) -> Tensor:  # (B, C), (B,) -> ()
        own = getattr(self.model, "loss", None)
        return own(logits, targets) if own is not None else F.cross_entropy(logits.float(), targets)


@dataclass
class AdamState:
    """Adam's memory of a crowd (empty for an optimiser of your own), and which seeds are still training."""

    mean: Tensor  # of the gradients, (S, P)
    square: Tensor  # of the squared gradients, (S, P)
    diverged: Tensor  # (S,) int64: the step at which a seed was frozen, -1 while it trains


@dataclass
class StepScalars:
    """The scalars of a step, on the device."""

    step: Tensor  # () int64
    rate: Tensor  # learning rate with both bias corrections
    eps: Tensor  # with the bias correction of the mean square
    decay: Tensor  # what is left of a weight after its decay

    def set(self, recipe: Recipe, step: int) -> None:
        """Set all for step 0, 1, …"""
        rate, (b1, b2) = recipe.rate(step), recipe.betas
        root = (1 - b2 ** (step + 1)) ** 0.5
        self.step.fill_(step)
        self.rate.fill_(rate * root / (1 - b1 ** (step + 1)))
        self.eps.fill_(recipe.eps * root)
        self.decay.fill_(1 - rate * recipe.weight_decay)


@dataclass
class Replays:
    """CUDA graphs of one piece of work, by the shape of its inputs: no kernel is launched on its own.

    The work is run as usual the first times it meets a shape, so that kernels are compiled and memory is
    known to suffice; then it is captured. What cannot be captured (it waits for the device) goes on as usual.
    """

    graphs: dict[Shape, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = field(default_factory=dict)
    tries: dict[Shape, int] = field(default_factory=dict)
    possible: bool = True
    pool: Any = None  # of memory that all graphs share

    def run(self, work: Work, tokens: Tensor, targets: Tensor) -> bool:
        """Replay the work on these inputs; False, and nothing done, if there is no graph of it yet."""
        shape = tokens.shape, targets.shape
        if shape not in self.graphs:
            self.tries[shape] = self.tries.get(shape, 0) + 1
            if not self.possible or self.tries[shape] <= _TRIALS:
                return False
            if not self._capture(shape, work, tokens, targets):
                return False
        graph, static_tokens, static_targets = self.graphs[shape]
        static_tokens.copy_(tokens)
        static_targets.copy_(targets)
        graph.replay()
        return True

    def forget(self) -> None:
        """Drop all graphs, as when the work changes."""
        self.graphs.clear()
        self.tries.clear()
        self.pool = None

    def _capture(self, shape: Shape, work: Work, tokens: Tensor, targets: Tensor) -> bool:
        static = tokens.clone(), targets.clone()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                work(*static)
        except (RuntimeError, ValueError):
            self.possible = False
            self.forget()
            torch.cuda.synchronize()
            return False
        self.pool = graph.pool()
        self.graphs[shape] = graph, *static
        return True


@dataclass
class Stepper:
    """Trains the seeds of a crowd step by step, in groups that fit into memory."""

    crowd: Crowd
    recipe: Recipe
    group: int  # seeds whose activations are in memory at the same time
    bf16: bool = False
    optimizer: AdamState = field(init=False)
    own: OwnOptimizer | None = field(init=False)  # in place of Adam
    keys: Tensor = field(init=False)
    scalars: StepScalars = field(init=False)
    losses: Tensor = field(init=False)  # of the last step, (S,)
    norms: Tensor = field(init=False)  # gradient norms before clipping, (S,)

    def __post_init__(self) -> None:
        device, seeds, weights = self.crowd.device, self.crowd.seeds, self.crowd.weights
        own = self.recipe.optimizer
        self.own = None if isinstance(own, str) else OwnOptimizer(self.crowd, own, self.recipe.lr)
        zeros = torch.zeros_like(weights if self.own is None else weights[:, :0])
        diverged = torch.full((len(seeds),), -1, device=device)
        self.optimizer = AdamState(zeros, zeros.clone(), diverged)
        self.keys = seed_keys(seeds, purpose=DROPOUT).to(device)
        step = torch.zeros((), dtype=torch.int64, device=device)
        self.scalars = StepScalars(step, *torch.zeros(3, device=device).unbind())
        self.losses, self.norms = torch.zeros(2, len(seeds), device=device).unbind()
        self._loss = Loss(self.crowd.module, self.recipe.swap)
        self._replays = Replays() if device.type == "cuda" and self.own is None else None
        self.regroup(self.group)

    def regroup(self, group: int) -> None:
        """Take `group` seeds at a time from now on."""
        self.group = min(group, len(self.keys))
        self._gradient = torch.zeros(self.group, self.crowd.weights.shape[1], device=self.crowd.device)
        if self._replays is not None:
            self._replays.forget()

    def trial(self, group: slice) -> Stepper:
        """A throw-away copy of some seeds, ready to train."""
        crowd = replace(
            self.crowd,
            module=deepcopy(self.crowd.module).train(),
            seeds=self.crowd.seeds[group],
            weights=self.crowd.weights[group].clone(),
            seed_buffers={name: buffer[group].clone() for name, buffer in self.crowd.seed_buffers.items()},
            vectorised=True,
        )
        return Stepper(crowd, self.recipe, len(crowd.seeds), self.bf16)

    def step(self, step: int, tokens: Tensor, targets: Tensor) -> None:
        """One update of every seed. tokens: (B, T) for all seeds or (S, B, T); targets: (B,) or (S, B)."""
        self.scalars.set(self.recipe, step)
        self.crowd.set_progress(self.recipe.progress(step))
        self.crowd.module.train()
        if self._replays is None or not self._replays.run(self._all_groups, tokens, targets):
            self._all_groups(tokens, targets)
        if self.own is not None:
            self.own.step(self.recipe.rate(step), self.optimizer.diverged)

    def _all_groups(self, tokens: Tensor, targets: Tensor) -> None:
        first = 0
        while first < len(self.keys):
            if self._step(slice(first, first + self.group), tokens, targets):
                first += self.group
            else:
                self._make_room()

    def _step(self, group: slice, tokens: Tensor, targets: Tensor) -> bool:
        """One update of some seeds; False, and nothing done, if memory does not suffice."""
        before = {name: buffer[group].clone() for name, buffer in self.crowd.seed_buffers.items()}
        fits = True
        try:
            losses, gradient = self.gradient(group, tokens, targets)
            training = self.update(group, losses, gradient)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
                raise
            fits, training = False, torch.zeros_like(self.keys[group], dtype=torch.bool)
        for name, old in before.items():
            new = self.crowd.seed_buffers[name][group]
            new.copy_(torch.where(training.view(-1, *[1] * (new.ndim - 1)), new, old))
        return fits

    def _make_room(self) -> None:
        """Go on with half as many seeds at a time."""
        if self.group == 1:
            where = f"on {self.crowd.device} even with one seed at a time"
            raise UserError(f"out of memory {where}: use a smaller ‹batch›")
        self.regroup(-(-self.group // 2))
        if self.crowd.device.type == "cuda":
            torch.cuda.empty_cache()

    def gradient(self, group: slice, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Losses (S,) and gradients (S, P) of some seeds; a batch with a seed axis is that of all seeds."""
        if targets.ndim == 2:
            tokens, targets = tokens[group], targets[group]
        parameters, keys = self.crowd.parameters(group), step_keys(self.keys[group], self.scalars.step)
        gradient = self._gradient[: len(keys)]
        kernel = self._kernel(tokens.shape[-1])
        if kernel is not None:
            views = self.crowd.views(gradient)
            with torch.no_grad():
                losses = kernel(self.crowd.module, parameters, views, keys, tokens, targets, torch.bfloat16)
            return losses, gradient
        leaves = {name: view.detach().requires_grad_() for name, view in parameters.items()}
        state = leaves | {name: buffer[group] for name, buffer in self.crowd.seed_buffers.items()}
        with torch.autocast(self.crowd.device.type, torch.bfloat16, enabled=self.bf16):
            losses = self.crowd.call(self._loss, state, keys, tokens, targets)
        parts = torch.autograd.grad(losses.sum(), list(leaves.values()), materialize_grads=True)
        for view, part in zip(self.crowd.views(gradient).values(), parts, strict=True):
            view.copy_(part)
        return losses.detach().float(), gradient

    def _kernel(self, columns: int) -> fast.Gradient | None:
        """The fast path for this crowd, if there is one."""
        crowd = self.crowd
        if not crowd.kernels or not self.bf16 or crowd.seed_buffers or not crowd.module.training:
            return None
        if self.recipe.swap or self.recipe.tied:
            return None
        return fast.find(crowd.module, crowd.device, columns)

    @torch.no_grad()
    def update(self, group: slice, losses: Tensor, gradient: Tensor) -> Tensor:
        """Clip each seed's gradient and let Adam move its weights; returns which seeds train on, (S,) bool.

        An optimiser of your own moves the weights later, those of all groups together. A seed whose loss or
        gradient is not finite keeps the weights it has, from now on.
        """
        if self.crowd.kernels and self.own is None:
            from ctlpp.kernels import adam

            return adam.update(self, group, losses, gradient)
        norms = torch.linalg.vector_norm(gradient, dim=1)
        self.losses[group], self.norms[group] = losses, norms
        diverged = self.optimizer.diverged[group]
        training: Tensor = (diverged < 0) & losses.isfinite() & norms.isfinite()
        diverged.copy_(torch.where((diverged < 0) & ~training, self.scalars.step, diverged))
        if self.recipe.clip:
            gradient.mul_((self.recipe.clip / (norms + 1e-6)).clamp(max=1.0)[:, None])
        gradient.masked_fill_(~training[:, None], 0.0)
        if self.own is None:
            self._adam(group, gradient, training)
        else:
            self.own.gradient[group] = gradient
        return training

    def _adam(self, group: slice, gradient: Tensor, training: Tensor) -> None:
        weights, mean = self.crowd.weights[group], self.optimizer.mean[group]
        square, (b1, b2) = self.optimizer.square[group], self.recipe.betas
        if self.recipe.weight_decay and self.recipe.optimizer == "adam":
            gradient.add_(weights * training[:, None], alpha=self.recipe.weight_decay)
        mean.lerp_(gradient, 1 - b1)
        square.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        change = mean / square.sqrt().add_(self.scalars.eps)
        if self.recipe.weight_decay and self.recipe.optimizer == "adamw":
            weights.mul_(torch.where(training, self.scalars.decay, 1.0)[:, None])
        weights.sub_(change.mul_((self.scalars.rate * training)[:, None]))


class _Count(Loss):
    """Right answers and summed loss of one seed on one batch."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__(model)
        self.dtype = dtype

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:  # (B, T), (B,) -> (2,)
        logits = self.model(tokens)
        known = logits.amax(-1).isfinite()  # what is no number is no answer
        right = ((logits.argmax(-1) == targets) & known).sum()
        loss = self.of_logits(logits, targets).to(self.dtype)
        return torch.stack([right.to(self.dtype), loss * len(targets)])


@dataclass
class Tally:
    """Adds up right answers and losses over batches of examples; on CUDA by replaying graphs.

    Keep it if you evaluate often.
    """

    crowd: Crowd
    group: int  # seeds at a time
    total: Tensor  # right answers and summed losses, (S, 2)
    replays: Replays | None

    @staticmethod
    def of(crowd: Crowd, group: int = 0) -> Tally:
        """group: seeds at a time, 0 for all."""
        group = (group or len(crowd.seeds)) if crowd.vectorised else 1
        total = torch.zeros(len(crowd.seeds), 2, dtype=crowd.sum_dtype, device=crowd.device)
        return Tally(crowd, group, total, Replays() if crowd.device.type == "cuda" else None)

    def sum_over(self, tokens: Tensor, targets: Tensor, batch: int) -> Tensor:
        """The sums over some examples of one length, (S, 2)."""
        self.total.zero_()
        for part in zip(torch.split(tokens, batch), torch.split(targets, batch), strict=True):
            on_device = [tensor.to(self.crowd.device) for tensor in part]
            if self.replays is None or not self.replays.run(self._add, *on_device):
                self._add(*on_device)
        return self.total.clone()

    def _add(self, tokens: Tensor, targets: Tensor) -> None:
        count = _Count(self.crowd.module, self.total.dtype)
        no_keys = torch.zeros_like(self.total[:, 0], dtype=torch.int64)  # nothing is drawn in evaluation
        for first in range(0, len(self.total), self.group):
            some = slice(first, first + self.group)
            state = self.crowd.state(some)
            self.total[some] += self.crowd.call(count, state, no_keys[some], tokens, targets)

    @torch.no_grad()
    def evaluate(self, splits: Mapping[str, Split], step: int, batch: int = 1024) -> list[Score]:
        """Scores of all seeds: for each split all lengths together (length 0), then each length.

        step: that the crowd has reached. batch: examples at a time. No dropout, no gradient.
        """
        self.crowd.module.eval()
        scores = []
        for name, split in splits.items():
            lengths = [length for length in sorted(split) if len(split[length][1])]
            if not lengths:
                raise UserError(f"split {name!r} is empty: nothing to evaluate")
            sums = torch.stack(
                [self.sum_over(*split[length], batch) for length in lengths]
            )  # (lengths, S, 2)
            sizes = torch.tensor([len(split[length][1]) for length in lengths], dtype=torch.float64)
            sums = torch.cat([sums.sum(0, keepdim=True), sums]).cpu()
            means = sums / torch.cat([sizes.sum()[None], sizes])[:, None, None]
            for length, of_length in zip([0, *lengths], means.tolist(), strict=True):
                for seed, (accuracy, loss) in zip(self.crowd.seeds, of_length, strict=True):
                    scores.append(Score(step, seed, name, length, accuracy, loss))
        return scores
