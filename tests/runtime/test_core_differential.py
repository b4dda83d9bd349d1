"""The core without Spark against the slow reference: however the input is cut and the work is shared, the same rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from by_slices import bind
from joins import joined_examples
from memory_batch import MemorySource
from moving_clusters import moving_clusters
from mullion import reference
from mullion.algebra.streams import Stream, Table
from mullion.catalog.restart import to_journal
from mullion.expressions.vector import Vector, arrow_type
from mullion.kernels.arrival import ARRIVAL
from mullion.language.parse import parse_query
from mullion.language.query import Query
from mullion.language.types import Type
from mullion.memory import Memory
from mullion.options import Options, Sharing
from mullion.planner import answering_ways
from mullion.planner.plan import Grouping
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime import sharding_choice, state_memory
from mullion.runtime.lookup_tables import RunTables
from mullion.runtime.sharing_set import SharingSet
from mullion.runtime.state_memory import Holder
from mullion.runtime.stream_run import StreamRun
from mullion.sinks.memory import MemorySink
from mullion.slices import answering_room, covering, finalize, kept, kept_covers, limits
from mullion.slices import tier as tiers
from mullion.slices.kernels.events import TIME
from mullion.storage.journal import Journal
from mullion.storage.scratch import Scratch
from strategies import Event, Example, covered_examples, examples

Rows = list[tuple[Any, ...]]
Tables = Mapping[str, tuple[Table, Sequence[Event]]]


@dataclass(frozen=True)
class Manner:
    """How a run goes about it. Every choice must give the same answers."""

    shared: bool = True
    slicing: str = "paired"
    batches: int = 1
    partitions: int = 1
    most_entries: int = 48
    restart: bool = False
    method: str = "auto"
    lag: int = 0
    """How far the watermark stays behind what it could be."""
    sized: bool = True
    """The number of a batch's events is known before they are read."""
    moving: int | None = None
    """Queries are given to other clusters before every batch, by this seed."""
    slides: bool = False
    """Windows slide from batch to batch whenever they can, also where building anew would be cheaper."""
    shard_above: int = 200_000
    """Groups above which they are kept in shards."""
    answering: int | None = None
    """Bytes that may be at work on the driver, if few: groups that need more move to shards."""
    at_once: int = 4_000_000
    """Rows of slots that are answered in one turn."""
    sweeps: int = 4
    """Queries of a slot that are swept over its rows; more look up ranges of them."""
    swept: int = 300_000
    """Answers that are swept up in one turn."""

    covers: bool = False
    """Windows are combined from others whenever they can, also where that does not pay."""
    ends_known: bool = False
    """The source tells which batch is the last."""
    little_memory: bool = False
    """Little is at work at once, and between batches all lies on the disk."""

    @property
    def sharing(self) -> Sharing:
        return Sharing.AUTO if self.moving is not None else Sharing.ON if self.shared else Sharing.OFF

    @property
    def options(self) -> Options:
        how: dict[str, Any] = {"slicing": self.slicing, "method": self.method, "shard_above": self.shard_above}
        return Options.of(sharing=self.sharing, **how)


def to_batch(stream: Stream, events: Sequence[Event], arrived: int = 0) -> pa.RecordBatch:
    """The events as Spark would send them, after so many others."""
    times = [e[stream.time_column] for e in events]
    columns = {name: Vector.of(t, [e[name] for e in events]).to_arrow() for name, t in stream.columns}
    places = range(arrived, arrived + len(events))
    return pa.RecordBatch.from_pydict(
        {TIME: pa.array(times, pa.int64()), ARRIVAL: pa.array(places, pa.int64()), **columns}
    )


def to_table(table: Table, rows: Sequence[Event]) -> pa.Table:
    return pa.table({name: Vector.of(t, [row[name] for row in rows]).to_arrow() for name, t in table.columns})


def bound_in(example: Example, query: Query) -> SlicedAggregation:
    tables = {name: table for name, (table, _) in example.tables.items()}
    return bind(query, {example.stream.name: example.stream}, tables)


