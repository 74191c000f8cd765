"""Answers, scored."""

import codecs
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import binomtest

import ctlpp
from ctlpp.files import UserError
from ctlpp.questions.answers import Row, Scores, compare_answers
from ctlpp.questions.questions import Question, QuestionForm, list_questions
from ctlpp.report.page import write_report
from ctlpp.runs.folder import find_runs, read_run

HOW = QuestionForm(style="examples", shots=3, names="words")
Answer = Callable[[Question], str]


@pytest.fixture(scope="module")
def data() -> ctlpp.Dataset:
    sizes = {"symbols": 4, "functions": 8, "max_length": 4, "train": 400, "iid": 60, "ood": 60}
    return ctlpp.generate("R", protocol="clean", **sizes)


def answer_all(data: ctlpp.Dataset, answer: Answer) -> dict[str, str]:
    return {one.id: answer(one) for split in ("iid", "ood") for one in list_questions(data, split, HOW)}


def write(path: Path, answers: dict[str, str]) -> Path:
    path.write_text("".join(json.dumps({"id": id, "answer": text}) + "\n" for id, text in answers.items()))
    return path


def row(scores: Scores, split: str, length: int = 0, pair: str = "", reading: str = "strict") -> Row:
    key = split, length, pair, reading
    (found,) = (one for one in scores.rows() if (one.split, one.length, one.pair, one.reading) == key)
    return found


def test_a_constant_answerer_is_right_as_often_as_its_symbol_is(data: ctlpp.Dataset) -> None:
    questions = list_questions(data, "ood", HOW)
    said = questions[0].answer
    scores = compare_answers(data, answer_all(data, lambda _: f"I say {said}."))
    pairs = [one for one in questions if one.length == 2]
    alike = [one for one in pairs if one.pair == pairs[0].pair]
    for length, kind, some in ((0, "", questions), (2, "", pairs), (2, pairs[0].pair, alike)):
        found, right = row(scores, "ood", length, kind, "lenient"), sum(one.answer == said for one in some)
        assert (found.questions, found.right) == (len(some), right)
        interval = binomtest(right, len(some)).proportion_ci(method="wilson")
        assert (found.low, found.high) == pytest.approx(interval)
    assert row(scores, "ood").right == 0  # strictly nothing was said
    assert scores.faults() == {"text": 120}


def test_every_kind_of_unreadable_answer_is_counted_and_is_wrong(data: ctlpp.Dataset) -> None:
    answers = answer_all(data, lambda question: question.answer)
    ids = list(answers)
    answers |= {ids[0]: " ", ids[1]: "no idea", ids[2]: f"{answers[ids[2]]}?"}
    answers[ids[3]] = " ".join(answers.values())
    del answers[ids[4]], answers[ids[5]]
    scores = compare_answers(data, answers)
    assert scores.faults() == {"missing": 2, "empty": 1, "none": 1, "several": 1, "text": 1}
    assert (row(scores, "iid").questions, row(scores, "iid").right) == (60, 54)
    assert row(scores, "iid", reading="lenient").right >= 55
    assert row(scores, "ood").accuracy == 1


def test_scored_answers_are_a_run_like_any_other(data: ctlpp.Dataset, tmp_path: Path) -> None:
    answers = answer_all(data, lambda question: f"it is {question.answer}")
    for seed, reading in enumerate(("strict", "lenient")):
        file = write(tmp_path / "answers.jsonl", answers)
        ctlpp.score(data, file, tmp_path / reading, name="talker", seed=seed, reading=reading)
    strict, lenient = find_runs([tmp_path / "strict", tmp_path / "lenient"])[::-1]
    assert (strict.state, strict.model, strict.variant) == ("finished", "talker", "R")
    assert strict.task["symbols"] == [*"0123"]
    assert (strict.seeds[0].number, strict.seeds[0].accuracy) == (0, {"iid": 0.0, "ood": 0.0})
    assert (lenient.seeds[0].number, lenient.seeds[0].by_length["ood"]) == (1, {2: 1.0, 3: 1.0, 4: 1.0})
    assert pq.read_table(tmp_path / "strict" / "answers.parquet").num_rows == 120
    written = write_report([tmp_path], tmp_path / "report.html")
    assert (written.runs, list(written.notes)) == (2, [])
    with pytest.raises(UserError, match="strict has scored answers and no model: name a run"):
        ctlpp.load_run(tmp_path / "strict")


def line(**content: object) -> bytes:
    return json.dumps(content).encode()


ID = "ood/3/tables-0-own-0-"
HOSTILE = {
    "nothing": (b"", "has no answers: each line is"),
    "blank lines": (b"\n\n", "has no answers: each line is"),
    "no JSON": (b"d a b 3 -> 5", "line 1: no JSON with an id and an answer"),
    "no UTF-8": (b'{"id": "\xff"}', "line 1: no JSON with an id and an answer"),
    "no answer": (line(id="x"), "line 1: no JSON with an id and an answer"),
    "too deep": (b"[" * 100_000, "line 1: no JSON with an id and an answer"),
    "a list as answer": (line(id="x", answer=[5]), "line 1: the id and the answer must be text"),
    "an object as id": (line(id={}, answer="5"), "line 1: the id and the answer must be text"),
    "a broken sample": (line(doc=[]), "line 1: no JSON with an id and an answer"),
    "a foreign id": (line(id="17", answer="5"), "id '17' is not one that `ctlpp ask` writes"),
    "a path as id": (line(id="../../x/3/" + ID, answer="5"), "is not one that `ctlpp ask` writes"),
    "unknown split": (line(id="x/3/tables-0-own-0-00000000", answer="5"), "unknown split 'x': choose from"),
    "unknown style": (line(id=ID.replace("tables", "x") + "CHECK", answer="5"), "is not one that `ctlpp"),
    "no shots": (line(id=ID.replace("tables", "examples") + "CHECK", answer="5"), "is not one that `ctlpp"),
    "other data": (line(id=ID + "00000000", answer="5"), "asks about other data: name the dataset of the"),
    "beyond the split": (line(id=ID.replace("3", "999") + "CHECK", answer="5"), "is of no question that was"),
    "two answers": (line(id="x", answer="1") + b"\n" + line(id="x", answer="2"), "a second answer to x"),
    "two ways of form": (
        b"\n".join(line(id=f"ood/3/tables-0-own-{limit}-CHECK", answer="1") for limit in (0, 9)),
        "were asked in different ways: score them one by one",
    ),
    "a line without end": (b"x" * (2**24 + 1), "has a line of more than 16,777,216 bytes"),
    "half a surrogate": (b'{"id": "\\ud800", "answer": "1"}', "is not one that `ctlpp ask` writes"),
}


