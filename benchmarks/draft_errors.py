"""How often are answers of trained NDRs wrong if they are drafted in bfloat16, and how many are computed in full?

    python benchmarks/draft_errors.py       # a minute on two cores

All pairs of functions of the seeds whose weights results/ keeps, plain and with the column of the first function taken
from another input after the first layer; on any CPU, though drafts are fast on some only.
"""

from pathlib import Path

import safetensors.torch
import torch

from ctlpp import generate
from ctlpp.analysis.inputs import Inputs
from ctlpp.analysis.quick_ndr import QuickNDR
from ctlpp.analysis.sure import Sure

KEPT = Path(__file__).parent.parent / "results" / "runs" / "ndr-R-released-repeats" / "12-24" / "weights"
HEADS, DEPTH = 4, 10
FIRST_FUNCTION = 2  # its column: start, second function, first function, symbol, end


@torch.inference_mode()
def main() -> None:
    inputs = Inputs.of(generate("R", protocol="released", train=20_000).task)
    for file in sorted(KEPT.glob("*.safetensors")):
        weights = safetensors.torch.load_file(file)
        full, draft = (QuickNDR(weights, HEADS, DEPTH, dtype=kind) for kind in (torch.float32, torch.bfloat16))
        draw, sure = torch.Generator().manual_seed(0), Sure()
        answers = drafts = wrong = computed = 0
        lead, error = 0.0, 0.0
        for consumer in range(inputs.n_functions):
            state = full.state(inputs.pairs_with(consumer), 0)
            patched = state.clone()
            patched[:, FIRST_FUNCTION] = state[torch.randperm(len(state), generator=draw), FIRST_FUNCTION]
            for h in (state, patched):
                true, near = full.logits_from(h, 0), draft.logits_from(h, 0)
                asked: list[torch.Tensor] = []

                def in_full(
                    rows: torch.Tensor, true: torch.Tensor = true, asked: list[torch.Tensor] = asked
                ) -> torch.Tensor:
                    asked.append(rows)
                    return true[rows]

                wrong += int((sure.answers(near, in_full) != true.argmax(-1)).sum())
                computed += sum(map(len, asked))
                off, best = near.argmax(-1) != true.argmax(-1), near.topk(2).values
                answers, drafts = answers + len(h), drafts + int(off.sum())
                lead = max([lead, *(best[off, 0] - best[off, 1]).tolist()])
                error = max(error, float((true - near).amax(-1).sub((true - near).amin(-1)).max()))
        print(
            f"{file.stem}: {answers:,} answers; wrong as drafted {drafts}, with leads up to {lead:.2f}; largest error"
            f" {error:.2f}; made sure: wrong {wrong}, computed in full {computed / answers:.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
