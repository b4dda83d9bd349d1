"""A stream with every kind of window over it, from files of every format, compared with the reference."""

from __future__ import annotations

import csv
import json
import math
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from by_slices import bind
from mullion import reference
from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_query
from mullion.language.types import DOUBLE, INT, STRING, TIMESTAMP
from runtime.test_core_differential import assert_same, rows_of

SECOND = 1_000_000
STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT), ("v", DOUBLE), ("seq", INT)), "ts", 3 * SECOND)
COLUMNS = ", ".join(f"{name} {type_}" for name, type_ in STREAM.columns)
LANDMARK = "TIMESTAMP '1970-01-01 00:00:12'"

OVER_TIME = {
    "values": "SELECT k, count(DISTINCT x) AS d, median(v) AS m, mode(x) AS o, top_k(x, 2) AS t, sum(x) AS s "
    "FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k",
    "ends": "SELECT first(x) AS a, last(v) AS b, first(k, true) AS c FROM s [RANGE 8 s SLIDE 4 s] WHERE x <> 2",
    "some": "SELECT percentile(v, 0.3) AS p, sum(DISTINCT x) AS d FROM s [RANGE 6 s SLIDE 6 s] WHERE v > 1",
    "ever": "SELECT k, count(*) AS n, avg(v) AS a FROM s [RANGE UNBOUNDED SLIDE 5 s] GROUP BY k",
    "since": f"SELECT count(*) AS n, max(v) AS h, median(x) AS m FROM s [FROM {LANDMARK} SLIDE 5 s]",
}
OVER_ORDER = {
    "rows": "SELECT count(*) AS n, median(v) AS m, first(x) AS a FROM s [ROWS 5 SLIDE 2]",
    "grouped": "SELECT k, sum(x) AS s FROM s [ROWS 6 SLIDE 3] WHERE x > 0 GROUP BY k ORDER BY s DESC LIMIT 2",
    "each": "SELECT k, count(*) AS n, sum(x) AS s, last(v) AS l FROM s [PARTITION BY k ROWS 2 SLIDE 4] GROUP BY k",
    "tuples": "SELECT count(DISTINCT k) AS d, avg(v) AS a FROM s [RANGE 6 s SLIDE 3 TUPLES]",
    "always": "SELECT sum(x) AS s, min(v) AS l FROM s [RANGE 4 s]",
    "now": "SELECT count(*) AS n, stddev_pop(x) AS d FROM s [NOW]",
    "so_far": "SELECT sum(x) AS s, mode(k) AS m FROM s [RANGE UNBOUNDED SLIDE 5 TUPLES]",
    "from_then": f"SELECT k, count(*) AS n FROM s [FROM {LANDMARK} SLIDE 4 TUPLES] GROUP BY k",
    "by_column": "SELECT count(*) AS n, sum(x) AS s, median(v) AS m FROM s [RANGE 12 SLIDE 5 WATTR seq]",
}
QUERIES = {**OVER_TIME, **OVER_ORDER}


def events(number: int = 48, *, seed: int = 3) -> list[dict[str, Any]]:
    """Two events a second with ties, disorder within the lateness, NULLs and NaN; `seq` increases with the time."""
    rng = random.Random(seed)
    times = sorted(rng.randrange(number // 2) * SECOND for _ in range(number))
    made = []
    for i, ts in enumerate(times):
        k, x = rng.choice(("a", "b", "c", None)), rng.choice((1, 2, 3, -4, None))
        made.append({"ts": ts, "k": k, "x": x, "v": rng.choice((0.5, 1.5, 2.25, math.nan, None)), "seq": 2 * i})
    return sorted(made, key=lambda e: e["ts"] + rng.randrange(2 * SECOND))


def batches(made: list[dict[str, Any]], number: int = 4) -> list[list[dict[str, Any]]]:
    return [made[len(made) * i // number : len(made) * (i + 1) // number] for i in range(number)]


def text_of(ts: int) -> str:
    return f"1970-01-01 00:{ts // 60_000_000:02d}:{ts // SECOND % 60:02d}.{ts % SECOND:06d}"


def write(folder: Path, format_: str, made: list[list[dict[str, Any]]], first: int = 0) -> Path:
    """One file for each batch, read in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, part in enumerate(made, first):
        path, hidden = folder / f"{i:03d}.{format_}", folder / f"_{i:03d}.{format_}"
        rows = [{**e, "ts": text_of(e["ts"])} for e in part]
        if format_ == "parquet":
            pq.write_table(as_table(part), hidden)
        elif format_ == "json":
            hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            with hidden.open("w", newline="") as file:
                csv.writer(file).writerows([[_in_csv(v) for v in row.values()] for row in rows])
        os.utime(hidden, (1_000_000_000 + i, 1_000_000_000 + i))
        hidden.rename(path)
    return folder


def _in_csv(value: Any) -> Any:
    return "" if value is None else "NaN" if value != value else value


def as_table(part: list[dict[str, Any]]) -> pa.Table:
    return pa.table({n: Vector.of(t, [e[n] for e in part]).to_arrow() for n, t in STREAM.columns})


def create(folder: Path, format_: str = "parquet", more: str = "") -> str:
    options = f"path '{folder}', maxFilesPerTrigger '1'"
    return f"CREATE STREAM s ({COLUMNS}) USING {format_} OPTIONS ({options}) TIMESTAMP BY ts LATENESS '3 s' {more}"


def check(engine: Engine, queries: dict[str, str], made: list[dict[str, Any]]) -> None:
    for name, text in queries.items():
        query = parse_query(text, name=name)
        bound = bind(query, {"s": STREAM})
        found = sorted(rows_of(bound, engine.results(name).to_arrow()), key=lambda r: [b or -1 for b in r[:2]])
        assert_same(bound, found, reference.answer(query, STREAM, made).rows)