def cut(items: Sequence[Any], parts: int) -> Iterator[Sequence[Any]]:
    """The items in so many parts of about one length, some perhaps empty."""
    for i in range(parts):
        yield items[len(items) * i // parts : len(items) * (i + 1) // parts]


class Run:
    """The run of a stream, from the first event to the end of the input, over batches in memory."""

    def __init__(
        self,
        stream: Stream,
        queries: Sequence[SlicedAggregation],
        manner: Manner,
        tables: Tables | None = None,
        lateness: int = 0,
    ) -> None:
        self.stream, self.manner, self.queries = replace(stream, lateness=lateness, ahead=None), manner, queries
        self.tables = {name: to_table(*table) for name, table in (tables or {}).items()}
        self.source = MemorySource(self.stream, partitions=manner.partitions, sized=manner.sized)
        self.sink = MemorySink(None)
        self._place = Scratch()
        self.begin()

    def begin(self) -> None:
        """A run that goes on from what the one before has committed."""
        journal = Journal(self._place.path) if self.manner.restart else None
        options, table = self.manner.options, self._table
        self.run = StreamRun(self.stream, self.sink, options, self.source, journal=journal, tables=RunTables(table))
        self.run.restore()

    def _table(self, name: str, batch: int) -> pa.Table:
        return self.tables[name]

    def ask(self, queries: Sequence[SlicedAggregation]) -> None:
        """From now on, answer these."""
        self.queries = queries

    def over(self, events: Sequence[Event]) -> dict[str, Rows]:
        """What all queries answer. Batches come late by as much as they may."""
        batches = list(cut(events, self.manner.batches))
        self.stream = replace(self.stream, lateness=disorder(batches, self.stream) + self.manner.lag)
        self.source.last = len(batches) - 1 if self.manner.ends_known else None
        self.begin()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "PORTION", 1_000 if self.manner.covers else 3)
            for i, batch in enumerate(batches):
                self.take(batch)
                if self.manner.restart and i in (0, len(batches) // 2):
                    self.begin()
            self.end()
        self._place.discard()
        assert not self.sink.aside_tables("late")
        return {query.name: rows for query in self.queries if (rows := self.answers(query))}

    def take(self, batch: Sequence[Event]) -> None:
        number = 0 if self.run.committed is None else self.run.committed.batch + 1
        if self.run.journal is not None:
            self.run.journal.begin(number, [to_journal(query) for query in self.queries])
        self.run.set_queries(self.queries)
        self.run.process(self.source.batch(batch, number))

    def end(self) -> None:
        self.run.set_queries(self.queries)
        self.run.finish()

    def answers(self, query: SlicedAggregation) -> Rows:
        return [row for table in self.sink.tables(query.name) for row in rows_of(query, table)]


def times(batch: Sequence[Event], stream: Stream) -> list[int]:
    return [event[stream.time_column] for event in batch if event[stream.time_column] is not None]


def disorder(batches: Sequence[Sequence[Event]], stream: Stream) -> int:
    """How far an event comes behind the newest of the batches before it, at most."""
    newest, most = None, 0
    for batch in batches:
        found = times(batch, stream)
        if newest is not None and found:
            most = max(most, newest - min(found))
        newest = max([*found, *([] if newest is None else [newest])], default=None)
    return most


def rows_of(query: SlicedAggregation, table: pa.Table) -> Rows:
    types: list[Type] = [query.template.bounds, query.template.bounds, *(t for _, t in query.template.items)]
    assert table.schema.names == ["window_start", "window_end", *query.template.names]
    assert [f.type for f in table.schema] == [arrow_type(t) for t in types]
    columns = [Vector.from_arrow(c, t).to_list() for c, t in zip(table.columns, types, strict=True)]
    return [tuple(map(_plain, row)) for row in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    """The items of top_k as the reference gives them: pairs of a value and its count."""
    return [tuple(item.values()) for item in value] if isinstance(value, list) else value


def run(example: Example, manner: Manner) -> dict[str, Rows]:
    bound = [bound_in(example, parse_query(text)) for text in example.queries]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiers, "MOST_ENTRIES", manner.most_entries)
        patch.setattr(tiers, "MOST_OF_A_GROUPING", 0)
        patch.setattr(tiers, "MOST_OLD", manner.most_entries)
        patch.setattr(finalize, "MOST_MEMBERS", manner.at_once)
        patch.setattr(answering_ways, "MOST_SWEEPS", manner.sweeps)
        patch.setattr(finalize, "MOST_SWEPT", manner.swept)
        patch.setattr(sharding_choice, "SHARDS", 2)
        sliding(patch, manner)
        limiting(patch, manner)
        if manner.little_memory:
            with_little_memory(patch)
        with moving(manner):
            return Run(example.stream, bound, manner, example.tables).over(example.events)


def moving(manner: Manner) -> AbstractContextManager[None]:
    return nullcontext() if manner.moving is None else moving_clusters(manner.moving)


def sliding(patch: pytest.MonkeyPatch, manner: Manner) -> None:
    for name, value in {"STEP": 0.0, "MOVED": 0.0, "CELL": 0.0, "CALM": 1}.items() if manner.slides else ():
        patch.setattr(kept, name, value)
    for module in (kept_covers, covering) if manner.covers else ():
        patch.setattr(module, "COMBINED", 0.0)
        patch.setattr(covering, "EACH", 0.0)
        patch.setattr(covering, "LEAST_SAVED", 0.0)
    patch.setattr(kept_covers, "STEADY", 2 if manner.covers else kept_covers.STEADY)


def limiting(patch: pytest.MonkeyPatch, manner: Manner) -> None:
    """Of groupings that can be in shards; others would be refused."""
    if manner.answering is None:
        return
    little: Any = SimpleNamespace(answering=manner.answering, free=0)
    are_too_large = state_memory.too_large

    def too_large(own: Holder, _: Memory) -> list[tuple[Grouping, ...]]:
        every = are_too_large(own, little) if isinstance(own, SharingSet) else []
        return [together for together in every if together[0].keys]

    patch.setattr(state_memory, "too_large", too_large)


def with_little_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Memory, "held", 0)
    patch.setattr(Memory, "free", 0)
    patch.setattr(Memory, "settled_rows", lambda self, row_bytes: 2)
    patch.setattr(answering_room, "LEAST", 3)


