"""What a sweep on Dask costs, and whether it survives: figures, each printed beside what it is compared with.

    python benchmarks/sweep.py overhead     # pieces of a minute, one worker; and a loop of `ctlpp train`
    python benchmarks/sweep.py workers      # two workers and one, on two idle cores
    python benchmarks/sweep.py kills        # 200 pieces, 8 workers, one killed every few seconds
    python benchmarks/sweep.py many         # 10,000 pieces of a second on 100 pretended workers

Every one has --pieces, --seconds and --workers, to try it at a smaller size.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import io
import json
import logging
import multiprocessing
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread
from typing import Any

from distributed import Scheduler, Worker

from ctlpp.plans.planned import PlannedRun
from ctlpp.plans.work import MachineError, WorkSettings, carry_out
from ctlpp.words import plural

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "ctlpp.training.train", "ctlpp.plans.worker"])
DATA = {"protocol": "clean", "symbols": 4, "functions": 8, "max_length": 4, "fill": 0.9}
DATA |= {"train": 2200, "iid": 200, "ood": 400}
PROCESSES = 4  # for pretended workers


def planned(pieces: int, steps: int) -> list[PlannedRun]:
    """So many seeds of a Bi-LSTM, a piece each, a hundred in a run."""
    return [
        PlannedRun(
            name=f"lstm-{first}",
            model="lstm",
            variant="R",
            seeds=tuple(range(first, min(first + 100, pieces))),
            data=tuple(DATA.items()),
            preset="quick",
            changes=(("steps", steps), ("eval_every", steps)),
        )
        for first in range(0, pieces, 100)
    ]


def train_by_hand(out: Path, seeds: range, steps: int) -> float:
    """Seconds of a plain loop of `ctlpp train`, one seed after the other."""
    data = [word for name, value in DATA.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    began = time.monotonic()
    for seed in seeds:
        command = ["train", "lstm", "R", *data, "--preset", "quick", "--steps", str(steps), "--device", "cpu"]
        command += ["--eval-every", str(steps), "--seeds", f"{seed}-{seed}", "--out", str(out / str(seed))]
        subprocess.run([sys.executable, "-m", "ctlpp", *command], check=True, capture_output=True)
    return time.monotonic() - began


def sweep(out: Path, pieces: int, steps: int, on: str = "local", workers: int | None = None) -> float:
    """Seconds of a plan in pieces of a seed, with whatever belongs to it."""
    began = time.monotonic()
    settings = WorkSettings(device="cpu", on=on, workers=workers, analysis=False, seeds_a_piece=1)
    with redirect_stderr(io.StringIO()):  # the dashboard's address
        outcome = carry_out(planned(pieces, steps), out, settings)
    assert outcome.seeds == pieces, outcome
    return time.monotonic() - began


def steps_in(seconds: float, out: Path) -> int:
    """Training steps of one seed that take so long here."""
    train_by_hand(out / "trial", range(1), 300)
    spent = float(json.loads((out / "trial" / "0" / "result.json").read_text())["seconds"])
    return max(1, round(300 * seconds / spent))


def overhead(out: Path, pieces: int, seconds: float, workers: int) -> None:
    steps, cluster = steps_in(seconds, out), Cluster(1)
    try:
        ours = sweep(out / "sweep", pieces, steps, cluster.address)
        plain = train_by_hand(out, range(pieces), steps)
    finally:
        cluster.close()
    sizes = f"{plural(pieces, 'piece')} of {steps:,} steps"
    print(f"{sizes}: sweep {ours:.1f} s, plain loop {plain:.1f} s, overhead {ours / plain - 1:+.1%}")


def side_by_side(out: Path, pieces: int, seconds: float, workers: int) -> None:
    steps, spent = steps_in(seconds, out), {}
    for many in (1, workers):
        cluster = Cluster(many)
        try:
            spent[many] = sweep(out / f"{many}", pieces, steps, cluster.address)
        finally:
            cluster.close()
    faster = f"{spent[1] / spent[workers]:.2f} ×"
    print(f"{pieces} pieces: one worker {spent[1]:.1f} s, {workers} {spent[workers]:.1f} s, {faster}")


def kills(out: Path, pieces: int, seconds: float, workers: int) -> None:
    steps = steps_in(seconds, out)
    quiet = sweep(out / "quiet", pieces, steps, workers=2)
    print(f"undisturbed, two workers: {quiet:.1f} s", flush=True)
    killed, sittings = 0, 0
    for limit in (pieces // 2, pieces + 1):  # of finished pieces: then the scheduler is killed
        cluster, sittings = Cluster(workers), sittings + 1
        try:
            with killing(cluster, out / "killed", limit) as dead:
                sweep(out / "killed", pieces, steps, cluster.address)
        except MachineError as error:
            print(f"{error}", flush=True)
        finally:
            killed += len(dead)
            cluster.close()
    equal = results(out / "quiet") == results(out / "killed")
    print(
        f"{plural(pieces, 'piece')}, {workers} workers of which {killed} were killed, {sittings} sittings:"
        f" {'equal to the undisturbed run, bit for bit' if equal else 'NOT EQUAL to the undisturbed run'}"
    )
    assert equal


def results(out: Path) -> dict[str, Any]:
    """What every seed came to."""
    found = out.glob("runs/*/*/result.json")
    return {str(path.relative_to(out)): json.loads(path.read_text())["seeds"] for path in found}


@contextmanager
def killing(cluster: Cluster, out: Path, limit: int) -> Iterator[list[str]]:
    """Kill a worker every few seconds, and start another; kill the scheduler when so many pieces are done."""
    over, dead, chance = Event(), list[str](), random.Random(0)

    def kill() -> None:
        while not over.wait(chance.uniform(1, 4)):
            if len([*out.glob("runs/*/*/result.json")]) >= limit:
                cluster.scheduler.kill()
                return
            address = chance.choice(sorted(cluster.workers))
            cluster.workers.pop(address).kill()
            dead.append(address)
            cluster.add()

    thread = Thread(target=kill)
    thread.start()
    try:
        yield dead
    finally:
        over.set()
        thread.join()


def many(out: Path, pieces: int, seconds: float, workers: int) -> None:
    DATA.update(max_length=2, train=32, iid=2, ood=10, fill=1.0)  # every worker draws them
    template = out / "template"
    train_by_hand(template, range(1), 1)
    cluster = Cluster(0)
    try:
        for _ in range(PROCESSES):
            cluster.add(str(template / "0"), seconds, workers // PROCESSES)
        own = time.process_time()
        spent = sweep(out / "many", pieces, 1, cluster.address)
        client, scheduler = time.process_time() - own, cluster.processor_seconds()
    finally:
        cluster.close()
    least = pieces * seconds / (workers // PROCESSES * PROCESSES)
    print(f"{pieces:,} pieces of {seconds:g} s, {workers} workers: {spent:.0f} s, at least {least:.0f}")
    print(f"of a core the scheduler took {scheduler / spent:.0%}, the client {client / spent:.0%}")


def pretend(template: Path, seconds: float) -> Callable[..., None]:
    """A training that only sleeps, and leaves the folder of a run that has been trained."""
    config, result = (json.loads((template / name).read_text()) for name in ("config.json", "result.json"))

    def train(
        model: str, data: object, *, seeds: tuple[int, ...], out: Path, about: Any, **rest: Any
    ) -> None:
        time.sleep(seconds)
        (seed,) = seeds
        shutil.copy(template / "metrics.parquet", out / "metrics.parquet")
        (out / "config.json").write_text(json.dumps(config | {"seeds": [seed], "about": about}))
        own = result | {"seeds": [result["seeds"][0] | {"seed": seed}]}
        (out / "result.json").write_text(json.dumps(own))

    return train


def schedule(pipe: Connection) -> None:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)

    options = {"host": "127.0.0.1", "port": 0, "dashboard_address": ":0", "dashboard": False}

    async def run() -> None:
        async with Scheduler(**options) as scheduler:
            pipe.send(scheduler.address)
            asyncio.get_running_loop().run_in_executor(None, answer)
            await scheduler.finished()

    def answer() -> None:
        while pipe.recv():
            pipe.send(time.process_time())

    asyncio.run(run())


def work(pipe: Connection, scheduler: str, template: str, seconds: float, count: int) -> None:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if template:
        import ctlpp.training.train

        ctlpp.training.train.train = pretend(Path(template), seconds)  # type: ignore[assignment]
        gc.collect = lambda *given: 0  # what a real worker does after a piece, for itself

    async def run() -> None:
        place = tempfile.mkdtemp(prefix="worker-")
        options = {"nthreads": 1, "memory_limit": 0, "local_directory": place, "dashboard": False}
        some = [await Worker(scheduler, **options) for _ in range(count)]
        pipe.send(some[0].address)
        await asyncio.gather(*(one.finished() for one in some))

    asyncio.run(run())


class Cluster:
    """A scheduler and workers, as processes that fork quickly."""

    def __init__(self, workers: int) -> None:
        self.workers: dict[str, Any] = {}
        self.scheduler, self.address, self.pipe = self._start(schedule)
        for _ in range(workers):
            self.add()

    def add(self, template: str = "", seconds: float = 0.0, count: int = 1) -> None:
        """A process of one worker, or of several that pretend."""
        process, address, _ = self._start(work, self.address, template, seconds, count)
        self.workers[address] = process

    def _start(self, target: Any, *arguments: Any) -> tuple[Any, str, Connection]:
        mine, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=target, args=(theirs, *arguments), daemon=True)
        process.start()
        return process, str(mine.recv()), mine

    def processor_seconds(self) -> float:
        """That the scheduler has taken."""
        self.pipe.send(True)
        return float(self.pipe.recv())

    def close(self) -> None:
        """End everything."""
        for process in (*self.workers.values(), self.scheduler):
            process.kill()
            process.join()


SIZES = {  # pieces, seconds each, workers
    "overhead": (overhead, 3, 60.0, 1),
    "workers": (side_by_side, 8, 15.0, 2),
    "kills": (kills, 200, 1.0, 8),
    "many": (many, 10_000, 1.0, 100),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=SIZES)
    parser.add_argument("--pieces", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    measure, pieces, seconds, workers = SIZES[given.what]
    with tempfile.TemporaryDirectory() as folder:
        sizes = given.pieces or pieces, given.seconds or seconds, given.workers or workers
        measure(Path(folder), *sizes)


if __name__ == "__main__":
    main()
