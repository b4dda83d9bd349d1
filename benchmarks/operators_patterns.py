"""Queries by their update patterns: golab's Figures 3.8 to 3.15.

Every query is run by three strategies: negative tuples (nt), scans (which golab calls direct), and aware of update
patterns (upa). What is timed is what the paper times: the operators, and the result kept up to date as a materialised
view, for 1,000 tuples after the windows have filled. The operators are those that serve queries, without Spark, in
micro-batches of 1,000 events on each link.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa
from rich.console import Console

from benchmarks import operators_plot
from benchmarks.connections import UNIT, Connections
from benchmarks.operators_part import Part
from benchmarks.pattern_queries import QUERIES, Query
from benchmarks.report import Bar, Grid
from benchmarks.views import View, view_for
from mullion.errors import MullionError
from mullion.operators.network import Network, StepEvents

PRIME = 1_000_003
NT, SCAN, UPA = "nt", "scan", "upa"
STRATEGIES = (NT, SCAN, UPA)
BY_SOURCE, NEGATION = "2, source", "3"
SMALL_NEGATION = 10_000
"""Units up to which the paper's Query 3 gains by calendar queues (500 Kilobytes); beyond, negative tuples are best."""


@dataclass(frozen=True)
class Size:
    windows: tuple[int, ...] = (2_000, 20_000, 50_000, 100_000, 200_000)
    """Units of time; one event comes in each, on every link."""
    batch: int = 1_000
    """Units of a micro-batch."""
    filling: int = 5_000
    """Units of a batch while the windows fill."""
    warm: int = 10
    batches: int = 50
    """That are timed."""
    seconds: float = 30.0
    """After which a slow run is cut short, if it had at least `fewest` batches."""
    fewest: int = 5
    repeat: int = 2


FULL = Size()
QUICK = Size(windows=(1_000, 4_000), batch=500, filling=1_000, warm=2, batches=6, repeat=1)


@dataclass(frozen=True)
class Found:
    """What one run took and held, and what its result was after the first batches."""

    milliseconds: float
    """For 1,000 tuples."""
    held: float
    """Rows in all states and the result, on average."""
    results: int
    checksum: int


Cell = tuple[str, int, str]
"""A query, a window and a strategy."""


def measure(console: Console, *, quick: bool = False) -> Part:
    size = QUICK if quick else FULL
    links = generate(size)
    found: dict[Cell, Found] = {}
    for query in QUERIES:
        for window in size.windows:
            of_window = _best(query, window, links, size)
            _check(query, window, of_window)
            found |= {(query.name, window, strategy): run for strategy, run in of_window.items()}
        console.print(f"  query {query.name}: done", highlight=False)
    return Part(
        bars=judge(found, size),
        grids=[_grid(found, size)],
        facts={
            "size": asdict(size),
            "runs": [{"query": q, "window": w, "strategy": s, **asdict(run)} for (q, w, s), run in found.items()],
        },
        pictures={
            "patterns": lambda path: operators_plot.draw_lines(
                path,
                _panels(found, "milliseconds"),
                "Queries over windows by strategy (golab Figures 3.8 to 3.11, 3.14 and 3.15)",
                across="window, units of time",
                up="ms for 1,000 tuples",
                logarithmic=True,
            ),
            "patterns-state": lambda path: operators_plot.draw_lines(
                path,
                {name: lines for name, lines in _panels(found, "held").items() if name.startswith("query 2")},
                "State of Query 2 by strategy (golab Figures 3.12 and 3.13)",
                across="window, units of time",
                up="rows held",
                logarithmic=True,
            ),
        },
    )


def generate(size: Size) -> list[pa.Table]:
    """The events of all links, as operators take them."""
    events = max(size.windows) + size.filling + (size.warm + size.batches + 1) * size.batch
    return [Connections().link(number, events) for number in range(max(query.links for query in QUERIES))]


@dataclass
class Course:
    """One query by one strategy, and its result as a view."""

    query: Query
    window: int
    strategy: str
    links: Sequence[pa.Table]
    now: int = 0
    network: Network = field(init=False)
    view: View | None = None

    def __post_init__(self) -> None:
        self.root = self.query.plan(self.window)
        self.network = Network(self.strategy)
        self.network.set_roots([self.root])
        self.times = [link["ts"].cast(pa.int64()).to_numpy() for link in self.links[: self.query.links]]

    def upto(self, now: int) -> dict[str, StepEvents]:
        """The events of all links until then."""
        events = {}
        for number, times in enumerate(self.times):
            first, last = np.searchsorted(times, (self.now, now))
            events[f"link{number}"] = StepEvents(self.links[number].slice(first, last - first), times[first:last])
        self.now = now
        return events

    def step(self, events: Mapping[str, StepEvents], now: int) -> None:
        delta = self.network.advance(events, now)[self.root]
        if self.view is None:
            self.view = view_for(self.root.pattern, self.strategy, self.window * UNIT, delta)
        self.view.take(delta)

    @property
    def held(self) -> int:
        return sum(self.network.rows_held().values()) + (0 if self.view is None else len(self.view))

    def result(self) -> tuple[int, int]:
        """How many rows the result has, and a number that depends on when each came."""
        starts = np.zeros(0, np.int64) if self.view is None else self.view.starts(self.now - 1)
        return len(starts), int((starts % PRIME).sum())


