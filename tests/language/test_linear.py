"""Parsing, binding, planning and explaining take time linear in the text, and errors stay short however long it is."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from by_operators import bind_relation
from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.errors import MullionError, closest
from mullion.language.parse import parse_query, parse_script
from mullion.language.types import INT, TIMESTAMP
from mullion.planner.explain import Explanation
from mullion.planner.rules import make_plan

WINDOW = "[RANGE 10 s SLIDE 5 s]"


def listed(form: str, number: int, between: str = ", ") -> str:
    return between.join(form.replace("#", str(i)) for i in range(number))


def explained(text: str, stream: Stream) -> None:
    plan = make_plan(stream, [bind(parse_query(text), {"s": stream})])
    explanation = Explanation((plan,), "auto")
    str(explanation)
    explanation.to_json()


def stream(columns: int) -> Stream:
    return Stream("s", (("ts", TIMESTAMP), *((f"c{i}", INT) for i in range(columns))), "ts")


OTHER = Stream("u", (("ts", TIMESTAMP), ("d", INT)), "ts")


def related(text: str, n: int) -> None:
    bind_relation(parse_query(text, name="q"), {"s": stream(n), "u": OTHER}, {})


LONG: dict[str, Callable[[int], None]] = {
    "aggregates": lambda n: explained(f"SELECT {listed('sum(c0 + #) AS x#', n)} FROM s {WINDOW}", stream(1)),
    "columns": lambda n: explained(f"SELECT {listed('max(C#) AS x#', n)} FROM s {WINDOW}", stream(n)),
    "the same item": lambda n: explained(f"SELECT {listed('count(*) AS x#', n)} FROM s {WINDOW}", stream(1)),
    "keys": lambda n: explained(
        f"SELECT count(*) FROM s {WINDOW} GROUP BY {listed('c0 + #', n)} ORDER BY {listed('c0 + #', n)}", stream(1)
    ),
    "IN": lambda n: explained(f"SELECT count(*) FROM s {WINDOW} WHERE c0 IN ({listed('#', n)})", stream(1)),
    "CASE": lambda n: explained(
        f"SELECT sum(CASE {listed('WHEN c0 = # THEN #', n, ' ')} END) AS x FROM s {WINDOW}", stream(1)
    ),
    "a declaration": lambda n: (
        parse_script(f"CREATE STREAM s (ts TIMESTAMP, {listed('c# INT', n)}) USING json TIMESTAMP BY ts") and None
    ),
    "statements": lambda n: (
        parse_script(listed(f"CREATE QUERY q# AS SELECT count(*) FROM s {WINDOW}", n // 4, ";\n")) and None
    ),
    "a join's columns": lambda n: related(
        f"SELECT {listed('s.c# AS x#', n)} FROM s [RANGE 10 s], u [RANGE 10 s] WHERE s.c0 = u.d", n
    ),
    "a star": lambda n: related("SELECT * FROM s [RANGE 10 s]", n),
    "a join's aggregates": lambda n: related(
        f"SELECT {listed('sum(s.c#) AS x#', n)} FROM s {WINDOW}, u [RANGE 10 s] WHERE s.c0 = u.d", n
    ),
}


def seconds(work: Callable[[int], None], number: int) -> float:
    """The time of this process alone, so that a busy machine does not count, and the better of two."""
    found = []
    for _ in range(2):
        start = time.process_time()
        work(number)
        found.append(time.process_time() - start)
    return min(found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LONG)
def test_eight_times_the_text_takes_about_eight_times_as_long(kind: str) -> None:
    """A quadratic step would take 64 times as long; small times are too inexact to tell."""
    few, many = seconds(LONG[kind], 250), seconds(LONG[kind], 2000)
    assert many < 24 * max(few, 0.01), (few, many)


WRONG = {
    "commas": "SELECT a" + "," * 50_000 + " FROM s [RANGE 1 s]",
    "brackets": "SELECT " + "(" * 50_000,
    "nots": "SELECT a FROM s [RANGE 1 s] WHERE " + "NOT " * 50_000 + "a",
    "ands": "SELECT a FROM s [RANGE 1 s] WHERE " + " AND ".join(["a"] * 50_000),
    "a name": "SELECT " + "x" * 200_000 + " FRM s",
    "a string": "SELECT '" + "x" * 200_000,
    "a number": "SELECT " + "9" * 200_000 + " FROM s [RANGE 1 s]",
    "a row number": "SELECT a FROM s [ROWS " + "9" * 200_000 + "]",
    "no line": "x" * 1_000_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRONG)
def test_errors_of_long_texts_are_short_and_quick(kind: str) -> None:
    start = time.process_time()
    with pytest.raises(MullionError) as refused:
        parse_script(WRONG[kind])
    shown = str(refused.value)
    assert time.process_time() - start < 5
    assert len(shown) < 1500
    assert "^" in shown


def test_long_lines_are_cut_around_the_place() -> None:
    with pytest.raises(MullionError) as refused:
        parse_script("SELECT " + listed("a#", 3000) + ", b c d, " + listed("e#", 3000) + " FROM s [RANGE 1 s]")
    line, carets = str(refused.value).splitlines()[2:4]
    assert line.strip().startswith("...") and line.strip().endswith("...") and len(line) < 200
    assert line[carets.index("^")] == "d"
    with pytest.raises(MullionError) as refused:
        bind(parse_query(f"SELECT max({'z' * 5000}) FROM s {WINDOW}"), {"s": stream(1)})
    assert len(str(refused.value)) < 1500


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("prise", ("price", "volume"), "price"),
        ("cuont", ("count", "or"), "count"),
        ("sybmol", ("symbol",), "symbol"),
        ("kk", ("k", "ts"), "k"),
        ("corr", ("or", "and", "cos"), None),
        ("stddevpop", ("stddev_pop", "std"), "stddev_pop"),
        ("regr_slope", ("round", "repeat"), None),
        ("sym", ("symbol", "ts"), "symbol"),
        ("sym", ("symbol", "symmetry"), None),
        ("sy", ("symbol",), None),
        ("x" * 5000, ("x",), None),
    ],
)
def test_only_near_names_are_suggested(name: str, known: tuple[str, ...], meant: str | None) -> None:
    assert closest(name, known) == (None if meant is None else f"did you mean '{meant}'?")
