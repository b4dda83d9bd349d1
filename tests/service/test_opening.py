"""When a batch is opened while its queries are planned. Without a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_batch import MemoryBatch
from without_spark import local_engine

STREAM = """
CREATE STREAM s (ts TIMESTAMP, x BIGINT) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts LATENESS '0 s';
CREATE QUERY q AS SELECT sum(x) AS total FROM s [RANGE 2 s SLIDE 1 s];
"""


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the batches that were."""
    numbers = list[int]()
    monkeypatch.setattr(MemoryBatch, "open_ahead", lambda batch: numbers.append(batch.number))
    return numbers


def row(second: int) -> list[dict[str, int]]:
    return [{"ts": second * 1_000_000, "x": second}]


def test_a_batch_is_opened_ahead_when_queries_have_changed(opened: list[int]) -> None:
    with local_engine(STREAM) as engine:
        for number in range(4):
            if number == 2:
                engine.query("SELECT count(*) AS n FROM s [RANGE 3 s SLIDE 1 s]", name="other")
            engine.deliver("s", row(number), number)
    assert opened == [0, 2]


def test_a_batch_that_was_committed_is_not_opened_once_more(opened: list[int], tmp_path: Path) -> None:
    """Its files may be gone; and what opening finds wrong is told once, to nobody."""
    with local_engine(STREAM, checkpoint=tmp_path) as engine:
        engine.deliver("s", row(0), 0)
        engine.deliver("s", row(1), 1)
    opened.clear()
    with local_engine(STREAM, checkpoint=tmp_path) as engine:
        engine.deliver("s", row(1), 1)
        assert opened == []
    with local_engine(STREAM, checkpoint=tmp_path) as engine:
        engine.deliver("s", row(2), 2)
    assert opened == [2]
