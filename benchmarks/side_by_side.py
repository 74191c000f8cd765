"""Two trainings on the same cores: how long does each take, beside one that has them alone?

    python benchmarks/side_by_side.py                             # as `ctlpp` sets the threads' waiting
    GOMP_SPINCOUNT=infinity python benchmarks/side_by_side.py     # threads that never sleep

Prints the seconds of 300 steps of three small GRUs, alone and two at once. A process is given a minute.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = "R --symbols 4 --functions 8 --max-length 4 --fill 0.9 --train 2200 --iid 200 --ood 400"
LONGEST = 60  # seconds


def start(*arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "ctlpp", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def seconds(process: "subprocess.Popen[bytes]", run: Path) -> str:
    """Of training, as the run itself counts them."""
    try:
        process.wait(LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        return f"more than {LONGEST}"
    return f"{json.loads((run / 'result.json').read_text())['seconds']:.1f}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        start("generate", *DATA.split(), "--out", str(data)).wait()
        for many in (1, 2):
            runs = [Path(folder) / f"{many}-{number}" for number in range(many)]
            options = ("--preset", "quick", "--steps", "300", "--seeds", "3")
            processes = [start("train", "gru", str(data), *options, "--out", str(run)) for run in runs]
            taken = [seconds(*pair) for pair in zip(processes, runs, strict=True)]
            print(f"{many} at once: {', '.join(taken)} s", flush=True)


if __name__ == "__main__":
    main()
