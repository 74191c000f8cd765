"""The dataset card: what is in the folder, for people and for Hugging Face's `datasets`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ctlpp.benchmark.graph import Graph
from ctlpp.benchmark.sampling import Limit
from ctlpp.benchmark.task import Task

SPLITS = {
    "train": "training examples",
    "iid": "test examples from the training graph",
    "ood": "test examples from the OOD graph: known functions in patterns never seen in training",
    "singles": "every function on every symbol",
    "pairs": "every pair of functions on every symbol; `allowed`: the training graph has the succession",
    "any": "unrestricted compositions that are in neither train nor iid",
    "shared_path": "only pairs of a stage-1 function and a shared one, on symbols seen in training",
    "unseen_symbols": "only pairs of a stage-1 function and a shared one, on symbols that training excludes",
}

CARD = """\
---
pretty_name: "CTL++ {variant} ({protocol}, seed {seed})"
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

Compositions of {n_functions} known functions over {n_symbols} symbols ({order}; protocol `{protocol}`, seed {seed}).
A model reads `input` and predicts `output`; `length` is the number of functions, `allowed` says whether the
training graph allows every succession in the row. `task.json` defines the task completely; `ctlpp check` proves
this folder from it.

| split | examples | lengths | what |
| --- | ---: | --- | --- |
{rows}
{overlap}{sequences}
## Sampling graphs
| | edges |
| --- | --- |
| training | {train_edges} |
| OOD | {ood_edges} |

| group | functions |
| --- | --- |
{groups}

Benchmark: Csordás, Irie, Schmidhuber, *CTL++: Evaluating Generalization on Never-Seen Compositional Patterns of Known
Functions, and Compatibility of Neural Representations*, EMNLP 2022.
"""


def dataset_card(task: Task, recipe: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The README.md of a dataset folder."""
    files = [f'  - split: {name}\n    path: "{entry["file"]}"' for name, entry in entries.items()]
    table = [
        f"| `{name}` | {entry['examples']:,} | {span(entry['by_length'])} | {SPLITS[name]} |"
        for name, entry in entries.items()
    ]
    overlap = [f"{entry['in_train']:,} of `{name}`" for name, entry in entries.items() if "in_train" in entry]
    return CARD.format(
        variant=_plain(task.variant),
        protocol=task.protocol,
        seed=task.seed,
        size=_size(sum(entry["examples"] for entry in entries.values())),
        files="\n".join(files),
        n_functions=task.n_functions,
        n_symbols=task.n_symbols,
        order=task.order,
        rows="\n".join(table),
        overlap=f"\nAlso in `train`: {', '.join(overlap)}.\n" if overlap else "",
        sequences=_sequences(task, recipe["distinct_sequences"]) if "distinct_sequences" in recipe else "",
        train_edges=_edges(task.train_graph),
        ood_edges=_edges(task.ood_graph),
        groups="\n".join(f"| {group} | {' '.join(names)} |" for group, names in task.groups.items()),
    )


def files_in_card(card: bytes) -> dict[str, str]:
    """The file of each split that a card's header names."""
    header = card.decode(errors="replace").partition("\n---")[0]
    return dict(re.findall(r'^ *- split: (\S+)\n *path: "?([^"\n]+)"?$', header, flags=re.MULTILINE))


def _plain(text: str) -> str:
    """Text without characters that mean something in the header."""
    return "".join(c for c in text if c.isalnum() or c in " .-_")


def span(by_length: Iterable[str | int]) -> str:
    """Lengths in few words: `2, 4, 6` or `1 … 6`."""
    lengths = sorted(map(int, by_length))
    return ", ".join(map(str, lengths)) if len(lengths) < 4 else f"{lengths[0]} … {lengths[-1]}"


def _sequences(task: Task, limit: Limit) -> str:
    number = f"{limit:,}" if isinstance(limit, int) else f"{limit} (for n examples)"
    name, complete = ("Pairs", 2) if task.protocol == "released" else ("Single functions", 1)
    exception = (
        f" {name} are the exception: `train` has them all." if complete in task.train_graph.lengths else ""
    )
    return (
        f"\nFunction sequences repeat: of each length, the examples of `train` and `iid` together have at most\n"
        f"{number} different ones, each on several start symbols.{exception}\n"
    )


def _edges(graph: Graph) -> str:
    sources = dict.fromkeys(source for source, _ in graph.edges)
    return "; ".join(f"{source} → {', '.join(graph.after(source))}" for source in sources)


def _size(n: int) -> str:
    for limit, name in (
        (1e3, "n<1K"),
        (1e4, "1K<n<10K"),
        (1e5, "10K<n<100K"),
        (1e6, "100K<n<1M"),
        (1e7, "1M<n<10M"),
    ):
        if n < limit:
            return name
    return "10M<n<100M"
