import numpy as np
import pytest
import torch
from torch import Tensor

from ctlpp.analysis.inputs import Inputs
from ctlpp.analysis.probes import cka, probe
from ctlpp.analysis.stitching import ridge, rotate, stitch
from ctlpp.benchmark.task import Task

WIDTH = 12


def states_of(inputs: Inputs, turn_b: bool, noise: float = 0.0) -> Tensor:
    """Two seeds whose states are a direction for each symbol; group b's directions may be rotated."""
    generator = torch.Generator().manual_seed(0)
    symbols = torch.randn(2, inputs.n_symbols, WIDTH, generator=generator, dtype=torch.float64)
    table = symbols[:, torch.from_numpy(inputs.value)]  # (S, F, symbols, W)
    if turn_b:
        turn, _ = torch.linalg.qr(torch.randn(2, WIDTH, WIDTH, generator=generator, dtype=torch.float64))
        b = inputs.members("b").tolist()
        table[:, b] = torch.einsum("sfnw,swv->sfnv", table[:, b], turn)
    return table + noise * torch.randn(table.shape, generator=generator, dtype=torch.float64)


def test_cka_is_one_for_states_that_differ_by_a_rotation_and_follows_the_definition(task: Task) -> None:
    inputs = Inputs.of(task)
    torch.testing.assert_close(
        cka(states_of(inputs, turn_b=True), inputs), torch.ones(2, dtype=torch.float64)
    )
    noisy = states_of(inputs, turn_b=True, noise=1.0)
    a, b = (
        np.stack(
            [
                noisy[0, f, inputs.start[f, v]].numpy()
                for f in inputs.members(g)
                for v in range(inputs.n_symbols)
            ]
        )
        for g in ("a", "b")
    )
    a, b = a - a.mean(0), b - b.mean(0)
    expected = np.linalg.norm(a.T @ b) ** 2 / (np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))
    assert float(cka(noisy, inputs)[0]) == pytest.approx(expected)


def test_a_rotated_code_is_decodable_in_each_group_but_not_across(task: Task) -> None:
    inputs = Inputs.of(task)
    within, across = probe(states_of(inputs, turn_b=True), inputs)
    assert within.tolist() == [1, 1]
    assert across.max() < 1
    assert [part.tolist() for part in probe(states_of(inputs, turn_b=False), inputs)] == [[1, 1], [1, 1]]


@pytest.mark.parametrize("kind", ["orthogonal", "affine"])
def test_stitching_brings_a_rotated_code_to_that_of_the_partner(task: Task, kind: str) -> None:
    inputs = Inputs.of(task)
    states = states_of(inputs, turn_b=True)
    mapped = stitch(states.flatten(1, 2), inputs, kind).view(states.shape)
    for group, partner in (("a", "b"), ("b", "a")):
        target = states[
            :, inputs.members(partner)[0], inputs.start[inputs.members(partner)[0]]
        ]  # (S, values, W)
        for f in inputs.members(group):
            found = mapped[:, f, inputs.start[f]]
            assert (found - target).norm() < 0.05 * target.norm()


def test_rotate_finds_an_orthogonal_map_and_ridge_a_linear_one() -> None:
    generator = torch.Generator().manual_seed(1)
    x, z = (torch.randn(1, n, 5, generator=generator, dtype=torch.float64) for n in (6, 3))
    turn, _ = torch.linalg.qr(torch.randn(1, 5, 5, generator=generator, dtype=torch.float64))
    torch.testing.assert_close(rotate(x, x @ turn + 2, z), z @ turn + 2)
    many = torch.randn(1, 500, 5, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(ridge(many, many @ turn + 2, z), z @ turn + 2, rtol=0.02, atol=0.02)
