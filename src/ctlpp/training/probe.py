"""Before training: what a module needs, can do and costs, found by trying a batch on it."""

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import torch
from torch import Tensor

from ctlpp.files import UserError
from ctlpp.kernels import fast
from ctlpp.training.crowd import Crowd, one_line
from ctlpp.training.recipe import Recipe
from ctlpp.training.step import Optimizer, Stepper

_CPU_TENSOR = 8 << 20  # bytes: larger tensors leave the caches, and one seed at a time is then the fastest


def probe(crowd: Crowd, recipe: Recipe, tokens: Tensor, targets: Tensor, bf16: bool) -> str:
    """Try a training step; gives the reason why the module cannot be vectorised, or "" if it can.

    Finds out which buffers training changes, and makes them each seed's own.
    """
    before = {name: buffer.clone() for name, buffer in crowd.module.named_buffers()}
    one = _trial(crowd, slice(0, 1), recipe, bf16)
    generators = _generator_states()
    try:
        one.gradient(slice(0, 1), *_batch_of(slice(0, 1), tokens, targets))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise UserError(
            f"the model failed in a training step: {type(error).__name__}: {one_line(error)}"
        ) from error
    if any(not torch.equal(old, new) for old, new in zip(generators, _generator_states(), strict=True)):
        raise UserError(
            "the model draws from the global random generator in forward, so its seeds could not be repeated:"
            " use F.dropout, torch.rand_like, torch.randn_like or torch.bernoulli"
        )
    for name, buffer in one.crowd.module.named_buffers():
        if name not in crowd.extras and not torch.equal(buffer, before[name]):
            crowd.extras[name] = before[name].expand(len(crowd.seeds), *buffer.shape).clone()
    return _reason_against_vectorising(crowd, recipe, tokens, targets, bf16)


def _reason_against_vectorising(
    crowd: Crowd, recipe: Recipe, tokens: Tensor, targets: Tensor, bf16: bool
) -> str:
    """Why two seeds cannot run as one computation, in one line; "" if they can."""
    if len(crowd.seeds) == 1:
        return ""
    pair = _trial(crowd, slice(0, 2), recipe, bf16)
    try:
        with torch.random.fork_rng(devices=[]):
            pair.gradient(slice(0, 2), *_batch_of(slice(0, 2), tokens[..., :2, :], targets[..., :2]))
    except torch.OutOfMemoryError:
        return ""  # a matter of memory, for `seeds_at_a_time`
    except Exception as error:
        return one_line(error)
    return ""


def try_kernels(crowd: Crowd, recipe: Recipe, tokens: Tensor, targets: Tensor, bf16: bool) -> str:
    """Try the fast path of a step, if there is one; where it fails it is left alone, and the reason is given."""
    if not fast.available(crowd.device.type):
        return ""
    try:
        _trial(crowd, slice(0, 1), recipe, bf16).step(0, *_batch_of(slice(0, 1), tokens, targets))
        if fast.find(crowd.module, crowd.device, tokens.shape[-1]) is not None:
            _try_together(crowd, recipe, tokens[..., :2, :], targets[..., :2], bf16)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # a compiler or a card that we have not met
        crowd.kernels = False
        return one_line(error)
    return ""


def rehearse(crowd: Crowd, recipe: Recipe, batches: Sequence[tuple[Tensor, Tensor]], bf16: bool) -> None:
    """Have the kernels of all steps to come compiled at the same time: of these batches, and of the trials here."""
    tokens, targets = batches[-1]
    if not bf16 or fast.find(crowd.module, crowd.device, tokens.shape[-1]) is None:
        return
    from ctlpp.kernels.rehearsal import compiling_only

    with suppress(Exception), compiling_only() as possible:  # what fails will be told when it is needed
        if possible:
            one, two, few = slice(0, 1), slice(0, 2), (tokens[..., :2, :], targets[..., :2])
            _trial(crowd, one, recipe, bf16).step(0, *_batch_of(one, tokens, targets))
            _trial(crowd, two, recipe, bf16).step(0, *_batch_of(two, *few))
            for batch in (few, *batches):
                _trial(crowd, slice(None), recipe, bf16).step(0, *batch)


