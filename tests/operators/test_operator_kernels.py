"""The compiled loops of DISTINCT, anti-join and difference by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from mullion.expressions.coding.row_hash_table import FREE, insert, rehash, remove
from mullion.instants import NEVER
from mullion.operators.kernels.anti_join import KeyChanges, LeftRows, left_stays
from mullion.operators.kernels.difference import (
    LEFT_STARTS,
    RIGHT_CHANGES,
    ChangedValues,
    MinuendRows,
    RowChanges,
    surplus,
)
from mullion.operators.kernels.distinct import CodedRows, Outlook, crossings, delta_star
from mullion.operators.kernels.expiry_heap import ExpiryHeap, Heap
from mullion.operators.kernels.links import link_all, linked_rows
from mullion.operators.kernels.stays import EarlyEnds, Stays


def room(*sizes: int) -> list[np.ndarray]:
    return [np.empty(size, np.int64) for size in sizes]


def as_tuples(columns: tuple[np.ndarray, ...]) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_an_agenda_gives_items_in_the_order_of_their_ends() -> None:
    random = np.random.default_rng(5)
    ends = random.permutation(500)
    expiries = ExpiryHeap()
    for part in np.split(np.arange(500), 10):
        expiries.add(ends[part], part)
    assert ends[expiries.before(200)].tolist() == list(range(200))
    assert ends[expiries.before(500)].tolist() == list(range(200, 500))
    assert expiries.size == 0


@pytest.mark.slow
def test_delta_star_keeps_the_youngest_row_only() -> None:
    code = np.zeros(4, np.int64)
    ids = np.arange(4).reshape(-1, 1)
    start, end = np.array([0, 2, 3, 5]), np.array([10, 30, 8, 20])
    result_end, youngest_end, youngest_ids = np.full(1, NEVER), np.full(1, NEVER), np.zeros((1, 1), np.int64)
    ends, codes, out_code, out_start, out_end, over = room(8, 8, 8, 8, 8, 8)
    results = CodedRows(out_code, np.empty((8, 1), np.int64), out_start, out_end)
    state = Outlook(result_end, youngest_end, youngest_ids), Heap(ends, codes)
    found, gone, size = delta_star(CodedRows(code, ids, start, end), 6, *state, 0, results, over)
    assert (found, gone, size) == (1, 0, 1)
    assert (result_end[0], youngest_end[0], youngest_ids[0, 0]) == (10, 30, 1)
    nothing = np.zeros(0, np.int64)
    found, gone, size = delta_star(CodedRows(nothing, ids[:0], nothing, nothing), 31, *state, size, results, over)
    assert (found, gone, size) == (1, 1, 0) and over[0] == 0
    assert (out_start[0], out_end[0], results.ids[0, 0]) == (10, 30, 1)
    assert result_end[0] == youngest_end[0] == NEVER


def test_crossings_are_where_a_count_leaves_zero_or_comes_back() -> None:
    out = np.empty(6, np.intp)
    count = np.array([0, 1])
    found = crossings(np.array([0, 0, 1, 0, 0, 0]), np.array([1, 1, -1, -1, -1, 1]), count, out)
    assert out[:found].tolist() == [0, 2, 4, 5] and count.tolist() == [1, 0]


def test_words_that_were_taken_out_make_room_for_others() -> None:
    slots, keys = np.full(16, FREE), np.empty((8, 2), np.int64)
    first = np.array([[1, 0], [2, 0], [1, 0], [1, 1]])
    codes, new = np.empty(4, np.int64), np.empty(4, np.intp)
    free = np.empty(0, np.int64)
    assert insert(first, slots, keys, free, 0, 0, codes, new) == 3
    assert codes.tolist() == [0, 1, 0, 2] and new[:3].tolist() == [0, 1, 3]
    remove(np.array([1]), slots, keys)
    assert insert(np.array([[9, 9], [1, 1]]), slots, keys, np.array([1]), 1, 3, codes, new) == 1
    assert codes[:2].tolist() == [1, 2]
    anew = np.full(32, FREE)
    rehash(np.arange(3), anew, keys)
    assert insert(np.array([[1, 1], [9, 9], [1, 0]]), anew, keys, free, 0, 3, codes, new) == 0
    assert codes[:3].tolist() == [2, 1, 0]


def test_lists_lose_the_rows_that_have_ended() -> None:
    code, end = np.array([0, 1, 0, 0, 1]), np.array([9, 5, 3, 8, 2])
    last, link, out = np.full(2, -1), np.empty(5, np.int64), np.empty(5, np.intp)
    link_all(0, 5, code, last, link)
    assert out[: linked_rows(np.array([0, 1]), 4, last, link, end, out)].tolist() == [3, 0, 1]
    assert last.tolist() == [3, 1] and link[3] == 0


def test_what_presence_leaves_of_old_and_new_rows() -> None:
    """One key, which was not present since 2: it is from 10 to 14, and again from 20 on."""
    start, promised, end = np.array([0, 5, 11, 14]), np.array([30, 12, 19, 40]), np.array([30, 12, 19, 40])
    is_old = np.array([True, True, False, False])
    many = np.zeros(4, np.int64)
    rows = LeftRows(start, promised, end, is_old, np.zeros(4, np.bool_), many + 2, many, many + 3)
    changes = KeyChanges(np.zeros(3, np.int64), np.array([10, 14, 20]), np.array([True, False, True]))
    stays, early_ends = Stays.room(8), EarlyEnds.room(8)
    count, ended, premature = left_stays(rows, changes, stays, early_ends)
    assert as_tuples(stays.first(count)) == [(0, 14, 20), (2, 14, 19), (3, 14, 20)]
    assert as_tuples(early_ends.first(ended)) == [(0, 2, 10), (1, 5, 10)] and premature == 4


def test_the_border_between_excluded_and_shown_moves() -> None:
    """Two old rows; a third starts at 12; the right gets two rows at 11 and loses one at 15."""
    start, end, since = np.array([0, 1, 12]), np.array([50, 50, 50]), np.array([0, 1, NEVER])
    kinds = np.array([RIGHT_CHANGES, RIGHT_CHANGES, LEFT_STARTS, RIGHT_CHANGES])
    changes = RowChanges(np.array([11, 11, 12, 15]), kinds, np.array([1, 1, 2, -1]))
    stays, early_ends = Stays.room(8), EarlyEnds.room(8)
    values = ChangedValues(np.array([0, 3]), np.array([0, 4]), np.array([0]))
    count, ended = surplus(values, MinuendRows(start, end, end, since), changes, 10, stays, early_ends)
    assert as_tuples(stays.first(count)) == [(1, 15, 50), (2, 12, 50)]
    assert early_ends.row[:ended].tolist() == [0, 1] and early_ends.at[:ended].tolist() == [11, 11]
    assert since.tolist() == [NEVER, 15, 12]
