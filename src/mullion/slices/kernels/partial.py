"""Events in, partials out: the kernel that runs in Spark's Python workers, and on the driver just as well.

For each grouping, events fall into shards (slice, fragment, group), and each of these is reduced to one row:

    t, symbol, price      slice  signature  key   events t_min t_max  states..  bad..
    09:00:01  A   10   ->
    09:00:02  A   12      09:00     01       A      -     -     -     2  22
    09:00:02  B    9      09:00    NULL     NULL    3    :01   :02    0   -

Events that satisfy no predicate (fragment F0) leave before anything is aggregated. So that it is known nevertheless
which slices hold an event, each slice has one more row without signature or slot, which counts all its events. Events
between windows that hop leave likewise (`gaps`).

By dense rows, a row belongs to one predicate, its `slot`, instead of to the fragment of a `signature`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import pyarrow as pa

from mullion.algebra.lookups import Lookup
from mullion.kernels.arrival import FileOrder
from mullion.kernels.lookup import Prepared
from mullion.language.query import Expr, Period
from mullion.language.types import Type
from mullion.lazy import cached_property
from mullion.planner.plan import Grouping
from mullion.planner.slices import residues
from mullion.questions_first import give_way
from mullion.slices.kernels.events import Events, JobContext
from mullion.slices.kernels.grouping_partials import GroupingPartials, weight
from mullion.slices.kernels.layout import shared_nulls
from mullion.slices.kernels.selection import Compared
from mullion.slices.kernels.shared_work import find_shared
from mullion.threads import in_threads

Periods = tuple[Period, ...]


@dataclass(frozen=True)
class Input:
    """What events arrive as: TIME, and columns that are either the stream's own or expressions that Spark evaluated."""

    columns: Mapping[str, Type]
    evaluated: Mapping[Expr, str] = field(default_factory=dict)
    bad: Mapping[Expr, str] = field(default_factory=dict)
    """Columns in which Spark already noted on which rows a checked expression met a bad value."""


@dataclass(frozen=True)
class Job:
    """What is to be made of a batch of events, for each of its groupings."""

    groupings: tuple[Grouping, ...]
    methods: tuple[str, ...]
    windows: tuple[Periods, ...]
    """For each grouping, the windows at whose edges time is cut for it."""
    inputs: Input
    slicing: str = "paired"
    tables: tuple[Prepared, ...] = ()
    """The tables of all lookups."""
    batch: int = 0
    """The number of the batch."""
    files: FileOrder | None = None
    """The files of the batch, where a state asks for the order of events."""
    threads: int = 1
    """So many threads run the compiled parts of groupings."""

    @cached_property
    def compared(self) -> dict[tuple[Lookup, ...], Compared]:
        """What predicates compare, of all groupings that look up the same."""
        by_lookups: dict[tuple[Lookup, ...], list[Grouping]] = {}
        for grouping in self.groupings:
            by_lookups.setdefault(grouping.lookups, []).append(grouping)
        return {lookups: Compared.of([g.index for g in own]) for lookups, own in by_lookups.items()}

    @property
    def context(self) -> JobContext:
        known = self.inputs.columns, self.inputs.evaluated, self.inputs.bad
        return JobContext(*known, self.tables, self.compared, self.batch, self.files)


def takes_order(groupings: Sequence[Grouping]) -> bool:
    """Whether a state needs to know where events stand in the order of the stream."""
    return any(state.partial.takes_order for grouping in groupings for state in grouping.states)


def partials(batch: pa.RecordBatch | pa.Table, job: Job) -> list[pa.Table]:
    """The partials of one batch of events for each grouping.

    Time: O(n) for n events in time order, and for each predicate of the method `rows`; O(n log n) where a state is not
    dense, or groups are too many for a table. Guarantee: every event that lies in a window is in exactly one partial,
    or by rows in one of each predicate that it satisfies.
    """
    events, malformed = Events.of(batch, job.context)
    shared = malformed, shared_nulls()
    groupings = [
        GroupingPartials(
            events, events.joined(grouping.lookups), grouping, method, residues(windows, job.slicing), *shared
        )
        for grouping, method, windows in zip(job.groupings, job.methods, job.windows, strict=True)
    ]
    with in_threads(job.threads) as run:
        give_way()
        find_shared(groupings, run)
        give_way()
        run(GroupingPartials.prepare, groupings)
        tables = [_Table(grouped) for grouped in groupings]
        pieces = [(own, piece) for own in tables for piece in range(max(1, len(own.rows)))]
        give_way()
        # What takes longest begins first, so that no thread is at work alone in the end.
        run(lambda own: own[0].work(own[1]), sorted(pieces, key=lambda own: -weight(own[0].grouped, own[1])))
        return [own.table for own in tables]


class _Table:
    """The table of a grouping in the making. Threads work on its pieces; who ends the last one puts it together."""

    def __init__(self, grouped: GroupingPartials) -> None:
        self.grouped = grouped
        self.rows: list[Any] = [None] * grouped.pieces
        self.table: pa.Table
        self._left, self._lock = max(1, len(self.rows)), Lock()

    def work(self, piece: int) -> None:
        if self.rows:
            self.rows[piece] = self.grouped.piece(piece)
        with self._lock:
            self._left -= 1
            is_last = not self._left
        if is_last:
            self.table = self.grouped.table(self.rows)
            self.rows = []
