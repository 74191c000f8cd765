"""A real Dask cluster of processes that fork quickly; a worker may have a fault."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import sys
import tempfile
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import dask
from distributed import Nanny, Scheduler, Worker

import ctlpp
from ctlpp.plans import worker
from ctlpp.training import train

MEMORY = 1_200_000_000  # of a worker that has little
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "ctlpp.training.train", "tests.plans.local_cluster"])


def schedule(pipe: Connection) -> None:
    async def run() -> None:
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address=None, dashboard=False) as scheduler:
            pipe.send(scheduler.address)
            await scheduler.finished()

    asyncio.run(run())


def work(pipe: Connection, scheduler: str, fault: str, threads: int) -> None:
    worker.PROGRESS_SECONDS = train._REPORT_SECONDS = 0.0
    if fault == "version":
        ctlpp.__version__ = "0.0.1"
    elif fault == "disk":
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
    elif fault == "own folder":
        worker.sees_folder = lambda assignment: False
    elif fault == "nothing installed":
        for name in [name for name in sys.modules if name.startswith("ctlpp")]:
            sys.modules.pop(name)
        sys.modules["ctlpp"] = None  # type: ignore[assignment]

    async def run() -> None:
        kind, limit, place = Worker, 0, tempfile.mkdtemp(prefix="worker-")
        if fault == "memory":
            kind, limit = Nanny, MEMORY
            dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
            multiprocessing.set_forkserver_preload(["torch", "ctlpp.training.train", "ctlpp.plans.worker"])
        async with kind(scheduler, nthreads=threads, memory_limit=limit, local_directory=place) as one:
            pipe.send(one.address if kind is Worker else one.worker_address)
            await one.finished()

    asyncio.run(run())


class Cluster:
    """A scheduler and its workers."""

    def __init__(self) -> None:
        self.workers: dict[str, BaseProcess] = {}  # by address
        self.scheduler, self.address = self._start(schedule)

    def add(self, fault: str = "", threads: int = 1) -> BaseProcess:
        """Start a worker and wait until it is there."""
        process, address = self._start(work, self.address, fault, threads)
        self.workers[address] = process
        return process

    def _start(self, target: Any, *arguments: Any) -> tuple[BaseProcess, str]:
        mine, theirs = CONTEXT.Pipe()
        daemon = "memory" not in arguments  # a nanny has a process of its own
        process = CONTEXT.Process(target=target, args=(theirs, *arguments), daemon=daemon)
        process.start()
        assert mine.poll(60)
        return process, str(mine.recv())

    def kill_workers(self) -> None:
        """End all workers."""
        for process in self.workers.values():
            process.kill()
            process.join()
        self.workers.clear()

    def close(self) -> None:
        self.kill_workers()
        self.scheduler.kill()
        self.scheduler.join()
