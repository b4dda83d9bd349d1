"""What a query answers does not depend on who comes and goes beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import neighbours
from without_spark import EngineWithoutSpark, local_engine

SECOND = 1_000_000


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 60))])
def test_neighbours_change_nothing(seed: int) -> None:
    neighbours.trial(seed)


def test_a_window_of_rows_begins_with_its_first_event_though_another_that_cut_it_has_left() -> None:
    """Of four rows, which another query cut after the first: the window began with the third for who was left."""
    script = """
        CREATE STREAM s (ts TIMESTAMP) USING parquet OPTIONS (path '/nowhere') TIMESTAMP BY ts;
        CREATE QUERY four AS SELECT count(*) AS n FROM s [ROWS 4 SLIDE 4];
        CREATE QUERY three AS SELECT count(*) AS n FROM s [ROWS 3 SLIDE 4];
    """
    with local_engine(script) as engine:
        for number, times in enumerate(((1, 2), (3,), (4,), (5, 6, 7))):
            if number == 2:
                engine.execute("DROP QUERY three;")
            engine.deliver("s", [{"ts": at * SECOND} for at in times], number)
        engine.end("s")
        (row,) = engine.results("four").to_arrow().to_pylist()
    assert (row["window_start"].second, row["window_end"].second, row["n"]) == (1, 4, 4)


JOINED = "CREATE QUERY {} AS SELECT a.k AS k FROM a [RANGE 10 us], b [RANGE 10 us] WHERE a.k = b.k AND a.{}"


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("condition", ["s > 1", "s IS NULL"])
def test_a_query_that_enters_at_a_restart_may_ask_for_a_column_that_no_query_read(
    tmp_path: Path, stays: bool, condition: str
) -> None:
    """Of a, the rows at 2 and 3 are kept, without s. They meet those of b after the restart, for the first query."""
    old, new = JOINED.format("old", "v > 1"), JOINED.format("new", condition)

    def engine(queries: str) -> EngineWithoutSpark:
        started = EngineWithoutSpark(checkpoint=tmp_path / "state", out=tmp_path / "out")
        columns = "(ts TIMESTAMP, k INT, v INT, s INT) USING parquet"
        for stream in "ab":
            started.execute(f"CREATE STREAM {stream} {columns} OPTIONS (path '/nowhere') TIMESTAMP BY ts KEEP '1 h'")
        started.execute(queries)
        started.start()
        return started

    def deliver(to: EngineWithoutSpark, stream: str, number: int, *times: int) -> None:
        to.deliver(stream, [{"ts": t, "k": 1, "v": t, "s": t if condition == "s > 1" else None} for t in times], number)

    with engine(old) as first:
        deliver(first, "a", 0, 1, 2, 3)
        deliver(first, "b", 0, 3)
    with engine(f"{old}; {new}" if stays else new) as second:
        deliver(second, "b", 1, 5, 20)
        deliver(second, "a", 1, 20)
        for stream in "ab":
            second.end(stream)
        assert len(second.results("new").to_arrow()) == 1
        assert not stays or len(second.results("old").to_arrow()) == 5
