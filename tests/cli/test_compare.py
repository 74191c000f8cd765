"""`ctlpp compare`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

SMALL = "--protocol clean --symbols 4 --functions 8 --max-length 3 --train 200 --iid 20 --ood 20"
QUICK = "--preset quick --steps 2 --batch 8"


def test_two_runs_are_compared_in_a_table(command: Any, refused: Callable[..., str]) -> None:
    for model, seeds in (("gru", "3"), ("rnn", "1")):
        assert command(f"train {model} R {SMALL} {QUICK} --seeds {seeds} --out runs/{model}").code == 0
    done = command("compare runs/gru runs/rnn")
    assert (done.code, done.err) == (0, "")
    assert "With fewer than 10 seeds in a run" in done.out
    rows = [line.split() for line in done.out.splitlines() if line.strip().startswith("ood")]
    assert [row[:2] for row in rows] == [["ood", "all"], ["ood", "2"], ["ood", "3"], ["ood", "0"]]
    assert rows[-1][2:4] == ["of", "3"]
    (Path("runs") / "gru" / "result.json").unlink()
    assert refused("compare runs/gru runs/rnn").startswith("runs/gru has no finished run (unfinished: last")
