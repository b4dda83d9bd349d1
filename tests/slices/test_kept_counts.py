"""Value counts of windows that slide from batch to batch, against the same answered from all sub-windows anew."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, STRING, TIMESTAMP
from mullion.planner.plan import Plan
from mullion.planner.rules import make_plan
from mullion.slices import kept, tier
from mullion.slices.finalize import Work
from mullion.slices.kept_counts import CountedWindow
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.slices.sorted_counts import SortedCounts
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tier import WindowTier
from mullion.slices.value_counts import ValueCounts

SECOND = 1_000_000
COLUMNS = (("ts", TIMESTAMP), ("sym", STRING), ("n", BIGINT), ("price", DOUBLE), ("note", STRING))
TRADES = Stream("trades", COLUMNS, "ts")
ITEMS = (
    "median(n) AS a, count(*) AS b",
    "percentile(price, 0.9) AS a, median(price) AS b, max(n) AS c",
    "count(DISTINCT note) AS a",
    "count(DISTINCT note, n) AS a, count(DISTINCT n) AS b",
    "mode(n) AS a, top_k(n, 2) AS b",
    "sum(DISTINCT price) AS a, avg(DISTINCT n) AS b, count(DISTINCT price) AS c",
    "median(n) FILTER (WHERE n > 2) AS a, mode(ts) AS b",
)
WINDOWS = ("RANGE 20 s SLIDE 2 s", "RANGE 15 s SLIDE 1 s", "RANGE 2 s SLIDE 5 s")
TEXTS = [
    f"SELECT {key}{items} FROM trades [{window}]{where}{group}"
    for i, items in enumerate(ITEMS)
    for window in WINDOWS[: 1 + (i + 1) % 3]
    for key, group in (("sym, ", " GROUP BY sym"), ("", ""))
    for where in ("", " WHERE n > 1", " WHERE n > 3")[: 1 + i % 3]
]


def plan_of(texts: list[str]) -> Plan:
    queries = [bind(parse_query(text, name=f"q{i}"), {"trades": TRADES}) for i, text in enumerate(texts)]
    return make_plan(TRADES, queries, axis=queries[0].axis)


def events_of(dice: np.random.Generator, low: int, high: int, number: int) -> pa.Table:
    """Events within seconds; groups and values come and go with time."""
    times = np.sort(dice.integers(low * SECOND, high * SECOND, number))
    era = times // (12 * SECOND)
    values = np.array([-0.0, 0.0, 1.5, math.nan, math.inf, -3.25, 1e300, 7.0])
    none = dice.random(number) < 0.1
    names = zip(era, dice.integers(0, 4, number), strict=True)
    return pa.table(
        {
            TIME: times,
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "sym": pa.array([["a", "b", f"e{e}", None][i] for e, i in names], pa.string()),
            "n": pa.array(dice.integers(0, 6, number) + era % 3, mask=none),
            "price": pa.array(values[dice.integers(0, 8, number)], mask=dice.random(number) < 0.1),
            "note": pa.array([f"x{i}" for i in dice.integers(0, 5, number) + era], pa.string(), mask=none),
        }
    )


def sub_windows(plan: Plan, events: pa.Table) -> list[PartialSubWindows]:
    windows = (plan.windows,) * len(plan.groupings)
    job = Job(plan.groupings, plan.methods, windows, Input(TRADES.types), plan.slicing)
    made = zip(partials(events, job), plan.groupings, strict=True)
    return [PartialSubWindows.of(table, grouping) for table, grouping in made]


def answered(own: WindowTier, plan: Plan, newest: int, watermark: int) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for grouping in plan.answering:
        due = own.due(grouping, 0, newest, watermark)
        for answers in own.answer(grouping, due.portions(1000), Work(), plan.counting(grouping)):
            for name, table in answers:
                rows += [(name, *map(repr, row.values())) for row in table.to_pylist()]
    return sorted(rows, key=repr)


def batches(dice: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    """Where batches begin and end, and how many events they have: also none, and after a gap."""
    now = 0
    for i in range(40):
        begin = now + (40 if i == 25 else 0)
        now = begin + int(dice.integers(1, 4))
        yield begin, now, int(dice.choice([0, 1, 12, 40]))


@pytest.mark.parametrize("seed", range(8))
def test_sliding_gives_what_building_anew_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng((7, seed))
    for name, value in {"STEP": 0.0, "MOVED": 0.0, "CELL": 0.0, "CALM": 1}.items():
        monkeypatch.setattr(kept, name, value)
    monkeypatch.setattr(tier, "MOST_ENTRIES", 5)
    monkeypatch.setattr(tier, "MOST_OF_A_GROUPING", 0)
    chosen = [TEXTS[i] for i in dice.permutation(len(TEXTS))[: 8 + 2 * seed]]
    plan, more = plan_of(chosen[:-2]), plan_of(chosen)
    sliding, anew, given, newest = WindowTier(), WindowTier(), 0, 0
    for begin, now, number in batches(dice):
        plan = more if begin > 30 else plan
        events = events_of(dice, begin, now, number)
        entries = sub_windows(plan, events)
        newest = max([newest, *events[TIME].to_pylist()])
        for own in (sliding, anew):
            for entry in entries:
                own.add_slices(np.unique(entry.slices))
                own.absorb(entry)
        anew.entries = anew.entries  # whatever was kept is not any more
        with monkeypatch.context() as patch:
            patch.setattr(kept, "STEP", math.inf)
            expected = answered(anew, plan, newest, now * SECOND)
        found = answered(sliding, plan, newest, now * SECOND)
        assert found == expected
        given += len(found) if len(sliding._kept) else 0
        for own in (sliding, anew):
            own.forget(plan, now * SECOND)
    assert given > 100


def test_texts_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A distinct count of texts that never come again keeps those of its window, and tells the same."""
    for name, value in {"STEP": 0.0, "MOVED": 0.0, "CELL": 0.0, "CALM": 1}.items():
        monkeypatch.setattr(kept, name, value)
    plan, own = plan_of(["SELECT count(DISTINCT note) AS a FROM trades [RANGE 2 s SLIDE 1 s]"]), WindowTier()
    for second in range(12):
        times = np.sort(np.random.default_rng(second).integers(second * SECOND, (second + 1) * SECOND, 500))
        notes = pa.array([f"{second} {i % 400}" if i else None for i in range(500)])
        nothing = {name: pa.nulls(500, type_) for name, type_ in (("sym", pa.string()), ("n", pa.int64()))}
        stamps = pa.array(times).cast(pa.timestamp("us", "UTC"))
        events = pa.table({TIME: times, "ts": stamps, "note": notes, **nothing, "price": pa.nulls(500, pa.float64())})
        for entry in sub_windows(plan, events):
            own.add_slices(np.unique(entry.slices))
            own.absorb(entry)
        (found,) = answered(own, plan, (second + 1) * SECOND - 1, (second + 1) * SECOND)
        assert found[-1] == str(400 if second == 0 else 800)
        own.forget(plan, (second + 1) * SECOND)
    (window,) = own._kept._kept.values()
    assert isinstance(window, CountedWindow)
    (counts,) = window._counts.values()
    assert len(counts._lines._values) <= 3 * 800 + 1024


