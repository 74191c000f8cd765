"""A model with its own loss and its own schedule; the engine is not touched.

`loss` takes the place of cross-entropy, and a buffer called `progress` is set to the share of the training
that is over: here it anneals the temperature of a discrete state from 2 to 0.2.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ctlpp


class SoftStateRNN(nn.Module):
    """Carries nothing but a softmax over `n_classes` symbols from function to function."""

    progress: Tensor

    def __init__(self, vocab_size: int, n_classes: int, width: int = 32) -> None:
        super().__init__()
        self.embed, self.symbols = nn.Embedding(vocab_size, width), nn.Linear(n_classes, width, bias=False)
        self.cell = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, n_classes))
        self.register_buffer("progress", torch.zeros(()))

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
        x: Tensor = self.embed(tokens)  # (B, T, D)
        state, logits = torch.zeros_like(x[:, 0]), x[:, 0]
        for t in reversed(range(tokens.shape[1] - 1)):  # the last token is the end mark
            logits = self.cell(torch.cat([state, x[:, t]], dim=-1))
            state = self.symbols((logits / (2 * 0.1**self.progress)).softmax(-1))
        return logits

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy with a little smoothing."""
        return F.cross_entropy(logits.float(), targets, label_smoothing=0.02)


def main(steps: int = 800) -> None:
    small = {"symbols": 4, "functions": 8, "max_length": 3, "fill": 0.9, "train": 500, "iid": 50, "ood": 200}
    data = ctlpp.generate("R", protocol="clean", **small)
    recipe = ctlpp.Recipe(
        steps=steps, batch=32, lr=5e-3, warmup=50, schedule="cosine", length_mix="even", eval_every=0
    )
    for row in ctlpp.train(SoftStateRNN, data, seeds=range(5), recipe=recipe).table():
        print(f"seed {row['seed']}: iid {row['iid']:.2f}, ood {row['ood']:.2f}")


if __name__ == "__main__":
    main()
