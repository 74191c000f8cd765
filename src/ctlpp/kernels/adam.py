"""Clipping and Adam of a crowd in two passes over (S, P): one for the norms, one for everything else.

Drop-in for `Stepper.update` of `ctlpp.training.step`; the gradient is only read. Sums are taken in a fixed order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from ctlpp.kernels.products import blocks

if TYPE_CHECKING:
    from ctlpp.training.step import Stepper

NORM_BLOCK, NORM_WARPS = 8192, 8  # numbers of a seed that a program adds up
ADAM_BLOCK, ADAM_WARPS = 2048, 4  # … that a program updates
FINITE = tl.constexpr(3.4028235e38)  # the largest float32


@triton.jit
def square_sums(gradient_ptr, part_ptr, P, gradient_step, BLOCK: tl.constexpr):
    """Grid (blocks, seeds): the sum of squares of every block."""
    seed = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(gradient_ptr + seed * gradient_step + column, mask=column < P, other=0.0)
    tl.store(part_ptr + seed * tl.num_programs(0) + tl.program_id(0), tl.sum(x * x))


@triton.jit
def clipping_factors(
    part_ptr,
    new_losses_ptr,
    step_ptr,
    losses_ptr,
    norms_ptr,
    diverged_ptr,
    training_ptr,
    factor_ptr,
    N,
    clip,
    BLOCK: tl.constexpr,
    CLIP: tl.constexpr,
):
    """Grid (seeds): each seed's norm, the factor of its gradient, and whether it still trains."""
    seed = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    norm = tl.sqrt(tl.sum(tl.load(part_ptr + seed * N + at, mask=at < N, other=0.0)))
    loss = tl.load(new_losses_ptr + seed)
    diverged = tl.load(diverged_ptr + seed)
    finite = (tl.abs(loss) <= FINITE) & (norm <= FINITE)  # false for NaN
    training = (diverged < 0) & finite
    factor = tl.minimum(clip / (norm + 1e-6), 1.0) if CLIP else 1.0
    tl.store(losses_ptr + seed, loss)
    tl.store(norms_ptr + seed, norm)
    tl.store(diverged_ptr + seed, tl.where((diverged < 0) & (finite == 0), tl.load(step_ptr), diverged))
    tl.store(training_ptr + seed, training.to(tl.int8))
    tl.store(factor_ptr + seed, tl.where(training, factor, 0.0))


@triton.jit
def adam_step(
    weights_ptr,
    mean_ptr,
    square_ptr,
    gradient_ptr,
    training_ptr,
    factor_ptr,
    rate_ptr,
    eps_ptr,
    decay_ptr,
    P,
    weights_step,
    memory_step,
    gradient_step,
    to_mean,
    b2,
    to_square,
    pull,
    BLOCK: tl.constexpr,
    PULL: tl.constexpr,
    DECAY: tl.constexpr,
):
    """Grid (blocks, seeds). PULL: weight decay as part of the gradient; DECAY: apart from it."""
    seed = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < P
    training = tl.load(training_ptr + seed) != 0
    at_weights, at_memory = seed * weights_step + column, seed * memory_step + column
    w = tl.load(weights_ptr + at_weights, mask=inside, other=0.0)
    mean = tl.load(mean_ptr + at_memory, mask=inside, other=0.0)
    square = tl.load(square_ptr + at_memory, mask=inside, other=0.0)
    x = tl.load(gradient_ptr + seed * gradient_step + column, mask=inside, other=0.0)
    x = tl.where(training, x, 0.0) * tl.load(factor_ptr + seed)
    if PULL:
        x = tl.where(training, x + w * pull, x)
    mean += (x - mean) * to_mean
    square = square * b2 + x * x * to_square
    change = mean / (tl.sqrt(square) + tl.load(eps_ptr)) * tl.load(rate_ptr)
    new = w * tl.load(decay_ptr) - change if DECAY else w - change
    tl.store(weights_ptr + at_weights, tl.where(training, new, w), mask=inside)
    tl.store(mean_ptr + at_memory, mean, mask=inside)
    tl.store(square_ptr + at_memory, square, mask=inside)


@torch.no_grad()
def update(stepper: Stepper, group: slice, losses: Tensor, gradient: Tensor) -> Tensor:
    """Clip each seed's gradient (S, P) and let Adam move its weights; returns which seeds still train, (S,) bool."""
    recipe, scalars, memory = stepper.recipe, stepper.scalars, stepper.optimizer
    weights, mean, square = stepper.crowd.weights[group], memory.mean[group], memory.square[group]
    assert mean.stride() == square.stride()
    assert weights.stride(1) == mean.stride(1) == gradient.stride(1) == 1
    S, P = gradient.shape
    sums = torch.empty(S, blocks(P, NORM_BLOCK), device=gradient.device)
    factor = torch.empty(S, device=gradient.device)
    training = torch.empty(S, dtype=torch.int8, device=gradient.device)
    square_sums[sums.shape[1], S](
        gradient, sums, P, gradient.stride(0), BLOCK=NORM_BLOCK, num_warps=NORM_WARPS
    )
    clipping_factors[(S,)](
        sums,
        losses,
        scalars.step,
        stepper.losses[group],
        stepper.norms[group],
        memory.diverged[group],
        training,
        factor,
        sums.shape[1],
        float(recipe.clip),
        BLOCK=triton.next_power_of_2(sums.shape[1]),
        CLIP=bool(recipe.clip),
        num_warps=1,
    )
    b1, b2 = recipe.betas
    decays = bool(recipe.weight_decay)
    adam_step[blocks(P, ADAM_BLOCK), S](
        weights,
        mean,
        square,
        gradient,
        training,
        factor,
        scalars.rate,
        scalars.eps,
        scalars.decay,
        P,
        weights.stride(0),
        mean.stride(0),
        gradient.stride(0),
        1 - b1,
        b2,
        1 - b2,
        float(recipe.weight_decay),
        BLOCK=ADAM_BLOCK,
        PULL=decays and recipe.optimizer == "adam",
        DECAY=decays and recipe.optimizer == "adamw",
        num_warps=ADAM_WARPS,
    )
    return training.view(torch.bool)
