"""How many files of `ctlpp` does each flow enter? A measure of how far apart things are that belong together.

    python benchmarks/flow_files.py              # about two minutes on a CPU
    python benchmarks/flow_files.py --names      # also which files

Each flow is a command on small data, run through the entry point of the command line in a process of its
own. A file counts as soon as one of its functions is called, in any thread and in any process that the
command starts; the bodies of modules and classes, which run when a file is imported, do not count.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "ctlpp"
SMALL = "--symbols 4 --functions 8 --max-length 3 --train 200 --iid 10 --ood 20"
GOALS = {"generate": 14, "train": 22, "analyze": 28, "report": 20, "reproduce": 50}
FLOWS = {
    "generate": f"generate R {SMALL} --out data",
    "train": "train gru data --preset quick --seeds 2 --steps 4 --device cpu --out runs/gru",
    "analyze": "analyze runs/gru",
    "report": "report runs --out report.html",
    "reproduce": "reproduce table1 --scale quick --only lstm/R --seeds 1 --device cpu --out results",
}

# A process imports this first, as `sitecustomize`; in the end it writes down which files it entered.
RECORDER = """
import atexit, inspect, os, sys, threading

codes = set()

def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and os.environ["FLOW_PACKAGE"] in code.co_filename:
        codes.add(code)

def write():
    sys.setprofile(None)
    functions = (code for code in codes if code.co_flags & inspect.CO_OPTIMIZED)
    files = {code.co_filename for code in functions if code.co_filename.endswith(".py")}
    with open(f"{os.environ['FLOW_FILES']}/{os.getpid()}", "w") as out:
        out.write("\\n".join(sorted(files)))

def leave(code, end=os._exit):
    write()
    end(code)

atexit.register(write)
os._exit = leave  # a command of ours ends with it, before this module's exit handler
threading.setprofile(note)
sys.setprofile(note)
"""


def entered(arguments: str, folder: Path) -> set[str]:
    """The files of the package that a command enters, from the root of the package."""
    with tempfile.TemporaryDirectory() as place:
        records, recorder = Path(place) / "records", Path(place) / "recorder"
        records.mkdir()
        recorder.mkdir()
        (recorder / "sitecustomize.py").write_text(RECORDER)
        paths = f"{recorder}{os.pathsep}{PACKAGE.parent}"
        environment = os.environ | {
            "PYTHONPATH": paths,
            "FLOW_FILES": str(records),
            "FLOW_PACKAGE": str(PACKAGE),
            "CUDA_VISIBLE_DEVICES": "",
        }
        command = [sys.executable, "-m", "ctlpp", *arguments.split()]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"ctlpp {arguments}\n{done.stdout}{done.stderr}")
        files = {line for record in records.iterdir() for line in record.read_text().splitlines()}
    return {str(Path(file).relative_to(PACKAGE)) for file in files}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--names", action="store_true", help="print the names of the files")
    parser.add_argument(
        "flows", nargs="*", help=f"some of {', '.join(FLOWS)}; those before them are run as well"
    )
    options = parser.parse_args()
    print(f"{'flow':12}{'files':>6}{'goal':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for flow, arguments in FLOWS.items():
            files = entered(arguments, Path(folder))
            if flow in (options.flows or FLOWS):
                print(f"{flow:12}{len(files):6}{GOALS[flow]:6}", flush=True)
                if options.names:
                    print(*(f"    {file}" for file in sorted(files)), sep="\n")


if __name__ == "__main__":
    main()
