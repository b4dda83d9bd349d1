"""Queries are divided into other clusters when a stream becomes another, by what that really costs. Without a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mullion.runtime import planning
from mullion.slices.kernels.events import TIME
from without_spark import EngineWithoutSpark, local_engine

SECOND = 1_000_000
LENGTH = 200 * SECOND
FIRST = 1_000_000_000 * SECOND
EVENTS = 120_000
FEW_KEYS, MANY_KEYS = 3, 10_000


def script(queries: int, items: int) -> str:
    """Queries with so many maxima each, all different: each partial that they share holds all of them."""
    stream = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, x BIGINT) USING parquet OPTIONS (path 'no') TIMESTAMP BY ts"
    texts = []
    for i in range(queries):
        maxima = ", ".join(f"max(x + {items * i + j}) AS a{j}" for j in range(items))
        window = f"[RANGE {100 + i} s SLIDE {100 + i} s]"
        texts.append(f"CREATE QUERY q{i} AS SELECT k, {maxima} FROM s {window} GROUP BY k")
    return ";".join([stream, *texts])


@cache
def batch(number: int, keys: int) -> pa.Table:
    rng = np.random.default_rng(number)
    times = FIRST + np.sort(rng.integers(number * LENGTH, (number + 1) * LENGTH, EVENTS))
    return pa.table(
        {
            TIME: times,
            "ts": pa.array(times, pa.timestamp("us")),
            "k": rng.integers(0, keys, EVENTS),
            "x": rng.integers(0, 1_000_000, EVENTS),
        }
    )


def run(engine: EngineWithoutSpark, keys: Sequence[int]) -> list[int]:
    """Deliver batches of so many keys; how many clusters there were in each."""
    clusters = []
    for number, own in enumerate(keys):
        engine.deliver("s", batch(number, own), number)
        clusters.append(len(engine._runs.of("s").sets))
    return clusters


def check(engine: EngineWithoutSpark, keys: Sequence[int], query: int, items: int) -> None:
    """The maxima of each window and key, by Arrow."""
    events = pa.concat_tables([batch(number, own) for number, own in enumerate(keys)])
    length = (100 + query) * SECOND
    ends = pa.array((events[TIME].to_numpy() // length + 1) * length)
    right = events.append_column("end", ends).group_by(["end", "k"]).aggregate([("x", "max")])
    right = right.sort_by([("end", "ascending"), ("k", "ascending")])
    answers = engine.results(f"q{query}").to_arrow()
    answers = answers.set_column(0, "end", answers["window_end"].cast(pa.int64()))
    answers = answers.sort_by([("end", "ascending"), ("k", "ascending")])
    for column in ("end", "k"):
        assert answers[column].to_pylist() == right[column].to_pylist()
    for j in range(items):
        assert answers[f"a{j}"].to_pylist() == pc.add(right["x_max"], items * query + j).to_pylist()


def test_queries_are_divided_when_keys_become_many() -> None:
    keys = [FEW_KEYS, FEW_KEYS, MANY_KEYS, MANY_KEYS]
    with local_engine(script(8, 8)) as engine:
        assert run(engine, keys) == [1, 1, 1, 8]
        engine.end("s")
        for query in (0, 5, 7):
            check(engine, keys, query, 8)


def test_queries_are_one_cluster_again_when_keys_become_few() -> None:
    keys = [MANY_KEYS, MANY_KEYS, FEW_KEYS, FEW_KEYS]
    with local_engine(script(16, 4)) as engine:
        assert run(engine, keys) == [16, 16, 16, 1]
        engine.end("s")
        for query in (0, 7, 15):
            check(engine, keys, query, 4)


def test_batches_that_take_turns_are_looked_at_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few events are not worth a division, whatever they hold."""
    looks: list[int] = []
    divide = planning.Clusters.divide

    def noted(clusters: planning.Clusters, *known: object) -> bool:
        looks.append(len(delivered))
        return divide(clusters, *known)  # type: ignore[arg-type]

    monkeypatch.setattr(planning.Clusters, "divide", noted)
    delivered: list[int] = []
    with local_engine(script(4, 1)) as engine:
        for number in range(24):
            keys = (FEW_KEYS, MANY_KEYS)[number % 2]
            engine.deliver("s", batch(number, keys).slice(0, 2_000), number)
            delivered.append(number)
    assert 3 <= len(looks) <= 5, looks
    gaps = np.diff(looks)
    assert (np.diff(gaps) >= 0).all(), "each waits longer than the one before"
