"""Recurrent models that carry a distribution over a few codes: structured upper bounds, not competitors.

They read from the last token to the first, the order of application, and carry nothing else from one token to
the next. There is a code for each class (`codes`: more of them). A symbol overwrites the state with its own
code, the end mark leaves it alone, and the share of a class's code is its share of the answer: the vocabulary
is taken to be that of a task, the functions, the symbols and the end.

- `SymRNN`: a small net proposes the next distribution from the function and the present one.
- `PermRNN`: a function can do nothing but move codes: state ← M(function) · state. With `bijective`, M is
  doubly stochastic (Sinkhorn) and becomes a permutation where training fits; otherwise each code has a
  distribution over targets of its own. The temperature of M falls from 1 to 1 − `cooling` in the training.

With `hard`, evaluation gives all to the likeliest code, of a step or of a move.

Shapes: B batch, T tokens, V vocabulary, F functions, N codes, D width, C classes.

Example: two rotations of three codes, written by hand
    >>> import torch
    >>> model = PermRNN(vocab_size=6, n_classes=3).eval()
    >>> rotations = torch.stack([torch.eye(3).roll(places, dims=0) for places in (1, 2)])
    >>> _ = model.moves.data.copy_(9 * rotations)
    >>> model(torch.tensor([[0, 2, 5], [1, 3, 5], [0, 4, 5]])).argmax(-1)
    tensor([1, 0, 0])
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ctlpp.models.activations import record

SHARPNESS = 5.0  # of what nets propose: a state that is almost even tells the next step almost nothing
RECALLED = 2.0  # std of the codes' vectors: of smaller ones a net sees hardly more than its token
MISS = 1e-4  # added to every share before its logarithm, so that a wrong answer costs a finite amount


def sinkhorn(scores: Tensor, rounds: int) -> Tensor:
    """Matrices whose rows and columns are normalised in turn, the columns last. (…, N, N) -> (…, N, N)"""
    for _ in range(rounds):
        scores = scores.log_softmax(-1).log_softmax(-2)
    return scores.exp()


def harden(shares: Tensor, dim: int) -> Tensor:
    """All of each distribution along a dimension given to its largest share."""
    return torch.zeros_like(shares).scatter(dim, shares.argmax(dim, keepdim=True), 1.0)


class SymRNN(nn.Module):
    """p ← softmax(net(function, p E)): between steps nothing is known but the distribution p over codes."""

    def __init__(
        self,
        vocab_size: int,
        n_classes: int,
        *,
        width: int = 128,
        hidden: int = 256,
        codes: int | None = None,
        hard: bool = False,
        from_end: bool = True,
    ) -> None:
        super().__init__()
        self.classes, self.codes = n_classes, max(codes or n_classes, n_classes)
        self.functions, self.hard, self.from_end = vocab_size - n_classes - 1, hard, from_end
        self.embed = nn.Embedding(vocab_size, width)
        self.recall = nn.Linear(self.codes, width, bias=False)  # the codes' vectors
        nn.init.normal_(self.recall.weight, std=RECALLED)
        self.up, self.down = nn.Linear(2 * width, hidden), nn.Linear(hidden, self.codes)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
        tokens = tokens.flip(1) if self.from_end else tokens
        kept = F.one_hot((tokens - self.functions).clamp(0, self.codes), self.codes + 1)[..., : self.codes]
        by_token, by_code = self.up.weight.chunk(2, dim=1)  # (H, D): what a vector adds to the hidden units
        table = F.linear(self.embed.weight, by_token, self.up.bias)
        x, held = F.embedding(tokens, table), (by_code @ self.recall.weight).T  # (B, T, H), (N, H)
        state = x.new_full((len(x), self.codes), 1 / self.codes)  # (B, N)
        for n in range(x.shape[1]):
            token = tokens[:, n, None]
            proposed = (SHARPNESS * self.down(F.gelu(x[:, n] + state @ held))).softmax(-1)
            proposed = harden(proposed, -1) if self.hard and not self.training else proposed
            other = torch.where(token == self.functions + self.classes, state, kept[:, n].to(x.dtype))
            state = record("state", torch.where(token < self.functions, proposed, other))
        return (record("readout", state)[:, : self.classes] + MISS).log()


class PermRNN(nn.Module):
    """state ← M(token) · state: a function moves codes, a symbol overwrites them."""

    def __init__(
        self,
        vocab_size: int,
        n_classes: int,
        *,
        codes: int | None = None,
        bijective: bool = True,
        hard: bool = True,
        cooling: float = 0.9,
        rounds: int = 5,
        from_end: bool = True,
    ) -> None:
        super().__init__()
        N = max(codes or n_classes, n_classes)
        self.others: Tensor
        self.progress: Tensor
        self.moves = nn.Parameter(0.1 * torch.randn(vocab_size - n_classes - 1, N, N))  # [f, target, source]
        overwrite = torch.eye(N)[:n_classes, :, None].expand(-1, -1, N)
        self.register_buffer("others", torch.cat([overwrite, torch.eye(N)[None]]))  # (C + 1, N, N)
        self.register_buffer("progress", torch.zeros(()))
        self.classes, self.bijective, self.hard = n_classes, bijective, hard
        self.cooling, self.rounds, self.from_end = cooling, rounds, from_end

    def matrices(self) -> Tensor:
        """Where each function moves each code: columns are distributions over targets. (F, N, N)"""
        scores = self.moves / (1 - self.cooling * self.progress)
        moves = sinkhorn(scores, self.rounds) if self.bijective else scores.softmax(-2)
        return harden(moves, -2) if self.hard and not self.training else moves

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, C)
        M = torch.cat([self.matrices(), self.others])  # (V, N, N)
        state = torch.ones_like(tokens[:, :1]) * M.new_full((M.shape[-1],), 1 / M.shape[-1])  # (B, N)
        for token in (tokens.flip(1) if self.from_end else tokens).unbind(1):
            state = record("state", (M[token] * state[:, None]).sum(-1))
        return (record("readout", state)[:, : self.classes] + MISS).log()
