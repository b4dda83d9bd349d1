"""Aggregates over relations that change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from by_slices import bind
from lives_in_steps import Life, Source, deltas, lives_of, one, relations, steps
from mullion.algebra.nodes import Aggregated, Scan
from mullion.algebra.streams import Stream
from mullion.expressions.vector import Vector, arrow_type
from mullion.instants import FOREVER, THE_END
from mullion.language.parse import parse_query
from mullion.language.query import Window
from mullion.language.types import BIGINT, DOUBLE, STRING, TIMESTAMP
from mullion.operators import grouped
from mullion.operators.aggregated import AggregatedOperator
from mullion.reference.aggregates import aggregate, canonical_value
from mullion.reference.expressions import contribution, value
from mullion.storage.files import serialised

S = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("n", BIGINT), ("x", DOUBLE)), "ts")
SCAN = Scan("s", Window(range=10, slide=5), S.columns)
SCHEMA = pa.schema([(name, arrow_type(type_)) for name, type_ in S.columns])


def aggregated(items: str, keys: str = "", slide: int | None = 5, offset: int = 0) -> Aggregated:
    """The aggregates of a query over the events."""
    group = f" GROUP BY {keys}" if keys else ""
    query = bind(parse_query(f"SELECT {items} FROM s [RANGE 10 us SLIDE 5 us]{group}"), {"s": S})
    keyed = tuple(zip(query.keys, query.template.keys, strict=True))
    return Aggregated(SCAN, keyed, query.template.aggregates, slide, offset)


def run(
    node: Aggregated, rows: Sequence[Life], nows: Sequence[int] = (THE_END,), *, restart: bool = False
) -> list[tuple[Any, ...]]:
    operator, found = AggregatedOperator(node, [Source(SCHEMA)]), []
    newest = max((life.start for life in rows), default=-100)
    for delta in deltas(rows, SCHEMA, nows):
        if restart:
            parts = operator.parts()
            saved = {name: [pa.ipc.open_stream(serialised(t)).read_all() for t in ts] for name, ts in parts.items()}
            operator = AggregatedOperator(node, [Source(SCHEMA)])
            operator.restore(saved)
        operator.newest = newest
        operator.widen(delta.fresh)
        found.append(operator.advance([delta], delta.now))
    return lives_of(found)


def row(n: int, at: tuple[int, int], k: str = "a", id: int = 0) -> Life:
    return one(at[0], k, n, float(n), at=at, id=id)


# By hand


def test_sums_over_the_last_five_events() -> None:
    """golab, Figure 3.2, external sliding: each sum replaces the one before."""
    numbers = [3, 5, 2, 8, 1, 4, 7]
    rows = [row(n, (i, i + 5 if i + 5 < len(numbers) else FOREVER), id=i) for i, n in enumerate(numbers)]
    sums = [3, 8, 10, 18, 19, 20, 22]
    expected = [(total, i, i + 1 if i < 6 else FOREVER) for i, total in enumerate(sums)]
    assert run(aggregated("sum(n) AS n", slide=None), rows) == expected
    assert run(aggregated("sum(n) AS n", slide=None), rows, [1, 2, 3, 4, 5, 6, 7, THE_END]) == expected


def test_a_row_at_every_instant_that_a_window_holds_an_event() -> None:
    rows = [row(3, (1, 6)), row(4, (21, 26), id=1)]
    expected = [(1, 3, 4, 9), (0, None, 9, 14), (0, None, 14, 19), (0, None, 19, 24), (1, 4, 24, 29)]
    assert run(aggregated("count(*) AS c, sum(n) AS n"), rows) == expected
    assert run(aggregated("count(*) AS c, sum(n) AS n"), rows, [10, 12, 21, THE_END]) == expected


def test_windows_that_hold_an_event_say_when_an_empty_group_is_there() -> None:
    operator = AggregatedOperator(aggregated("count(*) AS c"), [Source(SCHEMA)])
    (window,) = deltas([row(1, (3, 13))], SCHEMA, [THE_END])
    (nothing,) = deltas([], SCHEMA, [THE_END])
    operator.widen(window.fresh)
    assert lives_of([operator.advance([nothing], THE_END)]) == [(0, 4, 9), (0, 9, 14)]


def test_groups_are_there_while_they_have_rows() -> None:
    rows = [row(3, (1, 6), "a"), row(4, (2, 16), "b", id=1), row(5, (7, 11), "a", id=2)]
    node = aggregated("k, max(n) AS n", "k")
    assert run(node, rows) == [
        ("a", 3, 4, 9),
        ("b", 4, 4, 9),
        ("a", 5, 9, 14),
        ("b", 4, 9, 14),
        ("b", 4, 14, 19),
    ]
    assert run(replace(node, slide=None), rows) == [
        ("a", 3, 1, 6),
        ("b", 4, 2, 16),
        ("a", 5, 7, 11),
    ]


def test_a_row_stays_while_its_values_do() -> None:
    rows = [row(3, (1, 6)), row(3, (4, 9), id=1), row(2, (5, 8), id=2)]
    assert run(aggregated("k, max(n) AS n", "k", None), rows, [5, 6, 7, THE_END]) == [("a", 3, 1, 9)]


def test_what_can_be_subtracted_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(grouped.Grouped, "_parts")
    rows = [row(n, (n, n + 1000), id=n) for n in range(100)]
    assert len(run(aggregated("count(*) AS c, sum(n) AS n, avg(n) AS a"), rows)) == 219


def test_the_state_does_not_grow() -> None:
    operator = AggregatedOperator(aggregated("k, sum(n) AS n", "k"), [Source(SCHEMA)])
    for delta in deltas([row(1, (i, i + 10), id=i) for i in range(200)], SCHEMA, range(1, 200)):
        operator.advance([delta], delta.now)
        assert operator.rows_held <= 60


# At random

ITEMS = (
    "count(*) AS c, sum(n) AS s, avg(n) AS a, count(x) AS d",
    "min(k) AS l, max(x) AS m, sum(x) AS s",
    "count(DISTINCT n) AS d, median(n) AS m, top_k(k, 2) AS t, sum(DISTINCT n) AS s, count(DISTINCT k, n) AS b",
    "first(x) AS f, last(k) FILTER (WHERE n > 1) AS l, var_pop(n) AS v",
)
KEYS = ("", "k", "x", "k, n > 1")
events = st.tuples(
    st.just(0),
    st.sampled_from(("a", "b", None)),
    st.sampled_from((1, 2, -3, None)),
    st.sampled_from((0.0, -0.0, 0.25, 1.5, None, math.nan)),
)


def settled(value: Any) -> Any:
    """Doubles but for their last digits."""
    if isinstance(value, list):
        return [settled(tuple(v.values()) if isinstance(v, dict) else v) for v in value]
    if isinstance(value, tuple):
        return tuple(map(settled, value))
    return round(value, 9) + 0.0 if isinstance(value, float) and value == value else canonical_value(value)


def by_definition(node: Aggregated, rows: Sequence[Life]) -> list[tuple[Any, ...]]:
    """The rows of each instant or, continuously, of each time between two changes."""
    if not rows:
        return []
    found, finite = [], [row.end for row in rows if row.end < FOREVER]
    newest = max(row.start for row in rows)
    following: list[Life] = []
    if node.slide is not None:
        slide, offset = node.slide, node.offset
        first = min(row.start for row in rows)
        is_endless = len(finite) < len(rows)
        last = max([*finite, *([newest - (newest - offset) % slide + slide] if is_endless else [])])
        final = max(last, newest)
        instants = range(first - (first - offset) % slide, final - (final - offset) % slide + slide + 1, slide)
        snapshots = [(t - 1, t - 1 + slide, [row for row in rows if row.start < t <= row.end]) for t in instants]
        following = snapshots.pop()[2]
        if not node.keys:
            holding = [i for i, (t, _, there) in enumerate(snapshots) if there]
            passed = [i for i, (t, _, _) in enumerate(snapshots) if t < newest]
            snapshots = snapshots[holding[0] : max(holding[-1:] + passed[-1:]) + 1] if holding else []
    else:
        times = sorted({time for row in rows for time in (row.start, row.end) if time < FOREVER})
        spans = zip(times, [*times[1:], FOREVER], strict=True)
        snapshots = [(a, b, [row for row in rows if row.start <= a < row.end]) for a, b in spans]
        if not node.keys and not snapshots[-1][-1]:
            snapshots.pop()
    stays_on = {} if not following else dict(_groups(node, following))
    for start, end, there in snapshots:
        for key, values in _groups(node, there):
            stays = node.slide is not None and start == snapshots[-1][0] and stays_on.get(key) == values
            found.append((key, values, start, FOREVER if stays else end))
    return found


def _groups(node: Aggregated, there: Sequence[Life]) -> list[tuple[Any, Any]]:
    """Groups and their aggregates."""
    found = []
    groups: dict[tuple[Any, ...], list[dict[str, Vector]]] = {} if node.keys else {(): []}
    for life in sorted(there, key=lambda row: (row.start, row.id)):
        columns = {n: Vector.of(t, [v]) for (n, t), v in zip(S.columns, life.values, strict=True)}
        groups.setdefault(tuple(canonical_value(value(key, columns)) for key, _ in node.keys), []).append(columns)
    for key, members in groups.items():
        aggregates = [
            aggregate(bound, [v for columns in members for v in contribution(bound, columns)])
            for bound in node.aggregates
        ]
        found.append((key, settled(aggregates)))
    return found


def glued(pieces: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Pieces of the same group and values that touch, as one."""
    found: list[tuple[Any, ...]] = []
    for key, values, start, end in sorted(pieces, key=lambda piece: (repr(piece[0]), piece[2])):
        if found and (found[-1][0], found[-1][1], found[-1][3]) == (key, values, start):
            start = found.pop()[2]
        found.append((key, values, start, end))
    return found


