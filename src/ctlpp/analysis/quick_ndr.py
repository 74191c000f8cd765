"""One seed of the NDR, evaluated on a CPU with less work than the module takes.

Arithmetic is what the analysis of a full-size NDR waits for, so none is done in vain. What the first layer reads from
its input is looked up by token; of the last layer only the column under the classifier is computed; scales are
multiplied into the weights beforehand, and products of the same columns are one. The equations are those of
`ctlpp.models.ndr`.

Answers are first *sketched*: in the last layers columns rest, and products are of bytes where the CPU has such. Those
that are not sure (see `sure`) are *drafted*, with products of bfloat16 where the CPU has such, and those that are not
sure even then are computed in full.

Shapes: B batch, T columns, R columns that are updated, D width, H heads, K = D / H, C classes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from ctlpp.analysis.products import Bytes, Floats, Watched, multiplies_bfloat16, multiplies_bytes
from ctlpp.analysis.sure import Sure
from ctlpp.models.ndr import NDR, View, look
from ctlpp.training.crowd import Crowd

Products = Floats | Watched | Bytes
WORTH = 1 / 3  # of its rows that may need more than a sketch: if there are more, it is not worth its time
WANE = (
    0.75  # of what changed in a column in one layer, so much changes in the next: about so where columns rest
)


@lru_cache(maxsize=8)
def _view(length: int, columns: int) -> View:
    """What the first columns see; `near` as one matrix for all of them. (R · T, R · T), (R, T), (R, T)"""
    near, right, itself = (part[:columns] for part in look(length))
    return View(torch.block_diag(*near.mT), right, itself)  # type: ignore[no-untyped-call]


def _attention(match: Tensor, view: View) -> Tensor:
    """A of some columns: `geometric_attention` in place. (…, R, T) -> (…, R, T)"""
    flat = match.masked_fill_(view.itself, -torch.inf).view(-1, view.itself.numel())
    return torch.addmm(flat, F.logsigmoid(-flat), view.near).exp_().view(match.shape)


def quick_ndr(crowd: Crowd) -> QuickNDR | None:
    """The quick way of a crowd, if it is one full-precision seed of the NDR on a CPU."""
    module, alone = crowd.module, len(crowd.seeds) == 1 and len(crowd.slices) > 0
    if (
        type(module) is not NDR
        or not alone
        or crowd.weights.dtype != torch.float32
        or crowd.device.type != "cpu"
    ):
        return None
    weights = {name: value[0] for name, value in crowd.state().items()}
    heads, depth = module.layer.attend.heads, module.test_depth
    draft = QuickNDR(weights, heads, depth, dtype=torch.bfloat16) if multiplies_bfloat16() else None
    return QuickNDR(weights, heads, depth, draft)


class QuickNDR:
    """From tokens to a state, and from a state to logits and answers. dtype: of what large products multiply."""

    def __init__(
        self,
        weights: dict[str, Tensor],
        heads: int,
        depth: int,
        draft: QuickNDR | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.draft = draft
        self.sure: dict[
            tuple[int, bool], tuple[Sure, Sure]
        ] = {}  # by level, and whether states are drafts as well
        own = {name.removeprefix("layer."): value for name, value in weights.items()}
        self.embed, self.heads, self.depth = own["embed.weight"], heads, depth
        self.width = self.embed.shape[1]
        q, k, v = own["attend.qkv.weight"].chunk(3)
        q_bias, k_bias, v_bias = own["attend.qkv.bias"].chunk(3)
        scale, turn = own["attend.scale"], own["attend.direction_scale"]
        direction, offset = own["attend.direction.weight"] * turn, own["attend.direction.bias"] * turn
        shift = own[
            "ffn_data.down.bias"
        ]  # added to a, and taken off again where a is read: the sum u needs it anyway
        own["norm_a.bias"] = own["norm_a.bias"] + shift
        for up in ("ffn_data.up", "ffn_gate.up"):
            own[f"{up}.bias"] = own[f"{up}.bias"] - own[f"{up}.weight"] @ shift
        own["read.weight"] = torch.cat([q * scale, k, v, direction])  # (3D + 2H, D)
        own["read.bias"] = torch.cat([q_bias * scale, k_bias, v_bias, offset + own["attend.bias"]])
        self.own = {name: value.T.contiguous() if value.ndim == 2 else value for name, value in own.items()}
        self.floats = Floats(self.own, dtype)
        self.rough: Floats | Bytes | None = None  # for sketches: known when the first is made
        self.by_token = self.floats.linear(
            "read", self.floats.ready("read", self.embed)
        ).float()  # (tokens, 3D + 2H)

    @torch.inference_mode()
    def state(self, tokens: Tensor, level: int) -> Tensor:
        """The state after a layer. (B, T - 1) -> (B, T, D)"""
        tokens = F.pad(tokens, (1, 0), value=len(self.embed) - 1)
        h = self.layer(F.embedding(tokens, self.embed), F.embedding(tokens, self.by_token), self.floats)
        for _ in range(level):
            h = self.step(h)
        return h

    @torch.inference_mode()
    def logits_from(self, h: Tensor, level: int, by: Products | None = None) -> Tensor:
        """Logits from the state after a layer. (B, T, D) -> (B, C)"""
        for n in range(level + 1, self.depth):
            h = self.step(h, h.shape[1] if n < self.depth - 1 else 1, by)
        return self.classify(h)

    @torch.inference_mode()
    def answers_from(
        self, h: Tensor, level: int, full_state: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Classes from the state after a layer, as roughly as is sure. (B, T, D) -> (B,)

        full_state: the states of some rows with all their digits, if those in `h` are drafts.
        """
        finer = Sure()
        of_draft, of_sketch = self.sure.setdefault((level, full_state is not None), (finer, Sure(finer)))
        states, rough = full_state or h.__getitem__, self.draft or self

        def drafted(rows: Tensor) -> Tensor:
            if self.draft is None:
                return self.logits_from(states(rows), level)
            draft = self.draft.logits_from(h[rows], level)
            return of_draft.logits(draft, lambda some: self.logits_from(states(rows[some]), level))

        if of_sketch.pays(WORTH):
            return of_sketch.logits(rough.sketch(h, level), drafted).argmax(-1)
        return drafted(torch.arange(len(h))).argmax(-1)

    @torch.inference_mode()
    def sketch(self, h: Tensor, level: int) -> Tensor:
        """Logits from the state after a layer, roughly. (B, T, D) -> (B, C)

        In the last layers columns rest, the farther from the first the earlier. What others see of a column that rests
        goes on as it did, by less in every layer.
        """
        if level == self.depth - 1 or len(h) == 0:
            return self.classify(h)
        columns, self.rough = h.shape[1], self.rough or self.watch(h, level)
        before, seen = self.by_token.new_empty(2, *h.shape[:2], self.by_token.shape[1])
        for n in range(level + 1, self.depth):
            before[:, h.shape[1] :].lerp_(seen[:, h.shape[1] :], 1 + WANE)
            before[:, : h.shape[1]] = self.read(h)
            before, seen = seen, before
            moving = columns if level + 1 == n < self.depth - 1 else max(1, self.depth - 1 - n)
            h = self.layer(h[:, :moving], seen, self.rough)
        return self.classify(h)

    def watch(self, h: Tensor, level: int) -> Floats | Bytes:
        """Products of bytes for states like these, or of the model's own type if the CPU has none of bytes."""
        if not multiplies_bytes():
            return self.floats
        watched = Watched(self.floats)
        self.logits_from(h, level, watched)
        return watched.bytes(self.own) or self.floats

    def classify(self, h: Tensor) -> Tensor:
        """Logits of a state. (B, T, D) -> (B, C)"""
        return torch.addmm(self.own["classify.bias"], h[:, 0], self.own["classify.weight"])

    def read(self, h: Tensor) -> Tensor:
        """Queries, keys, values and directions of columns. (B, R, D) -> (B, R, 3D + 2H)"""
        return self.floats.linear("read", self.floats.ready("read", h.flatten(0, 1))).view(*h.shape[:2], -1)

    def step(self, h: Tensor, columns: int | None = None, by: Products | None = None) -> Tensor:
        """One layer, of all columns or the first ones. (B, T, D) -> (B, R, D)"""
        return self.layer(h[:, :columns], self.read(h).float(), by or self.floats)

    def layer(self, h: Tensor, seen: Tensor, by: Products) -> Tensor:
        """One layer, of the first columns, given what is read of all. (B, R, D), (B, T, 3D + 2H) -> (B, R, D)"""
        (B, T), R = seen.shape[:2], h.shape[1]
        view, prefer = (
            _view(T, R),
            seen[:, :R, 3 * self.width :].view(B, R, 2, self.heads, 1).permute(2, 3, 0, 1, 4),
        )
        q, k, v = (
            seen[..., : 3 * self.width].view(B, T, 3, self.heads, -1).permute(2, 3, 0, 1, 4)
        )  # (H, B, T, K) each
        match = torch.where(view.right, *prefer, out=seen.new_empty(self.heads, B, R, T))
        for of_head, own, others in zip(
            match, q[:, :, :R], k.mT, strict=True
        ):  # all heads at once would copy them
            of_head.baddbmm_(own, others)
        A = _attention(match, view)
        return self.update(
            h, torch.cat([of_head @ own for of_head, own in zip(A, v, strict=True)], dim=-1), by
        )

    def update(self, h: Tensor, read: Tensor, by: Products) -> Tensor:
        """The new state of some columns from what they have read. (B, R, D), (B, R, D) -> (B, R, D)"""
        old = h.flatten(0, 1)  # (B · R, D)
        a = self.norm("norm_a", by.onto(old, "attend.out", by.ready("attend.out", read.flatten(0, 1))))
        low = by.ready("ffn_data.up", a)
        u = self.norm("norm_u", by.onto(a, "ffn_data.down", by.hidden("ffn_data", low)))
        gate = by.linear("ffn_gate.down", by.hidden("ffn_gate", low)).float().sigmoid_()
        return torch.lerp(old, u, gate, out=u).view(h.shape)

    def norm(self, name: str, x: Tensor) -> Tensor:
        """Layer norm of rows."""
        return F.layer_norm(x, x.shape[1:], self.own[f"{name}.weight"], self.own[f"{name}.bias"])
