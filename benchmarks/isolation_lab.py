"""The experiment of golab 7.5: one window, periodic queries that scan it without pause, and questions in between.

One thread does everything, as the paper's query manager does: between two reads of sub-windows it lets the window slide
when that is due, and takes the query of the highest priority. A second of the paper is as long as ninety reads take,
so that the window slides about once during a query over most of a hundred sub-windows, as in the paper. Time is that of
the processor, so a machine that does something else meanwhile changes little. Readers are the product's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from time import thread_time as clock
from typing import Any

import numpy as np
import numpy.typing as npt

from mullion.runtime.isolation import Reader, StateScan
from mullion.runtime.published import Published
from mullion.runtime.reading import Reading, ReadingOrder, by_time_to_update

ADDRESSES = 1_000
GROUP = 5
"""Queries that share a scan."""
READS = 90
"""Reads of sub-windows of one second that a second of the paper is as long as."""
SCHEDULERS = ("Serial", "WS", "LWS", "TTU")

ASKED = 50
"""Addresses that a question is about."""

Packets = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""Addresses, in their order, and sizes."""


def packets(dice: np.random.Generator, mean: int) -> Packets:
    """A sub-window: so many headers on average, up to ten times more or fewer."""
    number = int(mean * 10.0 ** dice.uniform(-1, 1) / 2.15)
    return np.sort(dice.integers(0, ADDRESSES, number)), dice.integers(1, 101, number).astype(np.float64)


def scanned(some: Packets) -> npt.NDArray[np.float64]:
    """What a query keeps of a sub-window: the bandwidth of each address."""
    return np.asarray(np.bincount(some[0], weights=some[1], minlength=ADDRESSES), np.float64)


def asked_of(some: Packets, first: int) -> float:
    """What a question keeps: the bandwidth of some addresses."""
    low, high = np.searchsorted(some[0], (first, first + ASKED)).tolist()
    return float(some[1][low:high].sum())


def in_the_array(n: int) -> ReadingOrder:
    """As Algorithm 7 reads: sub-window by sub-window of the array in which versions replace one another."""
    return lambda window: sorted(window, key=lambda version: version % n)


@dataclass
class Window:
    """The n youngest of the sub-windows that came; they are taken out of a pool again and again."""

    n: int
    pool: list[Packets]
    newest: int = 0
    published: Published = field(default_factory=Published)
    slid_at: dict[int, float] = field(default_factory=dict)

    def packets(self, version: int) -> Packets:
        return self.pool[version % len(self.pool)]

    def slide(self, now: float) -> None:
        self.slid_at[self.newest + 1] = now
        self.published.publish(lambda: setattr(self, "newest", self.newest + 1))


@dataclass
class Query:
    """Queries that share a scan of the youngest sub-windows, or a question about some addresses."""

    length: int
    window: Window
    about: int | None = None
    """The first address that a question is about."""
    arrived: float = 0.0

    def versions(self, newest: int) -> range:
        return range(newest - self.length + 1, newest + 1)

    def read(self, version: int) -> Any:
        some = self.window.packets(version)
        return scanned(some) if self.about is None else asked_of(some, self.about)

    def whole(self, state: int) -> Any:
        return self.finish([self.read(version) for version in self.versions(state)])

    def scan(self, state: int, before: StateScan[Any] | None) -> StateScan[Any]:
        return StateScan({version: partial(self.read, version) for version in self.versions(state)}, self.finish)

    def finish(self, parts: Any) -> Any:
        """A total; or the totals of addresses, from which lists of the largest and percentiles are taken."""
        return sum(parts) if self.about is not None else np.sort(np.sum(parts, axis=0))


class Running:
    """A query at work: `step` reads one sub-window, and says whether that was the end."""

    restarted = 0

    def __init__(self, query: Query) -> None:
        self.query, self.began = query, clock()
        self.reflects = query.window.newest
        """The youngest slide that the answer knows."""

    def step(self) -> bool:
        raise NotImplementedError


