"""A burst of five times what a run can take, then calm: once over a stream that waits, once over one that sheds.

Files come into a directory that the run follows, at the times at which they would be written; some seconds of calm come
first, so that the burst meets a run that is at work. How old the newest event is when its batch is done is the run's
age; while nothing waits it is the time of a batch.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mullion.engine import Engine

SECOND = 1_000_000
KEYS = 500
QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
BURST = 5.0
"""Times what the run can take."""
CALM = 0.2
"""The part of what the run can take that comes before and after,"""
AT_EASE = 0.5
"""or less, so that a second of it takes such a part of a second in batches of a tick: these cost more for each event
than those of a burst, and a run that is behind without a burst says nothing of the way back."""


@dataclass(frozen=True)
class Length:
    burst: float = 120.0
    """Seconds, for a stream that sheds."""
    waiting: float = 15.0
    """Seconds, for a stream that waits: to work the burst off takes five times as long."""
    lead: float = 8.0
    """Seconds of calm before the burst."""
    calm: float = 60.0
    """Seconds after the burst, at most."""
    tick: float = 0.25
    """Seconds of events in a file."""
    most_events: int = 150_000_000
    """Of a burst: it becomes shorter before there are more."""
    behind_after: float = 2.0


@dataclass
class Course:
    """What happened: (seconds since the burst began, age, lag as the monitor has it, share that is kept), for each
    batch from then on."""

    points: list[tuple[float, float, float, float]] = field(default_factory=list)
    burst: float = 0.0
    """Seconds that it took in truth."""
    shed: int = 0
    events: int = 0
    behind_at_the_end: bool = False
    answers: dict[str, pa.Table] = field(default_factory=dict)

    @property
    def oldest(self) -> float:
        return max((age for _, age, _, _ in self.points), default=0.0)

    def normal_again(self, normal: float) -> float | None:
        """Seconds after the burst from which on no age was above this and all events were kept; None if never."""
        late = [at for at, age, _, share in self.points if age > normal or share < 1.0]
        last = max(late, default=0.0)
        after = [at for at, *_ in self.points if at > last]
        return max(0.0, after[0] - self.burst) if after else None


def queries() -> str:
    """Enough work for each event that a machine cannot take all that a disk can hold."""
    made = [
        "CREATE QUERY counts AS SELECT APPROX k, count(*) AS n, sum(x) AS s FROM s [RANGE 1 s SLIDE 1 s] GROUP BY k"
    ]
    for i, share in enumerate(QUANTILES):
        item = f"percentile(x * {i + 1}, {share}) AS p"
        made.append(f"CREATE QUERY p{i} AS SELECT APPROX k, {item} FROM s [RANGE 4 s SLIDE 1 s] GROUP BY k")
    return "; ".join(made)


def script(folder: Path, behind: str) -> str:
    columns = "(ts TIMESTAMP, k INT, x DOUBLE)"
    made = f"CREATE STREAM s {columns} USING parquet OPTIONS (path '{folder}') TIMESTAMP BY ts WHEN BEHIND {behind}"
    asked = queries() if behind != "WAIT" else queries().replace("APPROX ", "")
    return f"{made}; {asked}"


def write(folder: Path, counts: Sequence[int], tick: float) -> list[Path]:
    """A file for each tick, with so many events; the first tick begins at second 0."""
    folder.mkdir(parents=True)
    dice, most = np.random.default_rng(41), max(counts)
    keys = pa.array(dice.integers(0, KEYS, 2 * most), pa.int32())
    values = pa.array(np.round(dice.gamma(2.0, 10.0, 2 * most), 3))
    paths = []
    for number, events in enumerate(counts):
        begin, end = int(number * tick * SECOND), int((number + 1) * tick * SECOND)
        times = np.linspace(begin, end, events, endpoint=False).astype(np.int64)
        first = int(dice.integers(0, most + 1))
        columns = {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": keys.slice(first, events),
            "x": values.slice(first, events),
        }
        paths.append(folder / f"{number:05d}.parquet")
        pq.write_table(pa.table(columns), paths[-1], compression="none")
    return paths


def capacity(spark: Any, base: Path, events: int) -> float:
    """Events that a second takes: what a larger input takes longer than a smaller one, each at its best of three."""
    best = []
    for size in (events // 4, events):
        folder = base / f"capacity-{size}"
        write(folder, [size // 20] * 20, 0.5)
        seconds = []
        for _ in range(4):  # the first is to warm up
            with Engine(spark) as engine:
                engine.execute(script(folder, "WAIT"))
                began = time.perf_counter()
                engine.run()
                seconds.append(time.perf_counter() - began)
        best.append(min(seconds[1:]))
    return (events - events // 4) / max(0.05, best[1] - best[0])


def calm_rate(spark: Any, base: Path, rate: float, length: Length) -> float:
    """Events a second that come before and after the burst."""
    seconds: list[float] = []
    folder, each = base / "calm", int(CALM * rate * length.tick)
    write(folder, [max(1, each)] * int(12 / length.tick), length.tick)
    one_by_one = script(folder, "SHED RANDOM").replace("OPTIONS (", "OPTIONS (maxFilesPerTrigger '1', ")
    with Engine(spark, on_batch=lambda _: seconds.append(time.perf_counter())) as engine:
        engine.execute(one_by_one)
        engine.run()
    # The windows are full after four seconds, and the end answers those that are not.
    first, last = int(4 / length.tick), int(12 / length.tick) - 1
    load = (seconds[last] - seconds[first]) / ((last - first) * length.tick)
    return CALM * rate * min(1.0, AT_EASE / load)


def play(spark: Any, base: Path, behind: str, rate: float, calm: float, length: Length) -> Course:
    """The burst, and the calm after it, until all is normal again or the time is over."""
    waits = behind == "WAIT"
    course = Course(burst=min(length.waiting if waits else length.burst, length.most_events / (BURST * rate)))
    ticks, lead = int(course.burst / length.tick), int(length.lead / length.tick)
    after = 0 if waits else int(length.calm / length.tick)
    much, little = int(BURST * rate * length.tick), max(1, int(calm * length.tick))
    ready = write(base / "ready", [little] * lead + [much] * ticks + [little] * after, length.tick)
    folder = base / "s"
    folder.mkdir()
    with _follow(spark, ready, folder, script(folder, behind), course, length) as engine:
        _until_done(engine, course, length, len(ready), waits=waits)
    course.answers = {name: engine.results(name).to_arrow() for name in ("counts", "p3")}
    return course


@contextmanager
def _follow(
    spark: Any,
    ready: Sequence[Path],
    folder: Path,
    statements: str,
    course: Course,
    length: Length,
) -> Iterator[Engine]:
    """A run that follows a folder, into which a file comes with every tick; its course is noted after the lead."""
    arrived: list[float] = []
    over = threading.Event()

    def watch(engine: Engine) -> None:
        run = engine.runs["s"]
        now = time.perf_counter() - began
        if run.newest is not None and arrived and now > length.lead:
            tick = min(len(arrived) - 1, int(run.newest / SECOND / length.tick))
            monitor, share = run.overload.monitor, 1 / run.overload.thinning.weight
            course.points.append((now - length.lead, now - arrived[tick], monitor.rates.lag, share))

    def arrive() -> None:
        for number, path in enumerate(ready):
            wait = began + number * length.tick - time.perf_counter()
            if wait > 0 and over.wait(wait):
                return
            os.rename(path, folder / path.name)
            arrived.append(time.perf_counter() - began)

    with Engine(spark, on_batch=watch, behind_after=length.behind_after, keep_answers=None) as engine:
        engine.execute(statements)
        engine.start(follow=True)
        began = time.perf_counter()
        arriving = threading.Thread(target=arrive)
        arriving.start()
        try:
            yield engine
        finally:
            over.set()
            arriving.join()
            engine.stop()
        run = engine.runs["s"]
        course.shed, course.events = run.counts.shed, run.counts.events
        course.behind_at_the_end = run.overload.monitor.is_behind


def _until_done(engine: Engine, course: Course, length: Length, files: int, *, waits: bool) -> None:
    """A stream that waits is done when it has read everything; one that sheds, when it is as before the burst."""
    began, last = time.perf_counter(), files * length.tick * SECOND - length.tick * SECOND
    ends = length.lead + course.burst
    longest = ends + 12 * course.burst + 30 if waits else ends + length.calm
    while time.perf_counter() - began < longest and not engine.failed:
        engine.wait(0.5)
        run = engine.runs["s"]
        if waits and run.newest is not None and run.newest >= last:
            return
        calm = time.perf_counter() - began > ends + 2 * length.behind_after
        if not waits and calm and not run.overload.monitor.is_behind and run.overload.thinning.is_whole:
            return


def wrong_answers(course: Course, base: Path) -> int:
    """Answers of a run that waited which differ from what its files hold."""
    events = pa.concat_tables([pq.read_table(path) for path in sorted((base / "s").glob("*.parquet"))])
    seconds = np.asarray(events.column("ts").cast(pa.int64())) // SECOND
    at = seconds * KEYS + np.asarray(events.column("k"))
    size = int(at.max()) + 1
    counts, sums = np.bincount(at, minlength=size), np.bincount(at, np.asarray(events.column("x")), minlength=size)
    told = course.answers["counts"]
    place = np.asarray(told.column("window_start").cast(pa.int64())) // SECOND * KEYS + np.asarray(told.column("k"))
    off = np.asarray(told.column("n")) != counts[place]
    off |= ~np.isclose(np.asarray(told.column("s")), sums[place], rtol=1e-9)
    ended = int(np.asarray(told.column("window_end").cast(pa.int64())).max()) // SECOND if len(told) else 0
    missing = int((counts[: ended * KEYS] > 0).sum()) - len(told)
    return int(off.sum()) + abs(missing)
