"""Clipping and Adam of a crowd in two passes over (S, P): one for the norms, one for everything else.

Drop-in for `Stepper.update` of `ctlpp.training.step`; the gradient is only read. Sums are taken in a fixed
order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from ctlpp.kernels.launch import at_seed, blocks, by_seed

if TYPE_CHECKING:
    from ctlpp.training.step import Stepper

NORM_BLOCK, NORM_WARPS = 8192, 8  # numbers of a seed that a program adds up
ADAM_BLOCK, ADAM_WARPS = 2048, 4  # … that a program updates
FINITE = constexpr(3.4028235e38)  # the largest float32


@triton.jit
def square_sums(gradient, part, P, BLOCK: constexpr):
    """Grid (blocks, seeds): the sum of squares of every block."""
    seed = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(at_seed(gradient, seed) + column, mask=column < P, other=0.0)
    tl.store(part + seed * tl.num_programs(0) + tl.program_id(0), tl.sum(x * x))


@triton.jit
def clipping_factors(
    part, new_losses, step, state, training_to, factor_to, N, clip, BLOCK: constexpr, CLIP: constexpr
):
    """Grid (seeds): each seed's norm, the factor of its gradient, and whether it still trains.

    state: losses, norms and the steps at which seeds diverged.
    """
    seed = tl.program_id(0)
    losses, norms, diverged_at = state
    at = tl.arange(0, BLOCK)
    norm = tl.sqrt(tl.sum(tl.load(part + seed * N + at, mask=at < N, other=0.0)))
    loss = tl.load(new_losses + seed)
    diverged = tl.load(diverged_at + seed)
    finite = (tl.abs(loss) <= FINITE) & (norm <= FINITE)  # false for NaN
    training = (diverged < 0) & finite
    factor = tl.minimum(clip / (norm + 1e-6), 1.0) if CLIP else 1.0
    tl.store(losses + seed, loss)
    tl.store(norms + seed, norm)
    tl.store(diverged_at + seed, tl.where((diverged < 0) & (finite == 0), tl.load(step), diverged))
    tl.store(training_to + seed, training.to(tl.int8))
    tl.store(factor_to + seed, tl.where(training, factor, 0.0))


@triton.jit
def adam_step(
    weights, memory, gradient, clips, scalars, P, rates, BLOCK: constexpr, PULL: constexpr, DECAY: constexpr
):
    """Grid (blocks, seeds). PULL: weight decay as part of the gradient; DECAY: apart from it.

    clips: which seeds train, the factors of their gradients; memory: mean, square, and the elements from
    one seed to the next; scalars: learning rate, ε and decay of the step; rates: 1 − β₁, β₂, 1 − β₂ and the
    weight decay.
    """
    seed = tl.program_id(1).to(tl.int64)
    training, factor = clips
    to_mean, b2, to_square, pull = rates
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < P
    trains = tl.load(training + seed) != 0
    at_weights, at_memory = seed * weights[1] + column, seed * memory[2] + column
    w = tl.load(weights[0] + at_weights, mask=inside, other=0.0)
    mean = tl.load(memory[0] + at_memory, mask=inside, other=0.0)
    square = tl.load(memory[1] + at_memory, mask=inside, other=0.0)
    x = tl.load(at_seed(gradient, seed) + column, mask=inside, other=0.0)
    x = tl.where(trains, x, 0.0) * tl.load(factor + seed)
    if PULL:
        x = tl.where(trains, x + w * pull, x)
    mean += (x - mean) * to_mean
    square = square * b2 + x * x * to_square
    change = mean / (tl.sqrt(square) + tl.load(scalars[1])) * tl.load(scalars[0])
    new = w * tl.load(scalars[2]) - change if DECAY else w - change
    tl.store(weights[0] + at_weights, tl.where(trains, new, w), mask=inside)
    tl.store(memory[0] + at_memory, mean, mask=inside)
    tl.store(memory[1] + at_memory, square, mask=inside)


@torch.no_grad()
def update(stepper: Stepper, group: slice, losses: Tensor, gradient: Tensor) -> Tensor:
    """Clip each seed's gradient (S, P) and move its weights; returns which seeds still train, (S,) bool."""
    recipe, scalars, memory = stepper.recipe, stepper.scalars, stepper.optimizer
    weights, mean, square = stepper.crowd.weights[group], memory.mean[group], memory.square[group]
    assert mean.stride() == square.stride()
    assert weights.stride(1) == mean.stride(1) == gradient.stride(1) == 1
    S, P = gradient.shape
    sums = torch.empty(S, n := blocks(P, NORM_BLOCK), device=gradient.device)
    factor = torch.empty(S, device=gradient.device)
    training = torch.empty(S, dtype=torch.int8, device=gradient.device)
    square_sums[n, S](*by_seed(gradient), sums, P, BLOCK=NORM_BLOCK, num_warps=NORM_WARPS)
    state = stepper.losses[group], stepper.norms[group], memory.diverged[group]
    meta = {"BLOCK": triton.next_power_of_2(n), "CLIP": bool(recipe.clip), "num_warps": 1}
    clipping_factors[(S,)](sums, losses, scalars.step, state, training, factor, n, float(recipe.clip), **meta)
    (b1, b2), decays = recipe.betas, bool(recipe.weight_decay)
    rates = 1 - b1, b2, 1 - b2, float(recipe.weight_decay)
    tensors = *by_seed(weights), (mean, square, mean.stride(0)), *by_seed(gradient), (training, factor)
    pull, decay = (decays and recipe.optimizer == kind for kind in ("adam", "adamw"))
    meta = {"BLOCK": ADAM_BLOCK, "PULL": pull, "DECAY": decay, "num_warps": ADAM_WARPS}
    adam_step[blocks(P, ADAM_BLOCK), S](
        *tensors, (scalars.rate, scalars.eps, scalars.decay), P, rates, **meta
    )
    return training.view(torch.bool)
