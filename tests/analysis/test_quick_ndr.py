import pytest
import torch
from torch import Tensor, nn

from ctlpp.analysis import quick_ndr as module
from ctlpp.analysis.forward import activations, forward
from ctlpp.analysis.products import multiplies_bfloat16, multiplies_bytes
from ctlpp.analysis.quick_ndr import QuickNDR, quick_ndr
from ctlpp.analysis.states import Layout
from ctlpp.analysis.subject import Subject
from ctlpp.models.activations import recording
from ctlpp.models.ndr import NDR
from ctlpp.training.crowd import Crowd, init_crowd

VOCABULARY, CLASSES = 11, 3
needs_bytes = pytest.mark.skipif(
    not multiplies_bytes(), reason="this CPU has no products of bytes of its own"
)


def crowd(depth: int = 4, seeds: int = 1) -> Crowd:
    def factory(v: int, c: int) -> nn.Module:
        return NDR(v, c, width=16, heads=2, hidden=24, depth=depth, test_depth=depth)

    made = init_crowd(factory, VOCABULARY, CLASSES, list(range(seeds)))
    for value in made.parameters().values():  # scales and biases that are not 1 and 0
        value += 0.3 * torch.randn(value.shape, generator=torch.Generator().manual_seed(value.numel()))
    return made


@pytest.mark.parametrize("length", [3, 4, 7])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_states_and_logits_are_those_of_the_module(depth: int, length: int) -> None:
    alone = crowd(depth)
    quick = quick_ndr(alone)
    assert quick is not None
    tokens = torch.randint(VOCABULARY, (9, length), generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), recording() as seen:
        logits = alone.member(0).eval()(tokens)
    for level, state in enumerate(seen["state"]):
        found = quick.state(tokens, level)
        torch.testing.assert_close(found, state, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(quick.logits_from(state, level), logits, atol=1e-5, rtol=1e-4)


def test_only_one_seed_of_the_module_itself_has_a_quick_way() -> None:
    class Own(NDR):
        pass

    assert quick_ndr(crowd(seeds=2)) is None
    assert quick_ndr(init_crowd(Own, VOCABULARY, CLASSES, [0])) is None


def undecided(depth: int) -> Crowd:
    """A seed that gives every class now and then, often with a small lead."""
    alone = crowd(depth)
    tokens = torch.randint(VOCABULARY, (500, 4), generator=torch.Generator().manual_seed(9))
    alone.parameters()["classify.bias"][0] -= forward(alone, tokens)[0].mean(0)
    return alone


def with_draft(alone: Crowd, monkeypatch: pytest.MonkeyPatch) -> QuickNDR:
    """As on a CPU that multiplies bfloat16, whatever this one does."""
    monkeypatch.setattr(module, "multiplies_bfloat16", lambda: True)
    quick = quick_ndr(alone)
    assert quick is not None
    assert quick.draft is not None
    return quick


def test_a_draft_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = with_draft(crowd(), monkeypatch)
    state = quick.state(torch.randint(VOCABULARY, (200, 4), generator=torch.Generator().manual_seed(0)), 0)
    logits, draft = quick.logits_from(state, 0), quick.draft.logits_from(state, 0)  # type: ignore[union-attr]
    assert 0 < (draft - logits).abs().max() < 0.1 * logits.std()


@pytest.mark.parametrize("in_bytes", [False, pytest.param(True, marks=needs_bytes)])
@pytest.mark.parametrize("columns", [3, 5])
def test_a_sketch_is_near_and_the_same_where_no_column_rests(
    columns: int, in_bytes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    depth = 10
    monkeypatch.setattr(module, "multiplies_bytes", lambda: in_bytes)
    quick = quick_ndr(crowd(depth))
    assert quick is not None
    tokens = torch.randint(VOCABULARY, (200, columns - 1), generator=torch.Generator().manual_seed(0))
    for level in (0, 1, depth - 3, depth - 2, depth - 1):
        state = quick.state(tokens, level)
        logits, sketch = quick.logits_from(state, level), quick.sketch(state, level)
        error, exact = (
            (sketch - logits).abs().max(),
            (not in_bytes and level >= depth - 3) or level == depth - 1,
        )
        assert error < 1e-5 if exact else 0 < error < 0.3 * logits.std()


def test_a_batch_may_be_empty() -> None:
    quick = quick_ndr(crowd(depth=10))
    assert quick is not None
    assert quick.answers_from(torch.zeros(0, 5, 16), 0).shape == (0,)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_sketches_are_made_while_they_pay(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTH", share)
    alone, made = undecided(depth=10), list[int]()
    quick = quick_ndr(alone)
    assert quick is not None
    sketch = QuickNDR.sketch

    def counted(model: QuickNDR, h: Tensor, level: int) -> Tensor:
        made.append(level)
        return sketch(model, h, level)

    monkeypatch.setattr(QuickNDR, "sketch", counted)
    for seed in range(5):
        tokens = torch.randint(VOCABULARY, (256, 4), generator=torch.Generator().manual_seed(seed))
        answers = quick.answers_from(quick.state(tokens, 0), 0)
        assert answers.equal(forward(alone, tokens)[0].argmax(-1))
    assert len(made) == (5 if share else 1)


@pytest.mark.parametrize("in_bytes", [False, pytest.param(True, marks=needs_bytes)])
def test_answers_are_those_of_the_module_although_they_are_drafted(
    in_bytes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = undecided(depth=5)
    monkeypatch.setattr(module, "multiplies_bytes", lambda: in_bytes)
    quick = with_draft(alone, monkeypatch)
    for seed in range(20):
        tokens = torch.randint(VOCABULARY, (256, 4), generator=torch.Generator().manual_seed(seed))
        with torch.no_grad(), recording() as seen:
            answers = alone.member(0).eval()(tokens).argmax(-1)
        assert answers.bincount(minlength=CLASSES).min() > 20
        for level in (0, 3):
            assert quick.answers_from(seen["state"][level], level).equal(answers)


@pytest.mark.parametrize(
    ("able", "drafts"),
    [({"avx512_bf16": True}, True), ({"amx_bf16": True}, True), ({"avx512_bf16": False}, False), ({}, False)],
)
def test_answers_are_drafted_where_the_cpu_multiplies_bfloat16(
    able: dict[str, bool], drafts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able, raising=False)
    multiplies_bfloat16.cache_clear()
    try:
        quick = quick_ndr(crowd())
        assert quick is not None
        assert (quick.draft is not None) == drafts
    finally:
        multiplies_bfloat16.cache_clear()


def test_states_are_exchanged_in_drafts_as_in_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, draw = undecided(depth=5), torch.Generator().manual_seed(1)
    tokens = torch.randint(VOCABULARY, (3000, 4), generator=draw)
    seen, _ = activations(alone, tokens)
    layout = Layout.of(seen)
    assert layout is not None
    drafted = Subject(alone, layout, "nothing", with_draft(alone, monkeypatch))
    slow = Subject(alone, layout)
    where = torch.tensor([[False, True, False, False, True]])
    for level in (0, 2, 4):
        new = seen["state"][level][:, torch.randperm(len(tokens), generator=draw)]
        expected, states = slow.run(tokens, level)
        assert drafted.go_on(tokens[:8], level, states[:, :8]).equal(expected[:, :8])  # as places are tried
        answers, own = drafted.run(tokens, level)
        assert answers.equal(expected)
        assert (own - states).abs().mean() < 0.01
        found = drafted.exchange(tokens, level, own, new, where)
        assert found.equal(slow.exchange(tokens, level, states, new, where))
        if level < 4:  # of the last one only the first column is read
            assert (found != answers).sum() > 50
