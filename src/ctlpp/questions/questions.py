"""Questions as text, for a language model or anything else that answers, and a folder of them.

A question's id says how it was asked: `ood/17/examples-8-words-200-3f9a1c02` is example 17 of ood, after
8 solved examples, with nonsense words for names, one of 200 about a split with that checksum. So answers can
be scored with the dataset alone, and one that was never given counts as wrong.

A folder has the questions in the format that the system to be asked takes: `plain` and `chat` write
`questions.jsonl`, lines with an id and a prompt or messages; `lm-eval` writes a task for that harness.
`finetune.jsonl` has training examples as prompt and completion.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> data = generate("R", symbols=3, functions=4, max_length=3, train=20, iid=2, ood=4, protocol="clean")
    >>> question = list_questions(data, "ood", QuestionForm(style="tables"))[0]
    >>> print(Prompter.of(data, QuestionForm(style="tables")).plain(question.text))
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

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ctlpp.benchmark.dataset import Dataset, balance
from ctlpp.benchmark.language import Examples
from ctlpp.benchmark.sampling import Stream
from ctlpp.benchmark.task import Task
from ctlpp.files import FolderKind, UserError, check_folder, write_folder, write_json
from ctlpp.storage.folder import digest, load, rows
from ctlpp.words import GREATEST_SEED, as_names, plain

STYLES = ("tables", "examples")  # what a prompt shows: the function tables, or solved examples only
NAMES = ("own", "words", "digits")
FORMATS = ("plain", "chat", "lm-eval")
DEFAULT_SHOTS = {"tables": 0, "examples": 32}
QUESTIONS = FolderKind("a folder of questions", mark="questions.json")
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
class QuestionForm:
    """How questions are asked; part of every question's id."""

    style: str = "tables"
    shots: int = 0  # solved training examples before the question
    names: str = "own"  # of functions and symbols: the dataset's own, nonsense words, or numbers
    limit: int = 0  # questions per split; 0 for all

    def __post_init__(self) -> None:
        check_choice("style", self.style, STYLES)
        check_choice("names", self.names, NAMES)
        for name in ("shots", "limit"):
            object.__setattr__(self, name, read_number(name, getattr(self, name)))
        if self.style == "examples" and not self.shots:
            raise UserError("‹shots› 0: the style examples shows nothing else; show at least one")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise UserError if an argument is none of its choices."""
    if value not in choices:
        raise UserError(f"‹{name}› {value}: choose from {', '.join(choices)}")


def read_number(name: str, value: Any, most: int = MOST) -> int:
    """An argument that is a whole number, perhaps one of NumPy's."""
    number = plain(value)
    if type(number) is not int or not 0 <= number <= most:
        raise UserError(f"‹{name}› {value!r}: must be a whole number from 0 to {most:,}")
    return number


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


def list_questions(dataset: Dataset, split: str, form: QuestionForm) -> list[Question]:
    """The questions about a split: all of it, or `limit` examples that are always the same ones."""
    total = dataset.size(split)
    number = form.limit if 0 < form.limit < total else total
    chosen = np.sort(Stream(0, "questions", split).distinct_below(total, number))
    code = f"{form.style}-{form.shots}-{form.names}-{form.limit}-{checksum(dataset, split)}"
    names, found, before = rename(dataset.task, form.names), [], 0
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
    def of(dataset: Dataset, form: QuestionForm, seed: int = 0) -> Prompter:
        """seed: decides which training examples are shown, of all lengths equally many where there are."""
        task, names = dataset.task, rename(dataset.task, form.names)
        rules = _rules(task, names) if form.style == "tables" else ""
        if form.shots > dataset.size("train"):
            raise UserError(f"‹shots› {form.shots}: train has only {dataset.size('train'):,} examples")
        train, stream = dataset["train"], Stream(seed, "shots")
        sizes = balance(form.shots, {length: len(examples) for length, examples in train.items()})
        shots = [
            line
            for length, size in sizes.items()
            for line in _lines(task, train[length][stream.distinct_below(len(train[length]), size)], names)
        ]
        return Prompter(rules, tuple(shots[i] for i in stream.permutation(len(shots)).tolist()))

    def plain(self, question: str) -> str:
        """The prompt as one text, to be continued with a space and the answer."""
        lines = [f"{asked} {answer}" for asked, answer in self.shots]
        return "\n".join(filter(None, [self.rules, *lines, question]))

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


