"""Windows that slide from batch to batch, against the same answered from all sub-windows anew."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from by_slices import bind
from mullion.aggregates import Partial
from mullion.aggregates.approx_distinct import HyperLogLog
from mullion.aggregates.count_sketch import CountSketches
from mullion.algebra.streams import Stream
from mullion.expressions.arrays import Times
from mullion.expressions.vector import Vector, arrow_type, dtype_of
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, STRING, TIMESTAMP, decimal
from mullion.planner.answering_ways import can_slide
from mullion.planner.plan import Grouping, Plan
from mullion.planner.rules import make_plan
from mullion.planner.slices import edges_between
from mullion.slices import kept, numbered_values, tier
from mullion.slices.finalize import Work
from mullion.slices.numbered_values import NumberedValues
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tier import WindowTier

SECOND = 1_000_000
COLUMNS = (
    ("ts", TIMESTAMP),
    ("sym", STRING),
    ("n", BIGINT),
    ("price", DOUBLE),
    ("amount", decimal(10, 2)),
    ("wide", decimal(30, 2)),
    ("note", STRING),
)
TRADES = Stream("trades", COLUMNS, "ts", lateness=5 * SECOND)
TEXTS = (
    "SELECT sym, count(*) AS c, sum(n) AS total FROM trades [RANGE 40 s SLIDE 2 s] GROUP BY sym",
    "SELECT sym, max(n) AS top, min(price) AS low, avg(price) AS mean FROM trades [RANGE 40 s SLIDE 2 s] GROUP BY sym",
    "SELECT sym, stddev_pop(price) AS spread FROM trades [RANGE 30 s SLIDE 1 s] GROUP BY sym HAVING count(*) > 2",
    "SELECT sym, sum(price) AS total FROM trades [RANGE 40 s SLIDE 2 s] WHERE n > 3 GROUP BY sym "
    "ORDER BY total DESC LIMIT 2",
    "SELECT max(n) AS top, count(*) AS c FROM trades [RANGE 30 s SLIDE 1 s]",
    "SELECT sym, min(amount) AS low, sum(amount) AS total FROM trades [RANGE 30 s SLIDE 2 s] GROUP BY sym",
    "SELECT sym, approx_frequency(n, 3, 0.9) AS threes FROM trades [RANGE 40 s SLIDE 2 s] GROUP BY sym",
    "SELECT approx_frequency(n, 3, 0.9) AS threes, approx_frequency(n, 5) AS fives FROM trades [RANGE 30 s SLIDE 1 s]",
)
MANY = tuple(
    f"SELECT sym, {items} FROM trades [RANGE {length} s SLIDE {slide} s] WHERE n > {least} GROUP BY sym"
    for least in range(6)
    for items in ("count(*) AS c, sum(n) AS total", "max(n) AS top")
    for length, slide in ((40, 2), (30, 1))
)
"""Families of several slots: they have their windows and states in common."""
NUMBERED = (
    "SELECT sym, max(note) AS top, min(note) AS low FROM trades [RANGE 40 s SLIDE 2 s] GROUP BY sym",
    "SELECT sym, max(wide) AS top, min(wide) AS low FROM trades [RANGE 40 s SLIDE 2 s] GROUP BY sym",
    "SELECT max(note) AS top, last(note) AS latest FROM trades [RANGE 30 s SLIDE 1 s]",
    "SELECT sym, first(note) AS a, last(n) AS b, first(wide, true) AS c FROM trades [RANGE 30 s SLIDE 1 s] "
    "GROUP BY sym",
    "SELECT sym, last(ts) AS a, last(note, true) AS b FROM trades [RANGE 40 s SLIDE 2 s] WHERE n > 3 GROUP BY sym",
)
"""States whose values a window that slides numbers."""
RANKED = "SELECT sym, {} AS top FROM trades [RANGE 40 s SLIDE 2 s] GROUP BY sym"


def plan_of(*texts: str) -> Plan:
    queries = [bind(parse_query(text, name=f"q{i}"), {"trades": TRADES}) for i, text in enumerate(texts)]
    return make_plan(TRADES, queries, axis=queries[0].axis)


def sub_windows(dice: np.random.Generator, grouping: Grouping, plan: Plan, low: int, high: int) -> PartialSubWindows:
    """Random partials of slices in [low, high): some groups come and go with time."""
    edges = edges_between(plan.windows, low - SECOND, high + SECOND, slicing="paired")
    edges = edges[(edges >= low) & (edges < high)]
    era = low // (25 * SECOND)
    groups, slots = 6, len(grouping.slots)
    cells = np.unique(dice.integers(0, len(edges) * groups * slots, dice.integers(0, 30))) if len(edges) else []
    at, group, slot = np.unravel_index(np.array(cells, np.int64), (len(edges), groups, slots))
    names = np.array(["a", "b", "c", f"e{era}", f"f{era}", None], np.object_)
    columns = {"slice": edges[at], "lane": slot.astype(np.int32)}
    if grouping.keys:
        columns["k0"] = pa.array(names[group], pa.string())
    for i, state in enumerate(grouping.states):
        if isinstance(state.partial, CountSketches | HyperLogLog):
            (sketches,) = state.partial.lift(Vector.of(BIGINT, dice.integers(1, 12, len(at)).tolist()))
            columns[f"s{i}_0"] = sketches.to_arrow()
            continue
        if state.partial.is_numbered:
            columns |= numbered(dice, state.partial, edges[at], f"s{i}_")
            continue
        for j, type_ in enumerate(state.partial.stored):
            values = dice.integers(1, 9, len(at)).astype(dtype_of(type_))
            columns[f"s{i}_{j}"] = Vector(type_, values, np.ones(len(at), np.bool_)).to_arrow()
    return PartialSubWindows.of(pa.table(columns), grouping)


def numbered(dice: np.random.Generator, partial: Partial, slices: Times, name: str) -> dict[str, pa.Array]:
    """States with values, of which some come once and some again; of ends with their places."""
    size, type_ = len(slices), partial.argument
    numbers = dice.integers(0, 40, size) + np.where(dice.random(size) < 0.3, slices // SECOND, 0)
    valid = (dice.random(size) < 0.9) | (len(partial.stored) == 1)  # where there is a count, there is a value
    if type_ == STRING:
        values = pa.array(
            [f"{'xyz'[n % 3]}{n}" if ok else None for n, ok in zip(numbers, valid, strict=True)], pa.string()
        )
    elif type_.kind == "decimal":
        values = pa.array([Decimal(int(n) - 30) * 10**20 if ok else None for n, ok in zip(numbers, valid, strict=True)])
        values = values.cast(arrow_type(type_))
    else:
        values = Vector(type_, numbers.astype(dtype_of(type_)), valid).to_arrow()
    if len(partial.stored) == 1:
        return {f"{name}0": values}
    present = np.asarray(values.is_valid()) if getattr(partial, "ignores_nulls", False) else np.ones(size, np.bool_)
    places = [slices + dice.integers(0, 3, size), dice.integers(0, 3, size), dice.integers(0, 1 << 40, size)]
    fields = [pa.array(present), *(pa.array(place.astype(np.int64)) for place in places), values]
    return {f"{name}{j}": field for j, field in enumerate(fields)}


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows slide whenever they can."""
    for name, value in {"STEP": 0.0, "MOVED": 0.0, "CELL": 0.0, "CALM": 1}.items():
        monkeypatch.setattr(kept, name, value)
    monkeypatch.setattr(tier, "MOST_ENTRIES", 5)
    monkeypatch.setattr(tier, "MOST_OF_A_GROUPING", 0)


