"""Questions as text: prompts for a language model, or for anything else that answers.

A question's id says how it was asked: `ood/17/examples-8-words-200-3f9a1c02` is example 17 of ood, after
8 solved examples, with nonsense words for names, one of 200 about a split with that checksum. So answers can
be scored with the dataset alone, and one that was never given counts as wrong.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> data = generate("R", symbols=3, functions=4, max_length=3, train=20, iid=2, ood=4, protocol="clean")
    >>> question = list_questions(data, "ood", Asking(style="tables"))[0]
    >>> print(Prompter.of(data, Asking(style="tables")).plain(question.text))
    The symbols are 0 1 2. Each function turns every symbol into one symbol:
    a: 0 -> 0, 1 -> 1, 2 -> 2
    b: 0 -> 1, 1 -> 0, 2 -> 2
    c: 0 -> 2, 1 -> 0, 2 -> 1
    d: 0 -> 2, 1 -> 1, 2 -> 0
    A line names some functions and a symbol. Apply the functions from right to left, the one
    beside the symbol first. After the arrow write the resulting symbol, and nothing else.
    <BLANKLINE>
    b c 0 ->
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ctlpp.benchmark.dataset import Dataset, balance
from ctlpp.benchmark.language import Examples
from ctlpp.benchmark.sampling import Stream
from ctlpp.benchmark.task import Task
from ctlpp.files import UserError
from ctlpp.storage.folder import digest, rows

STYLES = ("tables", "examples")  # what a prompt shows: the function tables, or solved examples only
NAMES = ("own", "words", "digits")
MOST = 1_000_000  # shots, or questions
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
_DIGITS = list("0123456789")
_TABLES = """\
The symbols are {symbols}. Each function turns every symbol into one symbol:
{tables}
A line names some functions and a symbol. Apply the functions from {order}, the one
beside the symbol first. After the arrow write the resulting symbol, and nothing else.
"""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How questions are asked; part of every question's id."""

    style: str = "tables"
    shots: int = 0  # solved training examples before the question
    names: str = "own"  # of functions and symbols: the dataset's own, nonsense words, or numbers
    limit: int = 0  # questions per split; 0 for all

    def __post_init__(self) -> None:
        for name, choices in (("style", STYLES), ("names", NAMES)):
            if getattr(self, name) not in choices:
                raise UserError(f"‹{name}› {getattr(self, name)}: choose from {', '.join(choices)}")
        for name in ("shots", "limit"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 0 <= value <= MOST:
                raise UserError(f"‹{name}› {value}: must be a whole number from 0 to {MOST:,}")
        if self.style == "examples" and not self.shots:
            raise UserError("‹shots› 0: the style examples shows nothing else; show at least one")


@dataclass(frozen=True)
class Question:
    """One example as a question."""

    id: str
    length: int
    pair: str  # of an example of two functions: their groups, first one first; else empty
    text: str  # `d a b 3 ->`
    answer: str


def rename(task: Task, names: str) -> dict[str, str]:
    """A new name for every function and symbol, always the same for a task of this size."""
    tokens = task.vocabulary.tokens[:-1]
    if names == "own":
        return dict(zip(tokens, tokens, strict=True))
    parts = _SYLLABLES if names == "words" else _DIGITS
    size = 2
    while len(parts) ** size < 4 * len(tokens):
        size += 1
    drawn = Stream(0, "names", names).distinct_below(len(parts) ** size, len(tokens)).tolist()
    spelt = ["".join(parts[number // len(parts) ** i % len(parts)] for i in range(size)) for number in drawn]
    return dict(zip(tokens, spelt, strict=True))


def list_questions(dataset: Dataset, split: str, asking: Asking) -> list[Question]:
    """The questions about a split: all of it, or `limit` examples that are always the same ones."""
    total = dataset.size(split)
    number = asking.limit if 0 < asking.limit < total else total
    chosen = np.sort(Stream(0, "questions", split).distinct_below(total, number))
    code = f"{asking.style}-{asking.shots}-{asking.names}-{asking.limit}-{checksum(dataset, split)}"
    names, found, before = rename(dataset.task, asking.names), [], 0
    for length, examples in dataset[split].items():
        here = chosen[(chosen >= before) & (chosen < before + len(examples))]
        part = examples[here - before]
        lines = zip(here.tolist(), _pairs(dataset.task, part), _lines(dataset.task, part, names), strict=True)
        found += [Question(f"{split}/{n}/{code}", length, pair, *line) for n, pair, line in lines]
        before += len(examples)
    return found


def checksum(dataset: Dataset, split: str) -> str:
    """Eight letters that tell splits apart."""
    return digest(rows(dataset.task, dataset[split]))[:8]


def _lines(task: Task, examples: Examples, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each example as it is asked, and its answer."""
    tokens = [names[token] for token in task.vocabulary.tokens[:-1]]
    outputs = (examples.outputs(task.table).astype(int) + task.n_functions).tolist()
    for ids, output in zip(task.vocabulary.written(examples, task.order).tolist(), outputs, strict=True):
        yield " ".join(tokens[i] for i in ids) + " ->", tokens[output]


def _pairs(task: Task, examples: Examples) -> list[str]:
    """The groups of the functions of examples of two; else empty."""
    if examples.length != 2:
        return [""] * len(examples)
    group_of, groups = task.language("train").group_of, list(task.groups)
    return [" ".join(groups[group_of[f] - 1] for f in functions) for functions in examples.functions.tolist()]


@dataclass(frozen=True)
class Prompter:
    """What comes before a question: the rules, if they are told, and solved examples."""

    rules: str
    shots: tuple[tuple[str, str], ...]  # question and answer

    @staticmethod
    def of(dataset: Dataset, asking: Asking, seed: int = 0) -> Prompter:
        """seed: decides which training examples are shown, of all lengths equally many where there are."""
        task, names = dataset.task, rename(dataset.task, asking.names)
        rules = _rules(task, names) if asking.style == "tables" else ""
        if asking.shots > dataset.size("train"):
            raise UserError(f"‹shots› {asking.shots}: train has only {dataset.size('train'):,} examples")
        train, stream = dataset["train"], Stream(seed, "shots")
        sizes = balance(asking.shots, {length: len(examples) for length, examples in train.items()})
        shots = [
            line
            for length, size in sizes.items()
            for line in _lines(task, train[length][stream.distinct_below(len(train[length]), size)], names)
        ]
        return Prompter(rules, tuple(shots[i] for i in stream.permutation(len(shots)).tolist()))

    def plain(self, question: str) -> str:
        """The prompt as one text, to be continued with a space and the answer."""
        lines = [f"{asked} {answer}" for asked, answer in self.shots]
        return "\n".join([*([self.rules] if self.rules else []), *lines, question])

    def chat(self, question: str) -> list[dict[str, str]]:
        """The prompt as messages: the rules from the system, solved examples as turns."""
        messages = [{"role": "system", "content": self.rules.strip()}] if self.rules else []
        for asked, answer in self.shots:
            messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
        return [*messages, {"role": "user", "content": question}]


def _rules(task: Task, names: dict[str, str]) -> str:
    symbols = [names[symbol] for symbol in task.symbols]
    tables = (
        f"{names[name]}: "
        + ", ".join(f"{symbol} -> {symbols[to]}" for symbol, to in zip(symbols, outputs, strict=True))
        for name, outputs in task.functions.items()
    )
    order = task.order.replace("-", " ")
    return _TABLES.format(symbols=" ".join(symbols), tables="\n".join(tables), order=order)
