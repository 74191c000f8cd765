import inspect
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from ctlpp.models.zoo import MODELS, PRESETS, build, parameters


def test_the_zoo_is_complete() -> None:
    assert list(MODELS) == ["lstm", "transformer", "ndr", "lstm_uni", "gru", "rnn", "transformer_untied"]
    for name, spec in MODELS.items():
        assert spec.name == name
        assert spec.about.endswith(".")
        assert "\n" not in spec.about
        assert tuple(spec.sizes) == PRESETS


@pytest.mark.parametrize(("name", "count"), [("lstm", 407_816), ("transformer", 155_018), ("ndr", 673_299)])
def test_the_released_models_have_exactly_as_many_parameters_as_published_code_trains(
    name: str, count: int
) -> None:
    assert parameters(build(name, vocab_size=32 + 8 + 1, n_classes=8)) == count


def test_the_paper_preset_has_wider_hidden_layers_and_no_extra_steps_at_test() -> None:
    sizes = {name: MODELS[name].sizes["paper"] for name in ("ndr", "transformer", "lstm")}
    assert (sizes["ndr"]["hidden"], sizes["transformer"]["hidden"]) == (1024, 512)
    assert (sizes["ndr"]["depth"], sizes["ndr"]["test_depth"]) == (8, 8)
    assert sizes["transformer"]["dropout"] == 0.5
    assert sizes["lstm"] == MODELS["lstm"].sizes["released"]


@pytest.mark.parametrize("name", MODELS)
def test_a_preset_sets_every_size_and_released_is_the_default(name: str) -> None:
    spec = MODELS[name]
    arguments = inspect.signature(spec.factory).parameters.values()
    defaults: dict[str, Any] = {a.name: a.default for a in arguments if a.default is not a.empty}
    if name == "transformer_untied":
        defaults["shared"] = False
    for preset in PRESETS:
        assert spec.sizes[preset].keys() | {"from_end", "shared"} >= defaults.keys()
    assert defaults | spec.sizes["released"] == defaults


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_every_preset_classifies_sequences_of_any_length(name: str, preset: str) -> None:
    model = build(name, vocab_size=12, n_classes=5, preset=preset)
    for length in (1, 3, 9):
        logits = model(torch.randint(12, (2, length)))
        assert logits.shape == (2, 5)
        assert logits.isfinite().all()


@pytest.mark.parametrize("name", MODELS)
def test_examples_of_a_batch_do_not_touch_each_other(name: str) -> None:
    model, tokens = build(name, 9, 4).double().eval(), torch.randint(9, (3, 6))
    torch.testing.assert_close(model(tokens), torch.cat([model(row[None]) for row in tokens]))


@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_the_tokens_matters(name: str) -> None:
    model, tokens = build(name, 9, 4).eval(), torch.tensor([[0, 1, 2, 3, 8]])
    assert not torch.allclose(model(tokens), model(tokens[:, [1, 0, 2, 3, 4]]), atol=1e-4)


@pytest.mark.parametrize("same_batch", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_seeds_under_vmap_equal_each_seed_alone_in_logits_and_gradients(name: str, same_batch: bool) -> None:
    models = [build(name, 9, 4, "quick").double() for _ in range(3)]
    params, buffers = stack_module_state(models)
    tokens = torch.randint(9, (4, 6)) if same_batch else torch.randint(9, (3, 4, 6))

    def logits_of_one(params: dict[str, Tensor], tokens: Tensor) -> Tensor:
        return functional_call(models[0], params, (tokens,))  # type: ignore[no-any-return]

    logits = vmap(logits_of_one, in_dims=(0, None if same_batch else 0))(params, tokens)  # (S, B, C)
    pull = torch.randn_like(logits)
    grads = dict(zip(params, torch.autograd.grad(logits, list(params.values()), pull), strict=True))

    assert not buffers
    for seed, model in enumerate(models):
        alone = model(tokens if same_batch else tokens[seed])
        torch.testing.assert_close(logits[seed], alone)
        names, weights = zip(*model.named_parameters(), strict=True)
        expected = torch.autograd.grad(alone, weights, pull[seed])
        torch.testing.assert_close(
            {key: grads[key][seed] for key in names}, dict(zip(names, expected, strict=True))
        )


@pytest.mark.parametrize("name", MODELS)
def test_under_vmap_each_seed_drops_out_on_its_own(name: str) -> None:
    model, tokens = build(name, 9, 4), torch.randint(9, (4, 6))
    params = {key: p.detach().expand(3, *p.shape) for key, p in model.named_parameters()}  # three equal seeds
    logits = vmap(lambda p: functional_call(model, p, (tokens,)), randomness="different")(params)
    assert not torch.allclose(logits[0], logits[1])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_whatever_a_model_makes_on_the_way_is_on_its_device(
    name: str, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # the device has none
    model = build(name, 9, 4).train(training).to("meta")  # a device that does not mix with the CPU
    assert model(torch.zeros(2, 5, dtype=torch.long, device="meta")).shape == (2, 4)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_runs_under_autocast(name: str) -> None:
    model, tokens = build(name, 9, 4, "quick"), torch.randint(9, (4, 6))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(tokens)
    torch.testing.assert_close(logits.float(), model(tokens), rtol=0.1, atol=0.1)


def test_parameters_counts_only_what_is_trained() -> None:
    model = build("rnn", 9, 4, "quick")
    whole = parameters(model)
    model.get_parameter("embed.weight").requires_grad_(False)
    assert parameters(model) == whole - model.get_parameter("embed.weight").numel()


def test_an_unknown_model_is_named_with_what_there_is() -> None:
    text = (
        r"^unknown model 'ndrr': choose from lstm, transformer, ndr, lstm_uni, gru, rnn, transformer_untied$"
    )
    with pytest.raises(ValueError, match=text):
        build("ndrr", 9, 4)


def test_an_unknown_preset_is_named_with_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"^unknown preset 'fast': choose from released, paper, quick$"):
        build("ndr", 9, 4, preset="fast")
