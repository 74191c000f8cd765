"""Pieces on many workers, by Dask: processes of this machine, a scheduler that runs, or jobs of a queue.

The client holds a lease on every piece that it has submitted: a claim, which other clients respect, and how
often the piece has failed. It submits a piece again if its worker has died. A worker computes one piece at a
time. It writes into the folder of the plan if it sees it; else the files are sent, there and back.

Whatever dies, the newest checkpoint that can be reached goes on: a worker asked to leave (SIGTERM) saves
first, and so do all of them when the client or the scheduler is gone.

A queue is a TOML file: its system, how many jobs at most, and the keyword arguments of that system's cluster
in dask-jobqueue.

    system = "slurm"            # or pbs, sge, lsf, htcondor, oar, moab
    jobs = 20
    cores = 4
    memory = "16GB"
    queue = "gpu"
    walltime = "02:00:00"
    job_extra_directives = ["--gres=gpu:1"]
"""

from __future__ import annotations

import logging
import sys
import tomllib
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.util import find_spec
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from shutil import which
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import dask
from distributed import Client, Future, KilledWorker, LocalCluster

from ctlpp.files import BusyError, UserError, write_atomically
from ctlpp.models.zoo import error_line
from ctlpp.plans.pieces import Piece, claim, forget_failure
from ctlpp.plans.planned import data_digests
from ctlpp.plans.work import (
    LEFT_TO_OTHERS,
    LOCAL,
    Deadline,
    MachineError,
    PieceOutcome,
    Watch,
    WorkSettings,
    count_workers,
    find_device_facts,
    with_titles,
)
from ctlpp.plans.worker import Assignment, Reply, SaveBeforeClosing, read_files, versions, work_on_piece
from ctlpp.runs.history import Score, StepStats, tell

NO_WORKER = "no worker is left: waiting for another"
# Of local workers. By default Dask has them give memory back at once, too (MALLOC_TRIM_THRESHOLD_): small
# models then spend a third of their time on asking for it again.
ENVIRONMENT = "distributed.nanny.pre-spawn-environ"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
TRIES = 3  # of a piece, until it is set aside
SYSTEMS = {name.lower(): name for name in ("SLURM", "PBS", "SGE", "LSF", "HTCondor", "OAR", "Moab")}


def work_on_cluster(
    pieces: Sequence[Piece], settings: WorkSettings, watch: Watch
) -> Iterator[tuple[Piece, PieceOutcome]]:
    """Work on all pieces; outcomes as they come."""
    code = {path: read_code(path, checksum) for piece in pieces for path, checksum in piece.run.code}
    marker = pieces[0].out.absolute() / ".locks" / f"{uuid4().hex}.marker"
    with connect(settings) as client:
        if settings.on != LOCAL or find_spec("bokeh"):
            print(f"Dask's dashboard: {client.dashboard_link}", file=sys.stderr)
        dispatcher = Dispatcher(client, settings, watch, marker, code)
        write_atomically(marker, b"")
        try:
            yield from dispatcher.work(pieces)
        finally:
            dispatcher.stop()
            marker.unlink(missing_ok=True)


def read_code(path: str, checksum: str) -> bytes:
    """A file of your own model, as it was when it was checked."""
    content = Path(path).read_bytes()
    if sha256(content).hexdigest() != checksum:
        raise UserError(f"{path} has just changed: start again")
    return content


@dataclass(eq=False)
class Lease:
    """A piece that this client works on, with the help of a worker."""

    piece: Piece
    title: str
    observer: object = None
    claim: ExitStack = field(default_factory=ExitStack)
    failures: int = 0
    step: int = 0  # from which a worker last began …
    begun: int = 0  # … and how many have, in a row
    files: dict[str, bytes] | None = None  # of its folder, for workers that do not see it
    future: Future | None = None

    def begin(self, worker: str, step: int) -> None:
        """A worker has the piece."""
        if self.begun:
            tell([self.observer], "on_note", f"goes on at step {step:,} on {worker}")
        self.step, self.begun = step, self.begun + 1 if step == self.step else 1
        tell([self.observer], "assigned", worker)


