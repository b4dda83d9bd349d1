"""Rows with lifetimes: what flows between operators.

A row is in its relation from its start until its end, half-open, in microseconds of event time. An event of
[RANGE r] lives from ts until ts + r. A join's row lives as long as all its parts do: from the latest start until the
earliest end (golab 2.3.2).

    operator --Delta up to `now`--> operator        everything before `now` is known; nothing of it comes later

A Delta tells what became known between the `now` before and this one:

- `fresh`: rows that started in that time, with the end that they promise. FOREVER: not known, or never.
- `retracted`: rows of earlier deltas that end in that time, earlier than they promised (negative tuples). A row that
  starts and ends within one delta is simply fresh with its right end. A row whose promised end has come just leaves. A
  retraction of a row that an operator never saw, because a filter below dropped it, is passed over.
- `released`: rows of earlier deltas that INTERNAL windows hold no more, earlier than they promised.

Continuous and periodic queries see the same lives: at an instant t a query with SLIDE sees what lives just before it,
the rows with start < t <= end; this is exactly t - r <= ts < t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Ids, Index, Mask, Times, Whole
from mullion.expressions.coding.dictionary import decoded
from mullion.expressions.readonly import frozen
from mullion.kernels.columns import BatchColumns
from mullion.operators.kernels.time_order import is_in_time_order
from mullion.operators.missing import Missing

if TYPE_CHECKING:
    from mullion.operators.join_synopsis import StepAnswers
    from mullion.operators.step_offers import StepOffers


@dataclass(frozen=True)
class TimedRows:
    """Rows with their lifetimes.

    `ids` tells rows apart, also those of equal values: n x k numbers. An event has the number that it has in its stream
    (k = 1); a row of a join the numbers of its parts side by side.
    """

    rows: pa.Table
    ids: Ids
    start: Times
    end: Times
    held_until: Times | None = None
    """Until when its windows hold the row. INTERNAL windows let go of rows that stay in results (golab 3.3.2): in a
    join a row meets others while it is held, and aggregates are over what is held. None: until its end."""

    def __len__(self) -> int:
        return len(self.start)

    def with_rows(self, rows: pa.Table) -> TimedRows:
        """The same lives with other columns."""
        return TimedRows(rows, self.ids, self.start, self.end, self.held_until)

    def take(self, index: Index | Mask) -> TimedRows:
        if index.dtype == np.bool_:
            index = np.flatnonzero(index)
        held = None if self.held_until is None else self.held_until.take(index)
        ids, start, end = self.ids.take(index, axis=0), self.start.take(index), self.end.take(index)
        return TimedRows(self.rows.take(pa.array(index)), ids, start, end, held)

    def lasting(self) -> TimedRows:
        """The rows that are there at any time, until they end, whether windows hold them or not."""
        lasts = self.start < self.end
        rows = self if lasts.all() else self.take(lasts)
        return rows if rows.held_until is None else replace(rows, held_until=None)

    def without_dictionaries(self) -> TimedRows:
        rows = decoded(self.rows)
        return self if rows is self.rows else self.with_rows(rows)

    @cached_property
    def decoded(self) -> BatchColumns:
        """Where the columns of these rows, and what is computed of them, are kept for all operators above."""
        return BatchColumns(len(self))

    @cached_property
    def memo(self) -> dict[str, Any]:
        """The same for what is no expression."""
        return {}

    @staticmethod
    def empty(schema: pa.Schema, width: int) -> TimedRows:
        nothing = np.zeros(0, np.int64)
        return TimedRows(schema.empty_table(), np.zeros((0, width), np.int64), nothing, nothing)

    @staticmethod
    def concat(parts: Sequence[TimedRows]) -> TimedRows:
        """Rows of several, which have the same columns."""
        if len(parts) == 1:
            return parts[0]
        held = [part.end if part.held_until is None else part.held_until for part in parts]
        return TimedRows(
            pa.concat_tables([part.rows for part in parts]).unify_dictionaries(),
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.end for part in parts]),
            None if all(part.held_until is None for part in parts) else np.concatenate(held),
        )


@dataclass(frozen=True)
class Retractions:
    """Rows that end before they promised, by their ids, and when."""

    ids: Ids
    at: Times

    def __len__(self) -> int:
        return len(self.at)

    @staticmethod
    def none(width: int) -> Retractions:
        return Retractions(np.zeros((0, width), np.int64), np.zeros(0, np.int64))

    @staticmethod
    def concat(parts: Sequence[Retractions]) -> Retractions:
        return Retractions(np.concatenate([p.ids for p in parts]), np.concatenate([p.at for p in parts]))


@dataclass(frozen=True)
class Delta:
    """What became known of a relation up to `now`."""

    fresh: TimedRows
    retracted: Retractions
    now: int
    released: Retractions | None = None
    """Rows of earlier deltas that INTERNAL windows hold no more, earlier than they promised. They do not end."""
    missing: Missing | None = None
    """Of a relation that tells a part of itself, when rows are missing as far as is known now. None: never."""
    spent: float = 0.0
    """How much of the budget of a promising join was taken to make it, in the unit of that."""
    offers: StepOffers | None = None
    """What a step offers promising joins, where this is their input."""
    probed: StepAnswers | None = None
    """What a synopsis answers in a step, where this is the input of aggregates over a join."""

    def as_held(self) -> Delta:
        """As if INTERNAL windows were external: rows end when they are let go."""
        fresh = self.fresh
        if fresh.held_until is not None:
            fresh = TimedRows(fresh.rows, fresh.ids, fresh.start, fresh.held_until)
        retracted = self.retracted if self.released is None else Retractions.concat([self.retracted, self.released])
        return Delta(fresh, retracted, self.now, missing=self.missing, probed=self.probed)


def in_time_order(start: Times, ids: Ids) -> Index | None:
    """The order by start, then ids; None when that is how they stand.

    >>> in_time_order(np.array([5, 5, 3]), np.array([[1, 9], [1, 2], [7, 7]])).tolist()
    [2, 1, 0]
    """
    if len(start) < 2 or is_in_time_order(*frozen(start, ids)):
        return None
    key = _in_one_number((start, *ids.T))
    return np.lexsort((*ids.T[::-1], start)) if key is None else np.argsort(key, kind="stable")


def _in_one_number(columns: Sequence[Whole]) -> Whole | None:
    """Numbers in the order of rows of numbers, the first of which matters most; None where they would be too large.
    One number is sorted several times sooner than a row of them."""
    key, bits = np.zeros(len(columns[0]), np.int64), 0
    for column in columns:
        low = int(column.min())
        width = (int(column.max()) - low).bit_length()
        bits += width
        if bits > MOST_BITS:
            return None
        key = (key << width) | (column - low)
    return key


MOST_BITS = 63
"""Of a number without a sign."""
