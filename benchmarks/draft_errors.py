"""How often are answers of trained NDRs wrong if they are drafted in bfloat16, and how many are computed in full?

    python benchmarks/draft_errors.py       # half a minute on two cores

All pairs of functions of the seeds whose weights results/ keeps, plain and with the column of the first function taken
from another input after the first layer; on any CPU, though drafts are fast on some only.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from ctlpp import generate
from ctlpp.analysis.inputs import Inputs
from ctlpp.analysis.quick_ndr import QuickNDR
from ctlpp.analysis.sure import Sure

KEPT = Path(__file__).parent.parent / "results" / "runs" / "ndr-R-released-repeats" / "12-24" / "weights"
HEADS, DEPTH = 4, 10
FIRST_FUNCTION = 2  # its column: start, second function, first function, symbol, end


def batches(full: QuickNDR, inputs: Inputs) -> Iterator[Tensor]:
    """States after the first layer, plain and patched, of each second function."""
    draw = torch.Generator().manual_seed(0)
    for consumer in range(inputs.n_functions):
        state = full.state(inputs.pairs_with(np.array([consumer])), 0)
        yield state
        patched = state.clone()
        patched[:, FIRST_FUNCTION] = state[torch.randperm(len(state), generator=draw), FIRST_FUNCTION]
        yield patched


@torch.inference_mode()
def main() -> None:
    inputs = Inputs.of(generate("R", protocol="released", train=20_000).task)
    for file in sorted(KEPT.glob("*.safetensors")):
        weights = safetensors.torch.load_file(file)
        full, draft = (QuickNDR(weights, HEADS, DEPTH, dtype=kind) for kind in (torch.float32, torch.bfloat16))
        both = [(full.logits_from(h, 0), draft.logits_from(h, 0)) for h in batches(full, inputs)]
        sure, asked = Sure(), [0]

        def in_full(logits: Tensor, rows: Tensor, asked: list[int] = asked) -> Tensor:
            asked[0] += len(rows)
            return logits[rows]

        made_sure = torch.cat([sure.answers(near, partial(in_full, true)) for true, near in both])
        true, near = (torch.cat(logits) for logits in zip(*both, strict=True))
        answers, best = true.argmax(-1), near.topk(2).values
        off, errors = near.argmax(-1) != answers, (true - near).aminmax(dim=-1)
        lead = max((best[off, 0] - best[off, 1]).tolist(), default=0.0)
        print(
            f"{file.stem}: {len(true):,} answers; wrong as drafted {off.sum()}, with leads up to {lead:.2f}; largest"
            f" error {(errors.max - errors.min).max():.2f}; made sure: wrong {(made_sure != answers).sum()}, computed"
            f" in full {asked[0] / len(true):.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
