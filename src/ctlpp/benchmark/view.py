"""A split as PyTorch's own kind of dataset, for your own training loops.

Example:
    >>> from torch.utils.data import DataLoader
    >>> from ctlpp.benchmark.dataset import generate
    >>> data = generate("R", symbols=4, functions=8, max_length=3, train=200, iid=20, ood=20, protocol="text")
    >>> train = data.view("train")
    >>> tokens, targets, lengths = next(iter(DataLoader(train, batch_size=200, collate_fn=train.collate)))
    >>> tokens.shape, targets.shape, lengths.unique()
    (torch.Size([200, 5]), torch.Size([200]), tensor([1, 2, 3]))
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import ConcatDataset, TensorDataset


class SplitView(ConcatDataset[tuple[Tensor, ...]]):
    """Item i is an example: its tokens (L + 2,) with the end token, and its result symbol ()."""

    def __init__(self, parts: Iterable[tuple[Tensor, Tensor]], end: int) -> None:
        """parts: tokens (N, L + 2) and result symbols (N,) of each length. end: the token that fills up."""
        super().__init__([TensorDataset(*part) for part in parts])
        self.end = end

    def collate(self, examples: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, Tensor, Tensor]:
        """A batch: tokens (B, T) as wide as its longest example, result symbols (B,), lengths (B,)."""
        tokens, targets = zip(*examples, strict=True)
        lengths = torch.tensor([len(own) - 2 for own in tokens])
        return pad_sequence(list(tokens), True, self.end), torch.stack(targets), lengths
