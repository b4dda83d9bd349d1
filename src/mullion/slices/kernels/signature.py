"""Which predicates events satisfy, through the predicate index.

Events with equal signatures form a fragment (krishnamurthy 4.2). A signature is a bit set, bit i standing for predicate
i of the grouping; inside a batch fragments have dense numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Mask
from mullion.expressions.coding.dictionary import combine
from mullion.planner.fragments import TRUE, Bytes, PredicateIndex
from mullion.planner.runs import MOST_PRODUCT
from mullion.slices.kernels.regions import RegionCodes, SmallCodes
from mullion.slices.kernels.row_loops import first_of_each, gather, note_present

WORD = 63
"""Bits of a signature in one of Spark's BIGINTs, which are then never negative."""


def bytes_for(predicates: int) -> int:
    return -(-predicates // 8)


def words_for(predicates: int) -> int:
    return -(-predicates // WORD)


def pack(satisfied: npt.NDArray[Any]) -> Bytes:
    """Bit sets of rows of truth values.

    >>> pack(np.array([[True, True], [False, True]])).tolist()
    [[3], [2]]
    """
    return np.packbits(satisfied.astype(np.bool_), axis=1, bitorder="little")


def unpack(signatures: Bytes, predicates: int) -> npt.NDArray[np.bool_]:
    """Rows of truth values of bit sets."""
    return np.unpackbits(signatures, axis=1, count=predicates, bitorder="little").astype(np.bool_)


def from_words(words: Sequence[npt.NDArray[np.int64]], predicates: int) -> Bytes:
    """Bit sets of the words that Spark computed."""
    columns = []
    for w, word in enumerate(words):
        bits = min(WORD, predicates - w * WORD)
        columns.append(np.unpackbits(word[:, None].view(np.uint8), axis=1, count=bits, bitorder="little"))
    return pack(np.concatenate(columns, axis=1))


@dataclass(frozen=True)
class Fragments:
    """The fragment of each event, and the predicates that each fragment satisfies."""

    number: npt.NDArray[np.int64]
    signatures: Bytes


def fragments(index: PredicateIndex, regions: RegionCodes, length: int) -> Fragments:
    """Fragments by hash: AND, OR and NOT are evaluated once for each distinct combination of regions.

    Time: O(n) searches for each attribute, and O(k p) for k combinations and p predicates.
    """
    if not index.attributes:
        return Fragments(np.broadcast_to(np.int64(0), (length,)), np.zeros((min(1, length), 0), np.uint8))
    coded = [regions.codes(attribute) for attribute in index.attributes]
    number, first_events = distinct_codes(
        [(c, a.regions) for c, a in zip(coded, index.attributes, strict=True)], length
    )
    combinations = {i: c[first_events] for i, c in enumerate(coded)}
    truths = [index.truth(tree, combinations) == TRUE for tree in index.trees]
    signatures = pack(np.stack(truths, axis=1)) if truths else np.zeros((len(first_events), 0), np.uint8)
    same, first = same_rows(signatures)
    return Fragments(same[number], signatures[first])


def truths(index: PredicateIndex, regions: RegionCodes, length: int) -> Mask:
    """Which predicates each event satisfies, event x predicate. Where a predicate holds on an axis is known for all of
    them together; what reads several attributes is evaluated once for each combination of regions.

    Time: O(n p) bytes for n events and p predicates.
    """
    satisfied = np.ones((length, len(index)), np.bool_)
    for axis in index.axes:
        numbers, present = regions.numbered([index.attributes[at] for at in axis.attributes])
        satisfied &= axis.runs.among(present).table(int(present.sum()))[numbers]
    for read, factors in index.wide_factors.items():
        coded = [(regions.codes(index.attributes[at]), index.attributes[at].regions) for at in read]
        number, some = distinct_codes(coded, length)
        combinations = {at: codes[some] for at, (codes, _) in zip(read, coded, strict=True)}
        for predicate, tree in factors:
            satisfied[:, predicate] &= (index.truth(tree, combinations) == TRUE)[number]
    return satisfied


FEW_PREDICATES = 8
"""So many are the bits of one byte."""


def few_fragments(masks: Sequence[Bytes | bool], length: int) -> Fragments:
    """Fragments of few predicates, from the events that satisfy each of them: all (True), none (False), or some.

    >>> found = few_fragments([np.array([1, 0, 1, 0], np.uint8), True], 4)
    >>> found.number.tolist(), found.signatures.tolist()
    ([1, 0, 1, 0], [[2], [3]])
    """
    bits = np.zeros(length, np.uint8)
    for i, mask in enumerate(masks):
        bits |= np.uint8(mask << i) if isinstance(mask, bool) else mask << np.uint8(i)
    occurs = np.zeros(1 << len(masks), np.bool_)
    note_present(bits, occurs)
    there = np.flatnonzero(occurs)
    numbers, out = np.zeros(len(occurs), np.int64), np.empty(length, np.int64)
    numbers[there] = np.arange(len(there))
    gather(bits, numbers, 0, out)
    return Fragments(out, pack(there[:, None] >> np.arange(len(masks)) & 1))


def distinct_codes(
    coded: Sequence[tuple[SmallCodes, int]], length: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]]:
    """Numbers of the distinct combinations, and an event of each. Of one that no event has it may be any event."""
    codes, size = combine([(c.astype(np.int64), size) for c, size in coded], length)
    some = np.zeros(size, np.intp)
    first_of_each(codes, some)
    return codes, some if length else some[:0]


def same_rows(rows: Bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]]:
    """Numbers of the distinct rows, and one of each."""
    if not rows.shape[1] or not len(rows):
        return np.zeros(len(rows), np.int64), np.arange(min(1, len(rows)))
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1])))[:, 0]
    _, first, number = np.unique(whole, return_index=True, return_inverse=True)
    return number.astype(np.int64), first


