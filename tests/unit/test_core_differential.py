"""The core without Spark against the slow reference: however the input is cut and the work is shared, the same rows."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_slices import bind
from joins import joined_examples
from mullion import reference
from mullion.algebra.streams import Stream, Table
from mullion.expressions.vector import Vector, arrow_type
from mullion.kernels.lookup import Prepared, prepare
from mullion.language.parse import parse_query
from mullion.language.query import Query
from mullion.language.types import Type
from mullion.options import Options, Sharing
from mullion.planner.plan import Plan
from mullion.planner.rules import make_plan
from mullion.planner.sliced import SlicedAggregation
from mullion.slices import tier as tiers
from mullion.slices.finalize import Work
from mullion.slices.kernels.partial import ARRIVAL, TIME, Input, Job, partials
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import tally
from mullion.slices.tier import WindowTier
from mullion.storage.files import serialised
from strategies import Event, Example, examples

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

    @property
    def options(self) -> Options:
        sharing = Sharing.ON if self.shared else Sharing.OFF
        return Options.of(sharing=sharing, slicing=self.slicing, method=self.method)


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
    """One plan from the first event to the end of the input."""

    def __init__(
        self, stream: Stream, queries: Sequence[SlicedAggregation], manner: Manner, tables: Tables | None = None
    ) -> None:
        self.stream, self.manner = stream, manner
        self.tables = {name: to_table(*table) for name, table in (tables or {}).items()}
        self.tier = WindowTier()
        self.arrived = 0
        self.found: dict[str, Rows] = defaultdict(list)
        self.ask(queries)

    def ask(self, queries: Sequence[SlicedAggregation]) -> None:
        """From now on, answer these."""
        self.plan: Plan = make_plan(self.stream, queries, self.manner.options)
        self.by_name = {q.name: q for q in queries}

    def over(self, events: Sequence[Event]) -> dict[str, Rows]:
        seen: list[int] = []
        batches = list(cut(events, self.manner.batches))
        for i, batch in enumerate(batches):
            seen += self.times(batch)
            ahead = [t for later in batches[i + 1 :] for t in self.times(later)]
            self.take(batch)
            if seen:
                self.settle(seen, min(ahead, default=max(seen)) - self.manner.lag)
            if self.manner.restart and i == len(batches) // 2:
                self.restart()
        if seen:
            self.settle(seen, None)
        return dict(self.found)

    def times(self, batch: Sequence[Event]) -> list[int]:
        return [e[self.stream.time_column] for e in batch if e[self.stream.time_column] is not None]

    def take(self, batch: Sequence[Event]) -> None:
        inputs = Input(columns=self.stream.types)
        parts = []
        for part in cut(batch, self.manner.partitions):
            parts.append(to_batch(self.stream, part, self.arrived))
            self.arrived += len(part)
        tables = self.look_up()
        job = Job(self.plan.groupings, self.plan.methods, self.plan.windows, inputs, self.plan.slicing, tables)
        made = [partials(part, job) for part in parts]
        for i, grouping in enumerate(self.plan.groupings):
            for tables in made:
                self.tier.saw(tally(tables[i], grouping).slices)
                self.tier.absorb(PartialSubWindows.of(tables[i], grouping))

    def look_up(self) -> tuple[Prepared, ...]:
        lookups = dict.fromkeys(lookup for grouping in self.plan.groupings for lookup in grouping.lookups)
        return tuple(prepare(lookup, self.tables[lookup.table]) for lookup in lookups)

    def settle(self, seen: list[int], watermark: int | None) -> None:
        for grouping in self.plan.answering:
            due = self.tier.due(grouping, min(seen), max(seen), watermark)
            for answers in self.tier.answer(grouping, due.portions(3), Work(), self.plan.counting(grouping)):
                for name, table in answers:
                    self.found[name] += rows_of(self.by_name[name], table)
        if watermark is not None:
            self.tier.forget(self.plan, watermark)

    def restart(self) -> None:
        """Continue from what a checkpoint keeps."""
        state = json.loads(json.dumps(self.tier.snapshot()))
        tables = [pa.ipc.open_stream(serialised(e.table)).read_all() for e in self.tier.entries]
        self.tier = WindowTier()
        self.tier.restore(state, tables)


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
    found: dict[str, Rows] = {}
    for part in [bound] if manner.shared else [[q] for q in bound]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tiers, "MOST_ENTRIES", manner.most_entries)
            found |= Run(example.stream, part, manner, example.tables).over(example.events)
    return found


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
)


MANNERS = {
    "one batch": Manner(),
    "many batches": Manner(batches=7),
    "many partitions": Manner(batches=2, partitions=3),
    "unshared": Manner(shared=False, batches=2),
    "paned": Manner(slicing="paned", batches=3),
    "merged": Manner(batches=7, most_entries=0),
    "restarted": Manner(batches=5, restart=True),
    "dense rows": Manner(batches=2, partitions=2, method="rows"),
    "fragments": Manner(batches=2, partitions=2, method="fragments"),
    "slow watermark": Manner(batches=7, lag=100_000_000),
}


@pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS)
@settings(max_examples=12)
@given(example=examples(most_queries=3, most_events=25))
def test_each_manner_gives_what_the_reference_gives(manner: Manner, example: Example) -> None:
    check(example, manner)


@settings(max_examples=60)
@given(examples(most_queries=3, most_events=25), manners)
def test_all_manners_together_give_what_the_reference_gives(example: Example, manner: Manner) -> None:
    check(example, manner)


@pytest.mark.parametrize("method", ["fragments", "rows"])
@settings(max_examples=20)
@given(example=joined_examples())
def test_joins_with_tables(method: str, example: Example) -> None:
    check(example, Manner(batches=2, partitions=2, method=method))


@settings(max_examples=25)
@given(joined_examples(), manners)
def test_joins_with_tables_in_all_manners(example: Example, manner: Manner) -> None:
    check(example, manner)


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


@settings(max_examples=30)
@given(examples(most_queries=4), st.data())
def test_queries_join_and_leave_between_batches(example: Example, data: st.DataObject) -> None:
    """A query that joins answers what starts after all that was seen; one that leaves, what ended before."""
    manner = data.draw(st.builds(Manner, batches=st.just(6), most_entries=st.sampled_from((48, 0, 3))))
    batches = list(cut(example.events, manner.batches))
    queries = [replace(parse_query(text), start_at=None, stop_at=None) for text in example.queries]
    stays = [sorted(data.draw(st.tuples(*[st.integers(0, manner.batches)] * 2))) for _ in queries]
    run = Run(example.stream, [], manner)
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiers, "MOST_ENTRIES", manner.most_entries)
        for i, batch in enumerate(batches):
            for q, (join, _) in enumerate(stays):
                if i == join and seen:
                    queries[q] = replace(queries[q], start_at=max(seen) + 1)
            there = [q for q, (join, leave) in enumerate(stays) if join <= i and (i <= leave or leave == len(batches))]
            run.ask([bind(queries[q], {example.stream.name: example.stream}) for q in there])
            run.take(batch)
            seen += run.times(batch)
            ahead = [t for later in batches[i + 1 :] for t in run.times(later)]
            watermark = min(ahead, default=max(seen, default=0))
            if seen:
                run.settle(seen, watermark)
            for q in there:
                if i == stays[q][1]:
                    queries[q] = replace(queries[q], stop_at=watermark)
        if seen:
            run.ask([q for q in run.plan.queries if stays[int(q.name[1:])][1] == len(batches)])
            run.settle(seen, None)
    for q, query in enumerate(queries):
        bound = bind(query, {example.stream.name: example.stream})
        there = stays[q][0] < len(batches)
        wanted = reference.answer(query, example.stream, example.events).rows if there else []
        assert_same(bound, run.found.get(bound.name, []), wanted)
