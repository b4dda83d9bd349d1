"""EXPLAIN of relations says what the operators at work do: what they share, keep, probe and have seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mullion.engine import Engine
from mullion.operators.join import JoinOperator
from promising_runs import EVENTS, JOIN, OF_THREE, SCRIPT, STREAMS, deliver
from without_spark import engine_without_spark, local_engine, write_events

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


def three(engine: Engine, name: str = "q") -> list[dict[str, Any]]:
    """What is told of joins of three inputs."""
    found = []

    def look(node: dict[str, Any]) -> None:
        found.extend([node] if node["operator"] == "Join" and len(node["inputs"]) == 3 else [])
        for below in node["inputs"]:
            look(below)

    (plan,) = (p for p in json.loads(engine.explain().to_json())["plans"] if p["queries"][0]["name"] == name)
    look(plan)
    return found


def test_joins_are_probed_in_the_order_of_the_operator_at_work() -> None:
    with local_engine(f"{SCRIPT} CREATE QUERY q AS {OF_THREE.format('')};") as engine:
        (expected,) = three(engine)
        assert sorted(expected["probing_order"]) == [0, 1, 2]
        deliver(engine, 0, 10, [1, 1])
        (run,) = engine.relations.runs.values()
        (operator,) = (
            working.operator
            for network in run.own.networks.values()
            for working in network.working.values()
            if isinstance(working.operator, JoinOperator)
        )
        assert three(engine)[0]["probing_order"] == list(operator.order)
        operator.order = (2, 0, 1)
        assert three(engine)[0]["probing_order"] == [2, 0, 1]
        assert "probed in the order 2, 0, 1" in str(engine.explain())
        operator.order = ()
        assert "probing_order" not in three(engine)[0]


def test_only_what_one_network_computes_is_shared() -> None:
    """Without sharing nothing is; nor is anything between relations over other streams."""
    twice = "".join(f"CREATE QUERY {name} AS {JOIN.format('')};" for name in ("shared", "other"))
    with local_engine(f"{SCRIPT} {twice}") as engine:
        deliver(engine, 0, 10, [1, 1])
        assert str(engine.explain()).count("shared by 2 queries") == 1
    with local_engine(f"{SCRIPT} {twice}", sharing="off") as engine:
        assert "shared by" not in str(engine.explain())
        deliver(engine, 0, 10, [1, 1])
        deliver(engine, 1, 12, [1])
        assert "shared by" not in str(engine.explain())
        assert engine.results("shared").to_arrow().sort_by("w") == engine.results("other").to_arrow().sort_by("w")
    apart = "CREATE QUERY alone AS SELECT DISTINCT k FROM s [RANGE 20 us];"
    with local_engine(f"{SCRIPT} CREATE QUERY both AS {JOIN.format('')};{apart}") as engine:
        deliver(engine, 0, 10, [1, 1])
        assert "shared by" not in str(engine.explain()), "each reads the window of s for itself"


@pytest.mark.parametrize("runs", [False, True])
def test_one_query_is_told_as_part_of_what_is_shared(runs: bool) -> None:
    with local_engine(two_joins()) as engine:
        if runs:
            deliver(engine, 0, 10, [1, 1])
        told = str(engine.explain("a"))
        assert "WITHIN 10 us, 10 us" in told and "shared by 2 queries" in told
        assert "query b" not in told and "as above" not in told


SELECTING = "SELECT s.v AS x FROM s [RANGE 20 us], t [RANGE 20 us] WHERE s.k = t.k AND s.v > {}"


def sources(engine: Engine) -> list[dict[str, list[str]]]:
    return [plan["statistics"] for plan in json.loads(engine.explain().to_json())["plans"]]


@pytest.mark.parametrize("sharing", ["auto", "off"])
@pytest.mark.parametrize("shard_above", [0, 100])
def test_what_any_network_has_seen_is_observed(sharing: str, shard_above: int, tmp_path: Path) -> None:
    """Of the second query too, and of relations that left the driver."""
    options = {"sharing": sharing, "shard_above": shard_above, "checkpoint": tmp_path / "state"}
    with engine_without_spark(out=tmp_path / "out", **options) as engine:
        for name in "st":
            rows = [{"ts": at, "k": at % 5, "v": at} for at in range(30)]
            write_events(tmp_path / name, 0, EVENTS, rows)
            engine.execute(STREAMS.format(name, tmp_path / name))
        for i in range(2):
            engine.execute(f"CREATE QUERY q{i} AS {SELECTING.format(i)}")
        engine.run()
        (run,) = engine.relations.runs.values()
        assert (run.shards is not None) == (shard_above == 0)
        for known in sources(engine):
            assert known["assumed"] == [] and {"rates", "keys", "selectivities"} <= set(known["observed"]), known
        assert run.stats.distinct == {("s", "k"): 5, ("t", "k"): 5}
