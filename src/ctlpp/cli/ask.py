"""`ctlpp ask` and `score`: systems that we do not train, such as language models."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from ctlpp.cli.options import DatasetFolder, Force
from ctlpp.cli.output import make_table, print_next, print_table
from ctlpp.words import plural

if TYPE_CHECKING:
    from ctlpp.questions.answers import Row, Scores

HARNESS = """  lm_eval --tasks ctlpp --include_path . --log_samples --output_path log \\
    --model hf --model_args pretrained=MODEL
Score it: ANSWERS are the samples in log"""


def ask(
    data: DatasetFolder,
    out: Annotated[Path, Option(help="The folder to write.", metavar="DIR")],
    style: Annotated[
        Literal["tables", "examples"],
        Option(help="Show the function tables, or nothing but solved examples."),
    ] = "tables",
    shots: Annotated[
        int | None,
        Option(help="Solved training examples in each prompt. [default: 0 with tables, 32 with examples]"),
    ] = None,
    format: Annotated[
        Literal["plain", "chat", "lm-eval"],
        Option(help="Prompts, messages, or a task for the LM Evaluation Harness."),
    ] = "plain",
    names: Annotated[
        Literal["own", "words", "digits"],
        Option(help="Names of functions and symbols: the dataset's, nonsense words, or numbers."),
    ] = "own",
    splits: Annotated[str, Option(help="The splits to ask about.")] = "iid,ood",
    limit: Annotated[int, Option(help="Questions per split, always the same ones; 0 for all.")] = 0,
    seed: Annotated[int, Option(help="Decides which training examples are shown.")] = 0,
    finetune: Annotated[
        int, Option(help="Training examples in the file for fine-tuning; 0 for no file.")
    ] = 10_000,
    force: Force = False,
) -> None:
    """Write questions as text, for a system that we do not train; `ctlpp score` reads its answers.

    `ctlpp ask data/A --style tables --limit 200 --out questions`

    `ctlpp ask data/A --style examples --shots 64 --names words --format lm-eval --out harness`
    """
    from ctlpp.questions.answers import LINE
    from ctlpp.questions.questions import ask as write

    asked = write(
        data,
        out,
        style=style,
        shots=shots,
        format=format,
        names=names,
        splits=splits.split(","),
        limit=limit,
        seed=seed,
        finetune=finetune,
        force=force,
    )
    rows = make_table("", "split", "questions")
    for split, number in asked.items():
        rows.add_row(split, f"{number:,}")
    if format == "lm-eval":
        print_table(rows, f"Run it:   cd {shlex.quote(str(out))}", HARNESS)
    else:
        print_table(rows, f"Questions in {out / 'questions.jsonl'}. Answer in lines of", f"  {LINE}")
    print_next("score", data, "ANSWERS", "--name", "NAME", "--out", "RUN")


def score(
    data: DatasetFolder,
    answers: Annotated[
        list[Path],
        Argument(metavar="ANSWERS…", help="JSON lines with id and answer, or the samples lm-eval logs."),
    ],
    name: Annotated[str, Option(help="What answered; pages call the run's model so.")],
    out: Annotated[Path, Option(help="The run folder to write.", metavar="RUN")],
    seed: Annotated[int, Option(help="The number of this try, as a run's seed.")] = 0,
    reading: Annotated[
        Literal["strict", "lenient"], Option(help="The reading that gives the run its accuracies.")
    ] = "strict",
    force: Force = False,
) -> None:
    """Score answers to the questions of `ctlpp ask`; the result is a run like any other.

    Strictly, an answer is a symbol and nothing else; leniently, it is the last symbol in the text.

    `ctlpp score data/A answers.jsonl --name my-model --out runs/my-model`
    """
    from ctlpp.questions.answers import score as compare

    scores = compare(data, answers, out, name=name, seed=seed, reading=reading, force=force)
    print_scores(name, scores)
    print_table(f"Written to {out}.")
    print_next("report", out, "--out", "report.html")


def print_scores(name: str, scores: Scores) -> None:
    """Accuracies in both readings with intervals, and what could not be read."""
    from ctlpp.questions.answers import FAULTS

    columns = ("questions", "strict", "lenient")
    lengths = make_table("Accuracy [95 % interval]", "split", "length", *columns, left=2)
    pairs = make_table("Pairs by the groups of their functions, first one first", "split", "groups", *columns)
    rows = scores.rows()
    for strict, lenient in zip(rows[::2], rows[1::2], strict=True):
        cells = [f"{strict.questions:,}", _share(strict), _share(lenient)]
        if strict.pair:
            pairs.add_row(strict.split, strict.pair, *cells)
        else:
            lengths.add_row(strict.split, str(strict.length or "all"), *cells)
    faults, total = scores.faults(), sum(map(len, scores.splits.values()))
    notes = [f"{plural(count, 'answer')} of {total:,}: {FAULTS[fault]}" for fault, count in faults.items()]
    print_table(name, lengths, *([pairs] if pairs.row_count else []), *notes)


def _share(row: Row) -> str:
    return f"{row.accuracy:.2f} [{row.low:.2f}, {row.high:.2f}]"
