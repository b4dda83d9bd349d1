"""EXPLAIN says of a relation that it runs in shards, and by which keys its events are split."""

from __future__ import annotations

import pytest

from without_spark import local_engine

STREAM = "CREATE STREAM {0} (ts TIMESTAMP, k INT, v INT) USING parquet OPTIONS (path '{0}') TIMESTAMP BY ts;"
SCRIPT = (
    STREAM.format("a") + STREAM.format("b") + "CREATE QUERY pairs AS SELECT a.v, b.v AS w FROM a [RANGE 10 us], "
    "b [RANGE 10 us] WHERE a.k = b.k; CREATE QUERY whole AS SELECT count(*) AS n FROM a [RANGE 10 us], "
    "b [RANGE 10 us] WHERE a.k = b.k;"
)
SPLIT = "in 8 shards, a by k, b by k"


@pytest.mark.parametrize("shard_above", [0, 200_000])
def test_explain_tells_what_runs_in_shards(shard_above: int) -> None:
    """One count of all pairs has no key to be split by: it is made on the driver."""
    with local_engine(SCRIPT, shard_above=shard_above) as engine:
        assert "split_by_key" not in str(engine.explain()), "no step was made yet"
        for stream in "ab":
            engine.deliver(stream, [{"ts": at, "k": at % 3, "v": at} for at in range(30)], 0)
        is_split = shard_above == 0
        told = engine.explain("pairs")
        assert (f"  split_by_key: {SPLIT}\n" in str(told)) == is_split
        assert ({"rule": "split_by_key", "text": SPLIT} in told.to_dict()["plans"][0]["reasons"]) == is_split
        assert (f"split_by_key: {SPLIT}" in told.to_svg()) == is_split
        assert "split_by_key" not in str(engine.explain("whole"))
