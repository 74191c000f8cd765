"""The NDR with less arithmetic gives what the module gives."""

import torch
from torch import nn

from ctlpp.analysis.states import LeanNDR
from ctlpp.models.activations import recording
from ctlpp.models.ndr import NDR
from ctlpp.training.crowd import Crowd, init_crowd

VOCABULARY, CLASSES = 11, 3


def make(depth: int = 4, seeds: int = 1) -> Crowd:
    def factory(v: int, c: int) -> nn.Module:
        return NDR(v, c, width=16, heads=2, hidden=24, depth=depth, test_depth=depth)

    made = init_crowd(factory, VOCABULARY, CLASSES, list(range(seeds)))
    for value in made.parameters().values():  # scales and biases that are not 1 and 0
        value += 0.3 * torch.randn(value.shape, generator=torch.Generator().manual_seed(value.numel()))
    return made


def test_states_and_logits_are_those_of_the_module() -> None:
    for depth, length in ((1, 3), (2, 4), (5, 3), (5, 7)):
        alone = make(depth)
        lean = LeanNDR.of(alone)
        assert lean is not None
        tokens = torch.randint(VOCABULARY, (9, length), generator=torch.Generator().manual_seed(0))
        with torch.no_grad(), recording() as seen:
            logits = alone.member(0).eval()(tokens)
        for level, state in enumerate(seen["state"]):
            torch.testing.assert_close(lean.state(tokens, level), state, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(lean.logits_from(state, level), logits, atol=1e-5, rtol=1e-4)


def test_only_one_seed_of_the_module_itself_has_a_lean_way() -> None:
    class Own(NDR):
        pass

    assert LeanNDR.of(make(seeds=2)) is None
    assert LeanNDR.of(init_crowd(Own, VOCABULARY, CLASSES, [0])) is None