@dataclass(frozen=True)
class Masks:
    """For each event, rows of `table` whose conjunction tells the predicates that it satisfies."""

    codes: list[npt.NDArray[np.int32]]
    first: npt.NDArray[np.int64]
    table: Bytes


def masks(index: PredicateIndex, regions: RegionCodes, length: int, slots: int) -> Masks:
    """Membership bytes (design decision 4), small attributes multiplied into one. Slots beyond the predicates belong to
    queries without one."""
    parts = _small_together([(regions.codes(index.attributes[at]), table) for (at,), table in index.tables])
    for read, factors in index.wide_factors.items():
        coded = [(regions.codes(index.attributes[at]), index.attributes[at].regions) for at in read]
        number, some = distinct_codes(coded, length)
        combinations = {at: c[some] for at, (c, _) in zip(read, coded, strict=True)}
        table = np.ones((len(some), len(index)), np.uint8)
        for predicate, tree in factors:
            table[:, predicate] = index.truth(tree, combinations) == TRUE
        parts.append((number.astype(np.int32), table))
    if not parts:
        parts = [(np.zeros(length, np.int32), np.ones((1, len(index)), np.uint8))]
    tables = [np.pad(t, ((0, 0), (0, slots - len(index))), constant_values=1) for _, t in parts]
    first = np.concatenate([[0], np.cumsum([len(t) for t in tables])[:-1]]).astype(np.int64)
    return Masks([c for c, _ in parts], first, np.ascontiguousarray(np.concatenate(tables)))


def _small_together(parts: list[tuple[SmallCodes, Bytes]]) -> list[tuple[SmallCodes, Bytes]]:
    parts = sorted(parts, key=lambda part: len(part[1]))
    merged: list[tuple[SmallCodes, Bytes]] = []
    for codes, table in parts:
        if merged and len(merged[-1][1]) * len(table) <= MOST_PRODUCT:
            before, rows = merged[-1]
            product = (rows[:, None, :] & table[None, :, :]).reshape(-1, table.shape[1])
            merged[-1] = before * np.int32(len(table)) + codes, product
        else:
            merged.append((codes, table))
    return merged
