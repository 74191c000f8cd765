"""Evaluate anything that turns tokens into logits: here a table look-up that was never trained."""

import torch
import torch.nn.functional as F
from torch import Tensor

import ctlpp

data = ctlpp.generate(
    "S",
    symbols=6,
    functions=24,
    max_length=4,
    shared_functions=4,
    shared_symbols=2,
    train=900,
    iid=100,
    ood=100,
)
task = data.task
table = torch.as_tensor(task.table.astype("int64"))  # (F, S): what each function makes of each symbol


def oracle(tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
    """Apply the functions one after the other, from right to left."""
    value = tokens[:, -2] - task.n_functions  # the start symbol stands before the end mark
    for t in reversed(range(tokens.shape[1] - 2)):
        value = table[tokens[:, t], value]
    return F.one_hot(value, task.n_symbols).float()


def first_function_only(tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
    """Forgets all but the first function."""
    return oracle(tokens[:, -3:])


for model in (oracle, first_function_only):
    for split, accuracy in ctlpp.accuracy(model, data).items():
        print(f"{model.__name__} on {split}: {accuracy[0]:.2f}")
