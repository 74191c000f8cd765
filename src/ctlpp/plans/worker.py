"""What a Dask worker does with a piece, and what it tells the client meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from time import monotonic, sleep
from typing import Any

import torch
from distributed import Status, Worker, WorkerPlugin, get_worker

import ctlpp
from ctlpp.files import BusyError, UserError, write_atomically
from ctlpp.plans.pieces import Piece, saved_step
from ctlpp.plans.planned import data_digests
from ctlpp.plans.work import PieceOutcome, WorkSettings, attempt
from ctlpp.runs.history import Score, StepStats

SAVE_SECONDS = 30.0  # within which whoever works on a piece has saved it and left
PROGRESS_SECONDS = 1.0  # between messages about steps
NEARLY = 0.9  # of the memory limit, just below where the nanny ends a worker
WORKING: set[str] = set()  # ids of the workers in this process that work on a piece


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """A piece for a worker, and what must hold there."""

    piece: Piece  # in the client's folder
    settings: WorkSettings
    marker: Path  # a worker that sees this file of the client sees the client's folder
    versions: dict[str, str]
    digests: dict[str, str]  # of the splits
    code: dict[str, bytes]  # of your own model, by the names of its files
    files: dict[str, bytes] | None  # what the piece's folder contains, if that has been sent

    @property
    def own_folder(self) -> Path:
        """Where a worker that does not see the client's folder works: the same for the same work."""
        piece = self.piece
        facts = repr((replace(piece.run, seeds=()), piece.seeds, self.digests, piece.folder))
        return Path(tempfile.gettempdir(), "ctlpp-pieces", sha256(facts.encode()).hexdigest()[:24])


@dataclass(frozen=True)
class Reply:
    """What a worker returns."""

    worker: str  # its address
    outcome: PieceOutcome
    files: dict[str, bytes] = field(default_factory=dict)  # of the piece, if the worker has its own folder


def work_on_piece(assignment: Assignment) -> Reply:
    """Work on a piece, in the client's folder or in a folder of this machine."""
    worker, piece = get_worker(), assignment.piece
    shared = sees_folder(assignment)
    if not shared:
        if assignment.files is None:
            return Reply(worker.address, PieceOutcome("send files"))
        piece = replace(piece, folder=assignment.own_folder)
        try:
            _unpack(assignment.files, piece.folder)
        except (OSError, UserError) as error:
            return Reply(worker.address, PieceOutcome("machine", str(error)))
    reporter = Reporter(assignment.marker.stem, worker, worker.get_current_task())
    reporter.send("assigned", [worker.address, saved_step(piece.folder)])
    if mismatch := find_mismatch(assignment, worker):
        return Reply(worker.address, PieceOutcome("machine", mismatch))
    settings = replace(assignment.settings, device=_device(assignment.settings, worker))
    use_code(assignment.code, Path(worker.local_directory, "ctlpp-code"))
    WORKING.add(worker.id)
    try:
        outcome = _wait_until_free(lambda: attempt(piece, settings, [reporter]))
    except KeyboardInterrupt:  # everything is saved
        if not shared:
            reporter.send("handed_back", read_files(piece.folder))
        return Reply(worker.address, PieceOutcome("again"))
    finally:
        WORKING.discard(worker.id)
    if shared:
        return Reply(worker.address, outcome)
    reply = Reply(worker.address, outcome, read_files(piece.folder))
    if outcome.state == "done":
        rmtree(piece.folder, ignore_errors=True)
    return reply


def sees_folder(assignment: Assignment) -> bool:
    """Whether this machine has the client's folder."""
    return assignment.marker.is_file()


def _wait_until_free(work: Callable[[], PieceOutcome]) -> PieceOutcome:
    """Give another process the time to save the piece and leave it."""
    began = monotonic()
    while True:
        try:
            return work()
        except BusyError as error:
            if monotonic() - began > SAVE_SECONDS:
                return PieceOutcome("busy", str(error))
            sleep(0.5)


def _device(settings: WorkSettings, worker: Worker) -> str:
    """On a machine with several GPUs each local worker has its own."""
    gpus = torch.cuda.device_count() if settings.on == "local" and settings.device in ("auto", "cuda") else 0
    return f"cuda:{int(worker.name) % gpus}" if gpus > 1 else settings.device


