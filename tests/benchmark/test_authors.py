"""Data drawn as the authors' generator draws them, beside statistics of data that it wrote."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ctlpp
from ctlpp.benchmark.dataset import Dataset

FEW = {"train": 30_000}  # a tenth of the usual
SMALL = {"symbols": 4, "functions": 16, "max_length": 4, "train": 3000, "iid": 100, "ood": 100, "fill": 0.9}
WRITTEN = {  # by the authors' generator with 16 workers, variant A: (value, how far a second draw may be off)
    "rows of length 6": (88_440, 60),
    "sequences of length 3": (4_467, 60),
    "sequences of length 4": (12_557, 90),
    "sequences of length 6": (12_595, 90),
    "prefixes of 5 in 6": (0.173, 0.01),
    "prefixes of 4 in 6": (0.409, 0.01),
    "prefixes of 3 in 6": (0.661, 0.02),
    "prefixes of 4 in 5": (0.282, 0.01),
    "suffixes of 5 in 6": (0.090, 0.01),
    "suffixes of 4 in 6": (0.255, 0.01),
    "suffixes of 3 in 6": (0.606, 0.02),
    "pairs": (6_135, 8),
    "pairs twice": (2_039, 8),
    "sequences of pairs twice": (280, 30),
    "iid sequences in train": (1.0, 0),
    "ood sequences of length 2": (83, 14),
    "ood sequences of length 6": (100, 1),
    "ood twins": (1.0, 0),
    "most frequent class": (0.125, 0.004),
    "most frequent function": (0.0323, 0.003),
}


@cache
def authors(variant: str = "A", **options: Any) -> Dataset:
    return ctlpp.generate(variant, protocol="authors", **options)


def sequences(data: Dataset, split: str, length: int) -> set[tuple[int, ...]]:
    return {tuple(row) for row in data[split][length].functions.tolist()}


def twin_keys(data: Dataset, split: str, length: int) -> set[tuple[int, ...]]:
    """A's groups are functions 0 … 15 and 16 … 31: the numbers within the groups, and the first group."""
    return {(row[0] // 16, *(function % 16 for function in row)) for row in sequences(data, split, length)}


def statistics(data: Dataset) -> dict[str, float]:
    train = {length: sequences(data, "train", length) for length in data["train"]}
    facts: dict[str, float] = {"rows of length 6": len(data["train"][6])}
    for length in (3, 4, 6):
        facts[f"sequences of length {length}"] = len(train[length])
    for short, long in ((5, 6), (4, 6), (3, 6), (4, 5)):
        prefixes = [row[:short] in train[short] for row in train[long]]
        facts[f"prefixes of {short} in {long}"] = float(np.mean(prefixes))
        if long == 6:
            suffixes = [row[-short:] in train[short] for row in train[6]]
            facts[f"suffixes of {short} in {long}"] = float(np.mean(suffixes))
    pairs = data["train"][2]
    rows = [(*row, start) for row, start in zip(pairs.functions.tolist(), pairs.starts.tolist(), strict=True)]
    twice = [row for row, n in Counter(rows).items() if n == 2]
    facts |= {"pairs": len(rows), "pairs twice": len(twice)}
    facts["sequences of pairs twice"] = len({row[:2] for row in twice})
    iid = [row in train[n] for n in data["iid"] for row in sequences(data, "iid", n)]
    ood = twin_keys(data, "ood", 6)
    twins = len(ood & twin_keys(data, "train", 6)) / len(ood)
    facts |= {"iid sequences in train": float(np.mean(iid)), "ood twins": twins}
    for length in (2, 6):
        facts[f"ood sequences of length {length}"] = len(sequences(data, "ood", length))
    classes = np.bincount(data.targets(data["train"][6])) / len(data["train"][6])
    functions = np.bincount(data["train"][6].functions.ravel()) / data["train"][6].functions.size
    return facts | {"most frequent class": classes.max(), "most frequent function": functions.max()}


def test_statistics_are_those_of_data_that_the_authors_generator_wrote() -> None:
    ours = statistics(authors(workers=16))
    for name, (value, far) in WRITTEN.items():
        assert ours[name] == pytest.approx(value, abs=far), name


def test_the_reference_is_what_the_generator_wrote() -> None:
    folder = Path(__file__).parents[3] / "shared" / "reference-data" / "A"
    if not folder.is_dir():
        pytest.skip("the reference data are not here")
    facts = statistics(ctlpp.load(folder))
    assert facts == pytest.approx({name: value for name, (value, _) in WRITTEN.items()}, rel=0.03)


def test_more_workers_repeat_more() -> None:
    distinct = [len(sequences(authors(workers=workers, **FEW), "train", 6)) for workers in (1, 16, 24, 80)]
    assert distinct == sorted(distinct, reverse=True)


def test_workers_drift_apart_on_s() -> None:
    data = authors("S", workers=16, shared_functions=16, shared_symbols=6)  # at full size: 300,000 examples
    rows = {length: len(examples) for length, examples in data["train"].items()}
    assert rows == pytest.approx({2: 1_726, 4: 91_861, 6: 207_565}, abs=60)
    starts = [rows[length] / len(sequences(data, "train", length)) for length in (4, 6)]
    assert starts == pytest.approx([3.69, 1.14], rel=0.04)  # seen in one draw of the generator
    iid, train = sequences(data, "iid", 6), sequences(data, "train", 6)
    assert 0.1 < len(iid & train) / len(iid) < 0.5


def test_without_nesting_lengths_share_sequences_by_chance_alone() -> None:
    on, off = (shared_prefixes(authors(nesting=nesting, **FEW)) for nesting in (True, False))
    assert on > 0.15
    assert off < 0.02


def shared_prefixes(data: Dataset) -> float:
    shorter = sequences(data, "train", 5)
    return float(np.mean([row[:5] in shorter for row in sequences(data, "train", 6)]))


def test_without_twins_ood_sequences_have_no_partner_in_train_and_train_stays() -> None:
    on, off = authors(**FEW), authors(twins=False, **FEW)
    for unrelated in (twin_keys(off, "ood", 6), twin_keys(on, "ood_independent", 6)):
        assert not twin_keys(on, "train", 6) & unrelated
    assert len(sequences(off, "ood", 6)) == len(sequences(on, "ood", 6)) == 100
    assert len(sequences(on, "ood_independent", 6)) == 200
    for split in ("train", "iid", "ood_independent"):
        assert off.texts(split) == on.texts(split)


def test_without_repeats_a_sequence_seldom_occurs_twice() -> None:
    data = authors(repeats=False, **FEW)
    assert len(sequences(data, "train", 6)) > 0.98 * len(data["train"][6])
    assert shared_prefixes(data) > 0.1  # nesting stays


def test_without_doubled_pairs_every_pair_is_there_once_and_the_rest_stays() -> None:
    on, off = authors(**FEW), authors(doubled_pairs=False, **FEW)
    assert len(off["train"][2]) == 4_096
    assert {*off.texts("train")} == {*on.texts("train")}
    assert off.texts("ood") == on.texts("ood")
    clean = ctlpp.generate("A", protocol="clean", doubled_pairs=True, **FEW)
    assert len(clean["train"][2]) > 6_000


def test_the_functions_are_the_authors_in_either_order() -> None:
    one, other = authors(**FEW), authors(table="authors-py37", **FEW)
    first, older = ([*data.task.functions.values()] for data in (one, other))
    assert (first[0], older[0]) == ((7, 6, 0, 2, 1, 4, 5, 3), (1, 4, 5, 2, 7, 0, 3, 6))
    assert {*first} == {*older}
    assert (other["train"][6].functions == one["train"][6].functions).all()


def test_every_protocol_takes_a_table(tmp_path: Path) -> None:
    drawn = ctlpp.generate("R", protocol="clean", **SMALL, seed=3).task.functions
    assert ctlpp.generate("R", protocol="clean", **SMALL, table=3).task.functions == drawn
    file = tmp_path / "table.txt"
    file.write_text("\n".join("".join(map(str, row)) for row in drawn.values()))
    assert ctlpp.generate("R", protocol="text", **SMALL, table=file).task.functions == drawn
    assert ctlpp.generate("R", protocol="authors", **SMALL, seed=3).task.functions == drawn


def test_check_proves_it_and_states_what_is_shared(tmp_path: Path) -> None:
    for variant in "AS":
        data = authors(variant, **SMALL)
        data.save(tmp_path / variant)
        proof = ctlpp.check(tmp_path / variant)
        assert proof.doubled == len(data["train"][2]) - data.task.language("train").count(2) > 0
        assert proof.shared["iid"].in_train > 0
        assert proof.shared["ood"].in_train == 0
    half = SMALL | {"train": 2_500, "fill": 0.5, "shared_symbols": 2}  # of what the generator counts
    ctlpp.generate("S", protocol="clean", repeats=True, **half).save(tmp_path / "half")
    ctlpp.check(tmp_path / "half")
