"""Random relations that change, and the deltas by which operators learn of them in random steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from mullion.instants import EVER_BEFORE, FOREVER, THE_END
from mullion.operators.timed_rows import Delta, Retractions, TimedRows

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[T]], T]


@dataclass(frozen=True)
class Life:
    """A row of a relation: its values, from when to when it is there, and the end that it promised when it came."""

    values: tuple[Any, ...]
    start: int
    end: int
    promise: int
    id: int = 0


def one(*values: Any, at: tuple[int, int], promise: int | None = None, id: int = 0) -> Life:
    return Life(values, *at, at[1] if promise is None else promise, id)


@st.composite
def relations(draw: Draw[Any], values: st.SearchStrategy[tuple[Any, ...]], most: int = 16) -> list[Life]:
    """Rows of various lives. Some promised longer ones than they have, some never end."""
    found = []
    for number in range(draw(st.integers(0, most))):
        start = draw(st.integers(-5, 30))
        end = draw(st.sampled_from((start + 1, start + 3, start + 10, start + 17, FOREVER)))
        promise = draw(st.sampled_from((end, end, max(end, start + 20), FOREVER)))
        found.append(Life(draw(values), start, end, promise, number))
    return found


steps = st.lists(st.integers(-6, 60), max_size=6).map(lambda nows: [*sorted(set(nows)), THE_END])
"""Up to when things become known, one step after the other."""


def deltas(rows: Sequence[Life], schema: pa.Schema, nows: Sequence[int]) -> list[Delta]:
    """What becomes known of the rows in each step."""
    found, before = [], EVER_BEFORE
    for now in nows:
        fresh = [row for row in rows if before <= row.start < now]
        gone = [row for row in rows if row.start < before <= row.end < now and row.end < row.promise]
        ends = [row.end if row.end < now else row.promise for row in fresh]
        columns = zip(*(row.values for row in fresh), strict=True) if fresh else [()] * len(schema)
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
        lives = TimedRows(
            pa.table(arrays, schema=schema),
            np.array([[row.id] for row in fresh], np.int64).reshape(-1, 1),
            np.array([row.start for row in fresh], np.int64),
            np.array(ends, np.int64),
        )
        left = Retractions(
            np.array([[row.id] for row in gone], np.int64).reshape(-1, 1), np.array([row.end for row in gone], np.int64)
        )
        found.append(Delta(lives, left, now))
        before = now
    return found


@dataclass
class Source:
    """What stands for the operator below."""

    schema: pa.Schema
    width: int = 1


def lives_of(found: Sequence[Delta]) -> list[tuple[Any, ...]]:
    """Values, start and end of all rows that deltas told of, in the order in which they came."""
    rows: dict[tuple[int, ...], list[Any]] = {}
    for delta in found:
        for i, values in enumerate(zip(*(c.to_pylist() for c in delta.fresh.rows.columns), strict=True)):
            key = tuple(delta.fresh.ids[i].tolist())
            assert key not in rows, "ids tell rows apart"
            assert delta.fresh.start[i] < delta.now, "rows start before now"
            rows[key] = [*values, int(delta.fresh.start[i]), int(delta.fresh.end[i])]
        for ids, at in zip(delta.retracted.ids.tolist(), delta.retracted.at.tolist(), strict=True):
            assert rows[tuple(ids)][-2] < at < rows[tuple(ids)][-1], "a row that is there ends earlier than it promised"
            rows[tuple(ids)][-1] = at
    return [tuple(row) for row in rows.values()]
