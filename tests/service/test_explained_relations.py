"""EXPLAIN of relations says what the operators at work do: what they share, keep, probe and have seen."""

from __future__ import annotations

from promising_runs import JOIN, SCRIPT, deliver
from without_spark import local_engine

WINDOWS = "FROM s [RANGE {0} us], t [RANGE {0} us] WHERE s.k = t.k"


def two_joins() -> str:
    """Joins that differ in their windows alone."""
    texts = {name: f"SELECT s.v AS x, t.v AS y {WINDOWS.format(length)}" for name, length in (("a", 10), ("b", 20))}
    return f"{SCRIPT}" + "".join(f"CREATE QUERY {name} AS {text};" for name, text in texts.items())


def test_negative_tuples_share_no_joins_of_other_windows() -> None:
    with local_engine(two_joins()) as engine:
        deliver(engine, 0, 10, [1, 1])
        assert "WITHIN" in str(engine.explain()) and "[RANGE 10 us]" not in str(engine.explain())
    with local_engine(two_joins(), expiry="nt") as engine:
        deliver(engine, 0, 10, [1, 1])
        told = str(engine.explain())
        assert "WITHIN" not in told and "[RANGE 10 us]" in told and "[RANGE 20 us]" in told


def test_negative_tuples_tell_preferred_joins_as_a_whole() -> None:
    script = f"{SCRIPT} CREATE QUERY q AS {JOIN.format('')} WITH PREFERENCE DESC 1 BUDGET 3 ROWS;"
    with local_engine(script) as engine:
        deliver(engine, 0, 10, [1, 1])
        assert "exact_join" not in str(engine.explain())
    with local_engine(script, expiry="nt") as engine:
        deliver(engine, 0, 10, [1, 1])
        assert "exact_join: with negative tuples a join is told as a whole" in str(engine.explain())
