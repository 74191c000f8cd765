"""From which size on several threads are worth it: training steps of the zoo with one thread and with all.

`ctlpp.training.engine.threads_for` takes all threads where the mean tensor that a step keeps has 512 KiB or
more. Run it on an idle machine, and beside another program that computes:

    python benchmarks/threads_by_size.py
"""

from statistics import median

import torch

from ctlpp.bench import Seeds, time_steps
from ctlpp.benchmark.dataset import generate
from ctlpp.training.engine import activations, threads_for

SMALL = {"symbols": 4, "functions": 8, "max_length": 4, "train": 1_000, "iid": 50, "ood": 50}
CASES = [  # preset, data, seeds, steps in a block
    ("quick", SMALL, 1, 20),
    ("quick", SMALL, 8, 10),
    ("quick", SMALL, 25, 4),
    ("authors", {}, 1, 1),
]


def main() -> None:
    most = torch.get_num_threads()
    print(f"model        preset   seeds    KiB taken  1 thread {most:>4} threads  times    (steps a second)")
    for preset, settings, count, steps in CASES:
        data = generate("R", protocol="clean", **settings)
        for model in ("gru", "lstm", "transformer", "ndr"):
            seeds = Seeds(model, preset, data, count)
            stepper, batches = seeds.stepper(), seeds.batches
            longest = batches.shapes()[-1]
            sizes = activations(stepper, longest)
            spans: dict[int, list[float]] = {1: [], most: []}
            for first in range(0, 5 * steps, steps):
                block = range(first, first + steps)
                for threads, spent in spans.items():
                    spent.append(time_steps(stepper, batches, block, threads=threads) / steps)
            one, all_ = (median(spans[threads]) for threads in (1, most))
            size = stepper.group * sum(sizes) / len(sizes) / 1024
            taken = threads_for(stepper, longest)
            speeds = f"{1 / one:9.2f} {1 / all_:12.2f} {one / all_:6.2f}"
            print(f"{model:12} {preset:8} {count:5} {size:6.0f} {taken:5} {speeds}", flush=True)


if __name__ == "__main__":
    main()
