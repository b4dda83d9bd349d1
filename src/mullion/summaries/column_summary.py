"""A summary that a user creates on a column: fed with every event in its order, asked at any time.

    CREATE SUMMARY items ON store(item) WITH GRANULARITY '10 s' AND COLLAPSE (4, 5)

What questions see is never changed: a batch feeds a copy, which takes the place of the one before with the commit. A
copy shares all zones that have ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Self

import numpy as np
import pyarrow as pa

from mullion.catalog.summaries import StreamSummary
from mullion.expressions.arrays import Codes, Mask
from mullion.expressions.coding.hashes import keys_of
from mullion.language.types import Type
from mullion.slices.order import times_of
from mullion.summaries.base import Summary
from mullion.summaries.granularities import Collapse, Granularities
from mullion.summaries.kinds import KINDS
from mullion.summaries.known_values import NONE, KnownValues
from mullion.summaries.zone_counts import ZoneCounts
from mullion.summaries.zones import Cuts, Zone, Zones

ZONES, OPEN, VALUES = "zones", "open", "values"
"""Parts of a summary that commits keep: zones that have ended, what has not, and the values of codes."""
FEWEST_VALUES = 1024
"""Values that nobody counts any more are let go of when there are so many, or twice as many as are counted."""
ZONE, GRANULARITY = "#zone", "#granularity"
"""The columns that say to which zone a row of a part belongs."""


class ColumnSummary:
    """The zones of one summary, from the oldest granularity to the event that came last."""

    def __init__(self, definition: StreamSummary, *, since: int | None = None) -> None:
        """`since`: the newest event that came before it was made. It takes what is later than that."""
        self.definition, self.since = definition, since
        self._zones = Zones(Cuts(definition.drift, definition.longest, definition.granularity), self._empty)
        self._past = Granularities(Collapse(definition.granularity, definition.rate, definition.depth), since=since)
        self._saved: dict[tuple[int, int], Summary] | None = None
        """The zones that commits have; None before the first one."""
        self._counts: ZoneCounts | None = None
        self.values, self._saved_values = NONE, NONE
        """The values of codes that are hashes, where it tells which came, and those that commits have."""
        self._most_values = FEWEST_VALUES

    def _empty(self) -> Summary:
        return KINDS[self.definition.kind](**dict(self.definition.options))

    def copy(self) -> Self:
        """One that may take events while others read this one."""
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        copied._zones, copied._past, copied._counts = self._zones.copy(), self._past.copy(), None
        return copied

    def add_events(self, events: pa.Table, type_: Type, share: int | None = None) -> None:
        """Events in their order. `share`: the bytes that it may have where its definition says nothing."""
        times = times_of(events)
        if self.since is not None and len(times) and times[0] <= self.since:
            first = int(np.searchsorted(times, self.since, "right"))
            events, times = events.slice(first), times[first:]
        keys = keys_of([events.column(self.definition.column)], len(events))
        most, self._counts = share if self.definition.memory is None else self.definition.memory, None
        for zone, now in self._zones.take(times, keys.codes, keys.known):
            self._past.add(zone, now, most)
        if self.knows_codes and not keys.exact:
            self.values = self.values.plus(keys.codes, keys.known, events.column(self.definition.column), most)
            if len(self.values) > self._most_values:
                self.values = self.values.among(np.concatenate([zone.summary.codes() for zone in self.zones]))
                self._most_values = max(FEWEST_VALUES, 2 * len(self.values))

    # What it tells

    @property
    def zones(self) -> list[Zone]:
        """All zones, the oldest first; the last one may still grow."""
        newest = self._zones.open
        return [*self._past, *([] if newest is None else [newest])]

    def holds(self, after: int) -> bool:
        """Whether all events that are later are in its zones."""
        since = self._past.since
        return since is None or after >= since

    @property
    def complete_after(self) -> int | None:
        """It tells of all events that are later; None where it tells of all."""
        return self._past.since

    @property
    def is_exact(self) -> bool:
        """Whether only edges that cut a zone make it uncertain."""
        return KINDS[self.definition.kind].is_exact

    @property
    def knows_codes(self) -> bool:
        """Whether it tells which keys came."""
        return KINDS[self.definition.kind].knows_codes

    def zone_length(self, granularity: int) -> int:
        """How long zones of a granularity are at most."""
        return self.definition.longest if granularity < 2 else self._past.collapse.step(granularity)

    @property
    def counts(self) -> ZoneCounts:
        """What its zones tell now."""
        if self._counts is None:
            self._counts = ZoneCounts(self.zones, is_exact=self.is_exact)
        return self._counts

    @property
    def nbytes(self) -> int:
        parts = (self._zones.body, self._zones.block)
        return self._past.nbytes + self.values.nbytes + sum(part.summary.nbytes for part in parts if part is not None)

    # What a restart needs

    def snapshot(self) -> dict[str, Any]:
        zones = self._zones
        opened = [None if part is None else _words(part) for part in (zones.body, zones.block)]
        past = [_words(zone) for zone in self._past]
        return {
            "of": self._own_words,
            "since": self.since,
            "told since": self._past.since,
            "seen": zones.seen,
            "zones": past,
            "open": opened,
        }

    @property
    def _own_words(self) -> list[Any]:
        own = self.definition
        shape = [own.granularity, own.rate, own.depth, own.drift, own.longest, own.memory]
        return [own.stream, own.column, own.kind, [list(option) for option in own.options], *shape]

    def is_same(self, state: Mapping[str, Any]) -> bool:
        """Whether a commit tells of a summary that was created with the same words."""
        return bool(state["of"] == self._own_words)

    def tables(self, *, whole: bool) -> Iterator[tuple[str, bool, pa.Table]]:
        """The parts to commit, and whether they are whole: all zones, or those that changed since the last commit."""
        whole = whole or self._saved is None
        known = {} if whole or self._saved is None else self._saved
        past = {(zone.granularity, zone.first): zone.summary for zone in self._past}
        new = [(key, summary) for key, summary in past.items() if known.get(key) is not summary]
        if new or whole:
            yield ZONES, whole, _together(new, self._empty)
        body, block = self._zones.body, self._zones.block
        parts = [((at, 0), part.summary) for at, part in enumerate((body, block)) if part is not None]
        yield OPEN, True, _together(parts, self._empty)
        has_less = len(self._saved_values.since(self.values)) > 0
        new_values = self.values if whole or has_less else self.values.since(self._saved_values)
        if whole or has_less or len(new_values):
            yield VALUES, whole or has_less, new_values.to_table()
        self._saved, self._saved_values = past, self.values

    def restore(self, state: Mapping[str, Any], tables: Mapping[str, Sequence[pa.Table]]) -> None:
        """As a commit left it: the newest version of each zone."""
        self.since = state["since"]
        parts: dict[tuple[int, int], pa.Table] = {}
        for table in tables[ZONES]:
            parts |= _apart(table)
        zones = [self._zone(words, parts.get((words["granularity"], words["first"]))) for words in state["zones"]]
        self._past = Granularities(self._past.collapse, zones, state["told since"])
        (opened,) = tables[OPEN]
        last = _apart(opened)
        body, block = (
            None if words is None else self._zone(words, last.get((at, 0))) for at, words in enumerate(state["open"])
        )
        self._zones.body, self._zones.block, self._zones.seen = body, block, state["seen"]
        self._saved = {(zone.granularity, zone.first): zone.summary for zone in zones}
        self.values = self._saved_values = KnownValues.from_tables(tables.get(VALUES, ()))
        self._counts = None

    def _zone(self, words: Mapping[str, Any], table: pa.Table | None) -> Zone:
        summary = self._empty()
        if table is not None:
            summary.restore(table, words["summarized"])
        return Zone(summary=summary, **{field.name: words[field.name] for field in fields(Zone) if field.name in words})


def codes_of_column(events: pa.Table, column: str) -> tuple[Codes, Mask | None]:
    """The codes of a column's values, and which are not NULL; all are where there is no mask."""
    keys = keys_of([events.column(column)], len(events))
    return keys.codes, keys.known


