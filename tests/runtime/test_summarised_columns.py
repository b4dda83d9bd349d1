"""Summaries of columns of any type, by any kind: those that there are, and one that a user registers."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import mullion
from mullion.errors import MullionError
from mullion.expressions.arrays import Codes
from mullion.summaries.kinds import KINDS
from without_spark import local_engine

STREAM = """
CREATE STREAM s (ts TIMESTAMP, x INT, t STRING) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts LATENESS '3 us';
"""


class EvenOnly(KINDS["counts"]):  # type: ignore[name-defined,misc]
    """Counts events whose codes are even, so that it can be told from counts."""

    kind = "even_only"

    def summarize(self, codes: Codes) -> None:
        super().summarize(codes[codes % 2 == 0])


def test_a_kind_that_a_user_registers(tmp_path: Path) -> None:
    places = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    created = "CREATE SUMMARY mine ON s(x) WITH GRANULARITY 10 us AND COLLAPSE (2, 3) USING even_only"
    with pytest.raises(MullionError, match="unknown kind of summary 'even_only'"), local_engine(STREAM + created):
        pass
    mullion.register_summary(EvenOnly)
    try:
        for batch in range(2):
            with local_engine(STREAM + created, **places) as engine:
                engine.deliver("s", [{"ts": 10 * batch + i, "x": i % 4, "t": ""} for i in range(8)], batch)
                found = [engine.ask(f"SELECT APPROX count(*) AS n FROM s [RANGE 20 us] WHERE x = {x}") for x in (2, 3)]
        even, odd = (answer.to_arrow()["n"].to_pylist() for answer in found)
        assert even == [4] and odd == [1], "what waits is counted by itself"
        assert "even_only" in found[0].answered_from
    finally:
        del KINDS["even_only"]


TYPES = {
    "BOOLEAN": ("TRUE", (True, False)),
    "TINYINT": ("-3", (-3, 4)),
    "SMALLINT": ("300", (300, 4)),
    "BIGINT": ("9007199254740993", (9007199254740993, 9007199254740992)),
    "FLOAT": ("CAST(0.1 AS FLOAT)", (0.1, 0.5)),
    "DOUBLE": ("0.0D", (-0.0, 0.5)),
    "DECIMAL(10,2)": ("1.5", (Decimal("1.50"), Decimal("1.51"))),
    "STRING": ("'a'", ("a", "b")),
    "BINARY": ("CAST('ab' AS BINARY)", (b"ab", b"b")),
    "DATE": ("'1970-01-03'", (2, 3)),
    "TIMESTAMP": ("TIMESTAMP '1970-01-01 00:00:01'", (1_000_000, 1_000_001)),
}


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("kind", ["counts", "count_sketch"])
def test_columns_of_any_type(type_: str, kind: str, tmp_path: Path) -> None:
    constant, (same, other) = TYPES[type_]
    places = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    script = f"""
    CREATE STREAM s (ts TIMESTAMP, x {type_}) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts LATENESS '2 us';
    CREATE SUMMARY xs ON s(x) WITH GRANULARITY 10 us AND COLLAPSE (2, 3) USING {kind};
    """
    for batch in range(2):
        with local_engine(script, **places) as engine:
            values = (same, other, None, same, same)
            engine.deliver("s", [{"ts": 5 * batch + i, "x": x} for i, x in enumerate(values)], batch)
            answer = engine.ask(f"SELECT APPROX count(*) AS n FROM s [RANGE 20 us] WHERE x = {constant}")
            assert answer.to_arrow()["n"].to_pylist() == [3 * (batch + 1)]
            others = engine.ask(f"SELECT APPROX count(*) AS n FROM s [RANGE 20 us] WHERE x <> {constant}")
            assert others.to_arrow()["n"].to_pylist() == [batch + 1]
            grouped = f"SELECT APPROX x, count(*) AS n FROM s [RANGE 20 us] WHERE x = {constant} GROUP BY x"
            found = engine.ask(grouped).to_arrow()
            assert found["n"].to_pylist() == [3 * (batch + 1)]
            exactly = found.schema.field("x").type
            assert found["x"].combine_chunks().equals(pa.array([same], exactly)) or type_ == "DOUBLE"
