"""`ctlpp ask` and `ctlpp score`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SMALL = "--protocol clean --symbols 4 --functions 8 --max-length 4 --train 400 --iid 30 --ood 30"


@pytest.fixture
def asked(command: Any, tmp_path: Path) -> Path:
    assert command(f"generate R {SMALL} --out data").code == 0
    done = command("ask data --limit 20 --out q")
    assert (done.code, done.err) == (0, "")
    assert "Next: ctlpp score data ANSWERS --name NAME --out RUN" in done.out
    return tmp_path / "q" / "questions.jsonl"


def test_questions_are_asked_and_answers_scored(command: Any, asked: Path) -> None:
    ids = [json.loads(line)["id"] for line in asked.read_text().splitlines()]
    with Path("answers.jsonl").open("w") as file:
        file.writelines(json.dumps({"id": id, "answer": 0}) + "\n" for id in ids[:-3])
        file.writelines(json.dumps({"id": id, "answer": None}) + "\n" for id in ids[-3:-1])
    done = command("score data answers.jsonl --name zero --seed 4 --out run")
    assert (done.code, done.err) == (0, "")
    assert "1 answer of 40: no answer in the file" in done.out
    assert "2 answers of 40: empty" in done.out
    result = json.loads(Path("run/result.json").read_text())
    assert (result["model"], result["seeds"][0]["seed"]) == ("zero", 4)
    assert command("report run --out report.html").code == 0
    assert command("score data answers.jsonl --name zero --out run --force").code == 0


def test_mistakes_are_one_line(refused: Callable[..., str], asked: Path) -> None:
    assert refused("score data q/questions.jsonl --name x --out run").startswith(
        'q/questions.jsonl: line 1: no JSON with an id and an answer; each line is {"id"'
    )
    assert refused("ask data --style x --out r") == "--style x: choose from tables, examples"
    assert refused("ask data --style examples --shots 0 --out r").startswith("--shots 0: the style examples")
    assert refused("ask data --finetune -1 --out r").startswith("--finetune -1: must be a whole number")
    assert refused("ask data --out q").startswith("q exists already: choose another folder, or replace")
    assert refused("ask nothing --out r").startswith("nothing does not exist; name a dataset folder")