def ask(
    data: Dataset | Path | str,
    out: Path | str,
    *,
    style: str = "tables",
    shots: int | None = None,
    format: str = "plain",
    names: str = "own",
    splits: str | Sequence[str] = ("iid", "ood"),
    limit: int = 0,
    seed: int = 0,
    finetune: int = 10_000,
    force: bool = False,
) -> dict[str, int]:
    """Write a folder of questions about a dataset.

    Args:
        data: A dataset or its folder.
        out: The folder to write.
        style: `tables` shows all functions, `examples` only solved examples.
        shots: Solved training examples before each question.
        format: `plain`, `chat`, or `lm-eval` for the LM Evaluation Harness.
        names: What functions and symbols are called: `own`, `words` or `digits`.
        splits: Those to ask about.
        limit: Questions per split, 0 for all.
        seed: Of the choice of shots.
        finetune: Training examples in `finetune.jsonl`, without shots; 0 for none.
        force: Replace a folder of questions that is there already.

    Returns:
        The number of questions by split.
    """
    check_choice("style", style, STYLES)
    check_choice("format", format, FORMATS)
    shots = DEFAULT_SHOTS[style] if shots is None else shots
    form = QuestionForm(style=style, shots=shots, names=names, limit=limit)
    seed, finetune = read_number("seed", seed, GREATEST_SEED), read_number("finetune", finetune)
    check_folder(QUESTIONS, Path(out), force=force)
    dataset = data if isinstance(data, Dataset) else load(data)
    renamed, prompter = rename(dataset.task, names), Prompter.of(dataset, form, seed)
    asked = {split: list_questions(dataset, split, form) for split in as_names(splits)}
    if not asked:
        raise UserError("‹splits›: name at least one to ask about")
    with write_folder(QUESTIONS, Path(out), force=force) as folder:
        if format == "lm-eval":
            _write_harness(folder, asked, prompter, [renamed[symbol] for symbol in dataset.task.symbols])
        else:
            key, render = ("messages", prompter.chat) if format == "chat" else ("prompt", prompter.plain)
            every = (question for questions in asked.values() for question in questions)
            lines = ({"id": one.id, key: render(one.text)} for one in every)
            _write_lines(folder / "questions.jsonl", lines)
        if finetune:
            train = list_questions(dataset, "train", QuestionForm(names=names, limit=finetune))
            alone = Prompter(prompter.rules, ())
            _write_lines(folder / "finetune.jsonl", (_finetune_line(alone, format, one) for one in train))
        about = {"format": format, **asdict(form), "seed": seed, "splits": list(asked)}
        about |= {"names_of": renamed} if names != "own" else {}
        write_json(folder / QUESTIONS.mark, about)
    return {split: len(questions) for split, questions in asked.items()}


def _finetune_line(prompter: Prompter, format: str, question: Question) -> dict[str, Any]:
    if format == "chat":
        answer = [{"role": "assistant", "content": question.answer}]
        return {"prompt": prompter.chat(question.text), "completion": answer}
    return {"prompt": prompter.plain(question.text), "completion": f" {question.answer}"}


def _write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _write_harness(
    folder: Path, asked: dict[str, list[Question]], prompter: Prompter, symbols: Sequence[str]
) -> None:
    """A task of lm-eval for every split, and the group `ctlpp` of them; JSON is YAML, too."""
    for split, questions in asked.items():
        docs = ({"id": q.id, "prompt": prompter.plain(q.text), "target": q.answer} for q in questions)
        _write_lines(folder / f"questions-{split}.jsonl", docs)
        write_json(folder / f"ctlpp_{split}.yaml", _harness_task(split, symbols))
    write_json(folder / "ctlpp.yaml", {"group": "ctlpp", "task": [f"ctlpp_{split}" for split in asked]})


def _harness_task(split: str, symbols: Sequence[str]) -> dict[str, Any]:
    """The configuration of a task; both readings are ours, as filters."""
    first = {"function": "take_first"}
    filters = []
    for reading, pattern in answer_patterns(symbols).items():
        last = {"function": "regex", "regex_pattern": pattern, "group_select": -1}
        filters.append({"name": reading, "filter": [last, first]})
    metric = {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}
    return {
        "task": f"ctlpp_{split}",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": f"questions-{split}.jsonl"}},  # in the working directory
        "test_split": "test",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{target}}",
        "output_type": "generate_until",
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 16, "do_sample": False},
        "filter_list": filters,
        "metric_list": [metric | {"ignore_case": bool(case_flag(symbols))}],
        "metadata": {"version": 1},
    }


def answer_patterns(symbols: Sequence[str]) -> dict[str, str]:
    """The regular expression that finds an answer, by reading; the last match counts."""
    some, flag = "|".join(map(re.escape, symbols)), case_flag(symbols)
    return {"strict": rf"{flag}\A\s*({some})\s*\Z", "lenient": rf"{flag}(?<!\w)({some})(?!\w)"}


def case_flag(symbols: Sequence[str]) -> str:
    """The flag that ignores the case of letters, empty where that would confuse two symbols."""
    return "(?i)" if len({symbol.lower() for symbol in symbols}) == len(symbols) else ""
