"""Questions as text."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ctlpp
from ctlpp.questions.answers import Reader
from ctlpp.questions.questions import Prompter, QuestionForm, list_questions, rename

SMALL = {"symbols": 4, "functions": 8, "max_length": 4, "train": 400, "iid": 60, "ood": 60}
TABLE = re.compile(r"^(\w+): (.*->.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def data() -> ctlpp.Dataset:
    return ctlpp.generate("R", protocol="clean", **SMALL)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def spoken(data: ctlpp.Dataset, split: str, names: str = "own") -> set[str]:
    """Every example of a split as a solved line, translated word by word."""
    new = rename(data.task, names)
    examples = (f"{question} -> {answer}" for question, answer in data.texts(split))
    return {" ".join(new.get(word, word) for word in example.split()) for example in examples}


@pytest.mark.parametrize(("order", "step"), [("right-to-left", -1), ("left-to-right", 1)])
def test_the_rules_suffice_to_answer(order: str, step: int) -> None:
    data = ctlpp.generate("R", protocol="clean", **SMALL, order=order)
    form = QuestionForm(style="tables", names="words")
    prompter = Prompter.of(data, form)
    for question in list_questions(data, "ood", form):
        prompt = prompter.plain(question.text)
        tables = {name: dict(re.findall(r"(\w+) -> (\w+)", row)) for name, row in TABLE.findall(prompt)}
        symbol, *functions = prompt.splitlines()[-1].removesuffix(" ->").split()[::step]
        for function in functions:
            symbol = tables[function][symbol]
        assert symbol == question.answer


@pytest.mark.parametrize("names", ["own", "words", "digits"])
def test_examples_are_solved_training_examples_and_nothing_else(data: ctlpp.Dataset, names: str) -> None:
    form = QuestionForm(style="examples", shots=24, names=names)
    for question in list_questions(data, "ood", form):
        *shown, last = Prompter.of(data, form).plain(question.text).splitlines()
        assert len(set(shown)) == 24
        assert set(shown) <= spoken(data, "train", names)
        assert f"{last} {question.answer}" in spoken(data, "ood", names)


def test_shots_are_of_all_lengths_and_another_seed_shows_others(data: ctlpp.Dataset) -> None:
    form = QuestionForm(style="examples", shots=24)
    first, again, other = (Prompter.of(data, form, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert [sum(len(asked.split()) == n + 2 for asked, _ in first.shots) for n in (2, 3, 4)] == [8, 8, 8]


@pytest.mark.parametrize("names", ["words", "digits"])
def test_new_names_are_all_different_and_say_nothing(data: ctlpp.Dataset, names: str) -> None:
    new = rename(data.task, names)
    assert new == rename(ctlpp.generate("A", **SMALL, seed=1).task, names)
    assert len({*new, *new.values()}) == 2 * 12
    assert all((word.isdecimal() if names == "digits" else word.isalpha()) for word in new.values())


def test_a_limit_chooses_the_same_questions_every_time(data: ctlpp.Dataset) -> None:
    some = list_questions(data, "ood", QuestionForm(limit=10))
    every = {question.text for question in list_questions(data, "ood", QuestionForm())}
    assert some == list_questions(data, "ood", QuestionForm(limit=10))
    assert len({question.id for question in some}) == 10
    assert {question.text for question in some} < every
    assert len(every) == len(list_questions(data, "ood", QuestionForm(limit=1000))) == 60


def test_chat_says_the_same_in_turns(data: ctlpp.Dataset) -> None:
    prompter = Prompter.of(data, QuestionForm(shots=2))
    system, *turns, last = prompter.chat("a a 0 ->")
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * 2
    solved = [f"{one['content']} {two['content']}" for one, two in zip(turns[::2], turns[1::2], strict=True)]
    assert "\n".join([system["content"], "", *solved, last["content"]]) == prompter.plain("a a 0 ->")


@pytest.mark.parametrize("format", ["plain", "chat"])
def test_the_file_for_fine_tuning_has_training_examples_only(
    data: ctlpp.Dataset, tmp_path: Path, format: str
) -> None:
    asked = ctlpp.ask(data, tmp_path / "q", style="examples", format=format, finetune=50)
    assert asked == {"iid": 60, "ood": 60}
    found = lines(tmp_path / "q" / "finetune.jsonl")
    if format == "chat":
        whole = [f"{line['prompt'][-1]['content']} {line['completion'][0]['content']}" for line in found]
    else:
        whole = [line["prompt"] + line["completion"] for line in found]
    assert len(set(whole)) == 50
    assert set(whole) <= spoken(data, "train")


def test_questions_do_not_give_the_answer_away(data: ctlpp.Dataset, tmp_path: Path) -> None:
    ctlpp.ask(data, tmp_path / "q", finetune=0)
    assert {key for line in lines(tmp_path / "q" / "questions.jsonl") for key in line} == {"id", "prompt"}
    assert {path.name for path in (tmp_path / "q").iterdir()} == {"questions.json", "questions.jsonl"}


def test_letters_of_any_case_are_read_unless_two_symbols_differ_by_it() -> None:
    assert Reader(("bako", "dimu")).read("Bako!").lenient == "bako"
    assert Reader(("x", "X")).read("X").strict == "X"
    assert Reader(("sa", "mi")).read("\N{LATIN SMALL LETTER LONG S}a").strict == "sa"
