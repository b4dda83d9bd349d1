"""SHED PROBES: events are kept, and joins do not look for the partners of some. Without a JVM."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.errors import CheckError, MullionError, NotSupported, ParseError
from mullion.kernels.thinning import Thinning, identity_hash
from mullion.language.parse import parse_script
from mullion.language.render import render
from mullion.operators.join import JoinOperator
from mullion.operators.keyed_sub_window import KeyedSubWindow
from without_spark import EngineWithoutSpark, local_engine

Event = dict[str, Any]
STREAM = "CREATE STREAM {} (ts TIMESTAMP, k STRING, x INT) USING parquet OPTIONS (path 'x') TIMESTAMP BY ts"
BEHIND = "WHEN BEHIND SHED PROBES AT MOST 50 PERCENT MARK EXACT"
PAIRS = "CREATE QUERY pairs AS SELECT a.x AS x, b.x AS y FROM a [RANGE 100 us], b [RANGE 100 us] WHERE a.k = b.k"


def chosen(batch: int, count: int, stream: str = "a") -> list[bool]:
    """With which events of a batch joins probe where they do with half of them."""
    return list(identity_hash(batch, np.arange(count), stream) < Thinning(2.0).limit)


def shed_half(engine: EngineWithoutSpark, *streams: str) -> None:
    for name in streams:
        engine._runs.of(name).overload.monitor.steps["shed"] = 2


def script(*queries: str, b: str = "") -> str:
    return ";".join([f"{STREAM.format('a')} {BEHIND}", f"{STREAM.format('b')} {b}", *queries])


def test_the_smallest_example() -> None:
    """The pair of a 1 and b 2 is found by b, whatever a weighs; that of a 3 and b 2 only if a 3 probes."""
    probes = chosen(0, 8)
    lost, found = probes.index(False), probes.index(True)
    events = [{"ts": 1, "k": "-", "x": i} for i in range(8)]
    events[lost] = {"ts": 30, "k": "k", "x": lost}
    events[found] = {"ts": 40, "k": "k", "x": found}
    early = next(i for i in range(8) if not probes[i] and i != lost)
    events[early] = {"ts": 10, "k": "k", "x": early}
    exact = "CREATE QUERY n AS SELECT count(*) AS n, sum(x) AS s FROM a [RANGE 100 us SLIDE 100 us]"
    with local_engine(script(PAIRS, exact)) as engine:
        shed_half(engine, "a")
        engine.deliver("b", [{"ts": 20, "k": "k", "x": 0}], 0)
        engine.deliver("a", events, 0)
        engine.end("b")
        engine.end("a")
        rows = engine.results("pairs").to_arrow().to_pylist()
        (row,) = engine.results("n").to_arrow().to_pylist()
        counts, told = engine.counts["a"], str(engine.explain())
    assert {(row["x"], row["kept_share"]) for row in rows} == {(early, 1.0), (found, 0.5)}
    assert (row["n"], row["s"]) == (8, sum(range(8))) and "kept_share" not in row
    unprobed = probes.count(False)
    assert (counts.events, counts.shed, counts.unprobed) == (8, 0, unprobed)
    assert counts.unprobed_by_query == {"pairs": unprobed}
    assert f"shed of a: what joins would have found of {unprobed} of 8 events, while the run was behind" in told
    assert "at most 50 % of a batch is kept without joins looking for its partners" in told


Pair = tuple[int, int, float]
CLAUSES = {"": "", "probes": BEHIND, "random": BEHIND.replace("PROBES", "RANDOM")}


def expected(events: dict[str, list[Event]], chosen: dict[str, list[bool]], sheds: dict[str, str]) -> list[Pair]:
    """Pairs by definition, with their kept_share: the later of two events probes, of equal ones b's, and events that
    are shed meet nothing."""
    found = []
    for (i, left), (j, right) in itertools.product(enumerate(events["a"]), enumerate(events["b"])):
        of = {"a": chosen["a"][i], "b": chosen["b"][j]}
        last = "a" if left["ts"] > right["ts"] else "b"
        units = [name for name, how in sheds.items() if how == "random" or (how == "probes" and name == last)]
        if left["k"] == right["k"] and all(of[name] for name in units):
            found.append((left["x"], right["x"], 0.5 ** len(units)))
    return sorted(found)


def as_pairs(table: pa.Table) -> list[Pair]:
    return sorted((row["x"], row["y"], row.get("kept_share", 1.0)) for row in table.to_pylist())


times = st.lists(st.integers(0, 30), max_size=12).map(sorted)
how = st.sampled_from(tuple(CLAUSES))


@settings(max_examples=60)
@given(
    a=times,
    b=times,
    cuts=st.lists(st.integers(0, 12), min_size=2, max_size=2),
    sheds=st.fixed_dictionaries({"a": how, "b": how}),
    sharded=st.booleans(),
)
def test_pairs_are_those_that_are_kept_and_looked_for(
    a: list[int], b: list[int], cuts: list[int], sheds: dict[str, str], sharded: bool
) -> None:
    """Whatever the batches: each stream comes in two, so that steps cut it anywhere. A question sees what has come."""
    events = {
        name: [{"ts": t, "k": "xy"[(t + i) % 2], "x": i} for i, t in enumerate(own)]
        for name, own in zip("ab", (a, b), strict=True)
    }
    parts = {name: [events[name][:cut], events[name][cut:]] for name, cut in zip("ab", cuts, strict=True)}
    streams = [f"{STREAM.format(name)} KEEP '1 h' {CLAUSES[sheds[name]]}" for name in "ab"]
    question = PAIRS.split(" AS ", 1)[1]
    with local_engine(";".join([*streams, PAIRS]), shard_above=0 if sharded else 200_000) as engine:
        shed_half(engine, *(name for name in "ab" if sheds[name]))
        for number in (0, 1):
            for name in "ab":
                engine.deliver(name, parts[name][number], number)
        asked = as_pairs(engine.ask(question).to_arrow())
        counted = (
            engine.ask(f"SELECT APPROX count(*) AS n FROM {question.split(' FROM ')[1]}")
            if any(sheds.values())
            else None
        )
        engine.end("a")
        engine.end("b")
        rows = as_pairs(engine.results("pairs").to_arrow())
    chosen_ = {
        name: [keep for n, part in enumerate(own) for keep in chosen(n, len(part), name)] for name, own in parts.items()
    }
    right = expected(events, chosen_, sheds)
    assert rows == asked == right
    if counted is not None:
        (row,) = counted.to_arrow().to_pylist() or [{"n": 0}]
        assert row["n"] == sum(1 / share for *_, share in right)


def test_what_does_not_probe_costs_no_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows with which joins look for others are those that weigh something."""
    probed = []
    results = JoinOperator._results

    def noted(self: JoinOperator, i: int, fresh: KeyedSubWindow) -> Any:
        probed.append(len(fresh))
        return results(self, i, fresh)

    monkeypatch.setattr(JoinOperator, "_results", noted)
    with local_engine(script(PAIRS, PAIRS.replace("pairs", "more").replace("b.k", "b.k AND a.x < b.x"))) as engine:
        shed_half(engine, "a")
        engine.deliver("b", [{"ts": 0, "k": "k", "x": 0}], 0)
        engine.deliver("a", [{"ts": i, "k": "k", "x": i} for i in range(50)], 0)
        engine.end("a")
        engine.end("b")
    assert sum(probed) == 1 + sum(chosen(0, 50))


