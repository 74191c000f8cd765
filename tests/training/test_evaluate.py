from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ctlpp.training.crowd import init_crowd
from ctlpp.training.evaluate import Tally, accuracy, evaluate


@pytest.mark.parametrize(("group", "batch", "vectorised"), [(0, 1024, True), (2, 5, True), (1, 7, False)])
def test_scores_equal_those_of_each_module_on_its_own(
    tiny: Any, splits: Any, group: int, batch: int, vectorised: bool
) -> None:
    crowd = init_crowd(tiny, 8, 4, [2, 3, 5])
    crowd.vectorised = vectorised
    found = evaluate(crowd, splits, batch=batch, tally=Tally.of(crowd, group))
    scores = {(score.seed, score.split, score.length): score for score in found}
    assert len(scores) == 3 * 3 * 4
    for seed in crowd.seeds:
        model = crowd.member(seed)
        for name, split in splits.items():
            logits = {length: model(tokens) for length, (tokens, _) in split.items()}
            right = {length: (logits[length].argmax(-1) == split[length][1]).float() for length in split}
            loss = torch.nn.functional.cross_entropy(logits[2], split[2][1])
            assert scores[seed, name, 2].accuracy == pytest.approx(right[2].mean().item())
            assert scores[seed, name, 2].loss == pytest.approx(loss.item(), rel=1e-5)
            every = torch.cat(list(right.values())).mean().item()
            assert scores[seed, name, 0].accuracy == pytest.approx(every)


def test_evaluation_draws_no_dropout(tiny: Any, splits: Any) -> None:
    crowd = init_crowd(tiny, 8, 4, [0, 1])
    assert evaluate(crowd, splits) == evaluate(crowd, splits)


def test_an_empty_split_is_refused(tiny: Any) -> None:
    empty = {2: (torch.zeros(0, 4, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))}
    with pytest.raises(ValueError, match=r"^split 'iid' is empty: nothing to evaluate$"):
        evaluate(init_crowd(tiny, 8, 4, [0]), {"iid": empty})


def test_what_is_no_number_is_no_right_answer() -> None:
    class Lost(nn.Module):
        def __init__(self, vocab_size: int, n_classes: int) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.full((n_classes,), float("nan")))

        def forward(self, tokens: Tensor) -> Tensor:
            return self.bias.expand(len(tokens), -1)

    crowd = init_crowd(Lost, 9, 4, [0, 1])
    split = {1: (torch.zeros(8, 3, dtype=torch.int64), torch.zeros(8, dtype=torch.int64))}
    assert {score.accuracy for score in evaluate(crowd, {"iid": split})} == {0.0}


def test_accuracy_of_a_plain_module_is_that_of_its_crowd_and_leaves_its_mode(tiny: Any, splits: Any) -> None:
    crowd = init_crowd(tiny, 8, 4, [2])
    model = crowd.member(2).train()
    empty = {4: (torch.zeros(0, 6, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))}
    splits = splits | {"iid": splits["iid"] | empty}
    for batch in (5, 1024):
        found = accuracy(model, splits, ["iid"], batch=batch)["iid"]
        expected = {score.length: score.accuracy for score in evaluate(crowd, {"iid": splits["iid"]})}
        assert found == pytest.approx(expected)
    assert model.training
    with pytest.raises(
        ValueError, match=r"^the model returns \(5, 2\) for tokens of shape \(5, 3\); it should ret"
    ):
        accuracy(lambda tokens: torch.zeros(len(tokens), 2), splits, ["iid"], batch=5)
