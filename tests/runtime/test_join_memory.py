"""MEMORY of streams: what joins let go, what answers and statistics say of it, what is refused. Without a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.errors import CheckError, MullionError, NotSupported, ParseError
from mullion.language.parse import parse_join_memory, parse_script
from mullion.language.render import render
from mullion.surface.progress import warnings
from without_spark import local_engine

STREAM = "CREATE STREAM {} (ts TIMESTAMP, k STRING, x INT) USING parquet OPTIONS (path 'x') TIMESTAMP BY ts"
MEMORY = "MEMORY 2 ROWS SHED OLDEST MARK EXACT"
JOIN = "FROM a [RANGE 100 us{0}], b [RANGE 100 us{0}] WHERE a.k = b.k"
PAIRS = f"CREATE QUERY pairs AS SELECT a.x AS x, b.x AS y {JOIN.format('')}"
COUNTS = f"CREATE QUERY counts AS SELECT count(*) AS n, max(a.x) AS high {JOIN.format(' SLIDE 10 us')}"


def script(*queries: str, memory: str = MEMORY, b: str = "") -> str:
    return ";".join(
        [f"{STREAM.format('a')} KEEP '1 hour' {memory}", f"{STREAM.format('b')} KEEP '1 hour' {b}", *queries]
    )


def events(*times: int, k: str = "k") -> list[dict[str, Any]]:
    return [{"ts": at, "k": k, "x": i} for i, at in enumerate(times)]


def test_what_is_let_go_is_told(tmp_path: Path) -> None:
    """The first row of a goes at 3, when the third comes: b finds three pairs at 2 and at 25 two."""
    with local_engine(script(PAIRS, COUNTS), shard_above=0) as engine:
        engine.deliver("a", events(1, 2, 3), 0)
        engine.deliver("b", events(2, 25), 0)
        question = engine.ask(f"SELECT count(*) AS n {JOIN.format('')}").to_arrow().to_pylist()
        engine.end("a")
        engine.end("b")
        rows = engine.results("pairs").to_arrow().to_pylist()
        counts = {row["window_end"].microsecond: row for row in engine.results("counts").to_arrow().to_pylist()}
        stats, told = engine.stats["relations"]["a + b"]["let_go"], str(engine.explain())
        said = list(warnings(engine.counts, tmp_path, evicted=engine.relations.evicted))
    assert sorted((row["x"], row["y"]) for row in rows) == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert question == [{**question[0], "n": 6}], "a question is computed at once, from all events that are there"
    first = {"n": 3, "high": 2, "n_bound": ">=", "high_bound": ">=", "is_complete": False}
    assert {name: counts[10][name] for name in first} == first
    assert (counts[30]["n"], counts[30]["n_bound"]) == (5, ">=")
    assert (counts[110]["n"], counts[110]["is_complete"]) == (0, True), "what went would have left by now"
    fact = {"stream": "a", "window": "a [RANGE 100 us]", "memory": 2, "rows": 1}
    assert stats == {"pairs": [fact], "counts": [fact]}
    assert "query pairs evicted 1 row of a [RANGE 100 us] (MEMORY), and misses their later pairs" in said
    assert "memory: 2 rows of a [RANGE 100 us]: beyond it those that leave soonest go first; 1 went so far" in told
    assert "joins keep 2 rows of a window, without the oldest (MEMORY)" in told


times = st.lists(st.tuples(st.integers(0, 40), st.sampled_from("xyy")), max_size=14).map(sorted)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    a=times,
    b=times,
    cuts=st.tuples(*[st.integers(0, 14)] * 4),
    rows=st.integers(1, 4),
    which=st.sampled_from(("OLDEST", "RAREST")),
)
def test_marks_are_right_whatever_the_batches(
    a: list[tuple[int, str]], b: list[tuple[int, str]], cuts: tuple[int, ...], rows: int, which: str
) -> None:
    """Where a window says that it is complete it is; and what is answered does not depend on how streams are cut."""
    streams = {
        n: [{"ts": at, "k": k, "x": i} for i, (at, k) in enumerate(own)] for n, own in zip("ab", (a, b), strict=True)
    }

    def answers(memory: str, parts: dict[str, list[list[dict[str, Any]]]]) -> list[dict[str, Any]]:
        queries = [query.replace("100 us", "15 us") for query in (PAIRS, COUNTS)]
        with local_engine(script(*queries, memory=memory, b=memory)) as engine:
            for number in range(len(parts["a"])):
                for name in "ab":
                    engine.deliver(name, parts[name][number], number)
            engine.end("a")
            engine.end("b")
            found = [engine.results(name).to_arrow().to_pylist() for name in ("pairs", "counts")]
        return [sorted(own, key=lambda row: list(map(repr, row.values()))) for own in found]

    low, high = sorted(cuts[:2]), sorted(cuts[2:])
    cut = {
        name: [own[: at[0]], own[at[0] : at[1]], own[at[1] :]]
        for (name, own), at in zip(streams.items(), (low, high), strict=True)
    }
    memory = f"MEMORY {rows} ROWS SHED {which} MARK EXACT"
    pairs, counts = found = answers(memory, {name: [own] for name, own in streams.items()})
    assert answers(memory, cut) == found
    all_pairs, all_counts = answers("", {name: [own] for name, own in streams.items()})
    assert all(row in all_pairs for row in pairs)
    for row, exact in zip(counts, all_counts, strict=True):
        assert row["n"] == exact["n"] if row["is_complete"] else row["n"] <= exact["n"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            f"SELECT a.x AS x {JOIN}",
            CheckError,
            "joins may evict rows of 'a' .MEMORY., and this query asks for exact answers",
        ),
        (f"SELECT APPROX avg(a.x) AS m {JOIN}", CheckError, "avg cannot be combined with the MEMORY of 'a'"),
        (f"SELECT APPROX count(*) + 1 AS n {JOIN}", NotSupported, "an expression over bounds with a MEMORY"),
        (f"SELECT APPROX DISTINCT a.x AS x {JOIN}", CheckError, "DISTINCT cannot be combined with a MEMORY"),
        (f"SELECT APPROX j.x AS x FROM (SELECT a.x AS x {JOIN}) j", NotSupported, "this form of query"),
        ("SELECT APPROX a.x AS x FROM a [ROWS 3], b [RANGE 9 us] WHERE a.k = b.k", CheckError, "a window with ROWS"),
        (
            f"SELECT APPROX a.x AS x {JOIN.replace('b [', 'c [').replace('b.k', 'c.k')}",
            NotSupported,
            "WHEN BEHIND SHED",
        ),
    ],
)
def test_what_is_refused(text: str, error: type[MullionError], message: str) -> None:
    shed = f"{STREAM.format('c')} WHEN BEHIND SHED PROBES"
    created = script(shed, f"CREATE QUERY q AS {text.format('')}", memory="MEMORY 5 ROWS")
    with pytest.raises(error, match=message), local_engine(created):
        pass


def test_what_joins_nothing_is_exact() -> None:
    alone = "CREATE QUERY n AS SELECT count(*) AS n FROM a [RANGE 100 us SLIDE 100 us]"
    with local_engine(script(alone, memory="MEMORY 1 ROW")) as engine:
        engine.deliver("a", events(1, 2, 3), 0)
        engine.end("a")
        (row,) = engine.results("n").to_arrow().to_pylist()
    assert row["n"] == 3 and "is_complete" not in row


def test_the_clause_is_rendered_as_it_is_read() -> None:
    read = parse_script(f"{STREAM.format('a')} {MEMORY}; {STREAM.format('b')} MEMORY 7 ROWS SHED RAREST")
    assert parse_script(";".join(map(render, read))) == read
    assert parse_join_memory("1 ROW").rows == 1
    for text in ("0 ROWS", "5 ROWS SHED RANDOM", "5 KB"):
        with pytest.raises(ParseError):
            parse_join_memory(text)
