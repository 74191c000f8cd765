"""Swap: train on states exchanged between examples whose prefixes have, as the model says itself, one value.

After k functions the state of an example is replaced by that of another one of the batch for whose first k
functions the model gives the same answer, for k = 1, 2, …, one after the other. The label stays: if the
answers are right, so is the label, whatever functions made the state. Nothing but the training batch is used.

The model must pass its state through `ctlpp.models.activations.record`, as for `ctlpp analyze`: a recurrent
model, which must read from the last token, its state after every token; a model with columns, those after
every layer; those of the prefix are exchanged after layer k + 1. The data must be written right to left.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ctlpp.files import UserError
from ctlpp.models.activations import editing


def swapped_logits(model: nn.Module, tokens: Tensor) -> Tensor:
    """Logits of one seed for a batch of one length with exchanged states. (B, T) -> (B, C)"""
    T = tokens.shape[1]
    donors = [find_donors(_answers(model, tokens[:, T - k - 2 :])) for k in range(1, T - 2)]
    exchanged = 0

    def exchange(name: str, index: int, value: Tensor) -> Tensor:
        nonlocal exchanged
        columns = name == "state" and value.ndim == 3
        k = index if columns else index - 1
        if name not in ("state", "hidden", "cell") or not 1 <= k <= len(donors):
            return value
        exchanged += 1
        donor = donors[k - 1]
        if columns:
            return torch.cat([value[:, : -k - 2], value[donor, -k - 2 :]], dim=1)
        if value.ndim == 3:  # two directions, the second from the last token
            return torch.stack([value[0], value[1][donor]])
        return value[donor]

    with editing(exchange):
        logits: Tensor = model(tokens)
    if donors and not exchanged:
        raise UserError("swap: the model passes no state through ctlpp.models.activations.record")
    return logits


@torch.no_grad()
def _answers(model: nn.Module, tokens: Tensor) -> Tensor:
    """What the model says when nothing is dropped. (B, T) -> (B,)"""
    training = model.training
    answers: Tensor = model.eval()(tokens).argmax(-1)
    model.train(training)
    return answers


def find_donors(values: Tensor) -> Tensor:
    """For each example another one of the same value, at random; itself where there is none. (B,) -> (B,)

    >>> find_donors(torch.tensor([3, 5, 3, 6, 5])).tolist()
    [2, 4, 0, 3, 1]
    """
    order = (values + torch.rand_like(values, dtype=torch.float32)).argsort()
    ordered, at = values[order], torch.arange(len(values), device=values.device)
    first = (ordered[:, None] > ordered).sum(1)  # of the same value
    after = torch.where(ordered == ordered.roll(-1), at + 1, first)
    return torch.zeros_like(order).scatter(0, order, order[after.remainder(len(values))])
