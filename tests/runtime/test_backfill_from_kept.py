"""BACKFILL of queries over streams that cannot be read again: from the events that they keep. Without a JVM."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import any_relation
from any_relation import NAMED, STREAMS, TABLES
from by_operators import bind_relation
from mullion import reference
from mullion.algebra.relation import Relation
from mullion.binding.entering import entering_at
from mullion.errors import NotSupported
from mullion.expressions.vector import Vector
from mullion.instants import EVER_BEFORE
from mullion.language.parse import parse_query
from mullion.testing import Crash, crash_at
from operators.test_relations_differential import as_rows, comparable
from without_spark import EngineWithoutSpark, local_engine

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING) USING json OPTIONS (path 'nowhere') TIMESTAMP BY ts AHEAD UNBOUNDED{keep};
CREATE QUERY always AS SELECT count(*) AS n FROM s [RANGE 7 s SLIDE 7 s];
"""
QUERIES = {
    "counts": "SELECT count(*) AS n FROM s [RANGE 20 s SLIDE 10 s]",
    "keys": "SELECT k, count(*) AS n FROM s [RANGE 20 s SLIDE 10 s] GROUP BY k",
    "pairs": "SELECT count(*) AS n FROM (SELECT l.k FROM s [RANGE 20 s SLIDE 10 s] l, s [RANGE 20 s SLIDE 10 s] r "
    "WHERE l.k = r.k)",
    "unmatched": "SELECT k, ts FROM s [RANGE 20 s SLIDE 10 s] l WHERE NOT EXISTS "
    "(SELECT 1 FROM s [RANGE 5 s] r WHERE r.k = l.k AND r.k <> 'c')",
    "values": "SELECT DISTINCT k FROM s [RANGE 20 s SLIDE 10 s]",
    "last": "SELECT k FROM s [ROWS 3]",
}
BATCHES = [[(1, "a"), (6, "b")], [(12, "a"), (17, "c")], [(18, "a"), (23, "b"), (31, "c")], [(44, "a")], [(60, "b")]]


def rows(batch: Sequence[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"ts": second * 1_000_000, "k": key} for second, key in batch]


def answers(engine: EngineWithoutSpark, name: str) -> list[Any]:
    table = engine.results(name).to_arrow()
    found = [tuple(row.values()) for row in table.to_pylist()]
    return sorted(found, key=repr)


@cache
def from_the_start(text: str) -> list[Any]:
    """What it answers after 17 s, if it is there from the start."""
    begin = "CREATE QUERY q START AT TIMESTAMP '1970-01-01 00:00:17' BACKFILL AS"
    with local_engine(SCRIPT.format(keep="") + f"{begin} {text}") as engine:
        for number, batch in enumerate(BATCHES):
            engine.deliver("s", rows(batch), number)
        return answers(engine, "q")


CRASHES = ("before partials", "before commit", "after commit", "before operators")


@pytest.mark.parametrize(
    ("name", "crash"),
    [*((name, None) for name in QUERIES), *((n, c) for n in ("counts", "keys", "pairs") for c in CRASHES)],
)
def test_what_the_stream_keeps_is_a_past(name: str, crash: str | None, tmp_path: Path) -> None:
    """Any relation is killed at random below."""
    text = QUERIES[name]
    places = {"checkpoint": tmp_path / "c", "out": tmp_path / "o"}
    script, query = SCRIPT.format(keep=" KEEP 100 ROWS"), f"CREATE QUERY q BACKFILL AS {text}"
    with local_engine(script, **places) as engine:
        for number in (0, 1):
            engine.deliver("s", rows(BATCHES[number]), number)
        engine.query(query)
        if crash is None:
            for number in (2, 3, 4):
                engine.deliver("s", rows(BATCHES[number]), number)
            assert "from the events that" in str(engine.explain("q"))
            assert answers(engine, "q") == from_the_start(text)
            return
        try:
            with crash_at(crash):
                engine.deliver("s", rows(BATCHES[2]), 2)
        except Crash:
            pass
    with local_engine(f"{script}{query}", **places) as engine:
        for number in (2, 3, 4):
            engine.deliver("s", rows(BATCHES[number]), number)
        assert answers(engine, "q") == from_the_start(text)


