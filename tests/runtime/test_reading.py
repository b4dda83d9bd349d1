"""Readers of windows that slide, against the definitions and theorems of golab 7."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from histories import Done, History, Read, Recorded, Slide, written
from mullion.runtime.isolation import Reader, StateScan
from mullion.runtime.published import Published
from mullion.runtime.reading import Reading, ReadingOrder, by_time_to_update, oldest_first

HISTORIES = {
    "a": ("r0 w5 c5 w6 c6 r1 r2 r3 r4 q", [0, 2, 3, 4, 6], False, False, False),
    "b": ("r0 w5 c5 r1 w6 c6 r2 r3 r4 q", [0, 1, 2, 3, 4], True, False, False),
    "c": ("w5 c5 r0 r1 r2 r3 w6 c6 r4 q", [1, 2, 3, 4, 5], True, False, False),
    "d": ("w5 c5 r0 w6 c6 r1 r2 r3 r4 q", [2, 3, 4, 5, 6], True, True, True),
    "e": ("r4 w5 c5 r0 r3 r2 w6 c6 r1 q", [2, 3, 4, 5, 6], True, True, True),
    "f": ("r0 w5 c5 r1 r2 r3 w6 c6 r4 q", [0, 1, 2, 3, 4], True, False, False),
    "g": ("r0 w5 w6 c6 r1 r2 r3 r4 q c5", [0, 2, 3, 4, 6], False, False, True),
    "h": ("w5 c5 w6 c6 w7 c7 w8 c8 r0 r1 r2 r3 w9 r4 q c9", [5, 6, 7, 8, 9], True, True, False),
}
"""Of five sub-windows: what was read, and whether that is WS, LWS and CPS."""


@pytest.mark.parametrize("name", HISTORIES)
def test_the_histories_of_the_paper(name: str) -> None:
    text, versions, ws, lws, cps = HISTORIES[name]
    history = written(text, n=5, filled=5)
    assert history.read_by("Q") == versions
    assert (history.is_true_state("Q"), history.is_latest_state("Q")) == (ws, lws)
    assert (history.is_window_serializable(), history.is_latest_window_serializable()) == (ws, lws)
    assert history.is_commit_order_preserving() == cps


@st.composite
def any_history(draw: st.DrawFn) -> History:
    """Questions over the k youngest sub-windows, each of which reads, of every k-th version, one that is there then."""
    n = draw(st.integers(1, 5))
    events: list[Any] = [Slide(j, what) for j in range(n) for what in "wc"]
    lengths: dict[Any, int] = {f"Q{i}": draw(st.integers(1, n)) for i in range(draw(st.integers(1, 3)))}
    unread = {reader: set(range(length)) for reader, length in lengths.items()}
    newest = n - 1
    while unread:
        reader = draw(st.sampled_from([*unread, None]))
        if reader is None:
            newest += 1
            events += [Slide(newest, "w"), Slide(newest, "c")]
        elif unread[reader]:
            length, rest = lengths[reader], draw(st.sampled_from(sorted(unread[reader])))
            unread[reader].discard(rest)
            events.append(Read(reader, max(v for v in range(newest - length + 1, newest + 1) if v % length == rest)))
        else:
            del unread[reader]
            events.append(Done(reader))
    return History(tuple(events), lengths)


@given(any_history())
def test_theorems_7_1_and_7_2_in_both_directions(history: History) -> None:
    assert history.is_window_serializable() == all(map(history.is_true_state, history.committed))
    assert history.is_latest_window_serializable() == all(map(history.is_latest_state, history.committed))


# Readers of the product


@dataclass
class Youngest:
    """A question about the youngest sub-windows of a window of numbers: which ones they are."""

    length: int

    def whole(self, state: int) -> tuple[int, ...]:
        return tuple(range(state - self.length + 1, state + 1))

    def scan(self, state: int, before: StateScan[Any] | None) -> StateScan[tuple[int, ...]]:
        versions = self.whole(state)
        return StateScan({v: (lambda v=v: v) for v in versions}, tuple)


@dataclass
class Window:
    """A window of n numbered sub-windows, and readers of it."""

    n: int
    published: Published
    newest: int

    @staticmethod
    def recorded(n: int) -> tuple[Window, Recorded]:
        recorded = Recorded(filled=n)
        return Window(n, Published(recorded), n - 1), recorded

    def slide(self) -> None:
        self.published.publish(lambda: setattr(self, "newest", self.newest + 1))

    def reader(self, length: int, reading: Reading[int]) -> Reader[int, tuple[int, ...]]:
        return Reader(Youngest(length), self.published, lambda: self.newest, reading)


def in_the_array(n: int) -> ReadingOrder:
    """As the paper has it without TTU: sub-window by sub-window of the array."""
    return lambda window: sorted(window, key=lambda version: version % n)


ORDERS: dict[str, Callable[[int], ReadingOrder]] = {
    "oldest first": lambda n: oldest_first,
    "array": in_the_array,
    "time to update": lambda n: by_time_to_update,
}


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("order", ORDERS)
@given(data=st.data())
def test_readers_are_latest_window_serializable(order: str, restarts: bool, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 6))
    window, recorded = Window.recorded(n)
    readers = []
    for _ in range(data.draw(st.integers(1, 3))):
        length = data.draw(st.integers(1, n))
        readers.append(window.reader(length, Reading(ORDERS[order](n), restarts)))
        recorded.lengths[readers[-1]] = length
    at_work = list(readers)
    for step in data.draw(st.lists(st.integers(0, 3), max_size=60)):
        if step >= len(at_work):
            window.slide()
        elif at_work[step].step():
            assert at_work[step].answer()[-1] == window.newest
            del at_work[step]
    for reader in at_work:
        while not reader.step():
            pass
    history = recorded.history()
    assert len(history.committed) == len(readers)
    assert history.is_latest_window_serializable() and all(map(history.is_latest_state, history.committed))
    for reader in readers:
        assert list(reader.answer()) == history.read_by(reader)


def test_the_history_by_time_to_update() -> None:
    """He of the paper: where Hf reads what has gone, nothing is read in vain."""
    window, recorded = Window.recorded(5)
    reader = window.reader(5, Reading(by_time_to_update, restarts=True))
    recorded.lengths[reader] = 5
    for slides_after in (1, 0, 0, 1, 0, 0, 0):
        reader.step()
        for _ in range(slides_after):
            window.slide()
    read = [event.version for event in recorded.events if isinstance(event, Read)]
    assert read == [4, 5, 3, 2, 6] and not reader.reading.restarted
    assert recorded.history().is_latest_state(reader)


@pytest.mark.parametrize("restarts", [True, False])
def test_a_slide_just_before_the_commit(restarts: bool) -> None:
    """All is read, and then the window slides: the commit is refused, and what is new is read."""
    window, recorded = Window.recorded(3)

    class Slow(Reading[int]):
        slid_late = False

        def next(self) -> int | None:
            unit = super().next()
            if unit is None and not self.slid_late:
                self.slid_late = True
                window.slide()
            return unit

    reader = window.reader(3, Slow(by_time_to_update, restarts))
    recorded.lengths[reader] = 3
    assert reader.to_the_end() == (1, 2, 3)
    assert recorded.history().is_latest_window_serializable()


# Theorem 7.4


def played(pattern: Sequence[str], n: int, reading: Reading[int]) -> Reading[int]:
    """One question over n sub-windows: R reads one, W slides."""
    newest = n - 1
    reading.slid(range(n))
    for what in pattern:
        if what == "W":
            newest += 1
            reading.slid(range(newest - n + 1, newest + 1))
        elif (unit := reading.next()) is not None:
            reading.record(unit, None)
            if reading.next() is None:
                break
    return reading


@cache
def fewest(pattern: tuple[str, ...], n: int, restarts: bool, read: frozenset[int] = frozenset()) -> int:
    """The fewest aborts, or reads in vain, of all orders: `read` are the ages of what was read."""
    if not pattern or len(read) == n:
        return 0
    if pattern[0] == "R":
        return min(fewest(pattern[1:], n, restarts, read | {age}) for age in range(n) if age not in read)
    older = frozenset(age + 1 for age in read)
    left = {age for age in older if age >= n}
    kept = frozenset[int]() if left and restarts else older - left
    return bool(left) + fewest(pattern[1:], n, restarts, kept)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.slow
def test_theorem_7_4_by_exhaustive_search(n: int) -> None:
    """By time to update a question aborts only where every order would; where nothing aborts, no order reads less in
    vain."""
    for pattern in (pattern for length in range(12) for pattern in product("RW", repeat=length)):
        aborting = played(pattern, n, Reading(by_time_to_update, restarts=True))
        assert bool(aborting.restarted) == bool(fewest(pattern, n, True))
        staying = played(pattern, n, Reading(by_time_to_update))
        assert staying.in_vain == fewest(pattern, n, False) and not staying.restarted


def test_theorem_7_4_does_not_hold_of_all_restarts_together() -> None:
    """Who aborts early begins again early: here the order of the array aborts once, by time to update twice. The
    theorem holds of each try for itself, and of the variant that puts aside what has left."""
    pattern, array = "RWRWWRRWWR", in_the_array(3)
    assert played(pattern, 3, Reading(by_time_to_update, restarts=True)).restarted == 2
    assert played(pattern, 3, Reading(array, restarts=True)).restarted == fewest(tuple(pattern), 3, True) == 1
    assert [played(pattern, 3, Reading(order)).in_vain for order in (by_time_to_update, array)] == [1, 1]


def test_the_order_matters() -> None:
    """A slide after the first read: of the oldest it aborts, of the youngest it does not."""
    assert played("RWRRR", 3, Reading(oldest_first, restarts=True)).restarted == 1
    assert played("RWRRR", 3, Reading(by_time_to_update, restarts=True)).restarted == 0


# Threads


@pytest.mark.parametrize("restarts", [True, False])
def test_threads_read_while_the_window_slides(restarts: bool) -> None:
    window, recorded = Window.recorded(12)
    over = threading.Event()

    def slide() -> None:
        while not over.wait(0.0005):
            window.slide()

    def read(length: int) -> None:
        for _ in range(60):
            reader = window.reader(length, Reading(oldest_first if restarts else by_time_to_update, restarts))
            recorded.lengths[reader] = length
            reader.to_the_end()

    threads = [threading.Thread(target=read, args=(length,)) for length in (1, 5, 11, 12)]
    sliding = threading.Thread(target=slide)
    sliding.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    sliding.join()
    history = recorded.history()
    assert len(history.committed) == 4 * 60 and history.is_latest_window_serializable()
    assert all(map(history.is_latest_state, history.committed))


def test_a_reader_that_is_overtaken_too_often_holds_the_window() -> None:
    """Otherwise one that reads more slowly than the window slides would never end."""
    window, _ = Window.recorded(3)
    slid: list[threading.Thread] = []

    class Overtaken(Youngest):
        def scan(self, state: int, before: StateScan[Any] | None) -> StateScan[tuple[int, ...]]:
            def read(version: int) -> int:
                slid.append(threading.Thread(target=window.slide))
                slid[-1].start()
                slid[-1].join(0.05)
                return version

            return StateScan({v: (lambda v=v: read(v)) for v in self.whole(state)}, tuple)

    reader: Reader[int, tuple[int, ...]] = Reader(
        Overtaken(3), window.published, lambda: window.newest, Reading(oldest_first, restarts=True)
    )
    answer = reader.to_the_end()
    for thread in slid:
        thread.join()
    assert answer[-1] < window.newest and reader.reading.restarted <= 5


def test_a_commit_waits_for_who_holds_and_goes_before_the_next() -> None:
    published, order = Published(), list[str]()
    with published.commits_held_back(), published.commits_held_back():
        commit = threading.Thread(target=lambda: published.publish(lambda: order.append("commit")))
        commit.start()
        commit.join(0.05)
        assert commit.is_alive() and not order

        def hold() -> None:
            with published.commits_held_back():
                order.append("held")

        later = threading.Thread(target=hold)
        later.start()
        later.join(0.05)
        assert later.is_alive()
    commit.join()
    later.join()
    assert order == ["commit", "held"]
