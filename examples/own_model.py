"""A model of one's own: an ordinary module for one seed, trained over many without knowing of it.

From the command line: ctlpp train own_model:WindowNet R --seeds 5 --preset quick --out runs/window
"""

import torch
from torch import Tensor, nn

import ctlpp


class WindowNet(nn.Module):
    """An MLP that reads two neighbouring tokens at a time and carries a state from right to left."""

    def __init__(self, vocab_size: int, n_classes: int, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        self.cell = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.classify = nn.Linear(width, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
        x = self.embed(tokens)  # (B, T, D)
        state = x[:, -1]
        for t in reversed(range(tokens.shape[1] - 1)):
            state = self.cell(torch.cat([state, x[:, t]], dim=-1))
        logits: Tensor = self.classify(state)
        return logits


def main(steps: int = 800) -> None:
    small = {"symbols": 4, "functions": 8, "max_length": 3, "fill": 0.9, "train": 500, "iid": 50, "ood": 200}
    data = ctlpp.generate("R", protocol="clean", **small)
    recipe = ctlpp.Recipe(
        steps=steps, batch=32, lr=3e-3, warmup=50, schedule="cosine", length_mix="even", eval_every=0
    )
    run = ctlpp.train(WindowNet, data, seeds=range(5), recipe=recipe)
    for row in run.table():
        print(f"seed {row['seed']}: iid {row['iid']:.2f}, ood {row['ood']:.2f}")


if __name__ == "__main__":
    main()
