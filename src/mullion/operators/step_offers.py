"""What new rows of a join could meet in one step, found out once for all promising joins of its shape.

    new rows of input 0 --meet--> what was there of 1 before the step
    new rows of input 1 --meet--> what is there of 0, with the new rows

| asked by a promising join | found when it is first asked for |
|---|---|
| does all of it fit? | how many pairs there are at the most, by keys alone |
| all of it | the pairs, and the rows that they become, with the columns that any of the joins reads |
| entries for its agenda | how many rows each new one meets in each granularity, and between which numbers these came |

A join that entered while rows were there already sees those that came since. What it finds out is shared with those
that entered with it; once the rows of before have left, with all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from mullion.algebra.column_names import names_in
from mullion.algebra.nodes import Join, Promising
from mullion.algebra.nodes.promising import ESTIMATE
from mullion.expressions.arrays import Codes, Index, Times
from mullion.kernels.columns import BatchColumns
from mullion.language.query import Expr
from mullion.language.types import BIGINT
from mullion.operators.agenda import Entries
from mullion.operators.bad_values import BadConditions
from mullion.operators.expressions import is_true
from mullion.operators.gathering import gathered
from mullion.operators.join_probe import Combinations, count_met, extended, probe
from mullion.operators.kernels.join import common_runs, distance
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.promise_memory import size_of
from mullion.operators.promise_offers import NUMBER, number_of, numbers_of, promise_value
from mullion.operators.promise_orders import faded, promises
from mullion.operators.row_store import RowStore
from mullion.operators.sub_windows import SubWindows
from mullion.operators.timed_rows import TimedRows

Since = tuple[int, int]
"""From which numbers on the rows of each input came that a join sees."""


@dataclass(frozen=True)
class OfferedPairs:
    """Pairs of new rows of input `side` with rows of the other."""

    side: int
    own: KeyedSubWindow
    combinations: Combinations


class Residual:
    """What is asked of pairs beyond equal keys."""

    def __init__(self, join: Join) -> None:
        self.predicate, self._types, self._bad = join.residual, join.types, BadConditions(join.residual, join)
        self.names = [] if self.predicate is None else sorted(names_in(self.predicate))

    def passing(self, timed: TimedRows) -> tuple[Index, int]:
        """The pairs for which it is true, and how many bad values were met."""
        assert self.predicate is not None
        return np.flatnonzero(is_true(self.predicate, timed, self._types)), self._bad.among(timed)


@dataclass(frozen=True)
class WholeStep:
    """All that a step has to tell, as rows, for those who ask for the same residual."""

    found: list[OfferedPairs]
    rows: TimedRows
    """Those of all that was found, one after the other."""
    met: int
    """Pairs before the residual was looked at."""
    apart: float
    """The microseconds between the two rows of each pair, together."""
    bad: int


@dataclass(frozen=True)
class _Counted:
    """What new rows of an input meet, without what that promises: this is for each join to say."""

    entries: Entries
    row: Index
    grain: Index
    columns: BatchColumns
    """Of the new rows, with the estimate."""


class StepOffers:
    def __init__(
        self,
        schema: pa.Schema,
        stores: Sequence[RowStore],
        fresh: Sequence[KeyedSubWindow | None],
        met: Sequence[SubWindows],
        came: Since,
        new: Since,
        before: int,
    ) -> None:
        """`schema`: the columns that any of the joins reads. `met[i]`: what new rows of input i may meet. `came` and
        `new`: how many rows of each input had come before the step, and how many in it. It was `before` then."""
        self.names, self.stores, self.fresh, self.met = schema.names, stores, fresh, met
        self._nothing = TimedRows.empty(schema, sum(store.width for store in stores))
        self.came, self.new, self.before = came, new, before
        self.seconds = 0.0
        """How long it took to put the new rows in order."""
        self._found: dict[Since, list[OfferedPairs]] = {}
        self._whole: dict[tuple[Expr | None, Since], WholeStep] = {}
        self._counted: dict[tuple[int, tuple[int, ...], Since], _Counted] = {}

    # How much there is

    @cached_property
    def at_most(self) -> int:
        """How many pairs new rows make at the most, whatever their keys."""
        both = zip(self.fresh, self.met, strict=True)
        return sum(len(own) * met.rows_held for own, met in both if own is not None)

    @cached_property
    def with_equal_keys(self) -> int:
        """How many they make by their keys, whether they live at the same time or not."""
        total = 0
        for new, others in zip(self.fresh, self.met, strict=True):
            for other in others.windows if new is not None else ():
                assert new is not None
                own, stored = common_runs(new.runs, other.runs)
                total += int((np.diff(new.runs.first)[own] * np.diff(other.runs.first)[stored]).sum())
        return total

    @property
    def pairs(self) -> int | None:
        """How many there are for those who see all rows; None where nobody asked."""
        if (0, 0) in self._found:
            return sum(len(found.combinations) for found in self._found[0, 0])
        first = {i: own for (i, _, since), own in self._counted.items() if since == (0, 0)}
        new = [i for i, own in enumerate(self.fresh) if own is not None]
        return sum(int(first[i].entries.pairs.sum()) for i in new) if first.keys() >= {*new} else None

    @property
    def size(self) -> int:
        """The bytes of the rows that are kept."""
        return sum(map(size_of, self.stores))

    def _seen(self, since: Since) -> Since:
        """From which numbers on a join sees rows: from the first one on where it sees all that can be met."""
        oldest = [min((_oldest(window) for window in met.windows), default=None) for met in self.met]
        first, second = (of is None or number <= of for of, number in zip(oldest[::-1], since, strict=True))
        return (0, 0) if first and second else since

    # All of it

    def whole(self, residual: Residual, since: Since) -> WholeStep:
        """All pairs that pass a residual, as rows."""
        asked = residual.predicate, self._seen(since)
        if asked not in self._whole:
            self._whole[asked] = self._all_of_it(residual, asked[1])
        return self._whole[asked]

    def _all_of_it(self, residual: Residual, since: Since) -> WholeStep:
        if since not in self._found:
            self._found[since] = [found for i in (0, 1) for found in self._pairs(i, since[1 - i])]
        passing, rows, met, apart, bad = [], [], 0, 0.0, 0
        for found in self._found[since]:
            other = self.met[found.side]
            some, count = self.passing(found, other, residual)
            met += len(found.combinations)
            bad += count
            if len(some.combinations):
                passing.append(some)
                rows.append(self.timed(some, other, self.names))
                apart += self.apart(some, other)
        whole = TimedRows.concat([*rows, *([] if rows else [self._nothing])])
        return WholeStep(passing, whole, met, apart, bad)

    def _pairs(self, i: int, since: int) -> Iterator[OfferedPairs]:
        """Rows that a join below tells late meet what is there: not what had ended before the step."""
        own, other = self.fresh[i], self.met[i]
        if own is None:
            return
        probing = Combinations.of(i, own)
        for pairs in probe(probing, other, before_cuts=False):
            some = extended(probing, pairs, 1 - i, is_last=True)
            if own.start.min() < self.before:
                some = some.take(np.flatnonzero(some.end > self.before))
            if since:
                some = some.take(np.flatnonzero(numbers_of(other.windows)[some.at[1 - i]] >= since))
            yield OfferedPairs(i, own, some)

    # Pairs as rows

    def passing(self, found: OfferedPairs, other: SubWindows, residual: Residual) -> tuple[OfferedPairs, int]:
        """The pairs that pass a residual, and how many bad values it met."""
        if residual.predicate is None or not len(found.combinations):
            return found, 0
        index, bad = residual.passing(self.timed(found, other, residual.names))
        return replace(found, combinations=found.combinations.take(index)), bad

    def timed(self, found: OfferedPairs, other: SubWindows, names: Sequence[str]) -> TimedRows:
        places = {name: (int(name[0]), name[2:]) for name in names}
        widths, combinations = [store.width for store in self.stores], found.combinations
        rows, ids = gathered(found.side, found.own, combinations, {1 - found.side: other}, widths, places)
        return TimedRows(rows, ids, combinations.start, combinations.end)

    def apart(self, found: OfferedPairs, other: SubWindows) -> float:
        """The microseconds between the two rows of each pair, together."""
        i, at = found.side, found.combinations.at
        return distance(found.own.start, at[i], other.starts(), at[1 - i])

    # Entries

    def entries(self, node: Promising, i: int, since: Since) -> Entries:
        """What new rows of input i offer a join."""
        fresh = self.fresh[i]
        if fresh is None:
            return Entries.none()
        ages, seen = node.fading_ages(1 - i), self._seen(since)
        known = self._counted.get((i, ages, seen))
        if known is None:
            known = self._counted[i, ages, seen] = self._count(i, fresh, np.array(ages, np.int64), seen[1 - i])
        value = promise_value(node, i, fresh.rows, known.columns).take(known.row)
        return replace(known.entries, promise=faded(promises(node.order, value), node.fade, known.grain))

    def _count(self, i: int, fresh: KeyedSubWindow, ages: Times, since: int) -> _Counted:
        other = [some for window in self.met[i].windows if (some := _came_since(window, since)) is not None]
        start = np.maximum(fresh.start, self.before)
        combinations = replace(Combinations.of(i, fresh), start=start)
        counts = np.zeros((len(fresh), len(ages) + 1), np.int64)
        for window in other:
            counts += count_met(combinations, window, ages)
        row, grain = np.nonzero(counts)
        until = self.came[0] + self.new[0] if i else self.came[1]
        limits = _limits(SubWindows(other), start[row], ages, (since, until))
        columns, at = BatchColumns(len(fresh)), np.arange(len(row))
        columns.add(ESTIMATE, pa.array(counts.sum(axis=1)), BIGINT)
        entries = Entries(
            np.full(len(row), i, np.int64),
            number_of(fresh)[row],
            limits[grain + 1, at],
            limits[grain, at],
            np.zeros(len(row)),
            counts[row, grain],
            fresh.start[row],
            fresh.meets[row],
            fresh.keys.codes[row],
        )
        return _Counted(entries, row, grain, columns)


def _oldest(window: KeyedSubWindow) -> int:
    """The least number of its rows."""
    if "oldest" not in window.memo:
        window.memo["oldest"] = int(number_of(window).min())
    found: int = window.memo["oldest"]
    return found


def _came_since(window: KeyedSubWindow, since: int) -> KeyedSubWindow | None:
    """Of a sub-window the rows from a number on, with their keys and lives alone."""
    if since <= _oldest(window):
        return window
    name = f"since {since}"
    if name not in window.memo:
        some = np.flatnonzero(number_of(window) >= since)
        timed = window.timed.with_rows(window.timed.rows.select([NUMBER]))
        window.memo[name] = KeyedSubWindow.of(timed.take(some), window.keys.take(some)) if len(some) else None
    found: KeyedSubWindow | None = window.memo[name]
    return found


def _limits(other: SubWindows, start: Times, ages: Times, between: Since) -> Codes:
    """For rows that start at some times, the numbers between which the rows of the other input came that each
    granularity holds then, the youngest granularity first; all of them within two numbers."""
    since, until = between
    limits = np.full((len(ages) + 2, len(start)), since, np.int64)
    limits[0] = until
    if len(ages) and len(start):
        number = numbers_of(other.windows)
        order = np.argsort(number)
        began = other.starts()[order]
        number = np.append(number[order], until)
        for grain, age in enumerate(ages.tolist()):
            limits[grain + 1] = number[np.searchsorted(began, start - age, "right")]
    return limits