def find_mismatch(assignment: Assignment, worker: Worker) -> str:
    """Why results of this worker would not be the client's, if there is a reason."""
    if worker.state.nthreads != 1:
        return f"it has {worker.state.nthreads} threads, each would train: start it with --nthreads 1"
    here = versions()
    for name, wanted in assignment.versions.items():
        if here[name] != wanted:
            return f"it has {name} {here[name]}, the client {wanted}: install the same"
    run = assignment.piece.run
    for split, checksum in data_digests(run).items():
        if assignment.digests[split] != checksum:
            return f"its {split} data of {run.variant} are not the client's"
    return ""


def use_code(code: Mapping[str, bytes], place: Path) -> None:
    """From now on import these files and none that were used before. place: for files of that kind."""
    folder = place / sha256(repr(sorted(code.items())).encode()).hexdigest()[:24]
    for name, content in code.items():
        write_atomically(folder / name, content)
    wanted = [str(folder)] if code else []
    before = [path for path in sys.path if Path(path).is_relative_to(place)]
    if wanted == before:
        return
    sys.path[:] = [*wanted, *(path for path in sys.path if path not in before)]
    for name, module in [*sys.modules.items()]:
        if f"{name}.py" in code or Path(getattr(module, "__file__", None) or "").is_relative_to(place):
            del sys.modules[name]


def versions() -> dict[str, str]:
    """The versions that must be equal everywhere."""
    return {"ctlpp": ctlpp.__version__, "torch": str(torch.__version__)}


def read_files(folder: Path) -> dict[str, bytes]:
    """The contents of a run folder, by name; the result comes last."""
    found = [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".part" and path.name != ".lock"
    ]
    found.sort(key=lambda path: (path.name == "result.json", path))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def _unpack(files: dict[str, bytes], folder: Path) -> None:
    """Write these files into a folder, unless its own checkpoint is newer."""
    steps = [Path(name).stem.removeprefix("step-") for name in files if Path(name).match("checkpoint/*.json")]
    if not steps or int(max(steps)) < saved_step(folder):
        return
    rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        write_atomically(folder / name, content)


@dataclass
class Reporter:
    """An observer that reports to the client, and stops the training once the client does not want it."""

    topic: str
    worker: Worker
    key: str  # of the task
    reported: float = 0.0  # when a step was, last

    def send(self, event: str, facts: Any) -> None:
        """Send the client a message."""
        with suppress(Exception):  # it may be gone
            self.worker.log_event(self.topic, [self.key, event, facts])

    def on_start(self, config: dict[str, Any], step: int) -> None:
        """Say what trains."""
        short = {"parameters": config["parameters"], "recipe": {"steps": config["recipe"]["steps"]}}
        self.send("on_start", [short, step])

    def on_note(self, line: str) -> None:
        """Pass it on."""
        self.send("on_note", [line])

    def on_step(self, stats: StepStats) -> None:
        """Report progress once in a while; interrupt the training if the task is cancelled."""
        task = self.worker.state.tasks.get(self.key)
        if task is None or task.state != "executing" or is_leaving(self.worker):
            raise KeyboardInterrupt
        if monotonic() - self.reported > PROGRESS_SECONDS or stats.step == stats.steps:
            self.reported = monotonic()
            self.send("on_step", [asdict(stats)])

    def on_evaluate(self, step: int, scores: Sequence[Score]) -> None:
        """Report accuracies on whole splits."""
        self.send("on_evaluate", [step, [[*score] for score in scores if not score.length]])


class SaveBeforeClosing(WorkerPlugin):  # type: ignore[misc]
    """Lets a worker that is asked to close save its piece first; SIGTERM is such a request."""

    name = "ctlpp-save"
    idempotent = True  # a second client finds it there

    def setup(self, worker: Worker) -> None:
        def close() -> None:
            if exceeds_memory(worker):  # its nanny asks, and starts another
                os._exit(1)
            self.closing = asyncio.ensure_future(worker.close(reason="SIGTERM"))

        with suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, close)

    async def teardown(self, worker: Worker) -> None:
        began = monotonic()
        while is_leaving(worker) and worker.id in WORKING and monotonic() - began < SAVE_SECONDS:
            await asyncio.sleep(0.05)


def is_leaving(worker: Worker) -> bool:
    """Whether a worker has been asked to close; one that is short of memory is just paused."""
    return worker.status not in (Status.running, Status.paused)


def exceeds_memory(worker: Worker) -> bool:
    """Whether the process has about as much memory as Dask lets it have, if there is a limit."""
    limit = worker.memory_manager.memory_limit
    return bool(limit) and worker.monitor.get_process_memory() > NEARLY * limit
