"""Keys and bounds of windows are codes while answers wait in memory, and nobody sees it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mullion.engine import Engine
from mullion.slices import answer_table
from mullion.slices.finalize import Answers
from without_spark import local_engine

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, n INT) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts;
CREATE QUERY q AS SELECT k, n, count(*) AS c FROM s [RANGE 4 s SLIDE 2 s] GROUP BY k, n
"""
SECOND = 1_000_000


def answered(engine: Engine) -> list[tuple[int, int, str | None, int | None, int]]:
    rows = engine.results("q").to_arrow().to_pylist()
    ends = [(int(r["window_start"].timestamp()), int(r["window_end"].timestamp())) for r in rows]
    return [(*bounds, row["k"], row["n"], row["c"]) for bounds, row in zip(ends, rows, strict=True)]


def test_answers_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups, of which one has NULLs, in two windows that overlap."""
    monkeypatch.setattr(answer_table, "FEW_PAIRS", 1)
    events = [{"ts": 0, "k": "a", "n": 1}, {"ts": SECOND, "k": None, "n": None}, {"ts": 3 * SECOND, "k": "a", "n": 1}]
    with local_engine(SCRIPT) as engine:
        engine.deliver("s", events, 0)
        engine.end("s")
        found = answered(engine)
        held = [own.table for some in engine._answers._memory.answers.values() for own in some]
        schema = engine.results("q").to_arrow().schema
    key = lambda row: (row[1], row[2] or "")  # noqa: E731
    expected = [(-2, 2, None, None, 1), (-2, 2, "a", 1, 1), (0, 4, None, None, 1), (0, 4, "a", 1, 2), (2, 6, "a", 1, 1)]
    assert sorted(found, key=key) == expected
    assert any(pa.types.is_dictionary(field.type) for table in held for field in table.schema), (
        "else this tests nothing"
    )
    assert not any(pa.types.is_dictionary(field.type) for field in schema)


def test_each_query_gets_its_own_rows_without_codes() -> None:
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1], pa.int32()), pa.array(["x", None]))
    answers = Answers(("p", "q", "r"), [0, 1, 1, 4], pa.table({"k": codes, "n": [1, 2, 3, 4]}))
    assert [(name, table.to_pylist()) for name, table in answers] == [
        ("p", [{"k": "x", "n": 1}]),
        ("r", [{"k": None, "n": 2}, {"k": None, "n": 3}, {"k": None, "n": 4}]),
    ]
    assert next(iter(answers))[1].schema.field("k").type == pa.string()
