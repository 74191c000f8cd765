"""One training step of a crowd: loss, gradient, clipping and update of every seed, none seeing another.

Nothing in here waits for the device: what differs from step to step (rates, keys, progress) lies in small
tensors that are filled beforehand, so that a step can be captured and replayed.
"""

from copy import deepcopy
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ctlpp.files import UserError
from ctlpp.kernels import fast
from ctlpp.training.crowd import DROPOUT, Crowd, Streams, seed_keys, step_keys
from ctlpp.training.engine import Replays
from ctlpp.training.recipe import Recipe


class Loss(nn.Module):
    """The loss of one seed on one batch: the model's own if it has one, cross-entropy otherwise.

    A model may define `loss(logits, targets)`, or `training_loss(tokens, targets)` where the logits are not
    enough (an auxiliary loss on inner states, say). Both return one number and may use the buffer `progress`.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:  # (B, T), (B,) -> ()
        whole = getattr(self.model, "training_loss", None)
        if whole is not None:
            return whole(tokens, targets)  # type: ignore[no-any-return]
        return self.of_logits(self.model(tokens), targets)

    def of_logits(self, logits: Tensor, targets: Tensor) -> Tensor:  # (B, C), (B,) -> ()
        own = getattr(self.model, "loss", None)
        return own(logits, targets) if own is not None else F.cross_entropy(logits.float(), targets)


@dataclass
class Optimizer:
    """Adam's memory for a crowd, and which of its seeds are still training."""

    mean: Tensor  # of the gradients, (S, P)
    square: Tensor  # of the squared gradients, (S, P)
    diverged: Tensor  # (S,) int64: the step at which a seed was frozen, -1 while it trains

    @staticmethod
    def of(crowd: Crowd) -> "Optimizer":
        zeros = torch.zeros_like(crowd.weights)
        return Optimizer(zeros, zeros.clone(), torch.full((len(crowd.seeds),), -1, device=crowd.device))


@dataclass
class StepScalars:
    """The scalars of a step, on the device."""

    step: Tensor  # () int64
    rate: Tensor  # learning rate with both bias corrections
    eps: Tensor  # with the bias correction of the mean square
    decay: Tensor  # what is left of a weight after its decay

    @staticmethod
    def on(device: torch.device) -> "StepScalars":
        step = torch.zeros((), dtype=torch.int64, device=device)
        return StepScalars(step, *torch.zeros(3, device=device).unbind())

    def set(self, recipe: Recipe, step: int) -> None:
        """Set all for step 0, 1, …"""
        rate, (b1, b2) = recipe.rate(step), recipe.betas
        root = (1 - b2 ** (step + 1)) ** 0.5
        self.step.fill_(step)
        self.rate.fill_(rate * root / (1 - b1 ** (step + 1)))
        self.eps.fill_(recipe.eps * root)
        self.decay.fill_(1 - rate * recipe.weight_decay)


@dataclass
class Stepper:
    """Trains the seeds of a crowd step by step, in groups that fit into memory."""

    crowd: Crowd
    recipe: Recipe
    optimizer: Optimizer
    group: int  # seeds whose activations are in memory at the same time
    bf16: bool = False
    keys: Tensor = field(init=False)
    scalars: StepScalars = field(init=False)
    losses: Tensor = field(init=False)  # of the last step, (S,)
    norms: Tensor = field(init=False)  # gradient norms before clipping, (S,)

    def __post_init__(self) -> None:
        device, seeds = self.crowd.device, self.crowd.seeds
        self.keys = seed_keys(seeds, purpose=DROPOUT).to(device)
        self.scalars = StepScalars.on(device)
        self.losses, self.norms = torch.zeros(2, len(seeds), device=device).unbind()
        self._loss = Loss(self.crowd.module)
        self._replays = Replays() if device.type == "cuda" else None
        self.regroup(self.group)

    def regroup(self, group: int) -> None:
        """Take `group` seeds at a time from now on."""
        self.group = min(group, len(self.keys))
        self._gradient = torch.zeros(self.group, self.crowd.weights.shape[1], device=self.crowd.device)
        if self._replays is not None:
            self._replays.forget()

    def trial(self, group: slice) -> "Stepper":
        """A throw-away copy of some seeds, ready to train."""
        crowd = replace(
            self.crowd,
            module=deepcopy(self.crowd.module).train(),
            seeds=self.crowd.seeds[group],
            weights=self.crowd.weights[group].clone(),
            seed_buffers={name: buffer[group].clone() for name, buffer in self.crowd.seed_buffers.items()},
            vectorised=True,
        )
        return Stepper(crowd, self.recipe, Optimizer.of(crowd), len(crowd.seeds), self.bf16)

    def step(self, step: int, tokens: Tensor, targets: Tensor) -> None:
        """One update of every seed. tokens: (B, T) for all seeds or (S, B, T); targets: (B,) or (S, B)."""
        self.scalars.set(self.recipe, step)
        self.crowd.set_progress(self.recipe.progress(step))
        self.crowd.module.train()
        if self._replays is None or not self._replays.run(self._all_groups, tokens, targets):
            self._all_groups(tokens, targets)

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
            losses = self._losses(state, keys, tokens, targets)
        parts = torch.autograd.grad(losses.sum(), list(leaves.values()), materialize_grads=True)
        for at, part in zip(self.crowd.slices.values(), parts, strict=True):
            gradient[:, at.start : at.end] = part.reshape(len(keys), -1)
        return losses.detach().float(), gradient

    @property
    def _kernels(self) -> bool:
        """Whether the fast paths may be taken."""
        return self.crowd.kernels and fast.available(self.crowd.device.type)

    def _kernel(self, columns: int) -> fast.Gradient | None:
        """The fast path for this crowd, if there is one."""
        if not self._kernels or not self.bf16 or self.crowd.seed_buffers or not self.crowd.module.training:
            return None
        return fast.find(self.crowd.module, self.crowd.device, columns)

    def _losses(self, state: dict[str, Tensor], keys: Tensor, tokens: Tensor, targets: Tensor) -> Tensor:
        """The loss of every seed, (S,). state: parameters and buffers, (S, …) each."""

        def loss_of_one(state: dict[str, Tensor], key: Tensor, tokens: Tensor, targets: Tensor) -> Tensor:
            with Streams(key):
                loss: Tensor = functional_call(self._loss, state, (tokens, targets))
            return loss

        state = {f"model.{name}": tensor for name, tensor in state.items()}
        per_seed = targets.ndim == 2
        if self.crowd.vectorised and len(keys) > 1:
            data = 0 if per_seed else None
            every = vmap(loss_of_one, in_dims=(0, 0, data, data), randomness="error")
            return every(state, keys, tokens, targets)
        losses = []
        for i, key in enumerate(keys.unbind()):
            batch = (tokens[i], targets[i]) if per_seed else (tokens, targets)
            losses.append(loss_of_one({name: tensor[i] for name, tensor in state.items()}, key, *batch))
        return torch.stack(losses)

    @torch.no_grad()
    def update(self, group: slice, losses: Tensor, gradient: Tensor) -> Tensor:
        """Clip each seed's gradient and let Adam move its weights; returns which seeds train on, (S,) bool.

        A seed whose loss or gradient is not finite keeps the weights it has, from now on.
        """
        if self._kernels:
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
        self._adam(group, gradient, training)
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