@given(
    relations(events, most=10),
    st.sampled_from(ITEMS),
    st.sampled_from(KEYS),
    st.sampled_from(((5, 0), (3, 1), (None, 0))),
    steps,
    st.booleans(),
    st.sampled_from((2, 1_000_000)),
)
def test_groups_are_what_the_definitions_say(
    rows: list[Life], items: str, keys: str, slides: tuple[int | None, int], nows: list[int], restart: bool, most: int
) -> None:
    node = aggregated(items, keys, *slides)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped, "MOST_PAIRS", most)
        found = run(node, rows, _within(node, rows, nows), restart=restart)
    width = len(node.keys)
    mine = [(tuple(map(canonical_value, r[:width])), settled(list(r[width:-2])), r[-2], r[-1]) for r in found]
    expected = by_definition(node, rows)
    if node.slide is None:
        mine, expected = glued(mine), glued(expected)
        if not node.keys and rows and max(r.end for r in rows) < FOREVER:
            expected = [(*piece[:3], min(piece[3], max(r.end for r in rows))) for piece in expected]
    assert sorted(mine, key=repr) == sorted(expected, key=repr)
    assert repr(run(node, rows)) == repr(found), "steps and restarts do not matter"


def _within(node: Aggregated, rows: list[Life], nows: list[int]) -> list[int]:
    """What is known of a stream never reaches further than its newest event."""
    newest = max((row.start for row in rows), default=-100)
    return [now for now in nows if now <= newest or now == THE_END]