@pytest.mark.parametrize("seed", range(20))
def test_sorted_counts_are_value_counts(seed: int) -> None:
    dice = np.random.default_rng((8, seed))
    size, ranges = 6, int(dice.integers(0, 5))
    codes = [np.sort(dice.permutation(size)[: dice.integers(0, size + 1)]) for _ in range(ranges)]
    counts = [dice.integers(1, 5, len(own)) for own in codes]
    lengths = np.array([len(own) for own in codes], np.int64)
    high = np.cumsum(lengths)
    low = high - lengths
    code, count = (np.concatenate([np.empty(0, np.int64), *own]) for own in (codes, counts))
    found, right = SortedCounts(count, low, high), ValueCounts(code, count, size).within(low, high)
    assert found.total.tolist() == right.total.tolist() and found.distinct.tolist() == right.distinct.tolist()
    some = np.flatnonzero(right.total)
    ranks = np.stack([np.zeros(ranges, np.int64), (right.total - 1).clip(0), right.total.clip(0) // 2])
    if len(some):
        assert code[found.ranked(ranks)][:, some].tolist() == right.ranked(ranks)[:, some].tolist()
    for k in (0, 1, 2, 9):
        (offsets, places, times), (right_offsets, right_codes, right_times) = found.top(k), right.top(k)
        assert offsets.tolist() == right_offsets.tolist() and times.tolist() == right_times.tolist()
        assert code[places].tolist() == right_codes.tolist()
    numbers = dice.integers(-9, 9, size)
    for kind in (np.int64, np.float64):
        own = numbers.astype(kind) / (1 if kind is np.int64 else 4)
        assert found.present_sums(own[code]).tolist() == right.present_sums(own).tolist()
