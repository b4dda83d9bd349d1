"""What a batch's partials tell of it: how many events, from when to when, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mullion.expressions.arrays import Times
from mullion.expressions.coding.canonical import in_one_piece
from mullion.expressions.coding.dictionary import decoded
from mullion.expressions.coding.hashes import keys_of
from mullion.expressions.readonly import frozen
from mullion.planner.comparisons import compared_in
from mullion.planner.plan import Grouping
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.slices import distinct
from mullion.slices.due import first_end
from mullion.slices.kernels.groups import Groups
from mullion.slices.kernels.row_loops import first_of_each
from mullion.slices.subwindow import PartialSubWindows, has_states

MANY_VALUES, ONE_IN = 10_000, 16
"""With more partials of counted values, how many of these differ is estimated, from one in so many: to know it exactly
took a quarter of a batch's time."""


@dataclass
class Tally:
    events: int = 0
    malformed: int = 0
    oldest: int | None = None
    newest: int | None = None
    partials: int = 0
    fragments: int = 0
    groups: int = 0
    added: int = 0
    """Events that were added to a partial, once for each partial."""
    members: int = 0
    """Predicates that these events satisfy, all together: alpha |T| (krishnamurthy 4.3.3)."""
    bits: int | None = None
    """Predicates that the fragments satisfy, all together: k beta."""
    slices: Times = field(default_factory=lambda: np.empty(0, np.int64))
    bad: dict[str, int] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Take in the tally of another shard of the same batch; groups are disjoint, fragments are not."""
        self.events += other.events
        self.malformed += other.malformed
        self.oldest = min((t for t in (self.oldest, other.oldest) if t is not None), default=None)
        self.newest = max((t for t in (self.newest, other.newest) if t is not None), default=None)
        self.partials += other.partials
        self.fragments = max(self.fragments, other.fragments)
        self.groups += other.groups
        self.added += other.added
        self.members += other.members
        self.bits = other.bits if self.bits is None else max(self.bits, other.bits or 0)
        self.slices = distinct(np.concatenate([self.slices, other.slices]))
        for name, number in other.bad.items():
            self.bad[name] = self.bad.get(name, 0) + number


def tally(partials: pa.Table, grouping: Grouping) -> Tally:
    """Rows that count events and rows with states come apart from the kernel, and together from Spark."""
    batches = partials.to_batches()
    counting = _of_batches(partials, [b for b in batches if b.column("events").null_count < len(b)])
    events, placed = _column(counting, "events"), np.asarray(in_one_piece(counting.column("slice")).is_valid())
    total = Tally(
        events=int(events[placed].sum()),
        malformed=int(events[~placed].sum()),
        oldest=pc.min(counting.column("t_min")).as_py(),
        newest=pc.max(counting.column("t_max")).as_py(),
        slices=distinct(_column(counting, "slice")[placed & (events > 0)]),
    )
    needed = ["slice", "s0_0", *(n for n in partials.schema.names if n == "signature"), *_keys(grouping)]
    # Portions of a batch are gone through one by one: together they would have to be copied.
    parts = [_with_events(b.select(needed)) for b in batches if b.column("s0_0").null_count < len(b)]
    total.partials = sum(len(part) - part.column("slice").null_count for part in parts)
    total.added = sum(int(_column(part, "s0_0").sum()) for part in parts)
    if "signature" in partials.schema.names:
        states = _of_batches(partials.select(needed), parts)
        _count_fragments(total, states.column("signature"), _column(states, "s0_0"))
    else:
        total.members = total.added
    keys = [part.select(_keys(grouping)) for part in parts]
    is_estimated = bool(grouping.counted) and total.partials > MANY_VALUES
    total.groups = (_about_how_many if is_estimated else _number_of_groups)(keys) if grouping.keys else 1
    if grouping.checks:
        total.bad = _bad(partials, grouping)
    return total


def _of_batches(partials: pa.Table, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches, partials.schema)


def _keys(grouping: Grouping) -> list[str]:
    return [f"k{i}" for i in range(len(grouping.keys))]


def _count_fragments(total: Tally, signatures: pa.ChunkedArray, rows: npt.NDArray[np.int64]) -> None:
    column = signatures.unify_dictionaries().combine_chunks()
    codes = np.asarray(column.indices, np.int64)
    satisfied = np.array(
        [int.from_bytes(bits, "little").bit_count() for bits in column.dictionary.to_pylist()], np.int64
    )
    there = distinct(codes)
    total.fragments = len(there)
    total.members = int((satisfied[codes] * rows).sum()) if len(codes) else 0
    total.bits = int(satisfied[there].sum())


def _with_events(states: pa.RecordBatch) -> pa.RecordBatch:
    has_rows = _column(states, "s0_0") > 0
    return states if has_rows.all() else states.filter(pa.array(has_rows))


def _column(partials: pa.Table | pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    column = in_one_piece(partials.column(name))
    return np.asarray(column.fill_null(0) if column.null_count else column, np.int64)


def _about_how_many(parts: Sequence[pa.RecordBatch]) -> int:
    """About how many different rows of keys there are: one in so many is looked at, as the hash of its keys says.

    >>> values = pa.record_batch({"k0": np.arange(100_000) % 50_000, "k1": np.arange(100_000) % 20})
    >>> 48_000 < _about_how_many([values, values]) < 52_000
    True
    """
    hashes = (keys_of(part.columns, len(part), null_is_value=True).codes for part in parts)
    return ONE_IN * len(distinct(np.concatenate([own[own % ONE_IN == 0] for own in hashes])))


def _number_of_groups(parts: Sequence[pa.RecordBatch]) -> int:
    """How many different rows of keys there are."""
    found = (
        Groups.of_texts([[part.column(i) for part in parts] for i in range(parts[0].num_columns)]) if parts else None
    )
    if found is not None:
        return found[0].size
    different = [_one_of_each(part) for part in parts]
    if len(parts) > 1:
        some = [part.take(pa.array(rows)) for part, rows in zip(parts, different, strict=True)]
        return len(_one_of_each(pa.concat_tables([decoded(pa.Table.from_batches([part])) for part in some])))
    return sum(len(rows) for rows in different)


def _one_of_each(keys: pa.Table | pa.RecordBatch) -> npt.NDArray[np.int64]:
    """A row of each group."""
    groups = Groups.numbered([in_one_piece(column) for column in keys.columns])
    row = np.full(groups.size, -1, np.int64)
    (codes,) = frozen(groups.codes)
    first_of_each(codes, row)
    return row[row >= 0]


def _bad(partials: pa.Table, grouping: Grouping) -> dict[str, int]:
    """Bad values of each query: what its WHERE compares on all events, the rest on the events that it selects."""
    if not any(pc.sum(partials.column(f"bad{i}")).as_py() for i in range(len(grouping.checks))):
        return {}
    everywhere = _column(partials, "events") > 0
    columns = {check: _column(partials, f"bad{i}") for i, check in enumerate(grouping.checks)}
    totals = {check: int(column[everywhere].sum()) for check, column in columns.items()}
    selected = _Selected(partials, grouping)
    first = dict(list(columns.items())[: grouping.selected_checks])
    bad: dict[str, int] = {}
    for i, query in enumerate(grouping.queries):
        compared = () if query.predicate is None else compared_in(query.predicate)
        number = sum(totals.get(expr, 0) for expr in compared)
        if first:
            own = set(query.event_expressions())
            number += sum(int(selected.of(i, column).sum()) for check, column in first.items() if check in own)
        if number:
            bad[query.name] = number
    return bad


class _Selected:
    """What the partials of a query's slot hold."""

    def __init__(self, partials: pa.Table, grouping: Grouping) -> None:
        rows = np.flatnonzero(has_states(partials, grouping))
        placed = PartialSubWindows.of(partials, grouping)
        slots = {name: i for i, name in enumerate(grouping.slot_names)}
        kept, self._slots = placed.members(slots, np.arange(len(rows)))
        self._rows = rows[kept]
        self._slot_of = grouping.slot_of
        self._by_slot: dict[int, npt.NDArray[np.intp]] = {}

    def of(self, query: int, column: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        slot = int(self._slot_of[query])
        if slot not in self._by_slot:
            self._by_slot[slot] = self._rows[self._slots == slot]
        return column[self._by_slot[slot]]


def selected_by(partials: pa.Table, grouping: Grouping) -> dict[str, int]:
    """How many of these events each query selects."""
    rows, selected = _column(partials, "s0_0"), _Selected(partials, grouping)
    found = {query.name: int(selected.of(i, rows).sum()) for i, query in enumerate(grouping.queries)}
    return {name: number for name, number in found.items() if number}


def late_for(partials: pa.Table, grouping: Grouping) -> dict[str, int]:
    """How many of these events each query would have counted, had they come in time."""
    rows, slices = _column(partials, "s0_0"), _column(partials, "slice")
    selected = _Selected(partials, grouping)
    late: dict[str, int] = {}
    for i, query in enumerate(grouping.queries):
        own_slices = selected.of(i, slices)
        number = int(selected.of(i, rows)[_is_in_window(own_slices, query)].sum())
        if number:
            late[query.name] = number
    return late


def _is_in_window(slices: Times, query: SlicedAggregation) -> npt.NDArray[np.bool_]:
    """Which slices lie in a window that the query answers."""
    window = query.window
    end = window.offset + (slices + window.range - window.offset) // window.slide * window.slide
    if query.stop is not None:
        end = np.minimum(end, first_end(query.stop, window) - window.slide)
    is_inside = end > slices
    if query.after is not None:
        is_inside &= end > query.after
    return is_inside if query.start is None else is_inside & (end - window.range >= query.start)