def _try_together(crowd: Crowd, recipe: Recipe, tokens: Tensor, targets: Tensor, bf16: bool) -> None:
    """A step of all seeds, for which the fast path may take other kernels than for one."""
    with suppress(torch.OutOfMemoryError):  # a matter for `seeds_at_a_time`
        _trial(crowd, slice(None), recipe, bf16).step(0, tokens, targets)


def _trial(crowd: Crowd, group: slice, recipe: Recipe, bf16: bool) -> Stepper:
    """A throw-away copy of some seeds, ready to train."""
    extras = {name: extra[group].clone() for name, extra in crowd.extras.items()}
    copy = Crowd(
        deepcopy(crowd.module).train(), crowd.seeds[group], crowd.places, crowd.weights[group].clone(), extras
    )
    copy.kernels = crowd.kernels
    return Stepper(copy, recipe, Optimizer.of(copy), len(copy.seeds), bf16)


def _batch_of(group: slice, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return (tokens[group], targets[group]) if targets.ndim == 2 else (tokens, targets)


def _generator_states() -> list[Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_available() else [])]


def activations(crowd: Crowd, recipe: Recipe, tokens: Tensor, targets: Tensor, bf16: bool) -> tuple[int, int]:
    """Bytes that one seed keeps from forward to backward, and those of the largest tensor among them; by trying."""
    if crowd.device.type == "cuda":
        return _peak(crowd, recipe, tokens, targets, bf16), 0
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    one = _trial(crowd, slice(0, 1), recipe, bf16)
    weights = one.crowd.weights.untyped_storage().data_ptr()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        one.gradient(slice(0, 1), *_batch_of(slice(0, 1), tokens, targets))
    kept.pop(weights, None)
    return sum(kept.values()), max(kept.values(), default=0)


def _peak(crowd: Crowd, recipe: Recipe, tokens: Tensor, targets: Tensor, bf16: bool) -> int:
    """Bytes that one seed's step takes on a CUDA device beyond what lies there."""
    one = _trial(crowd, slice(0, 1), recipe, bf16)
    torch.cuda.reset_peak_memory_stats(crowd.device)
    before = torch.cuda.memory_allocated(crowd.device)
    one.gradient(slice(0, 1), *_batch_of(slice(0, 1), tokens, targets))
    return torch.cuda.max_memory_allocated(crowd.device) - before


def memory_budget(device: torch.device) -> int:
    """Bytes that activations may take on a device."""
    if device.type == "cuda":
        return int(0.7 * torch.cuda.mem_get_info(device)[0])
    return _available() // 2


def _available() -> int:
    """Bytes of memory that this machine can still give."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 4 << 30


def seeds_at_a_time(
    crowd: Crowd, recipe: Recipe, tokens: Tensor, targets: Tensor, bf16: bool, budget: int
) -> tuple[int, str]:
    """How many seeds go through a step together, and a line that says so if memory is the reason."""
    seeds = len(crowd.seeds)
    if not crowd.vectorised:
        return 1, ""
    each, largest = activations(crowd, recipe, tokens, targets, bf16)
    fit = max(1, budget // max(1, each * 3 // 2))  # half as much again for gradients on their way
    quick = max(1, _CPU_TENSOR // max(1, largest)) if crowd.device.type == "cpu" else seeds
    group = _even(seeds, min(fit, quick, seeds))
    if fit >= min(quick, seeds):
        return group, ""
    return group, f"{seeds} seeds do not fit into memory together: each step takes them {group} at a time"


def _even(seeds: int, most: int) -> int:
    """The size of groups of at most `most` seeds that are as equal as can be."""
    groups = -(-seeds // most)
    return -(-seeds // groups)