def test_a_damaged_file_of_answers_is_named_in_one_line(data: ctlpp.Dataset, tmp_path: Path) -> None:
    check = list_questions(data, "ood", QuestionForm())[0].id[-8:].encode()
    for content, (written, message) in HOSTILE.items():
        (tmp_path / "answers.jsonl").write_bytes(written.replace(b"CHECK", check))
        with pytest.raises(UserError, match=f"^[^\n]*{re.escape(message)}[^\n]*$"):
            ctlpp.score(data, tmp_path / "answers.jsonl", tmp_path / "run", name="x")
        assert not (tmp_path / "run").exists(), content


def test_an_answer_with_any_text_is_scored(data: ctlpp.Dataset, tmp_path: Path) -> None:
    odd = ["\ud800", "\x00", "٣", "-1", "1e999", "<script>", "0" * 100_000, "𝟘"]
    texts = dict(zip(answer_all(data, str), odd * 15, strict=True))
    scores = ctlpp.score(data, write(tmp_path / "answers.jsonl", texts), tmp_path / "run", name="odd")
    assert find_runs([tmp_path / "run"])[0].state == "finished"
    assert scores.faults() == {"none": 120}


def test_what_is_plainly_meant_is_asked_and_scored(data: ctlpp.Dataset, tmp_path: Path) -> None:
    some: Any = {"shots": np.int64(2), "limit": np.int32(9), "seed": np.uint8(3)}
    assert ctlpp.ask(data, tmp_path / "q", splits="ood", **some) == {"ood": 9}
    lines = (tmp_path / "q" / "questions.jsonl").read_text().splitlines()
    answers = write(tmp_path / "answers.jsonl", {json.loads(one)["id"]: "1" for one in lines})
    answers.write_bytes(codecs.BOM_UTF8 + answers.read_bytes())  # as Windows writes it
    scores = ctlpp.score(data, answers, tmp_path / "run", name="one", seed=some["seed"])
    assert (scores.faults(), read_run(tmp_path / "run").seeds[0].number) == ({}, 3)


def test_mistakes_in_arguments_are_named(data: ctlpp.Dataset, tmp_path: Path) -> None:
    file, out = write(tmp_path / "answers.jsonl", {"x": "1"}), tmp_path / "q"
    wrong: Any = ["ood"]
    none: Any = None
    half: Any = 1.5
    for call, message in (
        (lambda: ctlpp.ask(data, out, style="x"), "style x: choose from tables, examples"),
        (lambda: ctlpp.ask(data, out, style="examples", shots=0), "shots 0: the style examples shows"),
        (lambda: ctlpp.ask(data, out, shots=True), "shots True: must be a whole number from 0 to 1,000,000"),
        (lambda: ctlpp.ask(data, out, finetune=-1), "finetune -1: must be a whole number from 0 to"),
        (lambda: ctlpp.ask(data, out, seed=-1), "seed -1: must be a whole number from 0 to 4,294,967,295"),
        (lambda: ctlpp.ask(data, out, splits=()), "splits: name at least one to ask about"),
        (lambda: ctlpp.ask(data, out, style=wrong), "style ['ood']: choose from tables, examples"),
        (lambda: ctlpp.ask(wrong, out), "this list is neither a dataset nor the path of one"),
        (lambda: ctlpp.ask(data, out, shots=500), "shots 500: train has only"),
        (lambda: ctlpp.ask(data, out, format="x"), "format x: choose from plain, chat, lm-eval"),
        (lambda: ctlpp.ask(data, out, splits=["x"]), "unknown split 'x': choose from train"),
        (lambda: ctlpp.score(data, file, out, name=" "), "name ' ': must be printable"),
        (lambda: ctlpp.score(data, file, out, name=wrong), "name ['ood']: must be printable text"),
        (lambda: ctlpp.score(data, [], out, name="x"), 'answers: name files of lines like {"id": "…"'),
        (lambda: ctlpp.score(data, none, out, name="x"), "answers: name files of lines like"),
        (lambda: ctlpp.score(data, file, out, name="x", seed=half), "seed 1.5: must be a whole number"),
        (lambda: ctlpp.score(data, file, out, name="x", reading="x"), "reading x: choose from strict, len"),
        (lambda: ctlpp.score(data, tmp_path / "no", out, name="x"), "no cannot be read (No such file"),
        (lambda: ctlpp.score(data, tmp_path, out, name="x"), "cannot be read (Is a directory): name a file"),
    ):
        with pytest.raises(UserError, match=re.escape(message)):
            call()
    assert not out.exists()
