"""Functions are random bijections; examples are written as tokens and read back."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from ctlpp.benchmark.language import Examples
from ctlpp.benchmark.sampling import Stream
from ctlpp.benchmark.task import Vocabulary, make_task, random_bijections
from ctlpp.benchmark.variants import ORDERS, Settings


def test_every_set_of_functions_is_equally_likely() -> None:
    drawn = Counter(tuple(map(tuple, random_bijections(3, 2, Stream(i)).tolist())) for i in range(1500))
    assert set(drawn) == set(permutations(permutations(range(3)), 2))
    assert chisquare(list(drawn.values())).pvalue > 1e-4


def test_functions_are_distinct_bijections_up_to_all_there_are() -> None:
    for n_symbols, n_functions in ((2, 2), (4, 24), (8, 32), (25, 60), (200, 5)):
        table = random_bijections(n_symbols, n_functions, Stream(0)).tolist()
        assert len(set(map(tuple, table))) == n_functions
        assert all(sorted(row) == list(range(n_symbols)) for row in table)


def test_an_unknown_word_is_named() -> None:
    vocabulary = make_task(Settings(variant="A", symbols=4, functions=8)).vocabulary
    with pytest.raises(ValueError, match="unknown token 'zz'; the tokens are a b c d e f g h 0 1 2 3"):
        vocabulary.encode("a zz 3")


vocabularies = st.builds(
    lambda n, m: Vocabulary(functions=tuple(f"f{i}" for i in range(n)), symbols=tuple(map(str, range(m)))),
    st.integers(1, 400),
    st.integers(1, 10),
)


@given(vocabularies, st.sampled_from(ORDERS), st.integers(1, 5), st.integers(0, 20), st.integers(0, 99))
def test_what_is_written_is_read_back(
    vocabulary: Vocabulary, order: str, length: int, n: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    starts = random.integers(len(vocabulary.symbols), size=n)
    functions = random.integers(len(vocabulary.functions), size=(n, length))
    ids = vocabulary.written(Examples(starts=starts, functions=functions), order)
    assert ids.shape == (n, length + 1)
    back = vocabulary.read(ids, order)
    assert (back.starts == starts).all()
    assert (back.functions == functions).all()
