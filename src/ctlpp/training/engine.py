"""What this machine can do with a model, found by trying it before training."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from torch import Tensor

from ctlpp.files import UserError
from ctlpp.kernels import fast
from ctlpp.models.zoo import error_line
from ctlpp.training.step import Stepper

_CPU_TENSOR = 8 << 20  # bytes: larger tensors leave the caches, and one seed at a time is then the fastest
_CPU_SHARED = 512 << 10  # bytes of a mean tensor: several threads share the work on larger ones
_ON_MPS = (
    "mps is not tested: it has no float64, so accuracies and losses are summed in float32; with the variable"
    " PYTORCH_ENABLE_MPS_FALLBACK=1 operations that it lacks run on the CPU"
)

Batch = tuple[Tensor, Tensor]  # tokens (B, T), targets (B,); or with a seed axis in front


def prepare(stepper: Stepper, shapes: Sequence[Batch], memory: int | None = None) -> list[str]:
    """Try the model, and decide how many seeds go through a step at a time; returns notes for the user.

    shapes: a batch of every length, the longest last. memory: bytes that activations may take.
    """
    crowd, notes = stepper.crowd, []
    if crowd.kernels:
        precompile_steps(stepper, shapes)
        if failure := try_kernels(stepper, shapes[-1]):
            notes.append(f"the fast kernels fail on this machine ({failure}): training goes on without them")
    if crowd.device.type == "mps":
        notes.append(_ON_MPS)
    reason = probe(stepper, shapes[-1])
    crowd.vectorised = not reason
    if reason:
        name = type(crowd.module).__name__
        notes.append(f"{name} cannot be vectorised ({reason}): its seeds train one after the other")
    budget = memory_budget(crowd.device) if memory is None else memory
    group, note = seeds_at_a_time(stepper, shapes[-1], budget)
    stepper.regroup(group)
    return notes + [note] * bool(note)


def probe(stepper: Stepper, batch: Batch) -> str:
    """Try a training step; gives the reason why the module cannot be vectorised, or "" if it can.

    Finds out which buffers training changes, and makes them each seed's own.
    """
    crowd, one = stepper.crowd, stepper.trial(slice(0, 1))
    before = {name: buffer.clone() for name, buffer in crowd.module.named_buffers()}
    generators = _generator_states()
    try:
        one.gradient(slice(0, 1), *batch)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise UserError(f"the model failed in a training step: {error_line(error)}") from error
    if any(not torch.equal(old, new) for old, new in zip(generators, _generator_states(), strict=True)):
        raise UserError(
            "the model draws from the global random generator in forward, so its seeds could not be repeated:"
            " use F.dropout, torch.rand_like, torch.randn_like or torch.bernoulli"
        )
    for name, buffer in one.crowd.module.named_buffers():
        if name not in crowd.seed_buffers and not torch.equal(buffer, before[name]):
            crowd.seed_buffers[name] = before[name].expand(len(crowd.seeds), *buffer.shape).clone()
    return _reason_against_vectorising(stepper, batch) if len(crowd.seeds) > 1 else ""


def _generator_states() -> list[Tensor]:
    cuda = [torch.cuda.get_rng_state()] if torch.cuda.is_available() else []
    return [torch.get_rng_state(), *cuda]


def _reason_against_vectorising(stepper: Stepper, batch: Batch) -> str:
    """Why two seeds cannot run as one computation, in one line; "" if they can."""
    pair = stepper.trial(slice(0, 2))
    try:
        with torch.random.fork_rng(devices=[]):
            pair.gradient(slice(0, 2), *_two_examples(batch))
    except torch.OutOfMemoryError:
        return ""  # a matter of memory, for `seeds_at_a_time`
    except Exception as error:  # PyTorch goes on with advice to those who develop it
        return re.split(r"(?<=\w[.]) (?=[A-Z])", error_line(error))[0]
    return ""


def _two_examples(batch: Batch) -> Batch:
    tokens, targets = batch
    return tokens[..., :2, :], targets[..., :2]


def try_kernels(stepper: Stepper, batch: Batch) -> str:
    """Try the fast path of a step, if there is one; gives the reason why it is left alone, if it fails."""
    crowd = stepper.crowd
    try:
        stepper.trial(slice(0, 1)).step(0, *batch)
        if fast.find(crowd.module, crowd.device, batch[0].shape[-1]) is not None:
            with suppress(torch.OutOfMemoryError):  # a matter for `seeds_at_a_time`
                stepper.trial(slice(None)).step(0, *_two_examples(batch))  # may take other kernels than one
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # a compiler or a card that we have not met
        crowd.kernels = False
        return error_line(error)
    return ""


def precompile_steps(stepper: Stepper, shapes: Sequence[Batch]) -> None:
    """Have the kernels of all steps to come compiled at the same time, and those of the trials here."""
    crowd, longest = stepper.crowd, shapes[-1]
    if not stepper.bf16 or fast.find(crowd.module, crowd.device, longest[0].shape[-1]) is None:
        return
    with suppress(Exception), fast.precompile() as possible:  # what fails will be told when it is needed
        if possible:
            few = _two_examples(longest)
            stepper.trial(slice(0, 1)).step(0, *longest)
            stepper.trial(slice(0, 2)).step(0, *few)
            for batch in (few, *shapes):
                stepper.trial(slice(None)).step(0, *batch)


def memory_budget(device: torch.device) -> int:
    """Bytes that activations may take on a device."""
    if device.type == "cuda":
        return int(0.7 * torch.cuda.mem_get_info(device)[0])
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024 // 2
    except (OSError, KeyError, ValueError):
        return 2 << 30


def seeds_at_a_time(stepper: Stepper, batch: Batch, budget: int) -> tuple[int, str]:
    """How many seeds go through a step together, and a line that says so if memory is the reason."""
    crowd, seeds = stepper.crowd, len(stepper.crowd.seeds)
    if not crowd.vectorised:
        return 1, ""
    sizes = activations(stepper, batch)
    fit = max(1, budget // max(1, sum(sizes) * 3 // 2))  # half as much again for gradients on their way
    quickest = max(1, _CPU_TENSOR // max(1, *sizes)) if crowd.device.type == "cpu" else seeds
    groups = -(-seeds // min(fit, quickest, seeds))
    group = -(-seeds // groups)  # as equal as can be
    if fit >= min(quickest, seeds):
        return group, ""
    return group, f"{seeds} seeds do not fit into memory together: each step takes them {group} at a time"


def threads_for(stepper: Stepper, batch: Batch) -> int:
    """How many threads a step on a CPU is worth: one, unless its tensors are large.

    Threads wait for each other after every operation, which for small ones takes longer than the work itself,
    many times so beside other programs. Decided by size and not by the clock, so that the same run always
    gets the same number, and with it the same order of floating-point sums.
    """
    most = torch.get_num_threads()
    if stepper.crowd.device.type != "cpu" or most == 1:
        return most
    sizes = activations(stepper, batch)
    return most if stepper.group * sum(sizes) >= _CPU_SHARED * len(sizes) else 1


@contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """Let PyTorch compute with at most so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, min(threads, before)))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def activations(stepper: Stepper, batch: Batch) -> list[int]:
    """Bytes of the tensors that one seed keeps from forward to backward (on a GPU, their sum), by trying."""
    device, one = stepper.crowd.device, stepper.trial(slice(0, 1))
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        one.gradient(slice(0, 1), *batch)
        return [torch.cuda.max_memory_allocated(device) - before]
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        one.gradient(slice(0, 1), *batch)
    kept.pop(one.crowd.weights.untyped_storage().data_ptr(), None)
    return list(kept.values()) or [0]
