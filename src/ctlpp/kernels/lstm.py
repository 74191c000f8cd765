"""Loss and gradient of a crowd of bi-directional LSTMs, written out: products by cuBLAS, the rest in a few kernels.

It computes what `vmap` and autograd make of `ctlpp.models.lstm.BiLSTM`. Both directions of all seeds are one batch of
2S: every array of activations is (2S, T, B, …) in the order of reading, see `ctlpp.kernels.cell`. The gradients of the
gates take the gates' place, and each weight's gradient is one product over the rows of all steps.

Shapes: S seeds, B batch, T tokens, V vocabulary, E embedding width, D units a direction.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor, nn

from ctlpp.kernels import cell
from ctlpp.kernels.classifier import read_out
from ctlpp.kernels.dropout import Dropout
from ctlpp.kernels.products import blocks, of_transposed
from ctlpp.models.lstm import BiLSTM

Views = dict[str, Tensor]  # parameters or their gradients by name, (S, …) each, float32

EMBED = {"ROWS": 8, "num_warps": 2}
UNEMBED = {"LOOP": 16, "ROWS": 32, "num_warps": 4}
UNEMBED_COLUMNS = 128  # at most, that a program works on
CELL = {"ROWS": 4, "num_warps": 1}
UNCELL = {"LOOP": 4, "ROWS": 4, "num_warps": 1}


def supports(model: nn.Module) -> bool:
    """Whether the fast path computes this very model: no subclass, and widths that kernels can cut."""
    if type(model) is not BiLSTM:
        return False
    widths = model.embed.embedding_dim, model.cell.width
    return all(n >= 16 and n & (n - 1) == 0 for n in widths) and model.dropout.p < 1


def rows_of(x: Tensor) -> Tensor:
    """All steps' rows together. (2S, T, B, W) -> (2S, T · B, W)"""
    return x.flatten(1, 2)


