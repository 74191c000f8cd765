"""What a Dask worker does with a piece."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from time import monotonic, sleep
from typing import Any

from distributed import Status, Worker, WorkerPlugin, get_worker

import ctlpp
from ctlpp.files import BusyError, write_atomically
from ctlpp.plans.pieces import saved_step
from ctlpp.plans.planned import PlannedRun, data_digests
from ctlpp.plans.work import End, WorkSettings, attempt
from ctlpp.runs.history import Score, StepStats

PATIENCE = 30.0  # seconds for somebody else to save and leave
AT_IT: set[str] = set()  # workers of this process that are at a piece
TELL_EVERY = 1.0  # seconds between steps that are told


@dataclass(frozen=True, kw_only=True)
class Job:
    """A piece, and what must hold where it is trained."""

    run: PlannedRun
    seeds: tuple[int, ...]
    folder: Path  # where the client has it
    settings: WorkSettings
    mark: Path  # whoever sees this file sees the folder
    versions: dict[str, str]
    digests: dict[str, str]  # of the splits
    files: dict[str, bytes] | None  # what the folder has, if it has travelled

    @property
    def name(self) -> str:
        """The same for the same work."""
        told = repr((replace(self.run, seeds=()), self.seeds, self.digests, self.folder))
        return sha256(told.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Answer:
    """What a worker gives back."""

    where: str  # its address
    end: End  # also "send": the folder's files are needed
    files: dict[str, bytes] = field(default_factory=dict)  # of the folder, if the client's is not seen


def do_piece(job: Job) -> Answer:
    """Work on a piece, in the client's folder or in one of our own."""
    worker = get_worker()
    if reason := unfit(job, worker):
        return Answer(worker.address, End("machine", reason))
    seen, folder = sees_folder(job), job.folder
    if not seen:
        if job.files is None:
            return Answer(worker.address, End("send"))
        folder = Path(tempfile.gettempdir(), "ctlpp-pieces", job.name)
        _unpack(job.files, folder)
    messenger = Messenger(job.mark.stem, worker, worker.get_current_task())
    settings = replace(job.settings, device=_device(job.settings, worker))
    AT_IT.add(worker.id)
    try:
        end = _patiently(lambda: attempt(job.run, job.seeds, folder, settings, [messenger]))
    except KeyboardInterrupt:  # it is saved
        if not seen:
            messenger.send("on_leave", read_files(folder))
        return Answer(worker.address, End("again"))
    finally:
        AT_IT.discard(worker.id)
    if seen:
        return Answer(worker.address, end)
    answer = Answer(worker.address, end, read_files(folder))
    if end.state == "done":
        rmtree(folder, ignore_errors=True)
    return answer


def sees_folder(job: Job) -> bool:
    """Whether the client's folder is ours, too."""
    return job.mark.is_file()


def _patiently(work: Callable[[], End]) -> End:
    began = monotonic()
    while True:
        try:
            return work()
        except BusyError as error:
            if monotonic() - began > PATIENCE:
                return End("busy", str(error))
            sleep(0.5)


def _device(settings: WorkSettings, worker: Worker) -> str:
    """On a machine of several GPUs each local worker has its own."""
    import torch

    gpus = torch.cuda.device_count() if settings.on == "local" and settings.device in ("auto", "cuda") else 0
    return f"cuda:{int(worker.name) % gpus}" if gpus > 1 else settings.device


def unfit(job: Job, worker: Worker) -> str:
    """Why results of this worker would not be the client's; empty if they are."""
    if worker.state.nthreads != 1:
        return f"it has {worker.state.nthreads} threads, each would train: start it with --nthreads 1"
    here = versions()
    for name, wanted in job.versions.items():
        if here[name] != wanted:
            return f"it has {name} {here[name]}, the client {wanted}: install the same"
    for file, checksum in job.run.code:
        path = Path(worker.local_directory, Path(file).name)
        if not path.is_file() or sha256(path.read_bytes()).hexdigest() != checksum:
            return f"it has another {path.name} than the client: another sweep may have brought it"
    for split, checksum in data_digests(job.run).items():
        if job.digests[split] != checksum:
            return f"its {split} data of {job.run.variant} are not the client's"
    return ""


def versions() -> dict[str, str]:
    """Of what decides results."""
    import torch

    return {"ctlpp": ctlpp.__version__, "torch": str(torch.__version__)}


def read_files(folder: Path) -> dict[str, bytes]:
    """A run folder, to travel; the result last."""
    found = [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".part" and path.name != ".lock"
    ]
    found.sort(key=lambda path: (path.name == "result.json", path))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def _unpack(files: dict[str, bytes], folder: Path) -> None:
    """Put the files that have travelled into a folder, unless what is there has come further."""
    steps = [Path(name).stem.removeprefix("step-") for name in files if Path(name).match("checkpoint/*.json")]
    if not steps or int(max(steps)) < saved_step(folder):
        return
    rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        write_atomically(folder / name, content)


@dataclass
class Messenger:
    """An observer that tells the client, and stops the training when the client does not want it any more."""

    topic: str
    worker: Worker
    key: str
    told: float = 0.0

    def send(self, event: str, facts: Any) -> None:
        """Tell the client."""
        with suppress(Exception):  # it may be gone
            self.worker.log_event(self.topic, [self.key, event, facts])

    def on_start(self, config: dict[str, Any], step: int) -> None:
        """Where, and what."""
        self.send("placed", [self.worker.address])
        told = {"parameters": config["parameters"], "recipe": {"steps": config["recipe"]["steps"]}}
        self.send("on_start", [told, step])

    def on_note(self, line: str) -> None:
        """Pass it on."""
        self.send("on_note", [line])

    def on_step(self, stats: StepStats) -> None:
        """How far it is, once in a while; and whether it is to go on."""
        task = self.worker.state.tasks.get(self.key)
        if task is None or task.state != "executing" or self.worker.status != Status.running:
            raise KeyboardInterrupt
        if monotonic() - self.told > TELL_EVERY or stats.step == stats.steps:
            self.told = monotonic()
            self.send("on_step", [asdict(stats)])

    def on_evaluate(self, step: int, scores: Sequence[Score]) -> None:
        """Accuracies on whole splits."""
        self.send("on_evaluate", [step, [[*score] for score in scores if not score.length]])


class SaveBeforeLeaving(WorkerPlugin):  # type: ignore[misc]
    """Lets the piece of a worker save that is asked to leave; SIGTERM is such a request."""

    name = "ctlpp-save"
    idempotent = True  # a second client finds it there

    def setup(self, worker: Worker) -> None:
        def leave() -> None:
            self.leaving = asyncio.ensure_future(worker.close(reason="SIGTERM"))

        with suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave)

    async def teardown(self, worker: Worker) -> None:
        began = monotonic()
        while worker.status != Status.running and worker.id in AT_IT and monotonic() - began < PATIENCE:
            await asyncio.sleep(0.05)