class OfSnapshot(Running):
    """Window-serializable: the sub-windows of the moment when it began."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        self._left = deque(query.versions(query.window.newest))
        self._read: list[Any] = []

    def step(self) -> bool:
        self._read.append(self.query.read(self._left.popleft()))
        if not self._left:
            self.query.finish(self._read)
        return not self._left


class OfLatest(Running):
    """Latest-window-serializable, by the product's reader (golab Algorithms 7 and 8)."""

    def __init__(self, query: Query, order: ReadingOrder) -> None:
        super().__init__(query)
        window = query.window
        self._reader: Reader[int, Any] = Reader(
            query, window.published, lambda: window.newest, Reading(order, restarts=True)
        )

    def step(self) -> bool:
        reader = self._reader
        if not reader.step() and (reader.reading.next() is not None or not reader.step()):
            return False
        reader.answer()
        self.reflects, self.restarted = self.query.window.newest, reader.reading.restarted
        return True


@dataclass
class Course:
    """What was counted while the window slid once through its length."""

    seconds: float = 0.0
    executions: int = 0
    restarts: int = 0
    staleness: list[float] = field(default_factory=list)
    between: list[float] = field(default_factory=list)
    question_staleness: list[float] = field(default_factory=list)
    responses: list[float] = field(default_factory=list)

    @property
    def throughput(self) -> float:
        return self.executions / self.seconds

    @property
    def aborted(self) -> float:
        """Percent of all tries."""
        return 100 * self.restarts / max(1, self.restarts + self.executions)


@dataclass(frozen=True)
class Setting:
    """Of the paper: sub-windows, how long they are in its seconds, and how many queries and questions a second."""

    n: int
    t: int
    queries: int
    questions: float = 0.0


def starter(scheduler: str, n: int) -> Callable[[Query], Running]:
    if scheduler in ("Serial", "WS"):
        return OfSnapshot
    order = by_time_to_update if scheduler == "TTU" else in_the_array(n)
    return partial(OfLatest, order=order)


def play(scheduler: str, setting: Setting, second: float, pool: list[Packets], seed: int) -> Course:
    """Let the window slide n times, `second` being as long as a second of the paper."""
    dice = np.random.default_rng(seed)
    window = Window(setting.n, pool, newest=setting.n)
    lengths = [int(dice.integers(1, setting.n + 1, GROUP).max()) for _ in range(max(1, setting.queries // GROUP))]
    start, is_serial = starter(scheduler, setting.n), scheduler == "Serial"
    length = setting.n * setting.t * second
    asked = deque(_times(dice, setting.questions / second, length))
    course, last = Course(), dict[int, float]()
    began = clock()
    slides = 0
    window.slid_at[window.newest] = began
    waiting: deque[tuple[int, Running]] = deque()
    turn, interrupted = 0, False
    while (now := clock() - began) < length or waiting:
        free = not waiting or not is_serial
        if free and slides < int(now / (setting.t * second)):
            window.slide(clock())
            slides += 1
        if free and asked and asked[0] <= now and not interrupted:
            about, asked_at = int(dice.integers(0, ADDRESSES - ASKED)), began + asked.popleft()
            question = Query(int(dice.integers(1, setting.n + 1)), window, about, asked_at)
            waiting.appendleft((-1, start(question)))
            interrupted = True
        if not waiting:
            waiting.append((turn, start(Query(lengths[turn], window))))
            turn = (turn + 1) % len(lengths)
        number, running = waiting[0]
        if running.step():
            waiting.popleft()
            interrupted = False if number < 0 else interrupted
            _note(course, running, number, last)
    course.seconds = clock() - began
    return course


def _note(course: Course, running: Running, number: int, last: dict[int, float]) -> None:
    now, query = clock(), running.query
    stale = now - query.window.slid_at[running.reflects]
    course.executions += 1
    course.restarts += running.restarted
    if query.about is not None:
        course.question_staleness.append(stale)
        course.responses.append(now - query.arrived)
        return
    course.staleness.append(stale)
    if number in last:
        course.between.append(now - last[number])
    last[number] = now


def _times(dice: np.random.Generator, rate: float, until: float) -> Iterator[float]:
    """When questions are asked."""
    now = dice.exponential(1 / rate) if rate else until
    while now < until:
        yield now
        now += dice.exponential(1 / rate)


def calibrated(pool: list[Packets], reads: int = 400) -> float:
    """Seconds that one read takes, the finishing of a query left out."""
    window = Window(len(pool), pool, newest=len(pool))
    running = OfSnapshot(Query(len(pool), window))
    times = []
    for _ in range(max(1, reads // len(pool))):
        running = OfSnapshot(Query(len(pool), window))
        began = clock()
        for _ in range(len(pool) - 1):
            running.step()
        times.append((clock() - began) / (len(pool) - 1))
    return float(min(times))
