"""Stores: rows leave in the way that suits the store, what stays is the same object, and all can be probed and cut."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mullion.algebra.update_pattern import Pattern
from mullion.instants import FOREVER
from mullion.language.query import Column
from mullion.language.types import BIGINT
from mullion.operators.construction import Construction
from mullion.operators.expressions import key_function
from mullion.operators.join_probe import Combinations, probe
from mullion.operators.queue import Queue
from mullion.operators.row_store import CalendarQueue, Fifo, Hash, RowStore, ScannedList
from mullion.operators.timed_rows import Retractions, TimedRows
from mullion.options import Expiry

SCHEMA = pa.schema([("k", pa.int64())])
KEY = key_function([Column("k")], {"k": BIGINT})
KINDS = (Fifo, CalendarQueue, Hash, ScannedList)


def rows(keys: Any, start: Any, end: Any, first: int = 0) -> TimedRows:
    keys = np.asarray(keys)
    ids = first + np.arange(len(keys)).reshape(-1, 1)
    spread = np.broadcast_to(start, len(keys)).astype(np.int64), np.broadcast_to(end, len(keys)).astype(np.int64)
    return TimedRows(pa.table({"k": keys}), ids, *spread)


def held_ids(store: RowStore) -> list[int]:
    return sorted(store.rows().ids[:, 0].tolist())


def test_the_store_suits_the_pattern() -> None:
    def kind(pattern: Pattern, expiry: Expiry = Expiry.PATTERN_AWARE) -> type[RowStore]:
        return type(Construction(expiry).store(pattern, SCHEMA, 1, KEY))

    assert [kind(pattern) for pattern in Pattern] == [Fifo, Fifo, CalendarQueue, Hash]
    assert {kind(pattern, Expiry.NEGATIVE_TUPLES) for pattern in Pattern} == {Hash}
    assert {kind(pattern, Expiry.SCAN) for pattern in Pattern} == {ScannedList}


def test_a_fifo_drops_whole_sub_windows_from_the_front() -> None:
    store = Fifo(SCHEMA, 1, KEY)
    for step in range(20):
        store.insert(rows(range(5000), step, step + 10, first=5000 * step))
        before = list(store.windows)
        store.expire(step)
        assert store.windows == before[len(before) - len(store.windows) :], "what stays is not made anew"
        assert held_ids(store) == list(range(max(5000 * (step - 9), 0), 5000 * (step + 1)))
        assert store.rows_held <= 5000 * 12


def test_a_calendar_drops_whole_days() -> None:
    store = CalendarQueue(SCHEMA, 1, KEY)
    ends = np.arange(1, 101)
    store.insert(rows(range(100), 0, ends))
    assert store.day == 25 and len(store.windows) == 5
    kept = store.windows[1:]
    store.expire(24)
    assert store.windows == kept, "the first day is over when its last row has ended"
    assert held_ids(store) == list(range(24, 100))
    assert store.rows_held == 76


def test_days_grow_with_lives() -> None:
    store = CalendarQueue(SCHEMA, 1, KEY)
    store.insert(rows([1], 0, 2))
    store.insert(rows(range(50), 0, 1000, first=1))
    store.insert(rows([7], 0, FOREVER, first=51))
    assert store.day == 250
    store.expire(1000)
    assert held_ids(store) == [51]


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_few_sub_windows(kind: type[RowStore]) -> None:
    store = kind(SCHEMA, 1, KEY)
    for step in range(500):
        store.insert(rows(range(10), step, step + 200, first=10 * step))
        store.expire(step)
        assert len(store.windows) <= 4 * log2(2000)
    assert held_ids(store) == list(range(3000, 5000))
    assert store.rows_held <= 2000 * 1.5


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_cut_by_their_ids_while_they_live(kind: type[RowStore]) -> None:
    store = kind(SCHEMA, 1, KEY)
    store.insert(rows([1, 2, 3], 0, 10))
    store.insert(rows([4], 0, 10, first=7))
    cuts = store.cut(Retractions(np.array([[1], [7], [5]]), np.array([4, 10, 4])))
    assert [(cut.window.ids[cut.rows].tolist(), cut.window.end[cut.rows].tolist()) for cut in cuts] == [([[1]], [4])]
    assert [cut.window.end_before[cut.rows].tolist() for cut in cuts] == [[10]]
    store.settle()
    parts = store.parts()
    again = kind(SCHEMA, 1, KEY)
    again.restore(parts)
    for one in (store, again):
        one.expire(4)
        assert held_ids(one) == [0, 2, 7]


@pytest.mark.parametrize("kind", KINDS)
def test_state_is_saved_in_tables_that_stay(kind: type[RowStore]) -> None:
    store = kind(SCHEMA, 1, KEY)
    store.insert(rows(range(5000), 0, 100))
    store.expire(1)
    first = store.parts()["rows"]
    store.insert(rows(range(10), 1, 90, first=5000))
    kept = [table for table in store.parts()["rows"] if any(table is old for old in first)]
    assert len(kept) == (0 if kind is ScannedList else 1)
    again = kind(SCHEMA, 1, KEY)
    again.restore(store.parts())
    assert [table is old for table, old in zip(again.parts()["rows"], store.parts()["rows"], strict=True)] == [
        True
    ] * len(store.windows)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_found_by_key_when_they_live_at_the_same_time(kind: type[RowStore]) -> None:
    store = kind(SCHEMA, 1, KEY)
    store.insert(rows([1, 2, 2, 9], [0, 0, 5, 0], [4, 10, 15, 10]))
    probing = store.sorted(rows([2, 1, 8], [6, 4, 0], [8, 9, 9]))
    assert probing is not None
    found = [
        (probing.ids[p, 0], store.ids_of(np.array([k]))[0, 0], start, end)
        for pairs in probe(Combinations.of(0, probing), store, before_cuts=False)
        for p, k, start, end in zip(pairs.probe, pairs.stored, pairs.start, pairs.end, strict=True)
    ]
    assert sorted(found) == [(0, 1, 6, 8), (0, 2, 6, 8)]


def test_a_queue_lets_go_in_order() -> None:
    queue = Queue(1)
    queue.append(np.array([[0], [1]]), np.array([3, 5]))
    queue.append(np.array([[2], [3], [4]]), np.array([6, 8, 9]))
    ids, turns = queue.pop(6)
    assert ids[:, 0].tolist() == [0, 1, 2] and turns.tolist() == [3, 5, 6]
    again = Queue(1)
    again.restore(queue.parts())
    assert len(again) == 2 and again.pop(100)[0][:, 0].tolist() == [3, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_needed_may_go(kind: type[RowStore]) -> None:
    store = kind(SCHEMA, 1)
    store.insert(rows(range(10), range(10), 100))
    store.keep(lambda held: held.start >= 5)
    assert store.rows_held == 10, "half of a sub-window is needed: it stays as it is"
    store.keep(lambda held: held.start >= 6)
    assert held_ids(store) == [6, 7, 8, 9]


def test_early_ends_that_older_checkpoints_kept_apart_are_read() -> None:
    order = ["k", "#start", "#end", "#id0"]
    table = pa.table({"k": [7, 8], "#start": [0, 0], "#end": [10, 10], "#id0": [1, 2]}).select(order)
    ends = pa.table({"chunk": [0], "row": [1], "end": [4]})
    store = Hash(SCHEMA, 1)
    store.restore({"rows": [table], "ends": [ends]})
    assert store.rows().end.tolist() == [10, 4]
    again = Hash(SCHEMA, 1)
    again.restore(store.parts())
    again.expire(4)
    assert held_ids(again) == [1]


def test_a_table_has_the_ends_that_rows_promised_whenever_it_is_made_and_is_made_once() -> None:
    store = Hash(SCHEMA, 1, KEY)
    store.insert(rows([2, 1], 0, 10))
    store.cut(Retractions(np.array([[1]]), np.array([7])))
    saved, (cuts,) = (store.parts()[name] for name in ("rows", "cuts"))
    assert saved[0].column("#end").to_pylist() == [10, 10]
    assert cuts.select(["row", "end"]).to_pylist() == [{"row": 0, "end": 7}]
    assert store.parts()["rows"][0] is saved[0], "a save writes it once"
    again = Hash(SCHEMA, 1, KEY)
    again.restore(store.parts())
    assert again.parts()["rows"][0] is saved[0]
    assert again.rows().end.tolist() == [7, 10]
