"""Counting the bytes that kernels move."""

from __future__ import annotations

import torch

from ctlpp.bench.traffic import bytes_moved


def test_a_product_reads_its_factors_and_writes_its_result() -> None:
    a, b = torch.zeros(3, 5), torch.zeros(5, 7)
    assert bytes_moved(lambda: a @ b) == 4 * (3 * 5 + 5 * 7 + 3 * 7)


def test_a_result_that_takes_the_place_of_an_operand_counts_once() -> None:
    a, b = torch.zeros(8), torch.zeros(8)
    assert bytes_moved(lambda: a.add_(b)) == 4 * (8 + 8)


def test_views_and_empty_tensors_move_nothing_and_slices_count_as_what_is_seen_of_them() -> None:
    a = torch.zeros(4, 6)
    assert bytes_moved(lambda: a.view(24)[:3].expand(2, 3)) == 0
    assert bytes_moved(lambda: torch.empty(99)) == 0
    assert bytes_moved(lambda: a[:, :2].neg()) == 4 * (4 * 2 + 4 * 2)
    assert bytes_moved(lambda: a[:1].expand(4, 6).neg()) == 4 * (6 + 4 * 6)
