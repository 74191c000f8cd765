"""Code extraction: the tables a model has really learned.

A first function leaves a state behind; what the model makes of it is a row of answers, one for each second function.
States with the same meaning whose rows differ in more than a quarter of the answers are different *codes* for it.
One code a symbol is what a systematic learner needs; two codes mean that some functions cannot read some others.

`table` is then what the model has learned: for every second function and code, the answer it gives.
"""

from typing import Any

import numpy as np

from ctlpp.analysis.inputs import Array, Inputs

DIFFERENT = 0.25  # share of second functions with another answer


def extract(answers: Array, inputs: Inputs) -> Array:
    """The code of every state (first function, symbol). (S, F, F, symbols) -> (S, F, symbols)

    0 is the code that most functions use for the value; -1 for functions that are never first in training or test.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import pdist

    firsts = np.flatnonzero(inputs.firsts)
    codes = np.full((len(answers), *inputs.value.shape), -1, dtype=np.int64)
    for seed, value in np.ndindex(len(answers), inputs.n_symbols):
        starts = inputs.start[firsts, value]
        rows = answers[seed, firsts, :, starts][:, inputs.seconds]  # (firsts, seconds)
        if len(firsts) == 1:
            codes[seed, firsts, starts] = 0
            continue
        tree = linkage(pdist(rows, "hamming"), "average")
        labels = fcluster(tree, DIFFERENT, "distance") - 1
        sizes = np.bincount(labels)
        codes[seed, firsts, starts] = np.argsort(np.argsort(-sizes, kind="stable"))[labels]
    return codes


def codes_per_symbol(codes: Array, inputs: Inputs) -> Array:
    """How many codes each value has. (S, F, symbols) -> (S, values)"""
    functions = np.arange(inputs.n_functions)
    return np.asarray(codes[:, functions, inputs.start.T].max(axis=-1) + 1)


def table(answers: Array, codes: Array, inputs: Inputs) -> list[dict[str, Any]]:
    """What each second function makes of each code: the commonest answer, its share, and the states behind it."""
    rows: list[dict[str, Any]] = []
    functions = np.arange(inputs.n_functions)
    for seed in range(len(answers)):
        for value in range(inputs.n_symbols):
            starts = inputs.start[:, value]
            own = codes[seed, functions, starts]  # (F,)
            for code in range(own.max() + 1):
                users = functions[own == code]
                given = answers[seed, users, :, starts[users]]  # (users, F)
                counts = (given[:, :, None] == np.arange(inputs.n_symbols)).sum(axis=0)  # (F, symbols)
                for second in np.flatnonzero(inputs.seconds).tolist():
                    answer = int(counts[second].argmax())
                    share = float(counts[second, answer] / len(users))
                    rows.append(
                        {"seed": seed, "second": second, "value": value, "code": code, "states": len(users)}
                        | {
                            "answer": answer,
                            "share": share,
                            "right": int(answer == inputs.value[second, value]),
                        }
                    )
    return rows
