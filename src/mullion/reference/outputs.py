"""What a query emits of its result at each of its instants: the whole, what is new, or what is gone.

|  | at the instant t of SLIDE s | at a change |
|---|---|---|
| there | what lives just before t: start < t <= end | start <= t < end |
| before | what lives just before t - s | what lives just before t |

ISTREAM and DSTREAM compare both by value. Of equal rows the youngest are the new ones; of those that have left, the
oldest are emitted as gone. For a query that enters late there was nothing before its first instant, which at changes is
its entering: RESTORE does not tell what came and went before it. Where rows are told as they come, older ones are not,
unless they have a sign: then those that are there are told when it enters, so that what is told always adds up to them.

A query is answered from the first to the last of its instants at which at least one of its windows holds an event;
START AT and STOP AT choose among the instants before. With BACKFILL the query is as it would be had it been there from
the start, but emits nothing up to its entering; rows with a sign that are there then are told just after it. Where no
window holds an event there is no row anyway, but those of aggregates without GROUP BY.

Changes of a plan whose rows promise no end (strict) are emitted with a sign: 1 when a row comes, -1 when it ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS
from mullion.algebra.nodes import comes_at_instants, has_total, is_aggregates
from mullion.algebra.relation import Relation
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.language.types import INT, TIMESTAMP
from mullion.reference.aggregates import sort_key
from mullion.reference.answer import Answer
from mullion.reference.expressions import one_value, values_of
from mullion.reference.instants import Instants
from mullion.reference.registry import is_strict
from mullion.reference.rows import Row

SignedRow = tuple[Row, int]
"""A row and its sign."""


def answer_of(relation: Relation, rows: list[Row], windows: list[Row], newest: int | None) -> Answer:
    """The answer, given the rows of the relation's root, what its windows hold, and the time of the newest event."""
    columns = _Columns(relation)
    if newest is None:
        return Answer(columns.names, columns.types, [])
    kind = _Continuous if relation.slide is None else _Periodic
    output = kind(relation, rows, windows, newest)
    answered = [instant for instant in output.instants() if _is_asked(relation, instant)]
    answers = []
    for instant in answered:
        if relation.after is not None and instant <= relation.after:
            continue
        for row, sign in output.at(instant, is_first=instant == answered[0]):
            answers.append(columns.row(instant, row, sign))
    return Answer(columns.names, columns.types, answers)


def held_from_to(
    every: Instants, windows: Iterable[Row], newest: int, begin: int = EVER_BEFORE, stop: int = FOREVER
) -> tuple[int, int]:
    """The first and the last instant from `begin` to `stop` at which a window holds an event. What never leaves is held
    until the first instant after the newest event."""
    first, last = FOREVER, EVER_BEFORE
    for row in windows:
        sees = max(every.after(row.start), every.after(begin - 1))
        leaves = max(sees, every.after(newest)) if row.held_until == FOREVER else every.until(row.held_until)
        leaves = min(leaves, every.until(stop))
        if row.start < row.held_until and sees <= leaves:
            first, last = min(first, sees), max(last, leaves)
    return first, last


def _is_asked(relation: Relation, instant: int) -> bool:
    """Whether the query entered before the window and leaves after it."""
    return _begin(relation) <= instant <= _stop(relation)


def _begin(relation: Relation) -> int:
    return EVER_BEFORE if relation.start is None else relation.start + (relation.longest or 0)


def _stop(relation: Relation) -> int:
    return FOREVER if relation.stop is None else relation.stop


