"""Events between the windows of hopping queries leave before anything is aggregated, and keep no partials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.options import Options
from mullion.planner.plan import Plan
from mullion.planner.rules import make_plan
from mullion.slices.kernels import events as kernel_events
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.slices.tally import late_for, tally

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT)), "ts")
HOPS = "[RANGE 3 us SLIDE 7 us]"
BY_KEY = "SELECT k, {} FROM s {} GROUP BY k"
MANY = [f"SELECT sum(x) AS t FROM s {HOPS} WHERE x > {-i}" for i in range(1, 20)]


def plan_of(texts: list[str], method: str = "auto") -> Plan:
    queries = [bind(parse_query(text, name=f"q{i}"), {"s": STREAM}) for i, text in enumerate(texts)]
    return make_plan(STREAM, queries, Options.of(method=method, way="kernel"))


def made(plan: Plan, values: list[int | None]) -> list[pa.Table]:
    """The partials of an event for each microsecond, for each grouping."""
    times = np.arange(len(values))
    columns = {
        TIME: times,
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
        "k": pa.array(["a"] * len(values)),
        "x": pa.array(values, pa.int32()),
    }
    slim = tuple(g.for_workers(method) for g, method in zip(plan.groupings, plan.methods, strict=True))
    windows = (plan.windows,) * len(plan.groupings)
    return partials(pa.table(columns), Job(slim, plan.methods, windows, Input(STREAM.types)))


def kept(table: pa.Table) -> dict[int, int]:
    """How many events the partials of each slice hold."""
    rows = table.filter(pa.compute.is_valid(table.column("s0_0"))).select(["slice", "s0_0"]).to_pylist()
    found: dict[int, int] = {}
    for row in rows:
        found[row["slice"]] = found.get(row["slice"], 0) + row["s0_0"]
    return found


@pytest.mark.parametrize("method", ["rows", "fragments"])
@pytest.mark.parametrize("where", ["", " WHERE x > 0"])
@pytest.mark.parametrize("item", ["sum(x) AS t", "max(k) AS m"])
@pytest.mark.parametrize("keys", [True, False])
def test_events_between_windows_leave_no_partials(method: str, where: str, item: str, keys: bool) -> None:
    text = BY_KEY.format(item, f"{HOPS}{where}") if keys else f"SELECT {item} FROM s {HOPS}{where}"
    plan = plan_of([text], method)
    (table,) = made(plan, [1] * 15)
    assert kept(table) == {4: 3, 11: 3}
    counted = tally(table, plan.groupings[0])
    assert (counted.events, counted.slices.tolist()) == (15, [0, 4, 7, 11, 14])
    assert late_for(table, plan.groupings[0]) == {"q0": 6}


def test_dense_rows_of_many_predicates() -> None:
    plan = plan_of([*MANY, "SELECT sum(x) AS t FROM s [RANGE 7 us SLIDE 7 us] WHERE x > -100"], "rows")
    (table,) = made(plan, [1] * 14)
    assert kept(table) == {0: 7, 4: 3 * 19, 7: 7, 11: 3 * 19}


@pytest.mark.parametrize(("method", "gap"), [("rows", {}), ("fragments", {0: 4, 7: 4})])
def test_of_a_slot_whose_windows_all_hop(method: str, gap: dict[int, int]) -> None:
    """By fragments events leave that are in no window of any slot, by rows those of a slot in none of its own."""
    other = BY_KEY.format("count(*) AS n", "[RANGE 7 us SLIDE 7 us] WHERE x < 9")
    plan = plan_of([BY_KEY.format("count(*) AS n", f"{HOPS} WHERE x > 9"), other], method)
    assert plan.groupings[0].hopping[1] == () and plan.groupings[0].all_hopping == ()
    (table,) = made(plan, [10] * 14)
    assert kept(table) == {4: 3, 11: 3} | gap
    mixed = plan_of(
        [BY_KEY.format("count(*) AS n", HOPS), BY_KEY.format("max(x) AS m", "[RANGE 7 us SLIDE 7 us]")], method
    )
    assert sum(kept(made(mixed, [1] * 14)[0]).values()) == 14


def test_what_fragments_keep_does_not_depend_on_the_events() -> None:
    """An event in a gap of its slot stays where another slot has no gaps, also if that one has no event at all."""
    other = BY_KEY.format("count(*) AS n", "[RANGE 7 us SLIDE 7 us] WHERE x < 9")
    plan = plan_of([BY_KEY.format("max(x) AS m", f"{HOPS} WHERE x > 9"), other], "fragments")
    assert kept(made(plan, [10] * 4)[0]) == {0: 4}


def test_windows_of_one_slot_are_taken_together() -> None:
    plan = plan_of([BY_KEY.format("count(*) AS n", w) for w in (HOPS, "[RANGE 1 us SLIDE 7 us OFFSET 2 us]")], "rows")
    assert kept(made(plan, [1] * 7)[0]) == {1: 1, 4: 3}


def test_windows_over_rows_leave_none_out() -> None:
    queries = [bind(parse_query("SELECT count(*) AS n FROM s [ROWS 3 SLIDE 7]"), {"s": STREAM})]
    plan = make_plan(STREAM, queries, axis=queries[0].axis)
    assert plan.groupings[0].hopping == ((),)


@pytest.mark.parametrize("method", ["rows", "fragments"])
def test_bad_values_are_counted_between_windows_too(method: str) -> None:
    plan = plan_of([BY_KEY.format("sum(x + 2147483647) AS t", HOPS)], method)
    (table,) = made(plan, [0, 1, 1, 0, 0, 1, 0])
    assert tally(table, plan.groupings[0]).bad == {"q0": 3}
    assert kept(made(plan, [0] * 7)[0]) == {4: 3}


@pytest.mark.parametrize("method", ["rows", "fragments"])
@pytest.mark.parametrize(
    "source", ["[RANGE 7 us SLIDE 7 us] WHERE x > 5", "[RANGE 7 us SLIDE 7 us] WHERE NOT (x < 5 OR k = 'b') AND x > 0",
               "[RANGE 2 us SLIDE 90 us]", "[RANGE 2 us SLIDE 90 us] WHERE x > 0"],
)  # fmt: skip
def test_nobody_is_grouped_for_a_query_without_events(
    method: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any) -> Any:
        raise AssertionError("groups")

    monkeypatch.setattr(kernel_events.Groups, "of", refuse)
    plan = plan_of([BY_KEY.format("sum(x) AS t, max(x) AS m", source)], method)
    (table,) = made(plan, [1] * 20)
    assert kept(table) == {}
    assert tally(table, plan.groupings[0]).events == 20