def answered(own: WindowTier, plan: Plan, newest: int, watermark: int | None) -> list[tuple[object, ...]]:
    rows = []
    for grouping in plan.answering:
        due = own.due(grouping, 0, newest, watermark)
        for answers in own.answer(grouping, due.portions(20), Work()):
            for name, table in answers:
                rows += [(name, *map(rounded, row.values())) for row in table.to_pylist()]
    return sorted(rows, key=repr)


def rounded(value: object) -> object:
    return f"{value:.11g}" if isinstance(value, float) else value


def both_ways(plan: Plan, absorbed: Iterator[tuple[list[PartialSubWindows], int, Plan]]) -> int:
    """Go through batches with windows that slide and without; returns how many answers windows that slid gave."""
    sliding, anew, given = WindowTier(), WindowTier(), 0
    newest = 0
    for entries, watermark, plan in absorbed:
        for own in (sliding, anew):
            for entry in entries:
                own.add_slices(np.unique(entry.slices))
                own.absorb(entry)
        newest = max([newest, *(entry.newest for entry in entries)])
        anew.entries = anew.entries  # whatever was kept is not any more
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kept, "STEP", math.inf)
            expected = answered(anew, plan, newest, watermark)
        found = answered(sliding, plan, newest, watermark)
        assert found == expected
        given += len(found) if len(sliding._kept) else 0
        for own in (sliding, anew):
            own.forget(plan, watermark)
    return given


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_sliding_gives_what_building_anew_gives(seed: int) -> None:
    """Batches of some seconds, events up to five seconds late, batches without events, a gap, other queries."""
    dice = np.random.default_rng(seed)
    first = plan_of(*dice.choice(TEXTS, dice.integers(1, 4), replace=False))
    second = plan_of(*dice.choice(TEXTS, dice.integers(1, 5), replace=False))

    def batches() -> Iterator[tuple[list[PartialSubWindows], int, Plan]]:
        now, watermark = 0, -5 * SECOND
        for number in range(60):
            plan = second if 25 < number < 45 else first
            ahead = int(dice.integers(0, 4)) + (90 if number == 50 else 0)
            low, now = watermark, now + ahead * SECOND
            cut = [
                sub_windows(dice, grouping, plan, max(low, 0) if ahead < 90 else now, now)
                for grouping in plan.groupings
            ]
            watermark = now - 5 * SECOND
            yield cut, watermark, plan

    assert both_ways(first, batches()) > 200