def same(a: Any, b: Any) -> bool:
    """Equal, but for the last digits of doubles."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if not isinstance(a, float) or not isinstance(b, float):
        return type(a) is type(b) and bool(a == b)
    return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def sortable(row: tuple[Any, ...]) -> Any:
    return [
        (v is None, isinstance(v, float) and math.isnan(v), 0 if v is None or v != v else _comparable(v)) for v in row
    ]


def _comparable(value: Any) -> Any:
    return repr(value) if isinstance(value, list) else value


def rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(v, 6) + 0.0 if isinstance(v, float) and math.isfinite(v) else v for v in row)


def assert_same(query: SlicedAggregation, found: Rows, wanted: Rows) -> None:
    """Rows of a window come in the order asked for, if any was."""
    assert [r[:2] for r in found] == sorted(r[:2] for r in found), "windows out of order"
    if query.template.is_plain:
        found = sorted(found, key=lambda r: sortable(rounded(r)))
        wanted = sorted(wanted, key=lambda r: sortable(rounded(r)))
    assert len(found) == len(wanted), f"{query.text}\n{found}\n{wanted}"
    for got, right in zip(found, wanted, strict=True):
        assert all(map(same, got, right)), f"{query.text}\n{got}\n{right}"


def check(example: Example, manner: Manner) -> None:
    found = run(example, manner)
    for text in example.queries:
        query: Query = parse_query(text)
        wanted = reference.answer(query, example.stream, example.events, example.tables)
        bound = bound_in(example, query)
        assert_same(bound, found.get(bound.name, []), wanted.rows)


manners = st.builds(
    Manner,
    shared=st.booleans(),
    slicing=st.sampled_from(("paired", "paned")),
    batches=st.sampled_from((1, 2, 3, 7)),
    partitions=st.sampled_from((1, 1, 3)),
    most_entries=st.sampled_from((48, 0, 2)),
    restart=st.booleans(),
    method=st.sampled_from(("auto", "fragments", "rows")),
    lag=st.sampled_from((0, 0, 1, 100_000_000)),
    moving=st.sampled_from((None, 1, 2, 3)),
    slides=st.booleans(),
    shard_above=st.sampled_from((200_000, 200_000, 1, 2, 4)),
    answering=st.sampled_from((None, None, None, 0, 500, 2_000)),
    at_once=st.sampled_from((4_000_000, 1)),
    sweeps=st.sampled_from((4, 100, 0)),
    swept=st.sampled_from((300_000, 1)),
    covers=st.booleans(),
    ends_known=st.booleans(),
    little_memory=st.booleans(),
)


covering_manners = st.builds(
    Manner,
    batches=st.sampled_from((1, 7, 12)),
    partitions=st.sampled_from((1, 1, 3)),
    most_entries=st.sampled_from((48, 48, 2)),
    restart=st.booleans(),
    method=st.sampled_from(("auto", "fragments", "rows")),
    moving=st.sampled_from((None, None, None, 1)),
    slides=st.booleans(),
    shard_above=st.sampled_from((200_000, 200_000, 1)),
    sweeps=st.sampled_from((4, 0)),
    swept=st.sampled_from((300_000, 300_000, 300_000, 1)),
    covers=st.just(True),
    ends_known=st.booleans(),
)
MANNERS = {
    "one batch": Manner(),
    "the last batch known": Manner(ends_known=True),
    "the last of many batches known": Manner(batches=5, ends_known=True),
    "many batches": Manner(batches=7),
    "many partitions": Manner(batches=2, partitions=3),
    "unshared": Manner(shared=False, batches=2),
    "paned": Manner(slicing="paned", batches=3),
    "merged": Manner(batches=7, most_entries=0),
    "restarted": Manner(batches=5, restart=True),
    "dense rows": Manner(batches=2, partitions=2, method="rows"),
    "fragments": Manner(batches=2, partitions=2, method="fragments"),
    "fragments, slot by slot": Manner(batches=2, method="fragments", at_once=1),
    "slow watermark": Manner(batches=7, lag=100_000_000),
    "moving": Manner(batches=7, moving=1),
    "moving and restarted": Manner(batches=5, restart=True, moving=2, lag=100_000_000),
    "little memory": Manner(batches=4, little_memory=True),
    "in shards": Manner(batches=3, shard_above=1),
    "too large for the driver": Manner(batches=7, answering=500, restart=True),
    "in shards, moving and restarted": Manner(batches=7, restart=True, moving=3, shard_above=2),
    "swept": Manner(batches=2, sweeps=100, swept=2),
    "swept from fragments": Manner(partitions=3, method="fragments", sweeps=100),
    "in ranges": Manner(batches=2, sweeps=0),
    "sliding": Manner(batches=12, slides=True),
    "sliding, restarted": Manner(batches=9, slides=True, restart=True, most_entries=2),
}


@pytest.mark.slow
@pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS)
@settings(max_examples=12)
@given(example=examples(most_queries=3, most_events=25))
def test_each_manner_gives_what_the_reference_gives(manner: Manner, example: Example) -> None:
    check(example, manner)


@pytest.mark.slow
@settings(max_examples=60)
@given(examples(most_queries=3, most_events=25), manners)
def test_all_manners_together_give_what_the_reference_gives(example: Example, manner: Manner) -> None:
    check(example, manner)


@pytest.mark.slow
@settings(max_examples=40)
@given(covered_examples(), covering_manners)
def test_windows_combined_from_others_give_what_the_reference_gives(example: Example, manner: Manner) -> None:
    check(example, manner)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fragments", "rows"])
@settings(max_examples=20)
@given(example=joined_examples())
def test_joins_with_tables(method: str, example: Example) -> None:
    check(example, Manner(batches=2, partitions=2, method=method))


@pytest.mark.slow
@settings(max_examples=25)
@given(joined_examples(), manners)
def test_joins_with_tables_in_all_manners(example: Example, manner: Manner) -> None:
    check(example, manner)


@pytest.mark.slow
@settings(max_examples=20)
@given(examples())
def test_many_queries_in_one_plan(example: Example) -> None:
    check(example, Manner(batches=3, partitions=2))


@settings(max_examples=20)
@given(examples(most_queries=2), st.lists(st.integers(0, 40), max_size=3))
def test_records_without_a_time_change_nothing(example: Example, places: list[int]) -> None:
    events = list(example.events)
    for place in places:
        events.insert(place, dict.fromkeys(example.stream.types))
    check(Example(example.stream, events, example.queries), Manner(batches=2))


@pytest.mark.slow
@settings(max_examples=30)
@given(examples(most_queries=4) | covered_examples(), st.data())
def test_queries_enter_and_leave_between_batches(example: Example, data: st.DataObject) -> None:
    """A query that enters answers what starts after all that was seen; one that leaves, what ended before."""
    entries, seeds, above = st.sampled_from((48, 0, 3)), st.sampled_from((None, 1, 2)), st.sampled_from((200_000, 1, 3))
    slides, covers = st.booleans(), st.booleans()
    drawn = st.builds(
        Manner, batches=st.just(6), most_entries=entries, moving=seeds, shard_above=above, slides=slides, covers=covers
    )
    manner = data.draw(drawn)
    batches = list(cut(example.events, manner.batches))
    queries = [replace(parse_query(text), start_at=None, stop_at=None, backfill=False) for text in example.queries]
    stays = [sorted(data.draw(st.tuples(*[st.integers(0, manner.batches)] * 2))) for _ in queries]
    run = Run(example.stream, [], manner, lateness=disorder(batches, example.stream))
    bound: list[SlicedAggregation | None] = [None] * len(queries)
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch, moving(manner):
        patch.setattr(tiers, "MOST_ENTRIES", manner.most_entries)
        patch.setattr(tiers, "MOST_OF_A_GROUPING", 0)
        patch.setattr(sharding_choice, "SHARDS", 2)
        sliding(patch, manner)
        for i, batch in enumerate(batches):
            for q, (enters, _) in enumerate(stays):
                if i == enters:
                    entrance, _ = run.run.admission.enter(bind(queries[q], {example.stream.name: example.stream}))
                    assume(not entrance.tag)  # its first window starts with the newest event: test_entering_queries
                    assert entrance.start == (max(seen) + 1 if seen else None)
                    queries[q] = replace(queries[q], start_at=entrance.start)
                    bound[q] = bind(queries[q], {example.stream.name: example.stream})
            there = [q for q, (enters, leaves) in enumerate(stays) if enters <= i and i <= leaves]
            run.ask([query for q in there if (query := bound[q]) is not None])
            run.take(batch)
            seen += times(batch, example.stream)
            ahead = [t for later in batches[i + 1 :] for t in times(later, example.stream)]
            watermark = min(ahead, default=0) if run.run.watermark is None else run.run.watermark
            for q in there:
                if i == stays[q][1]:
                    queries[q] = replace(queries[q], stop_at=watermark)
        run.ask([query for q, query in enumerate(bound) if query is not None and stays[q][1] == len(batches)])
        run.end()
    for q, query in enumerate(queries):
        found = bound[q]
        answered = run.answers(found) if found else []
        wanted = reference.answer(query, example.stream, example.events).rows if found is not None else []
        if query.stop_at is not None and len(answered) > len(wanted):
            # Who leaves has answered empty windows that a later event made known, as if it did not stop.
            endless = reference.answer(replace(query, stop_at=None), example.stream, example.events).rows
            wanted = [row for row in endless if row[1] <= query.stop_at]
        assert_same(bind(query, {example.stream.name: example.stream}), answered, wanted)
