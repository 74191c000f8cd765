"""One seed of the NDR on a CPU, with less arithmetic than the module takes and the same results.

Arithmetic is what the analysis of a full-size NDR waits for. What the first layer reads from its input is
looked up by token; of the last layer only the column under the classifier is computed; scales are multiplied
into the weights beforehand, and products of the same columns are one. The equations are those of
`ctlpp.models.ndr`.

Shapes: B batch, T columns, R columns that are updated, D width, H heads, K = D / H, C classes.
"""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlpp.models.ndr import NDR, View, look
from ctlpp.training.crowd import Crowd


@lru_cache(maxsize=8)
def _view(length: int, columns: int) -> View:
    """What the first columns see; `near` as one matrix for all of them. (R · T, R · T), (R, T), (R, T)"""
    near, right, itself = (part[:columns] for part in look(length))
    return View(torch.block_diag(*near.mT), right, itself)  # type: ignore[no-untyped-call]


class LeanNDR:
    """From tokens to a state, and from a state to logits."""

    @staticmethod
    def of(crowd: Crowd) -> LeanNDR | None:
        """The lean way of a crowd, if it is one seed of the NDR in float32 on a CPU."""
        plain = crowd.weights.dtype == torch.float32 and crowd.device.type == "cpu" and len(crowd.slices) > 0
        if type(crowd.module) is not NDR or len(crowd.seeds) > 1 or not plain:
            return None
        weights = {name.removeprefix("layer."): value[0] for name, value in crowd.state().items()}
        return LeanNDR(weights, crowd.module.layer.attend.heads, crowd.module.test_depth)

    def __init__(self, own: dict[str, Tensor], heads: int, depth: int) -> None:
        self.embed, self.heads, self.depth = own["embed.weight"], heads, depth
        self.width = self.embed.shape[1]
        q, k, v = own["attend.qkv.weight"].chunk(3)
        q_bias, k_bias, v_bias = own["attend.qkv.bias"].chunk(3)
        scale, turn = own["attend.scale"], own["attend.direction_scale"]
        direction, offset = own["attend.direction.weight"] * turn, own["attend.direction.bias"] * turn
        own["read.weight"] = torch.cat([q * scale, k, v, direction])  # (3D + 2H, D)
        own["read.bias"] = torch.cat([q_bias * scale, k_bias, v_bias, offset + own["attend.bias"]])
        self.own = {name: value.T.contiguous() if value.ndim == 2 else value for name, value in own.items()}
        self.by_token = self.linear("read", self.embed)  # (tokens, 3D + 2H)

    @torch.inference_mode()
    def state(self, tokens: Tensor, level: int) -> Tensor:
        """The state after a layer. (B, T - 1) -> (B, T, D)"""
        tokens = F.pad(tokens, (1, 0), value=len(self.embed) - 1)
        h = self.update(F.embedding(tokens, self.embed), F.embedding(tokens, self.by_token))
        for _ in range(level):
            h = self.layer(h, h.shape[1])
        return h

    @torch.inference_mode()
    def logits_from(self, h: Tensor, level: int) -> Tensor:
        """Logits from the state after a layer. (B, T, D) -> (B, C)"""
        for n in range(level + 1, self.depth):
            h = self.layer(h, h.shape[1] if n < self.depth - 1 else 1)
        return self.linear("classify", h[:, 0])

    def layer(self, h: Tensor, columns: int) -> Tensor:
        """One layer, of the first columns. (B, T, D) -> (B, R, D)"""
        seen = self.linear("read", h.flatten(0, 1)).view(*h.shape[:2], -1)
        return self.update(h[:, :columns], seen)

    def update(self, h: Tensor, seen: Tensor) -> Tensor:
        """The first columns updated, given what is read of all. (B, R, D), (B, T, 3D + 2H) -> (B, R, D)"""
        old = h.flatten(0, 1)  # (B · R, D)
        read = self.attend(seen, h.shape[1]).flatten(0, 1)
        a = self.norm("norm_a", torch.addmm(old, read, self.own["attend.out.weight"]))
        hidden = F.gelu(self.linear("ffn_data.up", a))
        proposed = torch.addmm(a, hidden, self.own["ffn_data.down.weight"]).add_(
            self.own["ffn_data.down.bias"]
        )
        gate = self.linear("ffn_gate.down", F.gelu(self.linear("ffn_gate.up", a))).sigmoid_()
        return torch.lerp(old, self.norm("norm_u", proposed), gate).view(h.shape)

    def attend(self, seen: Tensor, columns: int) -> Tensor:
        """What the first columns read by geometric attention. (B, T, 3D + 2H) -> (B, R, D)"""
        (B, T), R, view = seen.shape[:2], columns, _view(seen.shape[1], columns)
        q, k, v = (
            seen[..., : 3 * self.width].view(B, T, 3, self.heads, -1).permute(2, 3, 0, 1, 4)
        )  # (H, B, T, K)
        prefer = seen[:, :R, 3 * self.width :].view(B, R, 2, self.heads, 1).permute(2, 3, 0, 1, 4)
        match = torch.where(view.right, *prefer, out=seen.new_empty(self.heads, B, R, T))
        for head in range(self.heads):  # all at once would copy the queries and keys
            match[head].baddbmm_(q[head, :, :R], k[head].mT)
        flat = match.masked_fill_(view.itself, -torch.inf).view(-1, R * T)
        A = torch.addmm(flat, F.logsigmoid(-flat), view.near).exp_().view(match.shape)
        return torch.cat([A[head] @ v[head] for head in range(self.heads)], dim=-1)

    def linear(self, name: str, rows: Tensor) -> Tensor:
        """A linear map of rows. (N, I) -> (N, O)"""
        return torch.addmm(self.own[f"{name}.bias"], rows, self.own[f"{name}.weight"])

    def norm(self, name: str, rows: Tensor) -> Tensor:
        """Layer norm of rows."""
        return F.layer_norm(rows, rows.shape[1:], self.own[f"{name}.weight"], self.own[f"{name}.bias"])