@pytest.mark.parametrize(
    ("name", "keep", "refused"),
    [
        ("counts", "", "it keeps no events: see KEEP"),
        ("counts", " KEEP '1 s'", "does not reach back far enough"),
        ("counts", " KEEP '20 s'", None),
        ("pairs", " KEEP '20 s'", "does not reach back far enough"),
        ("pairs", " KEEP '40 s'", None),
        ("unmatched", " KEEP '25 s'", None),
        ("values", " KEEP '20 s'", "does not reach back far enough"),
        ("last", " KEEP 3 ROWS", "does not reach back far enough"),
        ("values", " KEEP 100 ROWS", None),
    ],
)
def test_a_past_that_is_gone_is_refused(name: str, keep: str, refused: str | None) -> None:
    """Which of equal rows DISTINCT shows, and which rows were the last, may depend on all of them."""
    with local_engine(SCRIPT.format(keep=keep)) as engine:
        for number, time in enumerate(range(0, 100, 3)):
            engine.deliver("s", rows([(time, "a")]), number)
        if refused is None:
            engine.query(QUERIES[name].replace("SELECT", "CREATE QUERY q BACKFILL AS SELECT", 1))
            return
        with pytest.raises(NotSupported, match=refused):
            engine.query(QUERIES[name].replace("SELECT", "CREATE QUERY q BACKFILL AS SELECT", 1))


def test_what_was_not_kept_from_the_beginning_does_not_count_as_kept(tmp_path: Path) -> None:
    with local_engine(SCRIPT.format(keep=""), checkpoint=tmp_path) as engine:
        engine.deliver("s", rows([(1, "a")]), 0)
    with local_engine(SCRIPT.format(keep=" KEEP 100 ROWS"), checkpoint=tmp_path) as engine:
        engine.deliver("s", rows([(4, "a")]), 1)
        with pytest.raises(NotSupported, match="does not reach back"):
            engine.query(f"CREATE QUERY q BACKFILL AS {QUERIES['values']}")


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_a_past_that_is_gone_is_refused_after_a_restart(text: str, tmp_path: Path) -> None:
    with local_engine(SCRIPT.format(keep=""), checkpoint=tmp_path) as engine:
        engine.deliver("s", rows([(1, "a")]), 0)
    script = SCRIPT.format(keep="") + f"CREATE QUERY q BACKFILL AS {text}"
    with pytest.raises(NotSupported, match="BACKFILL of query 'q'"), local_engine(script, checkpoint=tmp_path):
        pass


def test_a_past_that_streams_let_go_of_since_is_there_after_a_restart(tmp_path: Path) -> None:
    """The rows at 0 of one stream live until 12 and meet the one at 9 of the other. When the restart comes, neither
    stream keeps anything before 13."""
    streams = [
        f"CREATE STREAM {name} (ts TIMESTAMP, k INT) USING json OPTIONS (path 'nowhere') "
        "TIMESTAMP BY ts AHEAD UNBOUNDED KEEP '12 us'; "
        f"CREATE QUERY of_{name} AS SELECT count(*) AS n FROM {name} [RANGE 5 us SLIDE 5 us]"
        for name in "ab"
    ]
    query = (
        "CREATE QUERY q START AT TIMESTAMP '1970-01-01 00:00:00.000007' BACKFILL AS "
        "SELECT l.k FROM a [RANGE 9 us] l, b [RANGE 12 us] r WHERE l.k = r.k"
    )
    script, places = "; ".join(streams), {"checkpoint": tmp_path / "c", "out": tmp_path / "o"}

    def at(*times: int) -> list[Any]:
        return [{"ts": time, "k": 1} for time in times]

    with local_engine(script, **places) as engine:
        engine.deliver("a", at(0), 0)
        engine.query(query)
        engine.deliver("b", at(0, 0), 0)
        engine.deliver("a", at(9), 1)
        engine.deliver("a", at(12, 25), 2)
    with local_engine(f"{script}; {query}", **places) as engine:
        for name in "ab":
            engine.end(name)
        ends = engine.results("q").to_arrow()["window_end"].cast(pa.int64()).to_pylist()
        assert ends == [9, 9]


PAIRS = "SELECT l.k AS k, r.ts AS at FROM s [RANGE 20 s] l, s [RANGE 20 s] r WHERE l.k = r.k"


def kept_pairs(engine: EngineWithoutSpark) -> list[Any]:
    return sorted(engine.ask("SELECT k, at FROM pairs").to_arrow().to_pylist(), key=repr)


