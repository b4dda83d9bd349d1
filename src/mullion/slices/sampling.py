"""Statistics of a batch from a sample of its events, by the kernel's own evaluation of keys and predicates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mullion.algebra.lookups import Lookup
from mullion.expressions.arrays import Codes
from mullion.expressions.coding.dictionary import codes_of, combine
from mullion.kernels.columns import BatchColumns
from mullion.kernels.lookup import Attached, Prepared, rows_found
from mullion.language.query import Column, Expr
from mullion.planner.fragments import PredicateIndex
from mullion.planner.plan import Grouping
from mullion.planner.statistics import ASSUMED, COUNTED, ONE_GROUP, SAMPLE, Sampled, SampledGroups, Statistics
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input
from mullion.slices.kernels.selection import Compared, Selection
from mullion.slices.kernels.signature import truths

MOST_SAMPLED = 50_000
"""Events of a sample."""
MOST_ASKED, LEAST_ASKED, MOST_TRUTHS = 20_000, 1000, 2_000_000
"""Events of the sample that predicates are asked of: fewer when there are many predicates."""
MOST_COUNTERS = 1 << 20
"""Groups that are counted by their place in an array."""


@dataclass(frozen=True)
class Sample:
    """Some records of a batch, all of them where `is_whole`, as an `Input` describes them; and what is known of the
    others: how many records they are, how many of these are events, which have a time, and from when to when."""

    rows: pa.Table
    inputs: Input
    is_whole: bool = False
    records: int | None = None
    events: int | None = None
    oldest: int | None = None
    newest: int | None = None
    events_from: str = ASSUMED
    times_from: str = ASSUMED
    dictionaries: Mapping[str, int] = field(default_factory=dict)
    """So many different texts at least are in a column of the batch."""
    is_head: bool = False
    """The rows are the first of the batch, and tell nothing of the times of the others."""


def evenly_spread(length: int, most: int) -> npt.NDArray[np.int64]:
    """At most so many places, evenly spread.

    >>> evenly_spread(10, 4).tolist()
    [0, 2, 5, 7]
    """
    return np.arange(min(length, most)) * length // max(1, min(length, most))


def scattered(length: int, most: int) -> npt.NDArray[np.int64]:
    """At most so many places, one anywhere in each of as many stretches: even steps would be caught by rows that take
    turns. The same for the same numbers.

    >>> scattered(10, 3).tolist() == scattered(10, 3).tolist(), len(scattered(10, 20))
    (True, 10)
    """
    starts = evenly_spread(length, most)
    ends = np.append(starts[1:], length)
    places: npt.NDArray[np.int64] = np.random.default_rng(length).integers(starts, ends)
    return places


def statistics_of(sample: Sample, groupings: Sequence[Grouping], tables: Sequence[Prepared] = ()) -> Statistics:
    """What a sample says of its batch. Groupings that look up tables which are not given stay unknown.

    Time: O(n) for each key set and for each compared expression, of n sampled events.
    """
    rows = _timed(sample.rows)
    known = _known(sample, rows)
    given = {table.lookup: table for table in tables}
    groups: dict[str, SampledGroups] = {}
    selections: dict[str, Sampled] = {}
    for lookups, own in _by_lookups(groupings):
        if all(lookup in given for lookup in lookups):
            found = [given[lookup] for lookup in lookups]
            columns = _joined(rows, sample.inputs, found)
            groups |= {g.name: _groups(g, columns, known.events, sample) for g in own}
            selections |= _selections(own, columns, rows, sample.inputs, found)
    return replace(known, groups=groups, selections=selections, busy=None if sample.is_head else _busy(rows))


def _busy(rows: pa.Table) -> int | None:
    """The time that all but two of a hundred events lie in; None where there are too few to tell."""
    if len(rows) < LEAST_ASKED:
        return None
    low, high = np.percentile(np.asarray(rows.column(TIME).combine_chunks(), np.int64), [1, 99])
    return int((high - low) / 0.98) + 1


def _timed(rows: pa.Table) -> pa.Table:
    """Without the records that have no place in time."""
    times = rows.column(TIME)
    return rows.filter(times.is_valid()) if times.null_count else rows


def _known(sample: Sample, rows: pa.Table) -> Statistics:
    """The number of events and their times, from whatever tells them best."""
    extremes = pc.min_max(rows.column(TIME)).as_py()
    if sample.is_whole:
        return Statistics(len(rows), extremes["min"], extremes["max"], len(rows), COUNTED, COUNTED)
    oldest, newest, times_from = sample.oldest, sample.newest, sample.times_from
    if (oldest is None or newest is None) and len(rows):
        oldest, newest, times_from = extremes["min"], extremes["max"], SAMPLE
    events = sample.events
    if events is None and sample.records is not None:
        events = round(sample.records * len(rows) / max(1, len(sample.rows)))
    return Statistics(events, oldest, newest, len(rows), sample.events_from, times_from)


def _by_lookups(groupings: Sequence[Grouping]) -> Iterator[tuple[tuple[Lookup, ...], list[Grouping]]]:
    """Groupings that see the same columns, together."""
    together: dict[tuple[Lookup, ...], list[Grouping]] = {}
    for grouping in groupings:
        together.setdefault(grouping.lookups, []).append(grouping)
    yield from together.items()


def _joined(rows: pa.Table, inputs: Input, tables: Sequence[Prepared]) -> BatchColumns:
    """The events with what they find in tables; several rows of a table make several of an event."""
    columns = BatchColumns.of(rows, inputs.columns, inputs.evaluated)
    joined: list[tuple[Prepared, npt.NDArray[np.int64]]] = []
    for table in tables:
        keys = [columns.array(key) for key, _ in table.lookup.keys]
        repeated, row = rows_found(table, keys, columns.length)
        if repeated is not None:
            rows, joined = rows.take(pa.array(repeated)), [(earlier, at[repeated]) for earlier, at in joined]
            columns = BatchColumns.of(rows, inputs.columns, inputs.evaluated)
            for earlier, at in joined:
                columns.attach(Attached(earlier, at))
        joined.append((table, row))
        columns.attach(Attached(table, row))
    return columns


def _counts(columns: BatchColumns, keys: Sequence[Expr]) -> npt.NDArray[np.int64]:
    """The events of each group."""
    coded = [codes_of(columns.array(key)) for key in keys]
    if prod(size for _, size in coded) > MOST_COUNTERS:
        return np.bincount(combine(coded, columns.length)[0])
    codes = np.zeros(columns.length, np.int64)
    for more, size in coded:
        codes = codes * size + more
    return np.bincount(codes)


def _codes(columns: BatchColumns, keys: Sequence[Expr]) -> Codes:
    return combine([codes_of(columns.array(key)) for key in keys], columns.length)[0]


def _groups(grouping: Grouping, columns: BatchColumns, events: int | None, sample: Sample) -> SampledGroups:
    if not grouping.keys:
        return ONE_GROUP
    only = grouping.keys[0] if len(grouping.keys) == 1 else None
    at_least = sample.dictionaries.get(only.name, 0) if isinstance(only, Column) else 0
    # An event that finds several rows of a table counts as often here as in partials.
    events = columns.length if sample.is_whole else events
    return SampledGroups.of(_counts(columns, grouping.keys), columns.length, events, at_least=at_least)


def _selections(
    groupings: Sequence[Grouping], columns: BatchColumns, rows: pa.Table, inputs: Input, tables: Sequence[Prepared]
) -> dict[str, Sampled]:
    """Which predicates hold, all of them through one index."""
    first = groupings[0]
    predicates = dict.fromkeys(first.predicates)
    for g in groupings[1:]:
        predicates |= dict.fromkeys(g.predicates)
    if not predicates:
        return {}
    asked = scattered(len(rows), min(MOST_ASKED, max(LEAST_ASKED, MOST_TRUTHS // len(predicates))))
    if len(asked) < len(rows):
        columns = _joined(rows.take(pa.array(asked)), inputs, tables)
    alike = len(predicates) == len(first.predicates)
    index = first.index if alike else PredicateIndex(list(predicates), first.types)
    held = truths(index, Selection(Compared.of([index]), columns), columns.length)
    numbers = dict(zip(predicates, range(len(predicates)), strict=True))
    selections = {}
    for g in groupings:
        if alike and g is first:
            selections[g.name] = Sampled(_codes(columns, g.keys), held, numbers)
            continue
        at = {predicate: i for i, predicate in enumerate(g.predicates)}
        own = held[:, [numbers[predicate] for predicate in g.predicates]]
        selections[g.name] = Sampled(_codes(columns, g.keys), own, at)
    return selections
