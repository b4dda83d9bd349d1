"""Zones, granularities and the pyramid over them: by hand, and that batches do not matter."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.catalog.summaries import StreamSummary
from mullion.expressions.arrays import Codes, Times
from mullion.language.types import BIGINT
from mullion.slices.kernels.events import TIME
from mullion.summaries import zones as zones_module
from mullion.summaries.base import Summary
from mullion.summaries.column_summary import ColumnSummary
from mullion.summaries.counts import ExactCounts
from mullion.summaries.granularities import Collapse, Granularities
from mullion.summaries.kinds import KINDS
from mullion.summaries.pyramid import Pyramid
from mullion.summaries.summary_facts import stats
from mullion.summaries.zone_counts import EVERY, condition_on
from mullion.summaries.zones import DRIFT, LONGEST, START, STEP, Cuts, Zone, Zones

SMALL = {"counts": {}, "count_sketch": {"rows": 3, "width": 16, "buckets": 2}}


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zones_module, "BLOCK", 4)


def taken(cuts: Cuts, times: list[int], codes: list[int]) -> tuple[list[Zone], Zones]:
    zones = Zones(cuts, ExactCounts)
    ended = [zone for zone, _ in zones.take(np.array(times, np.int64), np.array(codes, np.int64), None)]
    return ended, zones


def test_a_zone_ends_where_keys_are_spread_differently() -> None:
    ended, zones = taken(Cuts(0.5, 100, 100), list(range(14)), [1, 1, 2, 1, 1, 2, 1, 1, 3, 3, 4, 3, 3, 4])
    (first,), newest = ended, zones.open
    assert (first.first, first.events, first.begins, first.ends, first.by) == (0, 8, 0, 7, START)
    assert newest is not None and (newest.first, newest.events, newest.begins, newest.by) == (8, 6, 8, DRIFT)
    assert first.summary.estimate(np.array([1, 2, 3])).tolist() == [6, 2, 0]
    assert newest.summary.estimate(np.array([1, 3, 4])).tolist() == [0, 4, 2]


def test_a_zone_ends_when_it_is_long_enough_and_at_every_step() -> None:
    ended, zones = taken(Cuts(2.0, 5, 10), [3, 4, 8, 9, 10, 10, 25], [1] * 7)
    assert [(zone.begins, zone.ends, zone.by) for zone in ended] == [(3, 4, START), (8, 9, LONGEST), (10, 10, STEP)]
    assert zones.open is not None and (zones.open.begins, zones.open.by) == (25, LONGEST)


def zone_at(begins: int, ends: int, first: int = 0) -> Zone:
    summary = ExactCounts()
    summary.summarize(np.array([begins]))
    return Zone(1, first, 1, begins, ends, STEP, summary)


def test_zones_collapse_by_age_and_leave_at_last() -> None:
    """G_1: 10 long. G_2: zones of 10, 20 long. G_3: zones of 20, 40 long. All reaches back 70."""
    past = Granularities(Collapse(granularity=10, rate=2, depth=3))
    for begins in range(0, 100, 5):
        past.add(zone_at(begins, begins + 4, begins), begins + 5)
    assert [(zone.granularity, zone.begins, zone.ends, zone.events) for zone in past] == [
        (3, 20, 39, 4),
        (3, 40, 59, 4),
        (3, 60, 69, 2),
        (2, 70, 79, 2),
        (2, 80, 89, 2),
        (1, 90, 94, 1),
        (1, 95, 99, 1),
    ]
    assert past.since == 19
    oldest = next(iter(past))
    assert oldest.summary.estimate(np.array([15, 20, 35])).tolist() == [0, 1, 1]


def test_the_oldest_go_when_memory_is_short() -> None:
    past = Granularities(Collapse(granularity=10, rate=2, depth=3))
    for begins in range(0, 100, 5):
        past.add(zone_at(begins, begins + 4, begins), begins + 5, most=64)
    assert past.nbytes <= 64 and [zone.begins for zone in past] == [80, 90, 95] and past.since == 79


@settings(max_examples=60)
@given(st.data(), st.sampled_from(list(SMALL)))
def test_a_pyramid_finds_what_is_there_and_adds_up_any_neighbours(data: st.DataObject, kind: str) -> None:
    keys = st.lists(st.integers(0, 12), max_size=8)
    parts = [np.array(part, np.int64) for part in data.draw(st.lists(keys, max_size=20))]
    summaries: list[Summary] = []
    for part in parts:
        summaries.append(KINDS[kind](**SMALL[kind]))
        summaries[-1].summarize(part)
    pyramid, asked = Pyramid(summaries), np.arange(14)
    found = {(hit.zone, int(asked[key])) for hit in pyramid.find(asked) for key in hit.keys}
    assert found >= {(zone, int(key)) for zone, part in enumerate(parts) for key in part}
    for hit in pyramid.find(asked):
        assert hit.counts.tolist() == summaries[hit.zone].estimate(asked[hit.keys]).tolist()
    for low in range(len(parts) + 1):
        for high in range(low, len(parts) + 1):
            total, plain = pyramid.total(low, high), KINDS[kind](**SMALL[kind])
            plain.summarize(np.concatenate([np.zeros(0, np.int64), *parts[low:high]]))
            if total is None:
                assert low == high
            else:
                assert total.snapshot().equals(plain.snapshot()) and total.events == plain.events


# A whole summary

STREAM = st.lists(st.tuples(st.integers(0, 6), st.one_of(st.none(), st.integers(0, 5))), max_size=80)


def definition(kind: str, memory: int | None = None, depth: int = 3) -> StreamSummary:
    options = tuple(SMALL[kind].items())
    return StreamSummary("s", "store", "item", kind, options, 10, 2, depth, 0.4, 5, memory)


def events(gaps: list[tuple[int, int | None]]) -> pa.Table:
    times = np.cumsum([gap for gap, _ in gaps], dtype=np.int64)
    return pa.table({TIME: times, "item": pa.array([key for _, key in gaps], pa.int64())})


def told(summary: ColumnSummary) -> tuple[object, ...]:
    zones = [(z.granularity, z.first, z.events, z.begins, z.ends, z.by) for z in summary.zones]
    return zones, [z.summary.snapshot() for z in summary.zones], summary.complete_after, stats(summary)


def restored(summary: ColumnSummary, commits: list[tuple[str, bool, pa.Table]]) -> ColumnSummary:
    """One that begins with what commits have."""
    parts: dict[str, list[pa.Table]] = {}
    for name, whole, table in commits:
        parts[name] = [table] if whole else [*parts[name], table]
    other = ColumnSummary(summary.definition)
    assert other.is_same(summary.snapshot())
    other.restore(summary.snapshot(), parts)
    return other


@settings(max_examples=150)
@given(
    stream=STREAM,
    cuts=st.lists(st.tuples(st.integers(0, 80), st.sampled_from(["", "commit", "whole", "restart"])), max_size=6),
    kind=st.sampled_from(list(SMALL)),
    memory=st.sampled_from([None, 100, 2_000]),
    depth=st.integers(1, 4),
)
def test_many_batches_are_one(
    stream: list[tuple[int, int | None]], cuts: list[tuple[int, str]], kind: str, memory: int | None, depth: int
) -> None:
    """To the bit, also across commits and restarts; copies that others read stay as they are."""
    table = events(stream)
    whole = ColumnSummary(definition(kind, memory, depth))
    whole.add_events(table, BIGINT)
    parts, commits = ColumnSummary(definition(kind, memory, depth)), list[tuple[str, bool, pa.Table]]()
    at = 0
    for until, what in sorted(cuts):
        before = told(parts)
        fed = parts.copy()
        fed.add_events(table.slice(at, max(until - at, 0)), BIGINT)
        assert told(parts) == before
        parts, at = fed, max(at, until)
        if what in ("commit", "whole", "restart"):
            commits += parts.tables(whole=what == "whole")
        if what == "restart":
            parts = restored(parts, commits)
    parts.add_events(table.slice(at), BIGINT)
    assert told(parts) == told(whole)


@settings(max_examples=60)
@given(stream=STREAM, memory=st.integers(1, 400), kind=st.sampled_from(list(SMALL)))
def test_memory_is_held_but_for_what_is_newest(stream: list[tuple[int, int | None]], memory: int, kind: str) -> None:
    """Zones that have ended fit; what was let go is said, and only what is older."""
    table, summary = events(stream), ColumnSummary(definition(kind, memory, depth=4))
    summary.add_events(table, BIGINT)
    *ended, newest = summary.zones or [None]
    assert sum(zone.summary.nbytes for zone in ended if zone is not None) <= memory
    since = summary.complete_after
    times = table[TIME].to_pylist()
    held = sum(zone.events for zone in (*ended, newest) if zone is not None)
    assert held == len(times) if since is None else held >= sum(time > since for time in times)


@settings(max_examples=150)
@given(
    stream=STREAM,
    after=st.integers(-1, 300),
    kind=st.sampled_from(list(SMALL)),
    memory=st.sampled_from([None, 200]),
    since=st.sampled_from([None, 30]),
)
def test_the_truth_lies_within_the_bounds(
    stream: list[tuple[int, int | None]], after: int, kind: str, memory: int | None, since: int | None
) -> None:
    table = events(stream)
    summary = ColumnSummary(definition(kind, memory), since=since)
    summary.add_events(table, BIGINT)
    if not summary.holds(after):
        assert summary.complete_after is not None and after < summary.complete_after
        return
    later = [key for time, key in zip(table[TIME].to_pylist(), table["item"].to_pylist(), strict=True) if time > after]
    low, value, high, _ = summary.counts.count(EVERY, after)
    assert low <= len(later) <= high and low <= value <= high
    counts = Counter(later)
    for nulls in (False, True) if KINDS[kind].is_exact else ():
        others = summary.counts.count(condition_on([1, 3], others=True, nulls=nulls), after)
        truth = sum(count for key, count in counts.items() if key not in (1, 3) and (nulls or key is not None))
        assert others.low <= truth <= others.high and others.low <= others.value <= others.high
        assert set(counts) - {None} <= set(summary.counts.codes(after).tolist())
    for key in range(7):
        bounds = summary.counts.count(condition_on([key]), after)
        assert bounds.low <= bounds.value <= bounds.high
        if KINDS[kind].is_exact:
            assert bounds.low <= counts[key] <= bounds.high
        if not any(zone.begins <= after < zone.ends for zone in summary.zones) and KINDS[kind].is_exact:
            assert bounds[:3] == (counts[key],) * 3


def test_counts_by_hand() -> None:
    summary = ColumnSummary(definition("counts"))
    summary.add_events(events([(1, 7), (1, 7), (1, 8), (20, 7), (1, None)]), BIGINT)
    assert summary.counts.count(condition_on([7]), 0)[:3] == (3, 3, 3)
    assert summary.counts.count(condition_on([7]), 1) == (1, 2, 3, 2), (
        "of the zone from 1 to 3 two of three instants lie inside"
    )
    assert summary.counts.count(condition_on([7]), 22)[:3] == (1, 1, 1)
    assert summary.counts.count(EVERY, 22)[:3] == (2, 2, 2) and summary.counts.count(EVERY, 23)[:3] == (0, 1, 2)


@pytest.mark.slow
def test_sketches_tell_within_bounds_as_often_as_they_say() -> None:
    """Over windows that end anywhere: each bound for at least 99 of 100 keys."""
    rng = np.random.default_rng(5)
    times: Times = np.sort(rng.integers(0, 3_000, 20_000))
    keys: Codes = (rng.pareto(1.1, 20_000) * 3).astype(np.int64)
    table = pa.table({TIME: times, "item": keys})
    own = StreamSummary("s", "store", "item", "count_sketch", (("width", 64), ("buckets", 4)), 100, 3, 4, 0.2, 50)
    summary = ColumnSummary(own)
    summary.add_events(table, BIGINT)
    asked = right = 0
    for after in (100, 1_000, 1_501, 2_777, 2_950):
        later = Counter(keys[times > after].tolist())
        for key in range(120):
            low, _, high, _ = summary.counts.count(condition_on([key]), after)
            asked, right = asked + 1, right + (low <= later[key] <= high)
            some = range(key, key + 4)
            inside = sum(later[one] for one in some)
            for values, truth in (
                (condition_on(some), inside),
                (condition_on(some, others=True), later.total() - inside),
            ):
                low, value, high, _ = summary.counts.count(values, after)
                asked, right = asked + 1, right + (low <= truth <= high)
                assert low <= value <= high
        each = summary.counts.each(np.arange(120), after)
        truths: Codes = np.array([later[key] for key in range(120)])
        asked, right = asked + 120, right + int(((each.low <= truths) & (truths <= each.high)).sum())
    assert right >= 0.99 * asked
