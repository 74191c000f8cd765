"""Where workers are: processes of this machine, those of a Dask scheduler, or jobs of a queue.

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster
from distributed.diagnostics.plugin import UploadFile

from ctlpp.files import UserError
from ctlpp.models.zoo import error_line
from ctlpp.plans.work import LOCAL, WorkSettings, count_workers
from ctlpp.plans.worker import SaveBeforeLeaving
from ctlpp.training.engine import find_device

SYSTEMS = {name.lower(): name for name in ("SLURM", "PBS", "SGE", "LSF", "HTCondor", "OAR", "Moab")}


def device_kind(settings: WorkSettings) -> str:
    """cpu or cuda, for estimates; of a scheduler's workers the first is asked."""
    if settings.device != "auto":
        return settings.device.partition(":")[0]
    if settings.on.endswith(".toml"):
        return "cuda" if "gpu" in Path(settings.on).read_text().lower() else "cpu"
    if settings.on == LOCAL:
        return find_device("auto").type
    with connect(settings) as client:
        return str(client.submit(_own_device, pure=False).result())


def _own_device() -> str:
    return find_device("auto").type


@contextmanager
def connect(settings: WorkSettings, code: Sequence[str] = ()) -> Iterator[Client]:
    """A Dask client of the workers, which have the code of our models."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        place: Any = settings.on
        if settings.on == LOCAL:
            place = LocalCluster(
                n_workers=count_workers(settings),
                threads_per_worker=1,
                memory_limit=0,
                silence_logs=logging.CRITICAL,
                dashboard_address=":0",  # any port: several may run at a time
            )
            stack.enter_context(place)
        elif settings.on.endswith(".toml"):
            make, jobs = read_queue(Path(settings.on))
            place = stack.enter_context(make())
            place.adapt(maximum_jobs=jobs)
        try:
            client = stack.enter_context(Client(place))
        except OSError as error:
            remedy = "start one with `dask scheduler`, or leave out ‹on›"
            raise UserError(f"‹on› {settings.on}: no scheduler answers there; {remedy}") from error
        if settings.on != LOCAL or find_spec("bokeh"):
            print(f"Dask's dashboard: {client.dashboard_link}", file=sys.stderr)
        client.register_plugin(SaveBeforeLeaving())
        for path in code:
            try:
                client.register_plugin(UploadFile(path), name=f"ctlpp-{Path(path).name}")
            except Exception as error:
                raise UserError(f"workers cannot import {path}: {error_line(error)}") from error
        yield client


def read_queue(path: Path) -> tuple[Callable[[], Any], int]:
    """What makes the cluster that a TOML file describes, and how many jobs it may have at most."""
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
    given = {"memory": "4GB", "processes": 1, "worker_extra_args": [], "job_script_prologue": [], **content}
    given["worker_extra_args"] = [*given["worker_extra_args"], "--nthreads", "1"]
    given["job_script_prologue"] = [*given["job_script_prologue"], f"export OMP_NUM_THREADS={cores}"]
    kind = getattr(dask_jobqueue, f"{SYSTEMS[system]}Cluster")

    def make() -> Any:
        try:
            return kind(**given)
        except (TypeError, ValueError) as error:
            raise UserError(f"‹on› {path}: {str(error).partition(chr(10))[0]}; see dask-jobqueue") from error

    return make, jobs


def job_script(path: Path) -> str:
    """The script of a queue's job, as it would be handed in."""
    with read_queue(path)[0]() as cluster:
        return str(cluster.job_script())
