"""What holds for every test.

With a GPU, the tests of the kernels and those marked `gpu` use it; all others run on the CPU, as they do
everywhere. Without one, kernels run through Triton's interpreter, which must be chosen before Triton is
imported.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # a busy machine is no failure
settings.load_profile("patient")

KERNELS = Path(__file__).parent / "kernels"
collect_ignore = ["questions/harness.py"]  # a program: importing it takes seconds


def _finds_a_gpu() -> bool:
    """Whether PyTorch can use a GPU; where there is no such device, PyTorch is not imported to know it."""
    if not any(Path("/dev").glob("nvidia*")):
        return False
    import torch

    return torch.cuda.is_available()  # from here on, CUDA_VISIBLE_DEVICES means nothing to this process


GPU = _finds_a_gpu()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"


def _may_use_the_gpu(item: pytest.Item) -> bool:
    return KERNELS in item.path.parents or item.get_closest_marker("gpu") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") and not GPU:
            item.add_marker(pytest.mark.skip(reason="no CUDA GPU here"))
        elif GPU and _may_use_the_gpu(item):  # what a compiler or a card warns of is not ours
            item.add_marker(pytest.mark.filterwarnings("default"), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Hide the GPU from a test with all of its fixtures, and from the processes that it starts."""
    if not GPU or _may_use_the_gpu(item):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        return (yield)


@pytest.fixture(scope="session")
def preloaded() -> Iterator[list[str]]:
    """What to type in place of `python` or `ctlpp`: a Python that has everything imported."""
    with TemporaryDirectory(dir="/tmp") as folder:  # a socket's path must be short
        place = Path(folder, "socket")
        start = [sys.executable, str(Path(__file__).with_name("preloaded.py")), str(place)]
        with subprocess.Popen(start, env=os.environ | {"OMP_NUM_THREADS": "1"}) as server:
            while not place.exists():
                assert server.poll() is None
                time.sleep(0.05)
            yield start
            server.terminate()


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    """A test that changes PyTorch's threads does so for itself: later ones would fight over the cores.

    Unless it is the first to import PyTorch.
    """
    torch = sys.modules.get("torch")  # many tests need none
    before = torch.get_num_threads() if torch else 0
    yield
    if torch and torch.get_num_threads() != before:
        torch.set_num_threads(before)
