"""Answers to questions: read strictly and leniently, scored by split, length and kind of pair, kept as a run.

Strictly, an answer is a symbol and nothing else (but spaces). Leniently, it is the last symbol in the text.

Example:
    >>> reader = Reader(("0", "1", "2"))
    >>> for text in ("2", "It is 2.", "0, then 2", "3", ""):
    ...     print(reader.read(text))
    Reading(strict='2', lenient='2', fault='')
    Reading(strict=None, lenient='2', fault='text')
    Reading(strict=None, lenient='2', fault='several')
    Reading(strict=None, lenient=None, fault='none')
    Reading(strict=None, lenient=None, fault='empty')
"""

from __future__ import annotations

import json
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import ctlpp
from ctlpp.benchmark.dataset import Dataset
from ctlpp.files import FolderKind, UserError, check_folder, write_folder, write_json
from ctlpp.questions.questions import (
    Question,
    QuestionForm,
    answer_patterns,
    case_flag,
    check_choice,
    checksum,
    list_questions,
    read_number,
    rename,
)
from ctlpp.runs.folder import FORMAT
from ctlpp.runs.history import History, Score
from ctlpp.statistics.summary import share_interval
from ctlpp.storage.folder import load, task_to_dict
from ctlpp.words import GREATEST_SEED

READINGS = ("strict", "lenient")
FAULTS = {  # why an answer cannot be read strictly
    "missing": "no answer in the file",
    "empty": "empty",
    "none": "no symbol in the text",
    "several": "several symbols: the lenient reading takes the last",
    "text": "other text beside one symbol: the lenient reading takes the symbol",
}
SCORED = FolderKind("a run of scored answers", mark="answers.parquet")
LONGEST_LINE = 2**24  # bytes
LINE = '{"id": "…", "answer": "…"}'  # of a file of answers
ID = re.compile(r"([^/]+)/(\d{1,15})/([a-z]+)-(\d{1,7})-([a-z]+)-(\d{1,7})-([0-9a-f]{8})")


class Reading(NamedTuple):
    """The symbol that an answer names, None if it cannot be read, and what is wrong with it."""

    strict: str | None
    lenient: str | None
    fault: str = ""  # of `FAULTS`