class _Columns:
    """The columns of an answer."""

    def __init__(self, relation: Relation) -> None:
        root = relation.root
        self.longest, self.width = relation.longest, len(relation.names)
        self.has_lives = not is_aggregates(root)
        self.is_strict = is_strict(root)
        self.shift = 1 if comes_at_instants(root) else 0
        self.has_sign = self.has_lives and self.is_strict and relation.output == "changes"
        items = [type_ for _, type_ in root.columns[: self.width]]
        lives, sign = ("inserted_at", "expires_at") if self.has_lives else (), ("sign",) if self.has_sign else ()
        self.names = (*WINDOW_COLUMNS, *relation.names, *lives, *sign)
        self.types = (TIMESTAMP, TIMESTAMP, *items, *(TIMESTAMP for _ in lives), *(INT for _ in sign))

    def row(self, instant: int, row: Row, sign: int) -> tuple[Any, ...]:
        start = None if self.longest is None else instant - self.longest
        shown = (start, instant, *row.values[: self.width])
        if self.has_lives:
            end = None if self.is_strict or row.end == FOREVER else row.end + self.shift
            shown = (*shown, row.start + self.shift, end)
        return (*shown, sign) if self.has_sign else shown


class _Output(ABC):
    def __init__(self, relation: Relation, rows: list[Row], windows: list[Row], newest: int) -> None:
        self.relation, self.newest = relation, newest
        self.first, self.last = self.holding(windows)
        self.has_total = has_total(relation.root)
        self.rows = [self._until_last(row) for row in rows if self._is_within(row)] if self.has_total else rows

    @abstractmethod
    def holding(self, windows: list[Row]) -> tuple[int, int]:
        """The first and the last instant at which a window holds an event."""

    @abstractmethod
    def instants(self) -> Sequence[int]:
        """The times at which something may be emitted."""

    @abstractmethod
    def at(self, instant: int, *, is_first: bool) -> list[SignedRow]: ...

    @abstractmethod
    def _is_within(self, row: Row) -> bool:
        """Whether the row comes before the last instant is over."""

    def _until_last(self, row: Row) -> Row:
        return row if row.end == FOREVER else replace(row, end=min(row.end, self.last))

    def item(self, row: Row) -> tuple[Any, ...]:
        """What rows are compared by."""
        return one_value(row.values[: len(self.relation.names)])

    def new(self, there: list[Row], before: list[Row]) -> list[Row]:
        youngest_first = sorted(there, key=lambda row: (row.start, row.id), reverse=True)
        return self._less(youngest_first, before)

    def gone(self, there: list[Row], before: list[Row]) -> list[Row]:
        left = [row for row in before if not any(row is other for other in there)]
        stayed = [row for row in before if any(row is other for other in there)]
        return self._less([*sorted(left, key=lambda row: (row.start, row.id)), *stayed], there)

    def _less(self, rows: list[Row], others: list[Row]) -> list[Row]:
        """As many of the rows of each value as there are more than others, the first of them."""
        surplus = Counter(map(self.item, rows)) - Counter(map(self.item, others))
        more = []
        for row in rows:
            if surplus[self.item(row)] > 0:
                surplus[self.item(row)] -= 1
                more.append(row)
        return more

    def ordered(self, rows: Iterable[Row]) -> list[Row]:
        """By ORDER BY, then as they came."""
        in_order = sorted(rows, key=lambda row: (row.start, row.id))
        for expr, descending, nulls_first in reversed(self.relation.order_by):
            values = values_of(expr, self.relation.root.columns, [row.values for row in in_order])
            by = [sort_key(value, nulls_low=nulls_first != descending) for value in values]
            in_order = [in_order[i] for i in sorted(range(len(in_order)), key=by.__getitem__, reverse=descending)]
        return in_order

    def result(self, rows: Iterable[Row]) -> list[Row]:
        return self.ordered(rows)[: self.relation.limit]

    def stream(self, there: list[Row], before: list[Row], restored: Sequence[Row]) -> list[SignedRow]:
        match self.relation.output:
            case "rstream" | "wstream":
                streamed = [*there, *restored]
            case "istream":
                streamed = [*self.new(there, before), *restored]
            case _:
                assert self.relation.output == "dstream", self.relation.output
                streamed = self.gone(there, before)
        return [(row, 1) for row in self.ordered(streamed)]


