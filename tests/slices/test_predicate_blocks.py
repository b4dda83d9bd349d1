"""Thousands of predicates are worked on in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, TIMESTAMP
from mullion.options import Options
from mullion.planner import fragments
from mullion.planner.plan import ROWS
from mullion.planner.rules import make_plan
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.layout import SLOT
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.slices.tally import tally

STREAM = Stream("s", (("ts", TIMESTAMP), ("x", BIGINT), ("y", BIGINT)), "ts")


def rows(number: int, *, everyone: bool, workers: bool) -> list[dict[str, Any]]:
    texts = [
        f"SELECT sum(x) AS s, max(y) AS h FROM s [RANGE {10 + i % 3} sec SLIDE {5 + i % 4} sec]"
        f" WHERE x > {i} AND y <> {i}"
        for i in range(number)
    ]
    texts += ["SELECT count(*) AS c FROM s [RANGE 10 sec SLIDE 10 sec]"] if everyone else []
    plan = make_plan(STREAM, [bind(parse_query(text), {"s": STREAM}) for text in texts], Options.of(method="rows"))
    assert plan.methods == (ROWS,)
    times = np.arange(400) * 250_000
    columns = {TIME: times, "ts": pa.array(times, pa.timestamp("us", "UTC")), "x": times % 37, "y": times % 23}
    groupings = tuple(g.for_workers(ROWS) for g in plan.groupings) if workers else plan.groupings
    (table,) = partials(pa.table(columns), Job(groupings, plan.methods, (plan.windows,), Input(STREAM.types)))
    found = table.filter(pa.compute.is_valid(table.column(SLOT))).sort_by([(SLOT, "ascending"), ("slice", "ascending")])
    return found.to_pylist()


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("number", [16, 20, 33])
def test_blocks_give_the_rows_of_all_predicates(monkeypatch: pytest.MonkeyPatch, number: int, everyone: bool) -> None:
    wanted = rows(number, everyone=everyone, workers=False)
    assert {row[SLOT] for row in wanted} == set(range(number + everyone))
    monkeypatch.setattr(fragments, "BLOCK", 10)
    assert rows(number, everyone=everyone, workers=False) == wanted
    assert rows(number, everyone=everyone, workers=True) == wanted


@pytest.mark.parametrize("workers", [False, True])
def test_windows_with_more_edges_than_events_become_fragments(workers: bool) -> None:
    texts = [f"SELECT count(*) AS c FROM s [RANGE 2 ms SLIDE 1 ms] WHERE x > {i}" for i in range(20)]
    plan = make_plan(STREAM, [bind(parse_query(text), {"s": STREAM}) for text in texts], Options.of(method="rows"))
    groupings = tuple(g.for_workers(ROWS) for g in plan.groupings) if workers else plan.groupings
    times = np.arange(400) * 250_000
    columns = {TIME: times, "ts": pa.array(times, pa.timestamp("us", "UTC")), "x": times % 37, "y": times % 23}
    (table,) = partials(pa.table(columns), Job(groupings, plan.methods, (plan.windows,), Input(STREAM.types)))
    assert tally(table, plan.groupings[0]).members == sum(int((times % 37 > i).sum()) for i in range(20))
