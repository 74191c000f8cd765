"""Which base meets which donor: every donor and every consumer together, and every input patched equally often.

A donor is (f, s) and leaves the value v = f(s). The bases of a consumer g are all inputs that end in g, one for each
(f′, s′) with its own value v′ = f′(s′). In each *turn* the donors and the bases of every consumer are paired off:

    f′ = f + g + v + i   mod F          (f and f′ counted so that the groups alternate, g group by group)
    v′ = v + 1 + (⌊f′ / G⌋ + ⌊g / (n − 1)⌋ + j   mod n − 1)   mod n

where F is the number of functions, G of groups, n of symbols, and (i, j) runs through all F · (n − 1) combinations as
the turns go on. Hence in one turn

- every donor meets every consumer, and every input of two functions is patched exactly once;
- the base's own value is never the donor's, so that only the donor's state can give the right answer;
- a donor meets each first function f′ once, with another consumer each time (a Latin square), so that for all donors
  of a symbol, and all consumers of a group, the groups of f′ come in equal shares;

and in all turns together every donor meets every base of another value exactly once.

Example:
    >>> from ctlpp.benchmark.dataset import generate
    >>> inputs = Inputs.of(generate("R", symbols=4, functions=8, max_length=3, train=100, iid=9, ood=9).task)
    >>> base = base_of(inputs, consumer=3, turn=0)  # the bases of the donors (0, 0), (0, 1) …, numbered like them
    >>> sorted(base.tolist()) == list(range(8 * 4)), turns(inputs)
    (True, 24)
"""

import numpy as np

from ctlpp.analysis.inputs import Array, Inputs, grid


def turns(inputs: Inputs) -> int:
    """How many bases of another value there are for every donor and consumer."""
    return inputs.n_functions * (inputs.n_symbols - 1)


def base_of(inputs: Inputs, consumer: int, turn: int) -> Array:
    """The base of every donor: the number of (f′, s′), for donors ordered by (f, s). (F · symbols,)"""
    F, n, G = inputs.n_functions, inputs.n_symbols, len(inputs.groups)
    i, j = turn % F, turn % F + turn // F
    alternating = _alternating(inputs)
    position = np.argsort(alternating)
    line = np.argsort(np.argsort(inputs.group_of, kind="stable"))
    function, _ = (index.ravel() for index in grid(inputs.value.shape))
    value = inputs.value.ravel()
    place = (position[function] + line[consumer] + value + i) % F
    other = (value + 1 + (place // G + line[consumer] // (n - 1) + j) % (n - 1)) % n
    first = alternating[place]
    return np.asarray(first * n + inputs.start[first, other])


def _alternating(inputs: Inputs) -> Array:
    """The functions, those of each group evenly spread."""
    rank, size = np.zeros(inputs.n_functions), np.bincount(inputs.group_of)
    for group in range(len(size)):
        rank[inputs.group_of == group] = (np.arange(size[group]) + 0.5) / size[group]
    return np.lexsort((inputs.group_of, rank))
