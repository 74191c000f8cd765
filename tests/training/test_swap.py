"""Training on exchanged states, and classifiers tied to embeddings."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.conftest import Tiny, assert_same_alone_and_resumed
from torch import Tensor, nn

from ctlpp.benchmark.dataset import Dataset, generate
from ctlpp.models.activations import record
from ctlpp.models.zoo import find_model, make_model, tie
from ctlpp.training import swap
from ctlpp.training.crowd import Streams
from ctlpp.training.recipe import Recipe
from ctlpp.training.run import load_run
from ctlpp.training.train import train

RECIPE = Recipe(steps=12, batch=16, lr=0.01, warmup=2, eval_every=4, checkpoint_every=4, swap=0.5, tied=True)
SIZES = {"embedding": 8, "width": 8}
SMALL: Any = {"symbols": 4, "functions": 8, "max_length": 3, "train": 300, "iid": 20, "ood": 30}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return generate("R", protocol="text", **SMALL)


class Columns(nn.Module):
    """Its columns keep to themselves until the last layer adds them up."""

    def __init__(self, vocab_size: int, n_classes: int, depth: int = 4) -> None:
        super().__init__()
        self.embed, self.classify, self.depth = nn.Embedding(vocab_size, 8), nn.Linear(8, n_classes), depth

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.embed(tokens)
        for _ in range(self.depth):
            h = record("state", h)
        logits: Tensor = self.classify((h * torch.arange(1.0, h.shape[1] + 1)[:, None]).sum(1))
        return logits


@pytest.mark.parametrize("name", ["lstm_uni", "gru", "symrnn", "permrnn", "Columns"])
def test_a_swap_is_as_if_the_others_prefix_had_been_read(name: str) -> None:
    factory = Columns if name == "Columns" else find_model(name, "quick")[1]
    model, tokens = factory(13, 4), torch.randint(8, (30, 6))
    tokens[:, -2:] = torch.stack([torch.randint(8, 12, (30,)), torch.full((30,), 12)], dim=1)
    as_read = tokens.clone()
    with Streams(torch.tensor(1)):
        logits = swap.swapped_logits(model, tokens)
    with Streams(torch.tensor(1)):
        for k in (1, 2, 3):
            answers = model.eval()(tokens[:, -k - 2 :]).argmax(-1)
            donors = swap.find_donors(answers)
            assert torch.equal(answers[donors], answers)
            as_read = torch.cat([as_read[:, : -k - 2], as_read[donors, -k - 2 :]], dim=1)
        expected = model.train()(as_read)
    torch.testing.assert_close(logits, expected)
    assert not torch.equal(as_read, tokens)


def test_nothing_of_the_ood_split_leaks_into_training(data: Dataset) -> None:
    splits = {name: data.tensors(name) for name in ("train", "iid", "ood")}
    other = {length: (tokens.flip(0), 3 - targets) for length, (tokens, targets) in splits["ood"].items()}
    runs = [
        train("gru", given, seeds=[0, 1], recipe=RECIPE, preset="quick", sizes=SIZES)
        for given in (splits, splits | {"ood": other}, {"train": splits["train"], "iid": splits["iid"]})
    ]
    assert torch.equal(runs[0].crowd.weights, runs[1].crowd.weights)
    assert torch.equal(runs[0].crowd.weights, runs[2].crowd.weights)


def test_a_crowd_equals_each_seed_alone_and_resuming_is_exact(data: Dataset, tmp_path: Path) -> None:
    usual: dict[str, Any] = {"preset": "quick", "sizes": SIZES | {"dropout": 0.2}}
    run = assert_same_alone_and_resumed(tmp_path / "run", "gru", data, recipe=RECIPE, **usual)
    assert run.crowd.vectorised
    plain = train("gru", data, seeds=[0, 7, 2], recipe=replace(RECIPE, swap=0.0), **usual)
    assert not torch.allclose(plain.crowd.weights, run.crowd.weights, atol=1e-3)
    assert torch.equal(load_run(tmp_path / "run").crowd.weights, run.crowd.weights)


def test_a_tied_classifier_scores_by_the_symbols_embeddings() -> None:
    _, factory, _ = find_model("gru", "quick", SIZES)
    model = make_model(tie(factory, "gru"), 13, 4)
    h, embed = torch.randn(3, 8), model.get_submodule("embed")
    expected = h @ embed.weight[8:12].T * 8**-0.5 + model.classify.bias  # type: ignore[index, operator, union-attr]
    torch.testing.assert_close(model.get_submodule("classify")(h), expected)
    assert "classify.weight" not in dict(model.named_parameters())


def test_what_cannot_be_swapped_or_tied_is_told_in_one_line(data: Dataset) -> None:
    unseen = "the model failed in a training step: UserError: swap: the model passes no state through ctlpp"
    wide = "tied: gru must have an nn.Embedding `embed` and an nn.Linear `classify` of one width; leave it "
    reversed_ = generate("R", protocol="text", order="left-to-right", **SMALL)
    cases: list[tuple[Any, Dataset, dict[str, int], str]] = [
        (Tiny, data, {}, unseen),
        ("gru", data, SIZES | {"width": 7}, wide),
        ("gru", reversed_, SIZES, "swap: the data must be written right-to-left"),
    ]
    for model, given, sizes, line in cases:
        with pytest.raises(ValueError, match=f"^{line}"):
            train(model, given, seeds=[0], recipe=RECIPE, preset="quick", sizes=sizes)
