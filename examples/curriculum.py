"""A curriculum: short examples first.

A curriculum gives every example its chance, from 0 to 1, to take part in the next round of batches.
On the command line: ctlpp train lstm R --preset quick --set curriculum=curriculum:short_first --out short
"""

import torch
from torch import Tensor

import ctlpp


def short_first(progress: float, length: int, tokens: Tensor) -> Tensor:
    """Pairs from the start, each longer length a tenth of the training later. tokens: (N, T) -> (N,)"""
    return torch.full((len(tokens),), float(progress >= 0.1 * (length - 2)))


def main(steps: int = 600) -> None:
    small = {"symbols": 4, "functions": 8, "max_length": 3, "fill": 0.9, "train": 500, "iid": 50, "ood": 200}
    data = ctlpp.generate("A", protocol="clean", **small)
    recipe = ctlpp.recipe_for("lstm", "quick", steps=steps)
    for curriculum in (None, short_first):
        run = ctlpp.train("lstm", data, seeds=range(4), preset="quick", recipe=recipe, curriculum=curriculum)
        mean = sum(row["ood"] for row in run.table()) / 4
        print(f"{curriculum.__name__ if curriculum else 'everything at once'}: mean OOD accuracy {mean:.2f}")


if __name__ == "__main__":
    main()
