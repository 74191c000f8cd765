import pytest
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from ctlpp.models.activations import Activations, record, recording
from ctlpp.models.zoo import MODELS, build

B, T = 3, 5


def shapes(seen: Activations) -> dict[str, list[tuple[int, ...]]]:
    return {name: [tuple(value.shape) for value in values] for name, values in seen.items()}


def names_and_shapes(name: str) -> dict[str, list[tuple[int, ...]]]:
    sizes = MODELS[name].sizes["quick"]
    D = sizes["width"]
    if name == "lstm":
        return {"state": [(B, D)] * T, "state_backward": [(B, D)] * T, "readout": [(B, 2 * D)]}
    if name in ("lstm_uni", "gru", "rnn"):
        return {"state": [(B, D)] * T, "readout": [(B, D)]}
    return {"state": [(B, T + 1, D)] * sizes["depth"], "readout": [(B, D)]}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_names_its_states_and_its_readout(name: str) -> None:
    model = build(name, 9, 4, "quick")
    with recording() as seen:
        logits = model(torch.randint(9, (B, T)))
    assert shapes(seen) == names_and_shapes(name)
    assert torch.equal(model.get_submodule("classify")(seen["readout"][0]), logits)


@pytest.mark.parametrize("name", MODELS)
def test_the_readout_is_the_last_state(name: str) -> None:
    with recording() as seen:
        build(name, 9, 4, "quick")(torch.randint(9, (B, T)))
    last = seen["state"][-1]
    ends = [last[:, 0]] if last.ndim == 3 else [last, *seen.get("state_backward", [])[-1:]]
    assert torch.equal(seen["readout"][0], torch.cat(ends, dim=-1))


@pytest.mark.parametrize("name", MODELS)
def test_under_vmap_every_activation_gets_a_seed_axis_and_equals_that_of_the_seed_alone(name: str) -> None:
    models, tokens = [build(name, 9, 4, "quick").eval() for _ in range(3)], torch.randint(9, (B, T))
    params, buffers = stack_module_state(models)
    with recording() as crowd:
        vmap(lambda p, b: functional_call(models[0], (p, b), (tokens,)))(params, buffers)
    for seed, model in enumerate(models):
        with recording() as alone:
            model(tokens)
        torch.testing.assert_close({key: [v[seed] for v in values] for key, values in crowd.items()}, alone)


def test_nothing_is_kept_outside_recording() -> None:
    model = build("rnn", 9, 4, "quick")
    with recording() as seen:
        pass
    model(torch.zeros(1, 3, dtype=torch.long))
    assert seen == {}


def test_an_inner_recording_hides_the_outer_one_only_while_it_lasts() -> None:
    a, b, c = torch.zeros(1), torch.ones(1), torch.ones(2)
    with recording() as outer:
        record("x", a)
        with recording() as inner:
            record("x", b)
        record("x", c)
    assert [v.shape for v in outer["x"]] == [a.shape, c.shape]
    assert inner["x"] == [b]


def test_record_returns_the_tensor_itself() -> None:
    value = torch.zeros(2)
    assert record("x", value) is value
    with recording():
        assert record("x", value) is value


def test_recorded_activations_stay_in_the_graph() -> None:
    weights, x = torch.randn(3, 4, requires_grad=True), torch.randn(4)

    def loss(w: Tensor) -> Tensor:
        return record("product", w * x).sum()

    with recording() as alone:
        total = loss(weights)
    with recording() as crowd:
        vmap(loss)(weights)
    for seen in (alone, crowd):
        (grad,) = torch.autograd.grad(seen["product"][0].sum(), weights, retain_graph=True)
        torch.testing.assert_close(grad, x.expand(3, 4))
    (grad,) = torch.autograd.grad(total, alone["product"])
    torch.testing.assert_close(grad, torch.ones(3, 4))


def test_two_vmaps_put_the_outer_axis_first() -> None:
    with recording() as seen:
        vmap(lambda a: vmap(lambda b: record("sum", a + b), in_dims=1)(torch.zeros(4, 3)))(torch.randn(2, 4))
    assert shapes(seen) == {"sum": [(2, 3, 4)]}
