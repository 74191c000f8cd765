"""The dataset card: what is in the folder, for people and for Hugging Face's `datasets`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ctlpp.benchmark.graph import Graph
from ctlpp.benchmark.task import Task

SPLITS = {
    "train": "training examples",
    "iid": "test examples from the training graph",
    "ood": "test examples from the OOD graph: known functions in patterns never seen in training",
    "ood_independent": "as ood, but drawn anew: independent of the training sequences",
    "singles": "every function on every symbol",
    "pairs": "every pair of functions on every symbol",
    "any": "unrestricted compositions that are in neither train nor iid",
    "shared_path": "only pairs of a stage-1 function and a shared one, on symbols seen in training",
    "unseen_symbols": "only pairs of a stage-1 function and a shared one, on symbols that training excludes",
}
SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "1B<n<10B")

CARD = """\
---
pretty_name: "CTL++ {variant} ({task.protocol}, seed {task.seed})"
license: mit
language_creators:
- machine-generated
size_categories:
- {size}
tags:
- compositional-generalization
- systematic-generalization
- synthetic
configs:
- config_name: default
  data_files:
{files}
---
# CTL++, variant {variant}

Compositions of {task.n_functions} known functions over {task.n_symbols} symbols, written {task.order}.
A model reads `input` and predicts `output`; `length` is the number of functions, `allowed` says whether the
training graph allows every succession in the row. `task.json` defines the task completely; `ctlpp check`
proves this folder from it.

| split | examples | of these in train | lengths | what |
| --- | ---: | ---: | --- | --- |
{splits}

Protocol `{task.protocol}`, seed {task.seed}, {settings}.

## Sampling graphs
| | edges |
| --- | --- |
| training | {train_edges} |
| OOD | {ood_edges} |

| group | functions |
| --- | --- |
{groups}

Benchmark: Csordás, Irie, Schmidhuber, *CTL++: Evaluating Generalization on Never-Seen Compositional Patterns
of Known Functions, and Compatibility of Neural Representations*, EMNLP 2022.
"""


def dataset_card(task: Task, settings: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The README.md of a dataset folder."""
    total = sum(entry["examples"] for entry in entries.values())
    files = [f'  - split: {name}\n    path: "{entry["file"]}"' for name, entry in entries.items()]
    splits = []
    for name, entry in entries.items():
        cells = f"{entry['examples']:,} | {entry.get('in_train', '')} | {span(entry['by_length'])}"
        splits.append(f"| `{name}` | {cells} | {SPLITS[name]} |")
    return CARD.format(
        task=task,
        variant="".join(
            c for c in task.variant if c.isalnum() or c in " .-_"
        ),  # the rest would mean something
        size=SIZES[max(0, len(str(total)) - 3)],
        files="\n".join(files),
        splits="\n".join(splits),
        settings=", ".join(f"{name} {value}" for name, value in settings.items()),
        train_edges=_edges(task.train_graph),
        ood_edges=_edges(task.ood_graph),
        groups="\n".join(f"| {group} | {' '.join(names)} |" for group, names in task.groups.items()),
    )


def files_in_card(card: bytes) -> dict[str, str]:
    """The file of each split that a card's header names."""
    header = card.decode(errors="replace").partition("\n---")[0]
    return dict(re.findall(r'^ *- split: (\S+)\n *path: "?([^"\n]+)"?$', header, flags=re.MULTILINE))


def span(by_length: Iterable[str | int]) -> str:
    """Lengths in few words: `2, 4, 6` or `1 … 6`."""
    lengths = sorted(map(int, by_length))
    return ", ".join(map(str, lengths)) if len(lengths) < 4 else f"{lengths[0]} … {lengths[-1]}"


def _edges(graph: Graph) -> str:
    sources = dict.fromkeys(source for source, _ in graph.edges)
    return "; ".join(f"{source} → {', '.join(graph.after(source))}" for source in sources)