def test_a_result_that_is_kept_has_a_past(tmp_path: Path) -> None:
    """Questions and queries with BACKFILL find in it what they would had it been there from the start."""
    with local_engine(f"{SCRIPT.format(keep='')}CREATE QUERY pairs MATERIALIZED AS {PAIRS}") as engine:
        for number in range(4):
            engine.deliver("s", rows(BATCHES[number]), number)
        right = kept_pairs(engine)
    places = {"checkpoint": tmp_path / "c", "out": tmp_path / "o"}
    script, query = SCRIPT.format(keep=" KEEP 100 ROWS"), f"CREATE QUERY pairs MATERIALIZED BACKFILL AS {PAIRS}"
    reading = "CREATE QUERY reading BACKFILL AS SELECT k, at FROM pairs"
    with local_engine(script, **places) as engine:
        for number in (0, 1, 2):
            engine.deliver("s", rows(BATCHES[number]), number)
        engine.query(query)
        with pytest.raises(NotSupported, match=r"reading 'pairs' without BACKFILL \(.* that 'without' does not have\)"):
            engine.query("SELECT k FROM pairs", name="without")
        engine.query(reading)
        engine.deliver("s", rows(BATCHES[3]), 3)
        assert kept_pairs(engine) == right != []
    with local_engine(f"{script}{query};{reading}", **places) as engine:
        assert kept_pairs(engine) == right
        engine.deliver("s", rows(BATCHES[4]), 4)
        assert answers(engine, "reading") == answers(engine, "pairs") != []


def test_a_result_without_a_past_is_not_read_by_a_query_that_has_one() -> None:
    script = f"{SCRIPT.format(keep=' KEEP 100 ROWS')}CREATE QUERY pairs MATERIALIZED AS {PAIRS}"
    with local_engine(script) as engine, pytest.raises(NotSupported, match="it reads 'pairs', which holds nothing"):
        engine.query("CREATE QUERY reading BACKFILL AS SELECT k, at FROM pairs")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("SELECT v FROM s [ROWS 1 SLIDE 2]", [2, 4, 6]),
        (
            "SELECT l.v FROM s [RANGE 3 us SLIDE 4 us INTERNAL] l, s [RANGE 1 us INTERNAL] r WHERE l.v = r.v",
            [2, 3, 4, 5, 6],
        ),
        ("WSTREAM (SELECT v FROM s [RANGE 1 us SLIDE 1 us]) [ROWS 2]", [2, 2, 3, 3, 4, 4, 5, 5, 6]),
        ("ISTREAM RESTORE (SELECT v FROM s [RANGE 1 us SLIDE 4 us])", [3, 4, 5, 6]),
    ],
)
def test_a_relation_that_enters_later_answers_as_with_start_at(text: str, right: list[int]) -> None:
    """Events are at 1, 2, ..., 6, and it enters with that at 2: rows count as the stream counts them, and what stays
    for ever or without a length in time begins then."""
    stream = "CREATE STREAM s (ts TIMESTAMP, v INT) USING json OPTIONS (path 'nowhere') TIMESTAMP BY ts AHEAD UNBOUNDED"
    always = "CREATE QUERY always AS SELECT count(*) AS n FROM s [RANGE 5 us SLIDE 5 us]"
    start = "CREATE QUERY q START AT TIMESTAMP '1970-01-01 00:00:00.000002' AS"
    for script, late in ((f"{stream} KEEP 9 ROWS; {always}", True), (f"{stream}; {start} {text}", False)):
        with local_engine(script) as engine:
            for number in range(6):
                engine.deliver("s", [{"ts": number + 1, "v": number + 1}], number)
                if late and number == 1:
                    engine.query(text, name="q")
            engine.end("s")
            told = engine.results("q").to_arrow().to_pylist()
            assert sorted(row["v"] for row in told if row.get("sign", 1) == 1) == right, late


# Any relation, with BACKFILL or the events of the newest time alone, whatever is kept, wherever a run ends


@dataclass(frozen=True)
class Trial:
    text: str
    batches: list[tuple[str, list[Any]]]
    enters: int
    """After how many of them."""
    keep: str
    lateness: int
    shard_above: int
    kill: tuple[int, str, int] | None
    """In which batch a run is killed, at which step, and at which of its occurrences."""
    table: list[Any]

    @property
    def taken(self) -> list[tuple[str, list[Any]]]:
        """The batches without the events that came too late."""
        newest: dict[str, int] = {}
        found = []
        for name, events in self.batches:
            watermark = newest.get(name, EVER_BEFORE) - self.lateness
            in_time = [event for event in events if event["ts"] >= watermark]
            newest[name] = max([newest.get(name, EVER_BEFORE), *(event["ts"] for event in in_time)])
            found.append((name, in_time))
        return found


