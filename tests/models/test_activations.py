from threading import Thread

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from ctlpp.models.activations import editing, record, recording
from ctlpp.models.zoo import MODELS, build

B, T = 3, 5
COLUMNS = ("ndr", "transformer", "transformer_untied", "transformer_looped", "slots")
CODES = ("slots", "symrnn", "permrnn")  # their states have a share for every class
LINEAR = ("deltanet", "ssm")  # … and theirs are matrices


@pytest.mark.parametrize("name", MODELS)
def test_every_model_names_its_states_and_its_readout_which_is_the_last_state(name: str) -> None:
    model, depth = build(name, 9, 4, "quick"), MODELS[name].sizes["quick"].get("depth")
    with recording() as seen:
        logits = model(torch.randint(9, (B, T)))
    places = [(depth, (B, T + 1))] if name in COLUMNS else [(T, (B,))]
    carried = {"lstm": {"hidden", "cell", "state_backward"}, "lstm_uni": {"hidden", "cell"}}.get(name, set())
    assert seen.keys() == {"state", "readout"} | carried
    assert [(len(seen["state"]), seen["state"][0].shape[:-1])] == places
    if name not in CODES:
        assert torch.equal(model.get_submodule("classify")(seen["readout"][0]), logits)
    if name in LINEAR:
        return  # what is read is not what is carried
    last = seen["state"][-1]
    ends = [last[:, 0]] if name in COLUMNS else [last, *seen.get("state_backward", [])[-1:]]
    assert torch.equal(seen["readout"][0], torch.cat(ends, dim=-1))


def test_an_inner_recording_hides_the_outer_one_only_while_it_lasts() -> None:
    a, b, c = torch.zeros(1), torch.ones(1), torch.ones(2)
    with recording() as outer:
        record("x", a)
        with recording() as inner:
            assert record("x", b) is b
        record("x", c)
    record("x", b)
    assert [v.shape for v in outer["x"]] == [a.shape, c.shape]
    assert inner["x"] == [b]


def test_recorded_activations_stay_in_the_graph() -> None:
    weights, x = torch.randn(3, 4, requires_grad=True), torch.randn(4)

    def loss(w: Tensor) -> Tensor:
        return record("product", w * x).sum()

    with recording() as seen:
        loss(weights)
    (grad,) = torch.autograd.grad(seen["product"][0].sum(), weights)
    torch.testing.assert_close(grad, x.expand(3, 4))


def test_gradients_pass_an_edit_also_within_a_function_mapped_over_seeds() -> None:
    weights, x = torch.randn(3, 4, requires_grad=True), torch.randn(4)

    def loss(w: Tensor) -> Tensor:
        with editing(lambda name, index, value: 2 * value):
            return record("product", w * x).sum()

    (grad,) = torch.autograd.grad(vmap(loss)(weights).sum(), weights)
    torch.testing.assert_close(grad, (2 * x).expand(3, 4))


CARRIED = {name: ("hidden", "cell") if "lstm" in name else ("state",) for name in MODELS}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_goes_on_with_what_an_edit_gives_it(name: str) -> None:
    model, tokens = build(name, 9, 4, "quick").eval(), torch.randint(9, (2, B, T))
    with recording() as donor:
        expected = model(tokens[0])

    def swap(activation: str, index: int, value: Tensor) -> Tensor:
        return donor[activation][index] if activation in CARRIED[name] and index == T - 1 else value

    with editing(swap):
        torch.testing.assert_close(model(tokens[1]), expected)  # the state is the donor's, so is the answer
    assert not torch.allclose(model(tokens[1]), expected)


def test_another_thread_is_not_looked_at() -> None:
    other = torch.zeros(2)
    with recording() as seen, editing(lambda name, index, value: value + 1):
        thread = Thread(target=lambda: record("x", other))
        thread.start()
        thread.join()
        record("y", torch.zeros(1))
    assert list(seen) == ["y"]
    assert seen["y"][0].item() == 1