class _Periodic(_Output):
    @property
    def every(self) -> Instants:
        assert self.relation.slide is not None
        return Instants(self.relation.slide, self.relation.offset)

    def holding(self, windows: list[Row]) -> tuple[int, int]:
        return held_from_to(self.every, windows, self.newest, _begin(self.relation), _stop(self.relation))

    def _is_within(self, row: Row) -> bool:
        first, last = self.every.after(row.start), self.every.until(row.end)
        return self.first <= max(first, last) and first <= self.last

    def instants(self) -> Sequence[int]:
        """From the first that sees a row to the last that sees one, and one more to tell that it is gone. Rows that
        never end are seen as long as a window holds an event, and at least until the first instant after the newest."""
        if not self.rows:
            return ()
        seen = [self.every.after(row.start) for row in self.rows]
        ends = [row.end for row in self.rows if row.end < FOREVER]
        last = [*seen, *map(self.every.until, ends), self.every.after(self.newest), self.last]
        if self.relation.output == "dstream":
            last += map(self.every.after, ends)
        return self.every.between(min(seen), max(last))

    def at(self, instant: int, *, is_first: bool) -> list[SignedRow]:
        slide = self.every.slide
        before = [] if is_first else self._seen(instant - slide)
        entered = self.relation.start is None or instant - slide >= _begin(self.relation)
        between = [row for row in self.rows if entered and instant - slide <= row.start and row.end < instant]
        return self.stream(self._seen(instant), before, between if self.relation.restore else ())

    def _seen(self, instant: int) -> list[Row]:
        return self.result(row for row in self.rows if row.lives_at(instant - 1))


class _Continuous(_Output):
    def holding(self, windows: list[Row]) -> tuple[int, int]:
        """The first moment, and the one at which the last event leaves."""
        begin, stop = _begin(self.relation), _stop(self.relation)
        asked = [(max(row.start, begin), min(row.held_until, stop + 1)) for row in windows]
        spans = [(start, end) for start, end in asked if start < end]
        return min((start for start, _ in spans), default=FOREVER), max((end for _, end in spans), default=EVER_BEFORE)

    def _is_within(self, row: Row) -> bool:
        return self.first < row.end and row.start < self.last

    def instants(self) -> Sequence[int]:
        first = self.first if self.has_total else EVER_BEFORE
        changes = {time for row in self.rows for time in (row.start, row.end) if first <= time < FOREVER}
        if self._enters_at is not None and first <= self._enters_at:
            changes.add(self._enters_at)
        return sorted(changes)

    @property
    def _enters_at(self) -> int | None:
        """When the query enters, where that matters: all that is there then has just come."""
        if self._is_signed and self.relation.after is not None:
            return self.relation.after + 1
        tells_changes = self._is_signed or self.relation.output in ("istream", "dstream")
        return _begin(self.relation) if tells_changes and self.relation.start is not None else None

    @property
    def _is_signed(self) -> bool:
        root = self.relation.root
        return self.relation.output == "changes" and is_strict(root) and not is_aggregates(root)

    def at(self, instant: int, *, is_first: bool) -> list[SignedRow]:
        if self.relation.output == "changes":
            return self._changes(instant)
        there = self.result(row for row in self.rows if row.lives_at(instant))
        there_before = () if instant == self._enters_at else self.rows
        before = self.result(row for row in there_before if row.lives_at(instant - 1))
        return self.stream(there, before, ())

    def _changes(self, instant: int) -> list[SignedRow]:
        """The rows that come; and those that end, where they did not say when."""
        if instant == self._enters_at:
            return [(row, 1) for row in self.ordered(row for row in self.rows if row.lives_at(instant))]
        changed = [row for row in self.rows if row.start == instant or (self._is_signed and row.end == instant)]
        return [(row, 1 if row.start == instant else -1) for row in self.ordered(changed)]
