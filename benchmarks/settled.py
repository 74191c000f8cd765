"""What would `--until settled` have saved, and would it have changed a verdict?

    python benchmarks/settled.py            # the finished runs in results/, with the rule of the plan

A crowd stops once, over the last 20 evaluations, every seed's IID accuracy is at least 0.995 and none of its
accuracies moves by more than 0.05. A piece of a run is a crowd. Shown are runs that would have stopped early.
"""

from dataclasses import replace
from pathlib import Path

from ctlpp.report.compare import Setting
from ctlpp.reproduce.plan import SETTLED
from ctlpp.reproduce.results import RunResult, load_results
from ctlpp.runs.folder import RunRecord
from ctlpp.runs.history import History, read_history

RESULTS = Path(__file__).parent.parent / "results"


def until(history: History, evaluations: int) -> History:
    """Its first evaluations."""
    curves = (
        {key: curve[:evaluations] for key, curve in one.items()} for one in (history.accuracy, history.loss)
    )
    return History(history.steps[:evaluations], history.seeds, *curves)


def stopped(piece: RunRecord) -> tuple[int, RunRecord]:
    """The step at which a crowd would have stopped, and the crowd as it was then."""
    history, rule = read_history(piece.folder / "metrics.parquet"), dict(SETTLED)
    times, accuracy, change = (rule[name] for name in ("early_stop", "settled_accuracy", "settled_change"))
    diverged = {seed.number: seed.diverged_at or 0 for seed in piece.seeds if seed.diverged}
    for evaluations in range(1, len(history.steps) + 1):
        early = until(history, evaluations)
        if early.settled(times, accuracy, change, [*diverged]):
            break
    return int(early.steps[-1]), replace(piece, seeds=tuple(early.results(diverged)))


def main() -> None:
    """Print the runs, and the totals."""
    saved = trained = changed = 0
    print(f"{'run':26} {'stops at':>16} {'OOD then':>9} {'in the end':>10}  verdict then, in the end")
    for run in load_results(RESULTS).finished:
        ends = [stopped(piece) for piece in run.setting.runs]
        early = RunResult(run.name, run.planned, Setting(tuple(piece for _, piece in ends)))
        seeds = [len(piece.seeds) for piece in run.setting.runs]
        steps = [piece.step or 0 for piece in run.setting.runs]
        trained += sum(many * last for many, last in zip(seeds, steps, strict=True))
        left = sum(many * (last - at) for many, last, (at, _) in zip(seeds, steps, ends, strict=True))
        if not left:
            continue
        saved += left
        then, now = early.row(), run.row()
        changed += then.get("verdict") != now.get("verdict")
        words = f"{then.get('verdict') or '–'}, {now.get('verdict') or '–'}"
        at = ", ".join(f"{step:,}" for step, _ in ends)
        print(f"{run.name:26} {at:>16} {then['mean']:9.3f} {now['mean']:10.3f}  {words}")
    print(f"{saved / trained:.0%} of {trained:,} steps of seeds saved; {changed} verdicts changed")


if __name__ == "__main__":
    main()