@st.composite
def trials(draw: Any) -> Trial:
    text = draw(any_relation.relations())
    text = text if text.startswith("CREATE") else f"CREATE QUERY q AS {text}"
    text = text.replace(" AS ", " BACKFILL AS ", 1) if draw(st.booleans()) else text
    disorder = draw(st.sampled_from((0, 0, 6)))
    of_stream = {
        name: sorted(some, key=lambda e: e["ts"] + draw(st.integers(0, disorder)))
        for name, some in draw(any_relation.events(untimed=False)).items()
    }
    batches = []
    while any(of_stream.values()):
        name = draw(st.sampled_from([name for name, some in of_stream.items() if some]))
        size = draw(st.integers(1, 3))
        batches.append((name, of_stream[name][:size]))
        of_stream[name] = of_stream[name][size:]
    enters = draw(st.integers(0, len(batches)))
    step = st.sampled_from(("before partials", "before commit", "after commit", "before operators"))
    kill = st.tuples(st.integers(enters, max(enters, len(batches) - 1)), step, st.integers(1, 2))
    return Trial(
        text,
        batches,
        enters,
        draw(st.sampled_from(("1000 ROWS", "1000 ROWS", "'12 us'", "'50 us'"))),
        draw(st.sampled_from((0, 3, 50))) if disorder else 0,
        draw(st.sampled_from((200_000, 0))),
        draw(st.none() | kill),
        draw(any_relation.table_rows()),
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(trials())
def test_any_relation_has_its_past_from_what_streams_keep(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as base:
        play(Path(base), trial)


def play(base: Path, trial: Trial) -> None:
    named = {c: Vector.of(t, [row[c] for row in trial.table]).to_arrow() for c, t in NAMED.columns}
    pq.write_table(pa.table(named), base / "named.parquet")
    columns = {name: ", ".join(f"{c} {t}" for c, t in stream.columns) for name, stream in STREAMS.items()}
    made = [
        f"CREATE STREAM {name} ({columns[name]}) USING json OPTIONS (path 'nowhere') TIMESTAMP BY ts "
        f"LATENESS '{trial.lateness} us' AHEAD UNBOUNDED KEEP {trial.keep}; "
        f"CREATE QUERY of_{name} AS SELECT count(*) AS n FROM {name} [RANGE 5 us SLIDE 5 us]"
        for name in STREAMS
    ]
    of_table = ", ".join(f"{c} {t}" for c, t in NAMED.columns)
    made.append(f"CREATE TABLE named ({of_table}) USING parquet OPTIONS (path '{base / 'named.parquet'}')")
    script, kill, enters = ";\n".join(made), trial.kill, trial.enters
    options: dict[str, Any] = {"checkpoint": base / "c", "out": base / "o", "shard_above": trial.shard_above}
    earlier = [sum(n == name for n, _ in trial.batches[:i]) for i, (name, _) in enumerate(trial.batches)]
    numbered = [(name, events, number) for (name, events), number in zip(trial.batches, earlier, strict=True)]
    with local_engine(script, **options) as engine:
        for name, events, number in numbered[:enters]:
            engine.deliver(name, events, number)
        try:
            engine.query(trial.text)
        except NotSupported as problem:
            assert "KEEP" in str(problem) and trial.keep != "1000 ROWS"
            return
        done = enters
        try:
            with crash_at(kill[1], kill[2]) if kill else nullcontext():
                for name, events, number in numbered[enters : None if kill is None else kill[0] + 1]:
                    engine.deliver(name, events, number)
                    done += 1
        except Crash:
            pass
    with local_engine(f"{script};\n{trial.text}", **options) as engine:
        for name, events, number in numbered[min(done, len(numbered)) :]:
            engine.deliver(name, events, number)
        for name in STREAMS:
            engine.end(name)
        check(engine, trial)


def check(engine: EngineWithoutSpark, trial: Trial) -> None:
    bound: Relation = bind_relation(parse_query(trial.text), STREAMS, TABLES)
    events = {name: [e for n, some in trial.taken if n == name for e in some] for name in STREAMS}
    seen = [e["ts"] for name, some in trial.taken[: trial.enters] if name in bound.streams for e in some]
    if seen and not bound.backfill:
        bound = entering_at(bound, max(seen) if bound.start is None else max(*seen, bound.start))
    elif seen and bound.after is None:
        bound = replace(bound, after=max(seen))
    wanted = reference.answer(bound, STREAMS, events, {"named": (NAMED, trial.table)})
    lives = () if bound.backfill else ("inserted_at", "expires_at")  # equal rows that left may have been there before
    found = comparable(as_rows(engine.results("q").to_arrow()), wanted.names, lives)
    right = comparable(wanted.rows, wanted.names, lives)
    assert found == right, f"{trial.text}\ntoo many: {found - right}\nmissing: {right - found}"
