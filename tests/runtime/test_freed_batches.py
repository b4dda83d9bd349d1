"""What a batch takes is freed with it, and not when Python seeks cycles: that may be many batches later. What windows
hold no more is freed, too, with and without a checkpoint."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mullion.slices.subwindow import PartialSubWindows
from without_spark import engine_without_spark, local_engine

EVENTS = 5_000
"""Of a file, and the bytes from which on something is a column of a batch."""

BEGIN = 1_700_000_000_000_000

QUERIES = {
    "sums": "SELECT sum(v * k) AS a, count(*) AS n FROM t [RANGE '20 s' SLIDE '5 s']",
    "groups": "SELECT k, sum(v) AS a, max(s) AS m FROM t [RANGE '20 s' SLIDE '5 s'] WHERE s LIKE '1%' GROUP BY k",
    "values": "SELECT k, median(v) AS a, count(DISTINCT s) AS m FROM t [RANGE '20 s' SLIDE '5 s'] GROUP BY k",
    "sketches": "SELECT approx_percentile(v, 0.5) AS a, frequent(s, 0.1) AS b FROM t [RANGE '20 s' SLIDE '5 s']",
    "lookup": "SELECT t.s, sum(t.v * c.w) AS a FROM t [RANGE '20 s' SLIDE '5 s'], c WHERE t.k = c.k GROUP BY t.s",
    "lookup of few": "SELECT sum(t.v * c.w) AS a FROM t [RANGE '20 s' SLIDE '5 s'], c WHERE t.k = c.k AND c.w > 3",
    "rows": "SELECT sum(v) AS a FROM t [ROWS 1000 SLIDE 100]",
    "tuples": "SELECT max(v) AS a FROM t [RANGE '1 s' SLIDE 1 TUPLE]",
    "distinct": "SELECT DISTINCT s FROM t [RANGE '20 s' SLIDE '5 s']",
    "join": "SELECT t.k, u.v FROM t [RANGE '500 ms' SLIDE '5 s'], u [RANGE '500 ms'] WHERE t.k = u.k",
    "negation": "SELECT k FROM t [RANGE '500 ms' SLIDE '5 s'] "
    "WHERE NOT EXISTS (SELECT 1 FROM u [RANGE '500 ms'] WHERE u.k = t.k)",
}


@contextmanager
def garbage_kept() -> Iterator[list[Any]]:
    """What only a search for cycles frees."""
    found: list[Any] = []
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found.extend(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def columns_in(garbage: list[Any]) -> list[str]:
    """The arrays that are as large as a column of a batch. Types are asked: proxies answer for others."""
    held = [o for thing in garbage if "weak" not in type(thing).__name__ for o in (thing, *gc.get_referents(thing))]
    arrays = [o for o in held if issubclass(type(o), (np.ndarray, pa.Array, pa.ChunkedArray, pa.Table, pa.RecordBatch))]
    return [type(array).__name__ for array in arrays if array.nbytes >= EVENTS]


def write_files(folder: Path, seed: int) -> None:
    folder.mkdir()
    random = np.random.default_rng(seed)
    for number in range(3):
        columns = {
            "ts": pa.array(BEGIN + np.sort(random.integers(0, 10**8, EVENTS)) + number * 10**8, pa.timestamp("us")),
            "k": random.integers(0, 50, EVENTS),
            "s": random.integers(0, 20, EVENTS).astype(str),
            "v": random.random(EVENTS),
        }
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_no_column_of_a_batch_waits_for_a_search_of_cycles(query: str, tmp_path: Path) -> None:
    for seed, name in enumerate("tu"):
        write_files(tmp_path / name, seed)
    (tmp_path / "c").mkdir()
    pq.write_table(pa.table({"k": np.arange(50), "w": np.arange(50.0)}), tmp_path / "c" / "c.parquet")
    with engine_without_spark() as engine:
        for name in "tu":
            engine.execute(
                f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, s STRING, v DOUBLE) USING parquet "
                f"OPTIONS (path '{tmp_path / name}', maxFilesPerTrigger '1') TIMESTAMP BY ts"
            )
        engine.execute(f"CREATE TABLE c (k BIGINT, w DOUBLE) USING parquet OPTIONS (path '{tmp_path / 'c'}')")
        engine.query(query, name="q")
        with garbage_kept() as garbage:
            engine.run()
            assert len(engine.results("q").to_arrow())
        assert columns_in(garbage) == []


@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize(
    "window",
    ["ROWS 100 SLIDE 10", "RANGE '1 s' SLIDE 4 TUPLES", "PARTITION BY k ROWS 2 SLIDE 50", "RANGE '2 s' SLIDE '1 s'"],
)
def test_sub_windows_that_no_window_needs_are_let_go(window: str, has_checkpoint: bool, tmp_path: Path) -> None:
    where = {"checkpoint": tmp_path / "state"} if has_checkpoint else {}
    script = f"""CREATE STREAM t (ts TIMESTAMP, k BIGINT, v DOUBLE) USING rate TIMESTAMP BY ts;
                 CREATE QUERY q AS SELECT sum(v) AS a FROM t [{window}]"""
    held = []
    with local_engine(script, out=tmp_path / "answers", **where) as engine:
        for number in range(12):
            times = (BEGIN + number * 10**7 + np.arange(200) * 50_000).tolist()
            engine.deliver("t", [{"ts": time, "k": time % 7, "v": time / 3} for time in times], number)
            gc.collect()
            held.append(sum(type(thing) is PartialSubWindows for thing in gc.get_objects()))
    assert max(held[6:]) <= max(held[:6])
