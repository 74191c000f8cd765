"""A folder of questions, in the format that the system to be asked takes, and a file for fine-tuning.

`plain` and `chat` write `questions.jsonl`, lines with an id and a prompt or messages; `lm-eval` writes a task
for that harness. `finetune.jsonl` has training examples as prompt and completion.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ctlpp.benchmark.dataset import Dataset
from ctlpp.files import FolderKind, UserError, check_folder, write_folder, write_json
from ctlpp.questions.answers import Reader
from ctlpp.questions.prompts import Asking, Prompter, Question, list_questions, rename
from ctlpp.storage.folder import load

FORMATS = ("plain", "chat", "lm-eval")
QUESTIONS = FolderKind("a folder of questions", mark="questions.json")
SHOTS = {"tables": 0, "examples": 32}  # unless told otherwise


def ask(
    data: Dataset | Path | str,
    out: Path | str,
    *,
    style: str = "tables",
    shots: int | None = None,
    format: str = "plain",
    names: str = "own",
    splits: Sequence[str] = ("iid", "ood"),
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
    asking = Asking(
        style=style, shots=SHOTS.get(style, 0) if shots is None else shots, names=names, limit=limit
    )
    if format not in FORMATS:
        raise UserError(f"‹format› {format}: choose from {', '.join(FORMATS)}")
    check_folder(QUESTIONS, Path(out), force=force)
    dataset = data if isinstance(data, Dataset) else load(data)
    prompter = Prompter.of(dataset, asking, seed)
    asked = {split: list_questions(dataset, split, asking) for split in splits}
    with write_folder(QUESTIONS, Path(out), force=force) as folder:
        if format == "lm-eval":
            _write_harness(folder, asked, prompter, Reader.of(dataset.task, names))
        else:
            every = [question for questions in asked.values() for question in questions]
            lines = ({"id": q.id, **_render(prompter, format, q.text)} for q in every)
            _write_lines(folder / "questions.jsonl", lines)
        if finetune:
            train = list_questions(dataset, "train", Asking(names=names, limit=finetune))
            alone = Prompter(prompter.rules, ())
            _write_lines(folder / "finetune.jsonl", (_tuning(alone, format, q) for q in train))
        about = {"format": format, **asdict(asking), "seed": seed, "splits": list(splits)}
        about |= {"names_of": rename(dataset.task, names)} if names != "own" else {}
        write_json(folder / QUESTIONS.mark, about)
    return {split: len(questions) for split, questions in asked.items()}


def _render(prompter: Prompter, format: str, text: str) -> dict[str, Any]:
    return {"messages": prompter.chat(text)} if format == "chat" else {"prompt": prompter.plain(text)}


def _tuning(prompter: Prompter, format: str, question: Question) -> dict[str, Any]:
    """A line of the file for fine-tuning: prompt and completion, of a chat as messages."""
    if format == "chat":
        answer = [{"role": "assistant", "content": question.answer}]
        return {"prompt": prompter.chat(question.text), "completion": answer}
    return {"prompt": prompter.plain(question.text), "completion": f" {question.answer}"}


def _write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _write_harness(
    folder: Path, asked: dict[str, list[Question]], prompter: Prompter, reader: Reader
) -> None:
    """A task of lm-eval for every split, and the group `ctlpp` of them; JSON is YAML, too."""
    for split, questions in asked.items():
        docs = ({"id": q.id, "prompt": prompter.plain(q.text), "target": q.answer} for q in questions)
        _write_lines(folder / f"questions-{split}.jsonl", docs)
        write_json(folder / f"ctlpp_{split}.yaml", _harness_task(split, reader))
    write_json(folder / "ctlpp.yaml", {"group": "ctlpp", "task": [f"ctlpp_{split}" for split in asked]})


def _harness_task(split: str, reader: Reader) -> dict[str, Any]:
    """The configuration of a task; both readings are ours, as filters."""
    filters = [
        {
            "name": name,
            "filter": [
                {"function": "regex", "regex_pattern": pattern.pattern, "group_select": -1},
                {"function": "take_first"},
            ],
        }
        for name, pattern in reader.patterns.items()
    ]
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
        "metric_list": [metric | {"ignore_case": reader.any_case}],
        "metadata": {"version": 1},
    }
