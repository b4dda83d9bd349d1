"""A run without a JVM that takes one batch after the other: how tests of the course of batches drive it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from by_slices import bind
from memory_batch import MemoryBatch, MemorySource
from mullion.algebra.streams import Stream
from mullion.binding import relations
from mullion.binding.entering import entered
from mullion.catalog.restart import to_journal
from mullion.catalog.synopses import StreamSynopsis
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.options import Options
from mullion.planner.physical import by_way
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.stream_run import StreamRun
from mullion.sinks.memory import MemorySink
from mullion.storage.journal import Journal

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT)), "ts", lateness=2, ahead=100)
TOTAL = "SELECT sum(x) AS n FROM s [RANGE 10 us SLIDE 10 us]"
BY_KEY = "SELECT k, sum(x) AS n FROM s [RANGE 10 us SLIDE 10 us] GROUP BY k"
LAST_TWO = "SELECT sum(x) AS n FROM s [ROWS 2]"
NOW = 1e-3
"""What the clock says, in seconds: events at 1,101 us and after are ahead."""


def query(text: str, name: str = "q") -> SlicedAggregation:
    return bind(parse_query(text, name=name), {"s": STREAM})


def event(ts: int | None, k: str = "a", x: int | None = 1) -> dict[str, Any]:
    return {"ts": ts, "k": k, "x": x}


@dataclass
class Course:
    """A run, and the batches that it has taken."""

    queries: Sequence[SlicedAggregation] = ()
    stream: Stream = STREAM
    options: Options = field(default_factory=Options)
    synopses: Sequence[StreamSynopsis] = ()
    wanted: frozenset[str] | None = None
    place: Path | None = None
    source: MemorySource = field(default_factory=lambda: MemorySource(STREAM))
    sink: MemorySink = field(default_factory=MemorySink)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A new run, which goes on from what the last one left."""
        journal = None if self.place is None else Journal(self.place)
        self.run = StreamRun(self.stream, self.sink, self.options, self.source, journal=journal, clock=lambda: NOW)
        self.run.restore()

    def take(self, *events: dict[str, Any]) -> MemoryBatch:
        number = 0 if self.run.committed is None else self.run.committed.batch + 1
        batch = self.source.batch(events, number)
        if self.run.journal is not None:
            self.run.journal.begin(number, [to_journal(query) for query in self.queries])
        self.run.set_relations(self.wanted, {"r": ""})
        self.run.set_queries(self.queries, self.synopses)
        self.run.process(batch)
        self.run.take_stock()
        return batch

    def enter(self, text: str, name: str, *, backfill: bool = False) -> str:
        """Let a query enter; how it comes by its past."""
        relation = relations.bind(parse_query(text, name=name), {"s": STREAM})
        relation = replace(relation, backfill=True) if backfill else relation
        (plan,) = by_way([relation], {"s": STREAM}).slices
        entrance, how = self.run.admission.enter(plan)
        self.queries = [*self.queries, *by_way([entered(relation, entrance)], {"s": STREAM}).slices]
        return how

    def end(self) -> None:
        self.run.set_queries(self.queries, self.synopses)
        self.run.finish()

    def answers(self, name: str = "q") -> list[tuple[Any, ...]]:
        """The ends of windows, in microseconds, with the items."""
        found = []
        for table in self.sink.tables(name):
            columns = [table.column("window_end").cast("int64").to_pylist()]
            columns += [table.column(i).to_pylist() for i in range(2, table.num_columns)]
            found += list(zip(*columns, strict=True))
        return sorted(found, key=repr)

    def aside(self, kind: str) -> list[Any]:
        return [row for table in self.sink.aside_tables(kind) for row in table.to_pylist()]
