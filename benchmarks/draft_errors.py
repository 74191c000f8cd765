"""How often are answers of trained NDRs wrong that are sketched or drafted, and how many are then computed better?

    python benchmarks/draft_errors.py       # of two seeds whose weights results/ keeps: half a minute
    python benchmarks/draft_errors.py results/runs/ndr-A-released-repeats/0-24/weights --variant A

All pairs of functions, plain and with the column of the first function taken from another input after the first layer.
On any CPU, though drafts in bfloat16 are fast on some only, and sketches are of bytes only where those are fast.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from ctlpp import generate
from ctlpp.analysis.inputs import Inputs
from ctlpp.analysis.quick_ndr import QuickNDR

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


def tell(what: str, near: Tensor, true: Tensor, asked: int) -> None:
    """How wrong some logits are, and how many rows were then computed in a better way."""
    best, errors = near.topk(2).values, (true - near).aminmax(dim=-1)
    off = near.argmax(-1) != true.argmax(-1)
    lead = max((best[off, 0] - best[off, 1]).tolist(), default=0.0)
    most, unsure = (errors.max - errors.min).max(), asked / len(true)
    print(
        f"  {what}: wrong {off.sum()}, with leads up to {lead:.2f}; largest error {most:.2f}; not sure {unsure:.1%}"
    )


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=KEPT, help="of weights, one file a seed")
    parser.add_argument("--variant", default="R", help="of the task that they have learned")
    told = parser.parse_args()
    inputs = Inputs.of(generate(told.variant, protocol="released", train=20_000).task)
    for file in sorted(told.folder.glob("*.safetensors")):
        weights = safetensors.torch.load_file(file)
        draft = QuickNDR(weights, HEADS, DEPTH, dtype=torch.bfloat16)
        full = QuickNDR(weights, HEADS, DEPTH, draft)
        states = list(batches(full, inputs))
        true = torch.cat([full.logits_from(h, 0) for h in states])
        answers = torch.cat([full.answers_from(h, 0) for h in states])
        of_draft, _ = full.sure[0, False]
        print(f"{file.stem}: {len(true):,} answers, wrong {(answers != true.argmax(-1)).sum()}", flush=True)
        tell("sketched", torch.cat([draft.sketch(h, 0) for h in states]), true, of_draft.rows)
        tell("drafted", torch.cat([draft.logits_from(h, 0) for h in states]), true, of_draft.in_full)


if __name__ == "__main__":
    main()
