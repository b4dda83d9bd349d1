"""In which order a promising set looks at its entries, or how it divides its budget among them (ali 3, 5.1).

| order | what comes first |
|---|---|
| DESC | the largest promise: the most results for the work |
| ASC | the smallest: what is rare |
| WEIGHTED | nothing: each entry gets a share of the budget by its promise, as a random sample would give it |

What is in an older granularity has faded once for each: DESC and WEIGHTED multiply by the factor, and ASC divides, or
it would prefer the old (the paper multiplies always).
"""

from __future__ import annotations

import numpy as np

from mullion.expressions.arrays import Codes, Counts, Index, Real
from mullion.expressions.coding.hashes import mixed
from mullion.expressions.vector import Vector

ASC, DESC, WEIGHTED = "asc", "desc", "weighted"
LEAST = 1 / 16
"""The part of the mean weight that each pair has at the least where aggregates are estimated."""


def promises(order: str, values: Vector) -> Real:
    """The larger, the sooner. NULL and NaN come last."""
    known = values.valid & ~np.isnan(values.values.astype(np.float64))
    value = np.where(known, values.values, 0.0).astype(np.float64)
    if order == WEIGHTED:
        return np.where(known, value, 0.0)
    return np.where(known, -value if order == ASC else value, -np.inf)


def faded(promise: Real, fade: float, grain: Index) -> Real:
    """Promises of what is in some granularities, the youngest of which is the first. What is below zero fades too: it
    comes later than before."""
    if fade == 1:
        return promise
    factor = fade**grain
    return np.where(promise > 0, promise * factor, promise / factor)


def by_promise(promise: Real) -> Index:
    """The places of entries, the most promising first; of equal ones the first that came. What waited is in order, so
    that only what is new is put between."""
    return np.argsort(-promise, kind="stable")


def shares(weight: Real, most: Counts, budget: float, phase: float) -> Counts:
    """How many of its parts each entry gets, by weight and at most as many as it has, `budget` in all.

    What one cannot use goes to the others. Fractions become whole numbers by systematic sampling: of entries in a row
    with half a part each, every other one gets a part. `phase`, between 0 and 1, says which.

    >>> shares(np.array([6.0, 3.0, 1.0]), np.array([60, 30, 10]), 10, 0.5).tolist()
    [6, 3, 1]
    >>> shares(np.array([1.0, 1.0, 1.0]), np.array([1, 8, 8]), 9, 0.5).tolist()
    [1, 4, 4]
    """
    if most.sum() <= budget:
        return most.copy()
    passed = np.floor(np.cumsum(_divided(weight, most, budget)) + phase + 1e-9)
    whole = np.diff(passed, prepend=np.floor(phase)).astype(np.int64)
    return np.minimum(whole, most)


def chances(weight: Real, most: Counts, budget: float) -> Real:
    """With which chance each part of an entry is drawn, so that about `budget` are in all, by weight.

    None is without a chance, or what it is one of could not be estimated: where weights are smaller than a part of the
    mean, that part is taken (a defensive mixture, Hesterberg 1995).

    >>> chances(np.array([6.0, 3.0, 1.0]), np.array([60, 30, 10]), 10).tolist()
    [0.1, 0.1, 0.1]
    >>> chances(np.array([9.0, 0.0]), np.array([3, 10]), 5).round(3).tolist()
    [1.0, 0.2]
    """
    if most.sum() <= budget:
        return np.ones(len(most))
    known = np.where(np.isfinite(weight) & (weight > 0), weight, 0.0)
    mean = known.sum() / most.sum()
    known = np.maximum(known, most * (mean * LEAST if mean > 0 else 1.0))
    chance: Real = np.minimum(_divided(known, most, budget) / np.maximum(most, 1), 1.0)
    return chance


def _divided(weight: Real, most: Counts, budget: float) -> Real:
    """The budget by weight, at most as much as each can use; what one cannot goes to the others."""
    positive = np.where(weight > 0, weight, 0.0)
    share = np.zeros(len(weight))
    is_full = (most == 0) | (positive == 0)
    left = float(budget)
    while left > 0 and not is_full.all():
        rate = left / positive[~is_full].sum()
        filled = ~is_full & (positive * rate >= most)
        if not filled.any():
            share[~is_full] = positive[~is_full] * rate
            break
        share[filled] = most[filled]
        left -= float(most[filled].sum())
        is_full |= filled
    return share


def phases(of: Codes) -> Real:
    """Numbers between 0 and 1 by numbers of rows: as if they were random, but the same again."""
    phase: Real = (mixed([of], len(of)).view(np.uint64) >> np.uint64(11)) / float(1 << 53)
    return phase