class Pass:
    """One forward and backward over a batch."""

    def __init__(self, model: BiLSTM, w: Views, keys: Tensor, tokens: Tensor, dtype: torch.dtype) -> None:
        self.w, self.keys, self.tokens, self.dtype = w, keys, tokens, dtype
        self.S, (self.B, self.T) = len(keys), tokens.shape[-2:]
        self.E, self.D, self.V = model.embed.embedding_dim, model.cell.width, model.embed.num_embeddings
        self.p_step, self.drop = w["classify.bias"].stride(0), Dropout(keys, 0, model.dropout.p)
        self.W, self.U = (
            w[f"cell.{name}"].to(dtype).flatten(0, 1) for name in "WU"
        )  # (2S, E, 4D), (2S, D, 4D)
        self.x, self.h, self.c, self.gates = map(self.room, (self.E, self.D, self.D, 4 * self.D))
        self.last = torch.empty(self.S, self.B, 2 * self.D, dtype=dtype, device=keys.device)

    def room(self, width: int, dtype: torch.dtype | None = None) -> Tensor:
        shape = 2 * self.S, self.T, self.B, width
        return torch.empty(shape, dtype=dtype or self.dtype, device=self.keys.device)

    def embed(self) -> None:
        """The input of both directions, and what it adds to the gates."""
        cell.embed_forward[blocks(self.B * self.T, EMBED["ROWS"]), self.S](
            self.tokens,
            self.w["embed.weight"],
            self.x,
            self.keys,
            self.T,
            self.B,
            *self.token_steps(),
            self.p_step,
            self.drop.drop,
            self.drop.factor,
            **EMBED,
            E=self.E,
            DROP=self.drop.some,
        )
        torch.bmm(rows_of(self.x), self.W, out=rows_of(self.gates))

    def recur(self) -> None:
        """All steps of both directions, a product and a kernel each; leaves the last states in `last`."""
        self.c = self.room(self.D, torch.float32)  # it goes from step to step through memory
        self.h[:, 0] = 0
        side, end = self.T * self.B * self.D, (self.last, 2 * self.B * self.D, self.D, 2 * self.D)
        for t in range(self.T):
            if t > 0:
                self.gates[:, t].baddbmm_(self.h[:, t], self.U)
            new = end if t == self.T - 1 else (self.h[:, t + 1], 2 * side, side, self.D)
            cell.cell_forward[blocks(self.B, CELL["ROWS"]), 2 * self.S](
                self.gates,
                self.w["cell.b_in"],
                self.w["cell.b_rec"],
                self.c,
                new[0],
                t,
                self.T,
                self.B,
                self.p_step,
                *new[1:],
                **CELL,
                D=self.D,
            )

    def unrecur(self, dlast: Tensor) -> Tensor:
        """From the gradient of the last states, (S, B, 2D), to the gates'; returns parts of the bias', (2S, …, 4D)."""
        n = blocks(self.B, UNCELL["ROWS"] * UNCELL["LOOP"])
        part = torch.empty(2 * self.S, self.T, n, 4 * self.D, device=dlast.device)
        dc = torch.empty(2 * self.S, self.B, self.D, device=dlast.device)
        dh, side = torch.empty_like(dc, dtype=self.dtype), self.B * self.D
        for t in reversed(range(self.T)):
            end = t == self.T - 1
            steps = (2 * side, self.D, 2 * self.D) if end else (2 * side, side, self.D)
            cell.cell_backward[n, 2 * self.S](
                self.gates,
                self.c,
                dlast if end else dh,
                dc,
                part,
                t,
                self.T,
                self.B,
                *steps,
                **UNCELL,
                D=self.D,
            )
            if t > 0:
                torch.bmm(self.gates[:, t], self.U.mT, out=dh)
        return rows_of(part)

    def put_gradients(self, g: Views, bias_part: Tensor) -> None:
        """From the gradients of the gates to those of the weights."""
        dgates = rows_of(self.gates)
        for name, rows in (("cell.W", self.x), ("cell.U", self.h)):
            g[name].copy_(of_transposed(rows_of(rows), dgates).view(g[name].shape))
        torch.sum(bias_part.view(self.S, 2, 1, -1, 4 * self.D), dim=3, out=g["cell.b_in"])
        g["cell.b_rec"].copy_(g["cell.b_in"])
        dx = torch.bmm(dgates, self.W.mT, out=rows_of(self.x))
        columns = min(self.E, UNEMBED_COLUMNS)
        n = blocks(self.B * self.T, UNEMBED["ROWS"] * UNEMBED["LOOP"])
        part = torch.empty(self.S, n, self.V, self.E, device=dx.device)
        cell.embed_backward[n, self.E // columns, self.S](
            dx,
            self.tokens,
            part,
            self.keys,
            self.T,
            self.B,
            self.V,
            *self.token_steps(),
            self.drop.drop,
            self.drop.factor,
            **UNEMBED,
            VP=max(16, triton.next_power_of_2(self.V)),
            E=self.E,
            BE=columns,
            DROP=self.drop.some,
        )
        torch.sum(part, dim=1, out=g["embed.weight"])

    def token_steps(self) -> tuple[int, int, int]:
        """From one seed's tokens to the next, from one example to the next, from one token to the next."""
        own = self.tokens.stride(0) if self.tokens.ndim == 3 else 0
        return own, self.tokens.stride(-2), self.tokens.stride(-1)


def gradient(
    model: BiLSTM, w: Views, g: Views, keys: Tensor, tokens: Tensor, targets: Tensor, dtype: torch.dtype
) -> Tensor:
    """Losses (S,) of a crowd of Bi-LSTMs on a batch; their gradients go to `g`. tokens: (B, T) or (S, B, T)."""
    run = Pass(model, w, keys, tokens, dtype)
    run.embed()
    run.recur()
    losses, dlast = read_out(run.last, w, g, targets)
    run.put_gradients(g, run.unrecur(dlast))
    return losses