def _words(zone: Zone) -> dict[str, Any]:
    words = {field.name: getattr(zone, field.name) for field in fields(Zone) if field.name != "summary"}
    return {**words, "summarized": zone.summary.events}


def _together(parts: Sequence[tuple[tuple[int, int], Summary]], empty: Any) -> pa.Table:
    """One table of all summaries; each row says which it is of."""
    tables = []
    for (granularity, first), summary in parts:
        table = summary.snapshot()
        of = pa.array(np.full(len(table), first, np.int64)), pa.array(np.full(len(table), granularity, np.int64))
        tables.append(table.append_column(ZONE, of[0]).append_column(GRANULARITY, of[1]))
    if tables:
        return pa.concat_tables(tables)
    return _together([((0, 0), empty())], empty).slice(0, 0)


def _apart(table: pa.Table) -> dict[tuple[int, int], pa.Table]:
    """The rows of each summary, which stand together."""
    of = [table[name].to_numpy() for name in (GRANULARITY, ZONE)]
    changes = np.flatnonzero((of[0][1:] != of[0][:-1]) | (of[1][1:] != of[1][:-1])) + 1
    starts = [0, *changes.tolist()] if len(table) else []
    own = table.drop_columns([ZONE, GRANULARITY])
    ends = zip(starts, [*starts[1:], len(table)], strict=True) if starts else ()
    return {(int(of[0][start]), int(of[1][start])): own.slice(start, end - start) for start, end in ends}
