"""`ctlpp ask` and `ctlpp score`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

SMALL = "--protocol clean --symbols 4 --functions 8 --max-length 4 --train 400 --iid 30 --ood 30"


def test_questions_are_asked_and_answers_scored(command: Any, refused: Callable[..., str]) -> None:
    assert command(f"generate R {SMALL} --out data").code == 0
    assert refused("ask data --style examples --shots 0 --out q").startswith("--shots 0: the style examples")
    done = command("ask data --limit 20 --out q")
    assert (done.code, done.err) == (0, "")
    assert "Next: ctlpp score data ANSWERS --name NAME --out RUN" in done.out
    assert refused("ask data --out q").startswith("q exists already: ")
    ids = [json.loads(line)["id"] for line in Path("q/questions.jsonl").read_text().splitlines()]
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
    assert refused("score data answers.jsonl --name zero --out run").startswith("run exists already: ")
    assert command("score data answers.jsonl --name zero --out run --force").code == 0
