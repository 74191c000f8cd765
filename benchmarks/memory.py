"""Memory and time of the two largest jobs, each in a process of its own, so that only its memory counts.

    python benchmarks/memory.py    # a few minutes

Ten million training examples, drawn and written as Parquet; and a step of 25 full-size NDRs on the CPU.
"""

import resource
import subprocess
import sys
import tempfile
import time


def draw(folder: str) -> None:
    """Ten million examples with up to ten of 64 functions, and again as files."""
    from ctlpp.benchmark.dataset import generate

    dataset = generate("A", protocol="text", functions=64, max_length=10, train=10_000_000)
    print_use("drawn")
    dataset.save(f"{folder}/data")
    print_use("drawn and written")


def step(folder: str) -> None:
    """The same crowd as `ctlpp train` would make."""
    from ctlpp.bench import Seeds
    from ctlpp.benchmark.dataset import generate

    seeds = Seeds("ndr", "authors", generate("R", protocol="text"), 25)
    stepper, longest = seeds.stepper(), seeds.batches.shapes()[-1]
    print_use("made 25 NDRs")
    stepper.step(0, *longest)
    print_use("trained them for a step")


def print_use(done: str) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{done}: {time.perf_counter() - BEGAN:.1f} s, peak {peak:.2f} GiB", flush=True)


BEGAN = time.perf_counter()
if __name__ == "__main__":
    if len(sys.argv) == 3:
        {"draw": draw, "step": step}[sys.argv[1]](sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as place:
            for job in ("draw", "step"):
                subprocess.run([sys.executable, __file__, job, place], check=True)
