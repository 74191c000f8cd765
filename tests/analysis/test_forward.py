"""All seeds on the same inputs, and the cores that share them."""

from threading import Event, get_ident

import pytest
import torch

from ctlpp.analysis.states import activations, in_parts
from ctlpp.models.activations import recording
from ctlpp.models.zoo import build
from ctlpp.training.crowd import Crowd, init_crowd


def make(*seeds: int) -> Crowd:
    return init_crowd(lambda v, c: build("ndr", v, c, "quick"), 8, 3, list(seeds))


def test_activations_of_one_seed_are_those_of_the_module() -> None:
    crowd = make(4)
    tokens = torch.tensor([[0, 1, 5, 7], [2, 3, 4, 7]])
    seen, logits = activations(crowd, tokens)
    with torch.no_grad(), recording() as own:
        expected = crowd.member(4).eval()(tokens)
    torch.testing.assert_close(logits[0], expected)
    torch.testing.assert_close([value[0] for value in seen["state"]], own["state"])


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})


@pytest.mark.usefixtures("two_cores")
def test_parts_come_back_in_order() -> None:
    crowd = make(5, 1, 4)
    crowd.vectorised = False
    assert in_parts(crowd, lambda part, in_vain: part.seeds) == [(5,), (1,), (4,)]


@pytest.mark.usefixtures("two_cores")
def test_a_part_left_over_has_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three seeds on two cores, two go side by side, and then the third on both."""
    cores: dict[int, int] = {}  # by thread
    monkeypatch.setattr("torch.set_num_threads", lambda number: cores.update({get_ident(): number}))
    crowd = make(5, 1, 4)
    crowd.vectorised = False
    found = in_parts(crowd, lambda part, in_vain: (part.seeds[0], cores[get_ident()]))
    assert found == [(5, 1), (1, 1), (4, 2)]
    assert cores[get_ident()] == 2, "and afterwards everything is as before"


@pytest.mark.usefixtures("two_cores")
def test_after_an_error_the_other_parts_learn_that_they_may_stop() -> None:
    """With many bases a seed takes long, and whoever presses Ctrl-C does not want to wait for it."""
    crowd, begun, stopped = make(0, 1), Event(), []
    crowd.vectorised = False

    def work(part: Crowd, in_vain: Event) -> None:
        if part.seeds == (0,):
            begun.wait(20)
            raise KeyboardInterrupt
        begun.set()
        stopped.append(in_vain.wait(20))

    with pytest.raises(KeyboardInterrupt):
        in_parts(crowd, work)
    assert stopped == [True]
