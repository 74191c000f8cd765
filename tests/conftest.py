"""What holds for every test."""

import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # a busy machine is no failure
settings.load_profile("patient")


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
