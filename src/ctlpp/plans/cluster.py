"""Pieces on many workers, by Dask: processes of this machine, a scheduler that runs, or jobs of a queue.

The client keeps the books: it holds a claim on every piece that it has given away, takes back what comes, and
gives a piece away again if its worker has died. A worker computes one piece at a time. It writes into the
folder of the plan if it sees it; else the files travel, there and back.

Whatever dies, the newest checkpoint that can be reached goes on: a worker asked to leave (SIGTERM) saves
first, and so do all of them when the client or the scheduler is gone.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from distributed import Client, Future, KilledWorker

from ctlpp.files import BusyError, write_atomically
from ctlpp.plans.pieces import Piece, claim, forget_failure
from ctlpp.plans.places import connect
from ctlpp.plans.planned import data_digests
from ctlpp.plans.work import Deadline, End, MachineError, Watch, WorkSettings, titled
from ctlpp.plans.worker import Answer, Job, do_piece, read_files, versions
from ctlpp.runs.history import Score, StepStats, tell

TRIES = 3  # of a piece, until it is set aside


def side_by_side(
    pieces: Sequence[Piece], settings: WorkSettings, watch: Watch
) -> Iterator[tuple[Piece, End]]:
    """Work on all pieces; ends as they come."""
    code = dict.fromkeys(path for piece in pieces for path, _ in piece.run.code)
    with connect(settings, [*code]) as client, _marked(pieces[0].out) as mark:
        crew = Crew(client, settings, watch, mark)
        try:
            yield from crew.work(pieces)
        finally:
            crew.stop()


@contextmanager
def _marked(out: Path) -> Iterator[Path]:
    """A file by which workers know whether they see this folder."""
    mark = out.absolute() / ".locks" / f"{uuid4().hex}.mark"
    write_atomically(mark, b"")
    try:
        yield mark
    finally:
        mark.unlink(missing_ok=True)


@dataclass(eq=False)
class Errand:
    """A piece on its way."""

    piece: Piece
    title: str
    observer: object = None
    claim: ExitStack = field(default_factory=ExitStack)
    tries: int = 0  # that have failed
    files: dict[str, bytes] | None = None  # what its folder has, for workers that do not see it


@dataclass(eq=False)
class Crew:
    """The workers, as the client sees them."""

    client: Client
    settings: WorkSettings
    watch: Watch
    mark: Path
    running: dict[Future, Errand] = field(default_factory=dict)  # by future
    news: SimpleQueue[Any] = field(default_factory=SimpleQueue)  # futures that have ended, and events
    workers: int = 0
    counted: float = 0.0  # when

    def work(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, End]]:
        """Give pieces away and take them back."""
        self.client.subscribe_topic(self.mark.stem, self.news.put)
        waiting = deque(Errand(piece, title) for piece, title in titled(pieces))
        deadline = Deadline(self.settings.minutes)
        while waiting or self.running:
            deadline.check()
            while waiting and len(self.running) < self._room():
                errand = waiting.popleft()
                try:
                    self._take(errand)
                except BusyError:
                    tell([errand.observer], "on_note", "another process is at it; left to that one")
                    yield errand.piece, End("busy")
                else:
                    self._send(errand)
            errand, end = self._next()
            if end is None:
                continue
            helpers = end.state == "failed" or self._count_workers(now=end.state == "machine")
            bad = end.state in ("failed", "machine")
            if end.state == "again" or (bad and errand.tries < TRIES and helpers):
                self._send(errand)
            else:
                errand.claim.close()
                yield errand.piece, end

    def stop(self) -> None:
        """Take back what is still away: workers that are at it save and stop."""
        with suppress(Exception):  # the scheduler may be gone
            self.client.cancel([*self.running], force=True)
        for errand in self.running.values():
            with suppress(OSError):  # not if it has begun
                errand.piece.folder.rmdir()
                errand.piece.folder.parent.rmdir()
            errand.claim.close()

    def _room(self) -> int:
        """Pieces to give away: one a worker, and some to begin with as soon as one is through."""
        return self._count_workers() + max(1, self.workers // 4)

    def _count_workers(self, *, now: bool = False) -> int:
        if now or monotonic() - self.counted > 1:
            with suppress(OSError):
                self.workers = len(self.client.scheduler_info(n_workers=-1)["workers"])
            self.counted = monotonic()
        return self.workers

    def _take(self, errand: Errand) -> None:
        errand.observer = self.watch(errand.title, errand.piece)
        errand.claim.enter_context(claim(errand.piece))
        forget_failure(errand.piece.folder)
        fresh = not (errand.piece.folder / "config.json").exists()
        errand.files = {} if fresh else None

    def _send(self, errand: Errand) -> None:
        run = errand.piece.run
        job = Job(
            run=run,
            seeds=errand.piece.seeds,
            folder=errand.piece.folder.absolute(),
            settings=self.settings,
            mark=self.mark,
            versions=versions(),
            digests=data_digests(run),
            files=errand.files,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of checkpoints that travel, and are large
            future = self.client.submit(do_piece, job, key=f"do_piece-{uuid4().hex}", pure=False)
        self.running[future] = errand
        future.add_done_callback(self.news.put)

    def _next(self) -> tuple[Any, End | None]:
        """The next piece that has ended, and how; or none for now."""
        try:
            news = self.news.get(timeout=0.2)
        except Empty:
            return None, None
        if isinstance(news, tuple):
            return self._read_event(*news[1])
        errand = self.running.pop(news, None)
        return (None, None) if errand is None else (errand, self._read_end(errand, news))

    def _read_event(self, key: str, event: str, facts: Any) -> tuple[Any, End | None]:
        """What a worker tells while it is at a piece."""
        future = next((future for future in self.running if future.key == key), None)
        if future is None:
            return None, None
        errand = self.running[future]
        if event == "on_leave":  # with all that it has
            self.client.cancel([self.running.pop(future) and future], force=True)
            errand.files = facts
            return errand, End("again")
        if event == "on_step":
            facts = [StepStats(**facts[0])]
        elif event == "on_evaluate":
            facts = [facts[0], [Score(*row) for row in facts[1]]]
        tell([errand.observer], event, *facts)
        return None, None

    def _read_end(self, errand: Errand, future: Future) -> End:
        """What has become of a piece that a worker had."""
        if future.status == "cancelled":
            raise MachineError("the scheduler is gone: the same command goes on when there is one again")
        if error := future.exception():
            errand.tries += 1
            if isinstance(error, KilledWorker):
                return End("failed", "its workers died: out of memory?", (str(error),))
            return End(
                "machine", f"a worker cannot begin: {type(error).__name__}: {error}".partition("\n")[0]
            )
        answer: Answer = future.result()
        if answer.end.state == "send":
            errand.files = read_files(errand.piece.folder)
            return End("again")
        for name, content in answer.files.items():
            assert ".." not in Path(name).parts
            write_atomically(errand.piece.folder / name, content)
        if answer.end.state in ("failed", "machine"):
            errand.tries += 1
        if answer.end.state == "machine":
            tell([errand.observer], "on_note", f"{answer.where} takes no more pieces: {answer.end.reason}")
            future.release()
            self._dismiss(answer.where)
        return answer.end

    def _dismiss(self, where: str) -> None:
        """Send a worker away; the scheduler does not let it go while it thinks its answer is still wanted."""
        end = monotonic() + 10
        while not self.client.retire_workers([where], close_workers=True) and monotonic() < end:
            sleep(0.1)
