"""Relations that change, told to operators in steps, and what operators tell, as lifetimes; with the rules of a Delta
checked on both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from mullion.algebra.nodes import Scan
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.language.query import Window
from mullion.language.types import DOUBLE, INT
from mullion.operators.base import Operator
from mullion.operators.timed_rows import Delta, Retractions, TimedRows

SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.float64())])
TIMED = Scan("s", Window(range=10), (("k", INT), ("v", DOUBLE)))
COUNTED = Scan("s", Window(rows=3, slide_rows=1), (("k", INT), ("v", DOUBLE)))
"""A weakest and a strict input; what they give is drawn at random all the same."""

Values = tuple[Any, ...]

DROPPED = 1_000_000
"""Rows numbered from here on are told to be gone and never came."""


@dataclass(frozen=True)
class Row:
    """A row with the end that it promises and the one that it comes to."""

    id: int
    values: Values
    start: int
    end: int
    promised: int


class Told(Operator):
    """An operator in name only: the tests tell what it would."""

    def __init__(self, schema: pa.Schema = SCHEMA, width: int = 1) -> None:
        self.schema, self.width = schema, width

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        raise AssertionError("it is not asked")


def rows_of(*lives: tuple[Values, int, int], strict: bool = False) -> list[Row]:
    """Rows by value, start and end, numbered as they come; strict ones promise nothing."""
    return [Row(i, values, start, end, FOREVER if strict else end) for i, (values, start, end) in enumerate(lives)]


def by_negative_tuples(rows: Sequence[Row]) -> list[Row]:
    """The same, as a plan of negative tuples has it: no row promises an end."""
    return [Row(row.id, row.values, row.start, row.end, FOREVER) for row in rows]


def delta(rows: Sequence[Row], before: int, now: int, schema: pa.Schema = SCHEMA) -> Delta:
    """What becomes known of rows between two times, also of some that a filter has dropped: these never came."""
    fresh = [row for row in rows if before <= row.start < now]
    gone = [row for row in rows if row.start < before <= row.end < now and row.end < row.promised]
    columns = list(zip(*(row.values for row in fresh), strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    lives = TimedRows(
        pa.Table.from_arrays(arrays, schema=schema),
        np.array([[row.id] for row in fresh], np.int64).reshape(-1, 1),
        np.array([row.start for row in fresh], np.int64),
        np.array([row.end if row.end < now else row.promised for row in fresh], np.int64),
    )
    ids = np.array([[number] for row in gone for number in (row.id, row.id + DROPPED)], np.int64).reshape(-1, 1)
    return Delta(lives, Retractions(ids, np.array([row.end for row in gone for _ in range(2)], np.int64)), now)


Life = tuple[Values, int, int]


class Heard:
    """What an operator told so far."""

    def __init__(self) -> None:
        self.before = EVER_BEFORE
        self._lives: dict[tuple[int, ...], tuple[Values, int, int]] = {}
        self._gone: set[tuple[int, ...]] = set()

    def hear(self, told: Delta) -> None:
        known = set(self._lives)
        columns = [column.to_pylist() for column in told.fresh.rows.columns]
        values = list(zip(*columns, strict=True)) if columns else [()] * len(told.fresh)
        assert told.fresh.ids.shape == (len(told.fresh), told.retracted.ids.shape[1])
        for n, (start, end) in enumerate(zip(told.fresh.start.tolist(), told.fresh.end.tolist(), strict=True)):
            key = tuple(told.fresh.ids[n].tolist())
            assert key not in self._lives, "ids are of one row only"
            assert self.before <= start < told.now and start < end
            self._lives[key] = (values[n], start, end)
        for numbers, at in zip(told.retracted.ids.tolist(), told.retracted.at.tolist(), strict=True):
            key = tuple(numbers)
            assert key in known and key not in self._gone, "only rows of earlier deltas go, and once"
            value, start, promised = self._lives[key]
            assert self.before <= at < told.now and start < at < promised
            self._gone.add(key)
            self._lives[key] = (value, start, at)
        self.before = told.now

    @property
    def lives(self) -> list[Life]:
        return sorted(self._lives.values(), key=repr)

    def alive(self, at: int) -> int:
        return sum(start < at <= end for _, start, end in self._lives.values())


def play(
    make: Callable[[], Operator],
    inputs: Sequence[Sequence[Row]],
    times: Sequence[int],
    *,
    restarts: bool = False,
    schema: pa.Schema = SCHEMA,
    watch: Callable[[Operator, Heard], None] = lambda operator, heard: None,
) -> list[Life]:
    """Tell an operator of its inputs in steps that end at some times, and what lives it tells."""
    operator, heard, before = make(), Heard(), EVER_BEFORE
    for now in times:
        heard.hear(operator.advance([delta(rows, before, now, schema) for rows in inputs], now))
        watch(operator, heard)
        before = now
        if restarts:
            parts = operator.parts()
            operator = make()
            operator.restore(parts)
    return heard.lives


VALUES = st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, 0.0, float("nan")]))


@st.composite
def relations(draw: st.DrawFn, *, strict: bool, values: st.SearchStrategy[Values] = VALUES) -> list[Row]:
    """Rows in the order of their starts, some of which end before they promise when it is a strict relation."""
    lives = draw(st.lists(st.tuples(values, st.integers(0, 20), st.integers(0, 12), st.integers(0, 12)), max_size=14))
    rows = []
    for number, (value, start, length, longer) in enumerate(sorted(lives, key=lambda life: life[1])):
        promised = start + length + longer if strict else start + length
        if draw(st.booleans()) and strict:
            promised = FOREVER
        end = promised if length == 12 and not strict else start + length
        rows.append(Row(number, value, start, end, promised))
    return rows


STEPS = st.sets(st.integers(1, 50), max_size=12).map(lambda cuts: [*sorted(cuts), 60])


def canonical(values: Values) -> Values:
    """Values by which equal rows are equal: as DISTINCT has it."""
    return tuple(None if v is None else "nan" if v != v else v + 0 for v in values)


def same(lives: Sequence[Life]) -> list[tuple[Any, ...]]:
    """Lives that can be compared, NaNs and all."""
    return sorted(((canonical(values), start, end) for values, start, end in lives), key=repr)