@dataclass(eq=False)
class Dispatcher:
    """Submits pieces to the workers and collects their outcomes."""

    client: Client
    settings: WorkSettings
    watch: Watch
    marker: Path  # workers that see this file see the folder of the plan
    code: dict[str, bytes]  # of your own models, by path
    leases: dict[str, Lease] = field(default_factory=dict)  # by key of the future
    messages: SimpleQueue[Any] = field(default_factory=SimpleQueue)  # futures that are done, and events
    workers: int = 0
    counted: float = 0.0  # when

    def work(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, PieceOutcome]]:
        """Work on all pieces; outcomes as they come."""
        self.client.subscribe_topic(self.marker.stem, self.messages.put)
        waiting = deque(Lease(piece, title) for title, piece in with_titles(pieces))
        deadline = Deadline(self.settings.minutes)
        while waiting or self.leases:
            deadline.check()
            capacity = self._capacity()
            while waiting and len(self.leases) < capacity:
                lease = waiting.popleft()
                try:
                    self._acquire(lease)
                except BusyError:
                    tell([lease.observer], "on_note", LEFT_TO_OTHERS)
                    yield lease.piece, PieceOutcome("busy")
                else:
                    self._submit(lease)
            for lease, outcome in self._receive():
                if self._try_again(lease, outcome):
                    self._submit(lease)
                else:
                    lease.claim.close()
                    yield lease.piece, outcome

    def stop(self) -> None:
        """Cancel what is still submitted: its workers save and stop."""
        with suppress(Exception):  # the scheduler may be gone
            self.client.cancel([lease.future for lease in self.leases.values()], force=True)
        for lease in self.leases.values():
            with suppress(OSError):  # not if it has begun
                lease.piece.folder.rmdir()
                lease.piece.folder.parent.rmdir()
            lease.claim.close()

    def _capacity(self) -> int:
        """Pieces to submit: one per worker, and a few that begin as soon as one is done."""
        if monotonic() - self.counted > 1:
            before, self.workers, self.counted = self.workers, self._count_workers(), monotonic()
            if before and not self.workers:
                tell([lease.observer for lease in [*self.leases.values()][:1]], "on_note", NO_WORKER)
        return self.workers + max(1, self.workers // 4)

    def _count_workers(self) -> int:
        try:
            return len(self.client.scheduler_info(n_workers=-1)["workers"])
        except OSError:
            return self.workers

    def _acquire(self, lease: Lease) -> None:
        folder = lease.piece.folder
        lease.observer = self.watch(lease.title, lease.piece)
        lease.claim.enter_context(claim(lease.piece))
        forget_failure(folder)
        lease.files = None if (folder / "config.json").exists() else {}

    def _submit(self, lease: Lease) -> None:
        piece = lease.piece
        assignment = Assignment(
            piece=replace(piece, folder=piece.folder.absolute()),
            settings=self.settings,
            marker=self.marker,
            versions=versions(),
            digests=data_digests(piece.run),
            code={Path(path).name: self.code[path] for path, _ in piece.run.code},
            files=lease.files,
        )
        key = f"work_on_piece-{uuid4().hex}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of checkpoints that are sent, and large
            lease.future = self.client.submit(work_on_piece, assignment, key=key, pure=False)
        self.leases[key] = lease
        lease.future.add_done_callback(self.messages.put)

    def _try_again(self, lease: Lease, outcome: PieceOutcome) -> bool:
        """Whether a worker should have the piece once more; not if the last worker is gone."""
        if outcome.state not in ("failed", "machine") or lease.failures >= TRIES:
            return outcome.state == "again"
        return outcome.state == "failed" or self._count_workers() > 0

    def _receive(self) -> Iterator[tuple[Lease, PieceOutcome]]:
        """Wait for a message; a lease and its outcome, if the message ends one."""
        try:
            message = self.messages.get(timeout=0.2)
        except Empty:
            return
        if isinstance(message, Future):
            if lease := self.leases.get(message.key):
                outcome = self._read_result(lease, message)
                del self.leases[message.key]
                yield lease, outcome
            return
        key, event, facts = message[1]
        if event == "handed_back" and key in self.leases:
            lease = self.leases.pop(key)
            self.client.cancel([lease.future], force=True)
            lease.files = facts
            yield lease, PieceOutcome("again")
        elif key in self.leases:
            lease = self.leases[key]
            if event == "assigned":
                lease.begin(*facts)
            else:
                report(lease.observer, event, facts)

    def _read_result(self, lease: Lease, future: Future) -> PieceOutcome:
        """How the work on a piece has ended that a worker had."""
        if future.status == "cancelled":
            raise MachineError("the scheduler is gone: the same command goes on when there is one again")
        if error := future.exception():
            if isinstance(error, KilledWorker):
                return self._outcome_of_deaths(lease, error)
            lease.failures += 1
            line = f"a worker cannot begin: {type(error).__name__}: {error}".partition("\n")[0]
            return PieceOutcome("machine", line)
        reply: Reply = future.result()
        outcome = reply.outcome
        if outcome.state == "send files":
            lease.files = read_files(lease.piece.folder)
            return PieceOutcome("again")
        for name, content in reply.files.items():
            assert ".." not in Path(name).parts
            write_atomically(lease.piece.folder / name, content)
        lease.failures += outcome.state in ("failed", "machine")
        if outcome.state == "machine":
            tell([lease.observer], "on_note", f"{reply.worker} takes no more pieces: {outcome.reason}")
            future.release()
            self._retire(reply.worker)
        return outcome

    def _outcome_of_deaths(self, lease: Lease, error: KilledWorker) -> PieceOutcome:
        """Several workers died that had the piece; but they may have been at another, or far ahead."""
        if lease.begun < TRIES:
            return PieceOutcome("again")
        lease.failures = TRIES
        restarts = self.client.get_events("worker-restart-memory")  # by nannies
        above = any(event["worker"] == error.last_worker.address for _, event in restarts)
        why = "above the memory limit that Dask gives it" if above else "out of memory?"
        reason = f"its worker died, {lease.begun} times in a row at step {lease.step:,}: {why}"
        return PieceOutcome("failed", reason, (str(error),))

    def _retire(self, worker: str) -> None:
        """Send a worker away; the scheduler keeps it as long as it thinks that its result is wanted."""
        end = monotonic() + 10
        while not self.client.retire_workers([worker], close_workers=True) and monotonic() < end:
            sleep(0.1)


def report(observer: object, event: str, facts: Any) -> None:
    """Tell an observer what a worker has reported."""
    if event == "on_step":
        facts = [StepStats(**facts[0])]
    elif event == "on_evaluate":
        facts = [facts[0], [Score(*row) for row in facts[1]]]
    tell([observer], event, *facts)


def device_facts(settings: WorkSettings) -> tuple[str, float]:
    """`find_device_facts` of where the pieces will be; of a scheduler's workers the first is asked."""
    if settings.on == LOCAL:
        return find_device_facts(settings.device, count_workers(settings))
    if settings.on.endswith(".toml"):
        kind = "cuda" if "gpu" in Path(settings.on).read_text().lower() else "cpu"
        return kind if settings.device == "auto" else settings.device.partition(":")[0], inf
    with connect(settings) as client:
        found: tuple[str, float] = client.submit(find_device_facts, settings.device, pure=False).result()
        return found


@contextmanager
def connect(settings: WorkSettings) -> Iterator[Client]:
    """A Dask client of the workers."""
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        address: Any = settings.on
        if settings.on == LOCAL:
            stack.enter_context(dask.config.set({ENVIRONMENT: dict.fromkeys(THREADS, 1)}))
            address = LocalCluster(
                n_workers=count_workers(settings),
                threads_per_worker=1,
                memory_limit=0,
                silence_logs=logging.CRITICAL,
                dashboard_address=":0",  # any port: several may run at a time
            )
            stack.enter_context(address)
        elif settings.on.endswith(".toml"):
            start, jobs = read_queue(Path(settings.on))
            address = stack.enter_context(start())
            if which(command := address.job_cls.submit_command) is None:
                raise UserError(
                    f"‹on› {settings.on}: there is no {command} here: go to where jobs are handed in"
                )
            address.adapt(maximum_jobs=jobs)
        try:
            client = stack.enter_context(Client(address))
        except OSError as error:
            remedy = "start one with `dask scheduler`, or leave out ‹on›"
            raise UserError(f"‹on› {settings.on}: no scheduler answers there; {remedy}") from error
        if not client.scheduler_info(n_workers=-1)["workers"]:
            print(f"no worker yet: waiting for the first on {settings.on}", file=sys.stderr, flush=True)
        try:
            client.register_plugin(SaveBeforeClosing())
        except Exception as error:
            raise UserError(f"workers cannot import ctlpp: {error_line(error)}") from error
        yield client


def read_queue(path: Path) -> tuple[Callable[[], Any], int]:
    """What starts the cluster that a TOML file describes, and how many jobs it may have at most."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"‹on› {path} cannot be read: {error}") from error
    system, jobs = content.pop("system", None), content.pop("jobs", 1)
    if system not in SYSTEMS:
        raise UserError(f"‹on› {path}: system {system!r}: choose from {', '.join(SYSTEMS)}")
    if not isinstance(jobs, int) or jobs < 1:
        raise UserError(f"‹on› {path}: jobs {jobs!r}: must be 1 or more")
    import dask_jobqueue

    cores = content.setdefault("cores", 1)
    options: dict[str, Any] = {"memory": "4GB", "processes": 1, **content}
    options.setdefault("scheduler_options", {"dashboard_address": ":0"})  # any port: several may run
    more = {
        "worker_extra_args": ["--nthreads", "1"],
        "job_script_prologue": [f"export OMP_NUM_THREADS={cores}"],
    }
    options |= {name: [*content.get(name, ()), *lines] for name, lines in more.items()}
    kind = getattr(dask_jobqueue, f"{SYSTEMS[system]}Cluster")

    def start() -> Any:
        try:
            return kind(**options)
        except (TypeError, ValueError) as error:
            raise UserError(f"‹on› {path}: {str(error).partition(chr(10))[0]}; see dask-jobqueue") from error

    return start, jobs


def job_script(path: Path) -> str:
    """The script of a queue's job, as it would be handed in."""
    with read_queue(path)[0]() as cluster:
        return str(cluster.job_script())