class Reader:
    """Finds symbols in text."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self.patterns = {name: re.compile(text) for name, text in answer_patterns(symbols).items()}
        self.symbols = {one: re.compile(case_flag(symbols) + re.escape(one)) for one in symbols}

    def read(self, text: str | None) -> Reading:
        """The symbol that a text names."""
        if text is None or not text.strip():
            return Reading(None, None, "missing" if text is None else "empty")
        found = self.patterns["lenient"].findall(text)
        if not found:
            return Reading(None, None, "none")
        last = next(symbol for symbol, pattern in self.symbols.items() if pattern.fullmatch(found[-1]))
        if self.patterns["strict"].match(text):
            return Reading(last, last)
        return Reading(None, last, "text" if len(found) == 1 else "several")


def read_answers(paths: Sequence[Path | str]) -> dict[str, str]:
    """Answers by id, from JSON lines with `id` and `answer`, or from the samples that lm-eval logs."""
    listed = isinstance(paths, Sequence) and all(isinstance(path, str | Path) for path in paths)
    if not listed or not paths:
        raise UserError(f"‹answers›: name files of lines like {LINE}")
    answers: dict[str, str] = {}
    for path in paths:
        for number, line in enumerate(_lines(Path(path)), start=1):
            if line.strip():
                id, answer = _parse(line, f"{path}: line {number}")
                if answers.setdefault(id, answer) != answer:
                    raise UserError(f"{path}: line {number}: a second answer to {id[:80]}; keep one of them")
    if not answers:
        raise UserError(f"{paths[0]} has no answers: each line is {LINE}")
    return answers


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while line := file.readline(LONGEST_LINE + 1):
                if len(line) > LONGEST_LINE:
                    limit = f"{LONGEST_LINE:,} bytes"
                    raise UserError(f"{path} has a line of more than {limit}: that is no answer")
                yield line
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): name a file of answers") from error


def _parse(line: bytes, where: str) -> tuple[str, str]:
    """Id and answer in a line, which may be a sample that lm-eval has logged."""
    try:
        content = json.loads(line.decode("utf-8-sig"))
        sampled = "doc" in content
        id = content["doc"]["id"] if sampled else content["id"]
        answer = content["resps"][0][0] if sampled else content["answer"]
    except (ValueError, RecursionError, KeyError, IndexError, TypeError) as error:
        raise UserError(f"{where}: no JSON with an id and an answer; each line is {LINE}") from error
    if not isinstance(id, str) or type(answer) not in (str, int, type(None)):
        raise UserError(f"{where}: the id and the answer must be text; each line is {LINE}")
    return id, "" if answer is None else str(answer)


@dataclass(frozen=True)
class Row:
    """Accuracy on some questions, with Wilson's 95 % interval."""

    split: str
    length: int  # 0: all
    pair: str  # groups of the two functions, first one first; "": all
    reading: str
    questions: int
    right: int
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class Scores:
    """What a system's answers are worth."""

    form: QuestionForm
    splits: dict[str, list[tuple[Question, Reading]]]

    def rows(self) -> list[Row]:
        """By split; by split and length; of pairs also by the groups of their functions."""
        parts: dict[tuple[str, int, str], list[tuple[Question, Reading]]] = {}
        for split, both in self.splits.items():
            parts[split, 0, ""] = both
            lengths = [("", one) for one in both]
            pairs = [(one[0].pair, one) for one in both if one[0].pair]
            for pair, one in lengths + pairs:
                parts.setdefault((split, one[0].length, pair), []).append(one)
        return [_row(key, reading, part) for key, part in parts.items() for reading in READINGS]

    def faults(self) -> dict[str, int]:
        """How many answers are unreadable, by the kind of fault."""
        count = Counter(reading.fault for both in self.splits.values() for _, reading in both)
        return {fault: count[fault] for fault in FAULTS if count[fault]}


def _row(key: tuple[str, int, str], reading: str, part: Sequence[tuple[Question, Reading]]) -> Row:
    right = sum(getattr(read, reading) == question.answer for question, read in part)
    return Row(*key, reading, len(part), right, right / len(part), *share_interval(right, len(part)))


def compare_answers(dataset: Dataset, answers: dict[str, str]) -> Scores:
    """Set answers against the dataset; a question without an answer counts as wrong."""
    form, splits = _read_ids(dataset, answers)
    names = rename(dataset.task, form.names)
    reader = Reader([names[symbol] for symbol in dataset.task.symbols])
    left, scored = dict(answers), {}
    for split in splits:
        questions = list_questions(dataset, split, form)
        scored[split] = [(one, reader.read(left.pop(one.id, None))) for one in questions]
    if left:
        id = next(iter(left))
        raise UserError(f"id {id[:80]!r} is of no question that was asked; take the ids as they are")
    return Scores(form, scored)


def _read_ids(dataset: Dataset, answers: Iterable[str]) -> tuple[QuestionForm, list[str]]:
    """How the questions were asked and of which splits, from their ids."""
    asked: dict[QuestionForm, str] = {}
    splits: set[str] = set()
    for id in answers:
        split, form, check = _parse_id(id)
        if split not in splits and check != checksum(dataset, split):
            raise UserError(f"id {id[:80]!r} asks about other data: name the dataset of the questions")
        splits.add(split)
        asked[form] = id
    if len(asked) > 1:
        one, other, *_ = asked.values()
        raise UserError(f"{one[:80]} and {other[:80]} were asked in different ways: score them one by one")
    return next(iter(asked)), [split for split in dataset.splits if split in splits]


