"""What is told of a result at every instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lives_in_steps import Life, deltas, one, relations, steps
from mullion.algebra.nodes import Scan
from mullion.algebra.relation import Relation
from mullion.algebra.update_pattern import Pattern
from mullion.instants import FOREVER, THE_END
from mullion.language.query import Column, Window
from mullion.language.types import DOUBLE, STRING
from mullion.operators import emission
from mullion.operators.result import Result
from mullion.storage.files import serialised

COLUMNS = (("name", STRING), ("x", DOUBLE))
SCHEMA = pa.schema([("name", pa.string()), ("x", pa.float64())])
ROOT = Scan("s", Window(range=10, slide=5), COLUMNS)
PERIODIC = Relation("q", "", ROOT, slide=5, longest=10, names=("name",))
CONTINUOUS = Relation("q", "", replace(ROOT, window=Window(range=10)), output="changes", longest=10, names=("name",))

Answer = list[tuple[Any, ...]]


def as_rows(table: pa.Table) -> Answer:
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return list(zip(*(c.to_pylist() for c in columns), strict=True)) if len(table) else []


def tell(
    relation: Relation,
    rows: Sequence[Life],
    nows: Iterable[int] = (THE_END,),
    pattern: Pattern = Pattern.WEAK,
    *,
    restart: bool = False,
) -> Answer:
    if pattern is Pattern.STRICT:
        relation = replace(relation, root=replace(ROOT, window=Window(rows=5)))
    result, found = Result(relation, pattern), []
    for delta in deltas(rows, SCHEMA, [*nows]):
        if restart:
            saved = {
                name: [pa.ipc.open_stream(serialised(t)).read_all() for t in tables]
                for name, tables in result.parts().items()
            }
            result = Result(relation, pattern)
            result.restore(saved)
        result.apply(delta)
        found += as_rows(result.answers(delta.now, ended=delta.now == THE_END))
    return found


# By hand


def test_rstream_tells_every_row_at_every_instant_that_sees_it() -> None:
    rows = [one("a", 1.0, at=(3, 13)), one("b", 1.0, at=(5, 15), id=1)]
    assert tell(PERIODIC, rows) == [
        (-5, 5, "a", 3, 13),
        (0, 10, "a", 3, 13),
        (0, 10, "b", 5, 15),
        (5, 15, "b", 5, 15),
    ]


def test_istream_and_dstream_go_by_value() -> None:
    rows = [one("a", 1.0, at=(3, 13)), one("a", 2.0, at=(11, 21), id=1), one("a", 3.0, at=(12, 14), id=2)]
    istream, dstream = replace(PERIODIC, output="istream"), replace(PERIODIC, output="dstream")
    assert tell(istream, rows) == [(-5, 5, "a", 3, 13)]
    assert tell(dstream, rows) == [(15, 25, "a", 11, 21)]
    assert tell(replace(istream, names=("name", "x")), rows) == [(-5, 5, "a", 1.0, 3, 13), (5, 15, "a", 2.0, 11, 21)]
    assert tell(replace(dstream, names=("name", "x")), rows) == [(5, 15, "a", 1.0, 3, 13), (15, 25, "a", 2.0, 11, 21)]


def test_restore_tells_the_short_lived_result_of_golab_figure_3_4() -> None:
    t1, t2, short = one("t1", 0.0, at=(1, 8)), one("t2", 0.0, at=(7, 17), id=1), one("short", 0.0, at=(6, 9), id=2)
    at = {
        rows: [(r[1], r[2]) for r in tell(replace(PERIODIC, restore=rows), [t1, t2, short])] for rows in (False, True)
    }
    assert at[False] == [(5, "t1"), (10, "t2"), (15, "t2")]
    assert at[True] == [(5, "t1"), (10, "short"), (10, "t2"), (15, "t2")]
    new = replace(PERIODIC, output="istream", restore=True)
    assert [(r[1], r[2]) for r in tell(new, [t1, t2, short])] == [(5, "t1"), (10, "short"), (10, "t2")]


def test_a_continuous_query_tells_rows_as_they_come() -> None:
    rows = [one("a", 1.0, at=(3, 13)), one("b", 1.0, at=(5, 15), id=1)]
    assert tell(CONTINUOUS, rows) == [(-7, 3, "a", 3, 13), (-5, 5, "b", 5, 15)]


def test_strict_changes_tell_rows_as_they_leave() -> None:
    rows = [one("a", 1.0, at=(3, 7), promise=13), one("b", 1.0, at=(5, FOREVER), id=1)]
    told = [(-7, 3, "a", 3, None, 1), (-5, 5, "b", 5, None, 1), (-3, 7, "a", 3, None, -1)]
    assert tell(CONTINUOUS, rows, pattern=Pattern.STRICT) == told
    assert tell(CONTINUOUS, rows, [4, 6, 8, THE_END], Pattern.STRICT) == told


def test_a_continuous_rstream_is_told_at_every_change() -> None:
    rows = [one("a", 1.0, at=(3, 13)), one("b", 1.0, at=(5, 9), id=1)]
    told = [(r[1], r[2]) for r in tell(replace(CONTINUOUS, output="rstream"), rows)]
    assert told == [(3, "a"), (5, "a"), (5, "b"), (9, "a")]


def test_rows_of_an_instant_are_in_order_and_limited() -> None:
    rows = [one(name, x, at=(1, 4 + 5 * i), id=i) for i, (name, x) in enumerate([("a", 2.0), ("b", None), ("c", 3.0)])]
    rows += [one("d", 1.0, at=(6, 20), id=4)]
    ordered = replace(PERIODIC, order_by=((Column("x"), True, False),))
    assert [(r[1], r[2]) for r in tell(ordered, rows)] == [
        (5, "c"),
        (5, "b"),
        (10, "c"),
        (10, "d"),
        (15, "d"),
        (20, "d"),
    ]
    assert [(r[1], r[2]) for r in tell(replace(ordered, limit=1), rows)] == [(5, "c"), (10, "c"), (15, "d"), (20, "d")]
    assert [(r[1], r[2]) for r in tell(replace(ordered, limit=1, output="istream"), rows)] == [(5, "c"), (15, "d")]


def test_a_query_that_joins_late_and_leaves_early() -> None:
    rows = [one("a", 1.0, at=(3, 23)), one("b", 1.0, at=(12, 32), id=1)]
    late = replace(PERIODIC, start=3, stop=20)
    assert [(r[1], r[2]) for r in tell(late, rows)] == [(15, "a"), (15, "b"), (20, "a"), (20, "b")]
    assert [(r[1], r[2]) for r in tell(replace(late, output="istream"), rows)] == [(15, "a"), (15, "b")]


def test_what_never_ends_is_told_until_after_the_newest_event() -> None:
    result = Result(replace(PERIODIC, slide=5), Pattern.MONOTONIC)
    (delta,) = deltas([one("a", 1.0, at=(3, FOREVER))], SCHEMA, [THE_END])
    result.apply(delta)
    assert [r[1] for r in as_rows(result.answers(THE_END, last=11, ended=True))] == [5, 10, 15]


def test_the_state_does_not_grow() -> None:
    rows = [one("a", 1.0, at=(i, i + 10), id=i) for i in range(200)]
    for output in ("rstream", "istream", "dstream"):
        result = Result(replace(PERIODIC, output=output), Pattern.WEAKEST)
        for delta in deltas(rows, SCHEMA, range(1, 200)):
            result.apply(delta)
            result.answers(delta.now)
            assert result.rows_held <= 60


# At random


def canonical(value: Any) -> Any:
    return "nan" if value != value else 0.0 if value == 0 else value


def expected(relation: Relation, rows: list[Life], nows: list[int], *, signed: bool) -> Counter[tuple[Any, ...]]:
    """By definition, for outputs without lives: (instant, name, x, sign) as often as it is told. A row that never ends
    is told as long as time is known to go on."""
    finite = [row.end for row in rows if row.end < FOREVER]
    found: Counter[tuple[Any, ...]] = Counter()
    if not rows:
        return found
    if relation.slide is not None:
        slide, offset = relation.slide, relation.offset
        last = max([*finite, *(row.start + slide for row in rows), *(now for now in nows if now < THE_END)])
        last -= (last - offset) % slide
        instants = [*range(offset - 100 * slide, last + slide + 1, slide)]
        sees = {t: [row for row in rows if row.start < t <= row.end] for t in [instants[0] - slide, *instants]}
        if relation.output != "dstream":
            instants = [t for t in instants if t <= last]
        before = {t: sees[t - slide] for t in instants}
    else:
        instants = sorted({time for row in rows for time in (row.start, row.end) if time < FOREVER})
        sees = {t: [row for row in rows if row.start <= t < row.end] for t in instants}
        before = {t: [row for row in rows if row.start < t <= row.end] for t in instants}

    def items(of: Iterable[Life]) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(map(canonical, row.values)) for row in of)

    for t in instants:
        there = items(sees[t])
        if relation.output == "istream":
            there -= items(before[t])
        elif relation.output == "dstream":
            there = items(before[t]) - there
        elif relation.output == "changes":
            there = items(row for row in rows if row.start == t)
            gone = items(row for row in rows if row.end == t) if signed else Counter()
            found.update({(t, *item, -1): n for item, n in gone.items()})
        if relation.restore:
            there += items(row for row in rows if t - slide <= row.start and row.end < t)
        found.update({(t, *item, 1): n for item, n in there.items()})
    return found


values = st.tuples(st.sampled_from(("a", "b", None)), st.sampled_from((0.0, -0.0, 1.0, None, float("nan"))))
outputs = st.sampled_from(
    [
        replace(PERIODIC, output="rstream", slide=3),
        replace(PERIODIC, output="rstream", restore=True),
        replace(PERIODIC, output="istream", offset=2),
        replace(PERIODIC, output="istream", restore=True),
        replace(PERIODIC, output="dstream"),
        *(replace(CONTINUOUS, output=output) for output in ("rstream", "istream", "dstream", "changes")),
    ]
)


@given(relations(values), outputs, steps, st.booleans(), st.booleans(), st.sampled_from((2, 1_000_000)))
def test_what_is_told_is_what_the_definitions_say(
    rows: list[Life], relation: Relation, nows: list[int], strict: bool, restart: bool, most: int
) -> None:
    relation, pattern = replace(relation, names=("name", "x")), Pattern.STRICT if strict else Pattern.WEAK
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emission, "MOST_PAIRS", most)
        told = tell(relation, rows, nows, pattern, restart=restart)
    assert [row[1] for row in told] == sorted(row[1] for row in told)
    signed = strict and relation.output == "changes"
    found = Counter((row[1], *map(canonical, row[2:4]), row[-1] if signed else 1) for row in told)
    assert found == expected(relation, rows, nows, signed=signed)


@given(relations(values), outputs, steps, st.sampled_from((None, 1, 3)), st.sampled_from((None, 4)))
def test_steps_do_not_matter(
    rows: list[Life], relation: Relation, nows: list[int], limit: int | None, start: int | None
) -> None:
    """Neither do restarts, also with LIMIT and for who enters late. What was the last to be known of time before the
    end is known either way: so long rows that never end are told."""
    relation = replace(relation, limit=limit, start=start, order_by=((Column("x"), False, True),))
    at_once = tell(relation, rows, nows[-2:], pattern=Pattern.STRICT)
    assert tell(relation, rows, nows, Pattern.STRICT, restart=True) == at_once
