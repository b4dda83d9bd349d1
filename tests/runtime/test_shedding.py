"""Events that are shed, by hand: estimates, errors and shares, what is refused, questions, and what is counted. Without
a JVM."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from memory_batch import MemorySource
from mullion.errors import CheckError, MullionError, NotSupported
from mullion.kernels.thinning import identity_hash
from mullion.runtime.monitor import SourceLag
from shed_trials import events_of
from without_spark import local_engine

S = "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) USING parquet OPTIONS (path 'x') TIMESTAMP BY ts"
ONE_WINDOW = "FROM s [RANGE 100 us SLIDE 100 us]"


def test_the_smallest_example() -> None:
    """Four events that stand for two each: eight in all."""
    hashes = identity_hash(0, np.arange(8), "s")
    kept = [event for event in range(8) if hashes[event] < 0]
    x = [3, 1, 4, 1, 5, 9, 2, 6]
    weight = [2.0 if event in kept else 0.0 for event in range(8)]
    total, values = sum(weight), sum(w * v for w, v in zip(weight, x, strict=True))
    script = f"{S} WHEN BEHIND SHED RANDOM AT MOST 50 PERCENT; CREATE QUERY q AS SELECT APPROX count(*) AS n, "
    with local_engine(f"{script} sum(x) AS s, avg(x) AS a {ONE_WINDOW}") as engine:
        engine._runs.of("s").overload.monitor.steps["shed"] = 2
        engine.deliver("s", [{"ts": i, "k": "a", "x": v} for i, v in enumerate(x)], 0)
        engine.end("s")
        (row,) = engine.results("q").to_arrow().to_pylist()
        counts = engine.counts["s"]
    mean = values / total
    assert (row["n"], row["s"], row["a"]) == (total, values, pytest.approx(mean))
    assert row["kept_share"] == len(kept) / 8
    assert row["n_error"] == pytest.approx(math.sqrt(2 * len(kept)))
    assert row["s_error"] == pytest.approx(math.sqrt(sum(2 * x[i] ** 2 for i in kept)))
    assert row["a_error"] == pytest.approx(math.sqrt(sum(2 * (x[i] - mean) ** 2 for i in kept)) / total)
    assert (counts.events, counts.shed, counts.shed_by_query) == (len(kept), 8 - len(kept), {"q": 8 - len(kept)})


def test_nothing_shed_is_exact() -> None:
    script = f"{S} WHEN BEHIND SHED RANDOM; CREATE QUERY q AS SELECT APPROX count(*) AS n, sum(x) AS s, avg(x) AS a"
    with local_engine(f"{script} {ONE_WINDOW}") as engine:
        engine.deliver("s", [{"ts": i, "k": "a", "x": i} for i in range(5)], 0)
        engine.end("s")
        (row,) = engine.results("q").to_arrow().to_pylist()
    told = {name: row[name] for name in ("n", "s", "a", "n_error", "s_error", "a_error", "kept_share")}
    assert told == {"n": 5, "s": 10.0, "a": 2.0, "n_error": 0.0, "s_error": 0.0, "a_error": 0.0, "kept_share": 1.0}


def test_shed_by_drops_the_least() -> None:
    script = (
        f"{S} WHEN BEHIND SHED BY x AT MOST 50 PERCENT MARK EXACT; CREATE QUERY q AS SELECT sum(x) AS s, min(x) AS m"
    )
    with local_engine(f"{script} {ONE_WINDOW}") as engine:
        engine._runs.of("s").overload.monitor.steps["shed"] = 2
        engine.deliver("s", [{"ts": i, "k": "a", "x": x} for i, x in enumerate([5, None, 1, 9, 7, 2])], 0)
        engine.end("s")
        (row,) = engine.results("q").to_arrow().to_pylist()
    assert (row["s"], row["m"], row["kept_share"]) == (21, 5, 0.5)


@pytest.mark.parametrize(
    ("behind", "text", "error"),
    [
        ("SHED RANDOM", f"SELECT count(*) AS n {ONE_WINDOW}", CheckError),
        ("SHED RANDOM", f"SELECT APPROX count(DISTINCT x) AS n {ONE_WINDOW}", NotSupported),
        ("SHED RANDOM", f"SELECT APPROX mode(x) AS n {ONE_WINDOW}", NotSupported),
        ("SHED RANDOM", "SELECT APPROX count(*) AS n FROM s [ROWS 3]", NotSupported),
        ("SHED RANDOM MARK EXACT", "SELECT DISTINCT k FROM s [RANGE 10 us SLIDE 10 us]", NotSupported),
        ("WAIT", f"SELECT APPROX count(*) AS n {ONE_WINDOW}", NotSupported),
        ("SHED BY k", f"SELECT APPROX count(*) AS n {ONE_WINDOW}", CheckError),
        ("SHED BY nobody", f"SELECT APPROX count(*) AS n {ONE_WINDOW}", CheckError),
        ("SHED RANDOM AT MOST 100 PERCENT", f"SELECT APPROX count(*) AS n {ONE_WINDOW}", MullionError),
    ],
)
def test_what_is_refused(behind: str, text: str, error: type[MullionError]) -> None:
    with pytest.raises(error), local_engine(f"{S} WHEN BEHIND {behind}; CREATE QUERY q AS {text}"):
        pass


def test_a_synopsis_cannot_tell_of_a_stream_that_sheds() -> None:
    synopsis = "CREATE SYNOPSIS y ON s(x) USING ordered_sharing (rows 8)"
    with pytest.raises(CheckError, match="may shed"), local_engine(f"{S} WHEN BEHIND SHED RANDOM; {synopsis}"):
        pass


def test_questions_are_estimated_too() -> None:
    with local_engine(f"{S} KEEP 1000 ROWS WHEN BEHIND SHED RANDOM MARK EXACT") as engine:
        engine._runs.of("s").overload.monitor.steps["shed"] = 2
        engine.deliver("s", events_of(range(100)), 0)
        (row,) = engine.ask("SELECT APPROX count(*) AS n FROM s [RANGE 1 s]").to_arrow().to_pylist()
        (marked,) = engine.ask("SELECT count(*) AS n FROM s [RANGE 1 s]").to_arrow().to_pylist()
    assert (row["n"], row["kept_share"], marked["kept_share"]) == (2 * marked["n"], 0.5, 0.5)
    assert 30 <= marked["n"] <= 70


def test_a_question_of_which_nothing_was_kept_does_not_know_its_error() -> None:
    """The newest event was shed: it moves the window of the question, which then holds none that was kept."""
    hashes = identity_hash(0, np.arange(50), "s").tolist()
    shed = next(event for event in range(50) if hashes[event] >= 0)
    events = [{"ts": 900 if event == shed else event, "k": "a", "x": 1} for event in range(50)]
    with local_engine(f"{S} KEEP 1000 ROWS WHEN BEHIND SHED RANDOM") as engine:
        engine._runs.of("s").overload.monitor.steps["shed"] = 2
        engine.deliver("s", events, 0)
        (row,) = engine.ask("SELECT APPROX count(*) AS n, sum(x) AS s FROM s [RANGE 5 us]").to_arrow().to_pylist()
    assert (row["n"], row["n_error"], row["s_error"], row["kept_share"]) == (0, None, None, None)


def test_what_is_shed_counts_for_the_queries_that_stand() -> None:
    """One leaves, and another takes its name: what the first has missed is none of what the second has."""
    text = "SELECT count(*) AS n FROM s [RANGE 10 us SLIDE 10 us]"
    script = f"{S} WHEN BEHIND SHED RANDOM MARK EXACT; CREATE QUERY stays AS {text}; CREATE QUERY q AS {text}"
    lost, missed = [], []
    with local_engine(script) as engine:
        for number in range(3):
            engine._runs.of("s").overload.monitor.steps["shed"] = 2
            engine.deliver("s", events_of(range(number * 20, number * 20 + 20)), number)
            lost.append(engine.counts["s"].shed)
            missed.append(dict(engine.counts["s"].shed_by_query))
            engine.drop("q")
            engine.execute(f"CREATE QUERY q AS {text} WHERE x > {number}")
    assert missed[0] == {"stays": lost[0], "q": lost[0]}
    assert missed[1:] == [{"stays": lost[i], "q": lost[i] - lost[i - 1]} for i in (1, 2)]


@pytest.mark.parametrize("behind", ["WAIT", "SHED RANDOM AT MOST 50 PERCENT MARK EXACT"])
def test_a_run_that_falls_behind_and_recovers(behind: str) -> None:
    """By a clock that goes on a second with every look at it: a batch takes one, and twenty batches wait."""
    ticks = itertools.count()
    script = f"{S} WHEN BEHIND {behind}; CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 100 us SLIDE 100 us]"
    with local_engine(script, behind_after=4) as engine:
        run, shares = engine._runs.of("s"), []
        run.timer = lambda: float(next(ticks))
        source = run.source
        assert isinstance(source, MemorySource)
        for number in range(40):
            source.queued = SourceLag(2000, 100) if number < 8 else SourceLag(0, 100)
            engine.deliver("s", [{"ts": number * 100 + i, "k": "a", "x": i} for i in range(100)], number)
            shares.append(run.overload.thinning.share)
        engine.end("s")
        rows, counts = engine.results("q").to_arrow().to_pylist(), engine.counts["s"]
        told = engine.stats["monitors"]["s"]
    assert not told["behind"] and told["kept_share"] == 1.0 and told["lag"] == 0.0
    if behind == "WAIT":
        assert counts.shed == 0 and [row["n"] for row in rows] == [100] * 40
        assert set(shares) == {1.0} and "kept_share" not in rows[0]
        return
    assert shares[0] == shares[-1] == 1.0 and min(shares) == 0.5
    assert [row["kept_share"] for row in rows] == [row["n"] / 100 for row in rows]
    assert all((row["n"] == 100) == (share == 1.0) for row, share in zip(rows, shares, strict=True))
    assert counts.shed == counts.shed_by_query["q"] == 4000 - sum(row["n"] for row in rows)