def test_estimates_are_scaled_by_the_last_event() -> None:
    query = (
        "CREATE QUERY q AS SELECT APPROX count(*) AS n FROM a [RANGE 100 us SLIDE 100 us], "
        "b [RANGE 100 us SLIDE 100 us] WHERE a.k = b.k"
    )
    with local_engine(script(query)) as engine:
        shed_half(engine, "a")
        engine.deliver("b", [{"ts": 20, "k": "k", "x": 0}], 0)
        engine.deliver("a", [{"ts": 10 if i < 5 else 30, "k": "k", "x": i} for i in range(20)], 0)
        engine.end("a")
        engine.end("b")
        (row,) = engine.results("q").to_arrow().to_pylist()
    found = sum(chosen(0, 20)[5:])
    assert row["n"] == 5 + 2 * found
    assert row["kept_share"] == pytest.approx((5 + found) / (5 + 2 * found))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT a.x FROM a [RANGE 9 us], b [RANGE 9 us] WHERE a.k = b.k", CheckError, "may shed probes of joins"),
        ("SELECT APPROX count(*) AS n FROM a [RANGE 9 us SLIDE 9 us]", NotSupported, "SELECT APPROX"),
        (
            "SELECT APPROX DISTINCT a.x AS x FROM a [RANGE 9 us], b [RANGE 9 us] WHERE a.k = b.k",
            MullionError,
            "this form of query",
        ),
        (
            "SELECT x FROM a [RANGE 9 us] WHERE NOT EXISTS (SELECT b.x FROM b [RANGE 9 us], a [RANGE 9 us] AS c "
            "WHERE b.k = c.k AND b.k = a.k)",
            MullionError,
            "may shed probes",
        ),
    ],
)
def test_what_is_refused(text: str, error: type[MullionError], message: str) -> None:
    created = script(f"CREATE QUERY q AS {text}").replace(" MARK EXACT", "")
    with pytest.raises(error, match=message), local_engine(created):
        pass


def test_what_loses_no_row_is_answered() -> None:
    """NOT EXISTS and DISTINCT look at events, and all of these are there."""
    texts = [
        "CREATE QUERY alone AS SELECT x FROM a [RANGE 50 us] WHERE NOT EXISTS "
        "(SELECT b.x FROM b [RANGE 50 us] WHERE b.k = a.k)",
        "CREATE QUERY kinds AS SELECT DISTINCT k FROM a [RANGE 50 us]",
        "CREATE SYNOPSIS y ON a(x) USING ordered_sharing (rows 8)",
    ]
    with local_engine(script(*texts)) as engine:
        shed_half(engine, "a")
        engine.deliver("b", [{"ts": 20, "k": "k", "x": 0}], 0)
        engine.deliver("a", [{"ts": 21 + i, "k": "kl"[i % 2], "x": i} for i in range(8)], 0)
        engine.end("a")
        engine.end("b")
        alone = {row["x"] for row in engine.results("alone").to_arrow().to_pylist()}
        kinds = {row["k"] for row in engine.results("kinds").to_arrow().to_pylist()}
    assert {1, 3, 5, 7} <= alone and kinds == {"k", "l"}


def test_the_clause_is_rendered_as_it_is_read() -> None:
    read = parse_script(f"{STREAM.format('a')} {BEHIND}")
    assert parse_script(";".join(map(render, read))) == read
    with pytest.raises(ParseError, match="RANDOM, BY and what events matter, or PROBES"):
        parse_script(f"{STREAM.format('a')} WHEN BEHIND SHED PROBE")