@pytest.mark.parametrize("aggregate", ["mode(note)", "top_k(wide, 2)", "approx_count_distinct(n)"])
def test_what_does_not_slide_is_built_anew(aggregate: str) -> None:
    """The order of texts and sketches mean something only among those that are loaded together."""
    plan = plan_of(RANKED.format(aggregate))
    (grouping,) = plan.answering
    assert not can_slide(grouping.templates[1])


def test_other_states_slide() -> None:
    for aggregate in (
        "max(sym)",
        "min(wide)",
        "first(n)",
        "last(sym)",
        "max(n)",
        "min(amount)",
        "sum(wide)",
        "avg(price)",
        "stddev_pop(price)",
        "max(ts)",
        "approx_frequency(sym, 'a')",
        "median(n)",
        "mode(ts)",
        "count(DISTINCT note)",
        "count(DISTINCT note, n)",
    ):
        (grouping,) = plan_of(RANKED.format(aggregate)).answering
        assert can_slide(grouping.templates[1]), aggregate


@pytest.mark.usefixtures("eager")
def test_by_hand() -> None:
    """A window of 4 s every second: 2 enters, 7 leaves, and the largest that is left counts."""
    plan = plan_of("SELECT sym, max(n) AS top, sum(n) AS total FROM trades [RANGE 4 s SLIDE 1 s] GROUP BY sym")
    (grouping,) = plan.groupings
    own = WindowTier()
    found = []
    for second, value in enumerate([7, 5, 1, 3, 2, 4]):
        own.absorb(one_row(grouping, second, value))
        own.add_slices(np.array([second * SECOND]))
        found += answered(own, plan, second * SECOND, second * SECOND)
        own.forget(plan, second * SECOND)
    assert len(own._kept) == 1
    assert [row[-2:] for row in found] == [(7, 7), (7, 12), (7, 13), (7, 16), (5, 11)]


