"""Events that wait for their place: in memory or on the disk, given out at once or in portions."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.slices.kernels.events import TIME
from mullion.slices.order import ReorderBuffer
from mullion.storage.scratch import Scratch


def events(*times: int, first: int = 0) -> pa.Table:
    return pa.table({TIME: pa.array(times, pa.int64()), "n": range(first, first + len(times))})


def test_a_portion_holds_all_events_of_its_times() -> None:
    order = ReorderBuffer(events(1, 2, 2, 2, 3, 5))
    portions = list(order.settle_in_portions(5, 2))
    assert [portion[TIME].to_pylist() for portion in portions] == [[1], [2, 2, 2], [3]]
    assert order.waiting is not None and order.waiting[TIME].to_pylist() == [5] and len(order) == 1


def test_nothing_is_moved_while_nothing_is_settled() -> None:
    order = ReorderBuffer(waiting := events(9, 7, 8))
    assert order.settle(7) is None and order.waiting is waiting


def test_only_what_is_in_memory_counts_and_goes_to_the_disk() -> None:
    scratch, order = Scratch(), ReorderBuffer()
    order.spill(scratch.mapped)
    assert not order.size
    order.add(events(3, 4))
    order.spill(scratch.mapped)
    assert not order.size
    order.add(events(5, first=2))
    assert order.size == events(5).nbytes
    mapped: list[int] = []

    def spilled(table: pa.Table) -> pa.Table:
        mapped.append(len(table))
        return scratch.mapped(table)

    order.spill(spilled)
    assert mapped == [1] and not order.size
    settled = order.settle(4)
    assert settled is not None and settled["n"].to_pylist() == [0] and not order.size
    order.add(events(1, first=3))
    settled = order.settle(None)
    assert settled is not None and settled["n"].to_pylist() == [3, 1, 2]


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=5), st.integers(1, 4), st.data())
def test_portions_are_the_events_in_their_order(batches: list[list[int]], most: int, data: st.DataObject) -> None:
    scratch, once, cut = Scratch(), ReorderBuffer(), ReorderBuffer()
    waiting: list[tuple[int, int]] = []
    for i, times in enumerate([*batches, []]):
        for order in (once, cut):
            order.add(events(*times, first=10 * i))
        waiting += [(time, 10 * i + j) for j, time in enumerate(times)]
        watermark = data.draw(st.integers(0, 10)) if i < len(batches) else None
        if data.draw(st.booleans()):
            cut.spill(scratch.mapped)
        wanted = sorted(of for of in waiting if watermark is None or of[0] < watermark)
        waiting = [of for of in waiting if of not in wanted]
        whole, portions = once.settle(watermark), list(cut.settle_in_portions(watermark, most))
        assert [n for p in portions for n in p["n"].to_pylist()] == [n for _, n in wanted]
        assert ([] if whole is None else whole["n"].to_pylist()) == [n for _, n in wanted]
        assert all(set(a[TIME].to_pylist()).isdisjoint(b[TIME].to_pylist()) for a, b in pairwise(portions))
    assert not len(cut) and not len(once)


@pytest.mark.parametrize("on_disk", [False, True])
def test_texts_may_be_coded_later(on_disk: bool) -> None:
    order = ReorderBuffer()
    order.add(events(2).append_column("x", pa.array(["a"])))
    if on_disk:
        order.spill(Scratch().mapped)
    order.add(events(1).append_column("x", pa.array(["b"]).dictionary_encode()))
    settled = order.settle(None)
    assert settled is not None and settled["x"].to_pylist() == ["b", "a"]