def run(query: Query, window: int, strategy: str, links: Sequence[pa.Table], size: Size) -> Found:
    """Fill the windows, go on for a while, then take the time."""
    course = Course(query, window, strategy, links)
    for now in _instants(0, window, size.filling):
        course.step(course.upto(now * UNIT), now * UNIT)
    for now in _instants(window, window + size.warm * size.batch, size.batch):
        course.step(course.upto(now * UNIT), now * UNIT)
    gc.collect()
    seconds, held, tuples, result = 0.0, [], 0, (0, 0)
    began = course.now // UNIT
    for number, now in enumerate(_instants(began, began + size.batches * size.batch, size.batch)):
        if number >= size.fewest and seconds > size.seconds:
            break
        events = course.upto(now * UNIT)
        start = time.perf_counter()
        course.step(events, now * UNIT)
        seconds += time.perf_counter() - start
        tuples += sum(len(one.times) for one in events.values())
        held.append(course.held)
        if number < size.fewest:
            result = course.result()
    return Found(seconds * 1e6 / tuples, float(np.mean(held)), *result)


def _instants(begin: int, end: int, step: int) -> Iterator[int]:
    yield from range(begin + step, end, step)
    if end > begin:
        yield end


def _best(query: Query, window: int, links: Sequence[pa.Table], size: Size) -> dict[str, Found]:
    """The faster of several runs of each strategy, in turn."""
    runs = [{s: run(query, window, s, links, size) for s in STRATEGIES} for _ in range(size.repeat)]
    return {s: min((one[s] for one in runs), key=lambda found: found.milliseconds) for s in STRATEGIES}


def _check(query: Query, window: int, found: Mapping[str, Found]) -> None:
    if len({(run.results, run.checksum) for run in found.values()}) > 1:
        raise MullionError(f"query {query.name}, windows of {window:,}: the strategies' results differ: {found}")


def judge(found: Mapping[Cell, Found], size: Size) -> list[Bar]:
    bars = []
    for query in QUERIES:
        ahead = {window: _ahead(found, query.name, window) for window in size.windows}
        judged = {w: x for w, x in ahead.items() if query.name != NEGATION or w <= SMALL_NEGATION} or ahead
        least = min(judged, key=lambda window: judged[window])
        what = f"query {query.name}: upa against the better of nt and direct"
        bars.append(Bar(what, judged[least], 1.0, ">=", note=f"the least, at {least:,} units"))
        if len(judged) < len(ahead):
            over = min(x for w, x in ahead.items() if w > SMALL_NEGATION)
            bars.append(
                Bar(f"query {query.name}: the same, over {SMALL_NEGATION:,} units", over, note="upa keeps as nt")
            )
    longest = size.windows[-1]
    speed, state = _ahead(found, BY_SOURCE, longest), _less_state(found, BY_SOURCE, longest)
    where = f"query {BY_SOURCE}, {longest:,} units"
    bars.append(Bar(f"{where}: upa against the better of nt and direct", speed, 5.0, ">="))
    bars.append(Bar(f"{where}: state of the smaller of nt and direct against upa's", state, 20.0, ">="))
    return bars


def _ahead(found: Mapping[Cell, Found], query: str, window: int) -> float:
    """How many times as long as upa the better of the others takes."""
    others = min(found[query, window, strategy].milliseconds for strategy in (NT, SCAN))
    return others / found[query, window, UPA].milliseconds


def _less_state(found: Mapping[Cell, Found], query: str, window: int) -> float:
    others = min(found[query, window, strategy].held for strategy in (NT, SCAN))
    return others / found[query, window, UPA].held


def _panels(found: Mapping[Cell, Found], figure: str) -> dict[str, dict[str, dict[float, float]]]:
    """A panel for each query, in it a line for each strategy. Both plans of Query 4 are in one."""
    panels: dict[str, dict[str, dict[float, float]]] = {}
    for (query, window, strategy), run in found.items():
        name, _, plan = query.partition(", negation ")
        number = next(one.figure for one in QUERIES if one.name == query)
        lines = panels.setdefault(f"query {name} ({number})", {})
        lines.setdefault(f"{strategy}, {plan}" if plan else strategy, {})[window] = getattr(run, figure)
    return panels


def _grid(found: Mapping[Cell, Found], size: Size) -> Grid:
    header = ("query, ms for 1,000 tuples and rows held", *(f"{window:,}" for window in size.windows))
    rows = []
    for query in QUERIES:
        for strategy in STRATEGIES:
            runs = [found[query.name, window, strategy] for window in size.windows]
            rows.append((f"{query.name}: {strategy}", *(f"{r.milliseconds:.2f}  {r.held:>9,.0f}" for r in runs)))
    return Grid(header, rows)