def _parse_id(id: str) -> tuple[str, QuestionForm, str]:
    """A question's split, how it was asked, and the checksum of its split."""
    try:
        split, _, style, shots, names, limit, check = ID.fullmatch(id).groups()  # type: ignore[union-attr]
        return split, QuestionForm(style=style, shots=int(shots), names=names, limit=int(limit)), check
    except (AttributeError, UserError) as error:
        ours = "is not one that `ctlpp ask` writes; take the ids as they are"
        raise UserError(f"id {id[:80]!r} {ours}") from error


def score(
    data: Dataset | Path | str,
    answers: Path | str | Sequence[Path | str],
    out: Path | str,
    *,
    name: str,
    seed: int = 0,
    reading: str = "strict",
    force: bool = False,
) -> Scores:
    """Score answers and write them as a run folder.

    Args:
        data: The dataset that was asked about, or its folder.
        answers: A file of answers, or several.
        out: The run folder to write.
        name: What the system is called, in place of a model.
        seed: The run's seed: scores of several tries are seeds of one model.
        reading: `strict` or `lenient`, for the run's accuracies.
        force: Replace a scored run that is there already.

    Returns:
        The scores by split, length and kind of pair, in both readings.
    """
    check_choice("reading", reading, READINGS)
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 100:
        raise UserError(f"‹name› {repr(name)[:100]}: must be printable text of at most 100 letters")
    seed = read_number("seed", seed, GREATEST_SEED)
    check_folder(SCORED, Path(out), force=force)
    given = read_answers([answers] if isinstance(answers, str | Path) else answers)
    dataset = data if isinstance(data, Dataset) else load(data)
    scores = compare_answers(dataset, given)
    with write_folder(SCORED, Path(out), force=force) as folder:
        _write_run(folder, dataset, scores, name, seed, reading)
    return scores


def _write_run(folder: Path, dataset: Dataset, scores: Scores, name: str, seed: int, reading: str) -> None:
    """The files of a run folder, and the answers one by one."""
    task, rows = dataset.task, scores.rows()
    config = {
        "format": FORMAT,
        "model": name,
        "preset": "",
        "options": asdict(scores.form) | {"reading": reading},
        "variant": task.variant,
        "protocol": task.protocol,
        "vocab_size": task.vocabulary.size,
        "n_classes": task.n_symbols,
        "parameters": 0,  # not known
        "seeds": [seed],
        "recipe": {"steps": 0},
        "data": {split: checksum(dataset, split) for split in scores.splits},
        "task": task_to_dict(task, dataset.settings, {}),
        "engine": {"device": "none", "device_name": "none", "vectorised": False, "seeds_at_a_time": 1},
        "versions": {"ctlpp": ctlpp.__version__, "python": platform.python_version()},
    }
    history = History.empty([seed])
    kept = [row for row in rows if row.reading == reading and not row.pair]
    history.add([Score(0, seed, row.split, row.length, row.accuracy, float("nan")) for row in kept])
    history.write(folder / "metrics.parquet")
    own = asdict(replace(history.results({})[0], loss={}))
    about = {key: config[key] for key in ("model", "variant", "protocol", "parameters", "versions")}
    about |= {"steps": 0, "seconds": 0.0, "seeds": [{"seed": own.pop("number"), **own}]}
    write_json(folder / "config.json", config)
    write_json(folder / "result.json", about)
    _write_tables(folder, scores, rows)


def _write_tables(folder: Path, scores: Scores, rows: Sequence[Row]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    every = [
        {"id": one.id, "split": split, "length": one.length, "pair": one.pair, "expected": one.answer}
        | reading._asdict()
        for split, both in scores.splits.items()
        for one, reading in both
    ]
    texts = ("id", "split", "pair", "expected", *Reading._fields)
    schema = pa.schema([(name, pa.string()) for name in texts] + [("length", pa.int32())])
    pq.write_table(pa.Table.from_pylist(every, schema), folder / SCORED.mark)
    pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows]), folder / "scores.parquet")
