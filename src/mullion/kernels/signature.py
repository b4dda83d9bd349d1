"""Signatures: which predicates an event satisfies, as the bits of 63-bit words.

Bit i of a signature is predicate i of the grouping. Events with equal signatures form a fragment (krishnamurthy 4.2).
Words hold 63 bits so that they are non-negative in Spark's BIGINT.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

BITS = 63

Words = npt.NDArray[np.int64]


def words_for(predicates: int) -> int:
    return -(-predicates // BITS)


def pack(satisfied: Sequence[npt.NDArray[np.bool_]], length: int) -> Words:
    """One column of words for every 63 predicates.

    >>> pack([np.array([True, False]), np.array([True, True])], 2).tolist()
    [[3], [2]]
    """
    words = np.zeros((length, words_for(len(satisfied))), np.int64)
    for bit, column in enumerate(satisfied):
        words[:, bit // BITS] |= column.astype(np.int64) << (bit % BITS)
    return words


def satisfies(words: Words, bit: int) -> npt.NDArray[np.bool_]:
    """Which signatures have the bit.

    >>> satisfies(np.array([[3], [2]]), 0).tolist()
    [True, False]
    """
    return (words[:, bit // BITS] >> (bit % BITS) & 1).astype(np.bool_)
