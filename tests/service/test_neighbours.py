"""What a query answers does not depend on who comes and goes beside it."""

from __future__ import annotations

import pytest

import neighbours
from without_spark import local_engine

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