def one_row(grouping: Grouping, second: int, value: int) -> PartialSubWindows:
    columns: dict[str, object] = {"slice": [second * SECOND], "lane": np.zeros(1, np.int32), "k0": pa.array(["a"])}
    for i, state in enumerate(grouping.states):
        whole = {"rows": 1, "count(n)": 1}.get(state.name, value)
        fields = [0, value] if len(state.partial.stored) == 2 else [whole]
        columns |= {f"s{i}_{j}": [field] for j, field in enumerate(fields)}
    return PartialSubWindows.of(pa.table(columns), grouping)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_slots_that_slide_together(seed: int) -> None:
    """Many conditions over few windows; queries leave and others come, some of which cannot slide."""
    dice = np.random.default_rng(seed)
    plans = []
    for _ in range(3):
        texts = [*dice.choice(MANY, dice.integers(2, 14), replace=False), *dice.choice(TEXTS, 1)]
        plans.append(plan_of(*texts, RANKED.format("approx_count_distinct(n)")))

    def batches() -> Iterator[tuple[list[PartialSubWindows], int, Plan]]:
        now, watermark = 0, -5 * SECOND
        for number in range(60):
            plan = plans[number // 20]
            low, now = watermark, now + int(dice.integers(0, 4)) * SECOND
            cut = [sub_windows(dice, grouping, plan, max(low, 0), now) for grouping in plan.groupings]
            watermark = now - 5 * SECOND
            yield cut, watermark, plan

    assert both_ways(plans[0], batches()) > 200


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("room", [1 << 32, 2])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_values_that_are_numbered(seed: int, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts, wide decimals and whatever is first or last; with little room all labels become others again and again."""
    monkeypatch.setattr(numbered_values, "ROOM", room)
    dice = np.random.default_rng(seed)
    plan = plan_of(*dice.choice(NUMBERED, dice.integers(1, 4), replace=False), *dice.choice(TEXTS, 1))

    def batches() -> Iterator[tuple[list[PartialSubWindows], int, Plan]]:
        now, watermark = 0, -5 * SECOND
        for number in range(80):
            low, now = watermark, now + int(dice.integers(0, 4)) * SECOND + (90 if number == 60 else 0) * SECOND
            low = max(low, 0) if number != 60 else now
            cut = [sub_windows(dice, grouping, plan, low, now) for grouping in plan.groupings]
            watermark = now - 5 * SECOND
            yield cut, watermark, plan

    assert both_ways(plan, batches()) > 100


def test_labels_by_hand() -> None:
    """a and c are there; b comes between them, and z after all."""
    state = next(s for s in plan_of(NUMBERED[0]).groupings[0].states if s.partial.kind == "max")
    moved: list[tuple[list[int], list[int]]] = []
    values = NumberedValues(state, lambda before, after: moved.append((before.tolist(), after.tolist())))
    rows = [PartialSubWindows(pa.table({"slice": [0, 0], f"{state.name}.0": own})) for own in (["c", "a"], ["b", None])]
    (c, a), (b, nothing) = values.load(rows[:1])[0].tolist(), values.load(rows[1:])[0].tolist()
    assert nothing < a < b < c and not moved
    found, valid = values.finished((np.array([b, nothing, c]),))
    assert found.tolist() == ["b", None, "c"] and valid.tolist() == [True, False, True]


@pytest.mark.usefixtures("eager")
def test_what_does_not_fit_is_built_anew() -> None:
    """Two families, and room for one."""
    plan = plan_of(TEXTS[0], TEXTS[2])
    (grouping,) = plan.groupings
    dice, own, kinds = np.random.default_rng(5), WindowTier(), set()
    for number in range(60):
        entry = sub_windows(dice, grouping, plan, number * SECOND, (number + 1) * SECOND)
        own.add_slices(np.unique(entry.slices))
        own.absorb(entry)
        answered(own, plan, (number + 1) * SECOND - 1, (number + 1) * SECOND)
        own.forget(plan, (number + 1) * SECOND)
        if number == 40:
            assert len(own._kept) == 2
            own.limit_kept(own.kept_size - 1)
        elif number > 41:
            kinds.add(len(own._kept))
    assert kinds == {1}


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_past_that_comes_later_is_taken_in() -> None:
    """Slices that were taken in change, as when a past is read once more: the window is built again."""
    plan = plan_of(TEXTS[1])
    (grouping,) = plan.groupings
    dice = np.random.default_rng(3)

    def batches() -> Iterator[tuple[list[PartialSubWindows], int, Plan]]:
        for number in range(2, 60):
            low = (number - 2) * 2 * SECOND
            entries = [sub_windows(dice, grouping, plan, low, low + 2 * SECOND)]
            if number % 7 == 0:
                entries.append(sub_windows(dice, grouping, plan, max(0, low - 20 * SECOND), low))
            yield entries, low, plan

    assert both_ways(plan, batches()) > 100


@pytest.mark.slow
def test_a_backlog_is_built_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept for many windows at once, for a window that moves on by all of itself, or for few rows."""
    monkeypatch.setattr(kept, "STEP", 5.0)
    monkeypatch.setattr(kept, "MOVED", 5.0)
    monkeypatch.setattr(kept, "ANEW", 0.0)
    dice = np.random.default_rng(1)
    for text, batch, slides in ((TEXTS[0], 2, True), (TEXTS[0], 30, False), (TEXTS[0].replace("40", "2"), 2, False)):
        plan = plan_of(text)
        (grouping,) = plan.groupings
        own, now, ever = WindowTier(), 0, 0
        for _ in range(30):
            for low in range(now, now + batch, 2):
                entry = sub_windows(dice, grouping, plan, low * SECOND, (low + 2) * SECOND)
                own.add_slices(np.unique(entry.slices))
                own.absorb(entry)
            now += batch
            answered(own, plan, now * SECOND - 1, now * SECOND)
            own.forget(plan, now * SECOND)
            ever = max(ever, len(own._kept))
        assert bool(ever) == slides


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_states_of_another_query_are_added() -> None:
    """A query that enters over the same window with another aggregate: the window is built again with both."""
    before, after = plan_of(TEXTS[0]), plan_of(TEXTS[0], TEXTS[1])
    dice = np.random.default_rng(9)

    def batches() -> Iterator[tuple[list[PartialSubWindows], int, Plan]]:
        for number in range(70):
            plan = before if number < 30 else after
            low = number * 2 * SECOND
            yield [sub_windows(dice, g, plan, low, low + 2 * SECOND) for g in plan.groupings], low, plan

    assert both_ways(before, batches()) > 100
