"""Predicates at the ends of BIGINT."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, TIMESTAMP
from mullion.options import Options
from mullion.planner.rules import make_plan
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.slices.tally import tally

STREAM = Stream("s", (("ts", TIMESTAMP), ("x", BIGINT)), "ts")
MOST, LEAST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize("method", ["rows", "fragments"])
@pytest.mark.parametrize(
    ("values", "where", "selected"),
    [
        ([MOST, MOST - 1, MOST], f"x > {MOST - 1}", 2),
        ([MOST, MOST, MOST], "x > 5", 3),
        ([LEAST, LEAST + 1, LEAST], f"x < {LEAST + 2}", 3),
        ([LEAST, LEAST + 1, LEAST], "x < -5 AND x <> -9223372036854775807", 2),
    ],
)
def test_numbers_that_have_no_neighbour(method: str, values: list[int], where: str, selected: int) -> None:
    query = f"SELECT count(*) AS n FROM s [RANGE 10 us SLIDE 10 us] WHERE {where}"
    plan = make_plan(STREAM, [bind(parse_query(query), {"s": STREAM})], Options.of(method=method))
    times = np.arange(len(values))
    events = pa.table({TIME: times, "ts": pa.array(times, pa.timestamp("us", "UTC")), "x": values})
    (table,) = partials(events, Job(plan.groupings, plan.methods, (plan.windows,), Input(STREAM.types)))
    assert tally(table, plan.groupings[0]).members == selected
