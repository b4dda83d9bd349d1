"""What plans expect of a batch, against what the batch makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from by_slices import bind
from memory_batch import MemoryBatch, as_events
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.options import Method, Options
from mullion.planner.clusters import Clustering
from mullion.planner.expected import Expected, expectations, far_off, observed_before
from mullion.planner.observed import NOTHING_SEEN
from mullion.planner.plan import Pass, Plan
from mullion.planner.rules import make_plan
from mullion.planner.statistics import Statistics
from mullion.slices.bounds import EVERYWHERE
from mullion.slices.tally import tally

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", BIGINT)), "ts")
SECOND = 1_000_000
QUERIES = (
    "SELECT k, count(*) AS n FROM s [RANGE 18 s SLIDE 15 s] WHERE x < 40 GROUP BY k",
    "SELECT k, sum(x) AS n FROM s [RANGE 60 s SLIDE 20 s] WHERE x >= 80 GROUP BY k",
    "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]",
    "SELECT count(*) AS n FROM s [RANGE 30 s SLIDE 10 s] WHERE k = '3'",
)


def plan(method: str, *texts: str) -> Plan:
    found = [bind(parse_query(text, name=f"q{i}"), {"s": STREAM}) for i, text in enumerate(texts)]
    return make_plan(STREAM, found, Options(method=Method(method)))


@pytest.fixture(scope="module")
def batch() -> MemoryBatch:
    """20,000 events in ten minutes, of 50 groups of very different sizes."""
    dice = np.random.default_rng(1)
    times, keys = dice.integers(-300 * SECOND, 300 * SECOND, 20_000), dice.zipf(1.5, 20_000) % 50
    numbers = dice.integers(0, 100, 20_000)
    rows: list[dict[str, Any]] = [
        {"ts": t, "k": str(k), "x": x} for t, k, x in zip(times.tolist(), keys.tolist(), numbers.tolist(), strict=True)
    ]
    return MemoryBatch(STREAM, as_events(STREAM, rows), 0)


@pytest.mark.parametrize("method", ["fragments", "rows"])
def test_partials_are_about_as_many_as_expected(batch: MemoryBatch, method: str) -> None:
    made = plan(method, *QUERIES)
    (expected,) = expectations([made], batch.statistics(made.groupings))
    taken = batch.partials(Pass((made,)), (), EVERYWHERE)[0].taken
    assert expected.keys() == {"k", "()"}
    for grouping, (table,) in zip(made.groupings, taken, strict=True):
        counted = tally(table, grouping)
        assert expected[grouping.name].partials == pytest.approx(counted.partials, rel=0.25)
        assert expected[grouping.name].groups == counted.groups
        assert not far_off(expected, {grouping.name: Expected(counted.partials, counted.groups, counted.events)})


@pytest.mark.parametrize("method", ["fragments", "rows"])
@pytest.mark.parametrize("where", ["", "WHERE x < 40"])
def test_windows_of_one_predicate_share_their_slices(batch: MemoryBatch, method: str, where: str) -> None:
    """Forty windows have 8,000 slices of their own, and 600 edges together, one a second."""
    made = plan(
        method, *(f"SELECT count(*) AS n FROM s [RANGE {20 + i % 8} s SLIDE {2 + i % 5} s] {where}" for i in range(40))
    )
    (expected,) = expectations([made], batch.statistics(made.groupings))[0].values()
    ((table,),) = batch.partials(Pass((made,)), (), EVERYWHERE)[0].taken
    counted = tally(table, made.groupings[0])
    assert expected.partials == pytest.approx(counted.partials, rel=0.1)
    assert counted.partials <= 600


@pytest.mark.parametrize("method", ["fragments", "rows"])
def test_groups_that_no_query_selects_are_not_expected(batch: MemoryBatch, method: str) -> None:
    made = plan(method, "SELECT k, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] WHERE k < '2' GROUP BY k")
    (expected,) = expectations([made], batch.statistics(made.groupings))[0].values()
    ((table,),) = batch.partials(Pass((made,)), (), EVERYWHERE)[0].taken
    counted = tally(table, made.groupings[0])
    assert expected.groups == counted.groups == 12
    assert expected.partials == pytest.approx(counted.partials, rel=0.25)


@pytest.mark.parametrize("method", ["fragments", "rows"])
@pytest.mark.parametrize("where", ["", "WHERE x < 40"])
def test_events_between_windows_that_hop_leave_no_partials(batch: MemoryBatch, method: str, where: str) -> None:
    text = f"SELECT k, count(*) AS n FROM s [RANGE 1 s SLIDE 30 s] {where} GROUP BY k"
    made = plan(method, text)
    statistics = batch.statistics(made.groupings)
    (expected,) = expectations([replace(made, way="kernel")], statistics)[0].values()
    ((table,),) = batch.partials(Pass((made,)), (), EVERYWHERE)[0].taken
    counted = tally(table, made.groupings[0])
    assert expected.partials == pytest.approx(counted.partials, rel=0.25)
    assert expected.groups == pytest.approx(counted.groups, rel=0.25)
    assert Clustering(statistics).partials([made.queries]) == pytest.approx(counted.partials, rel=0.25)


def test_plans_together_expect_what_each_does_alone(batch: MemoryBatch) -> None:
    plans = [
        plan("rows", *QUERIES),
        plan("fragments", *QUERIES[:2]),
        plan("rows", QUERIES[1]),
        plan("rows", QUERIES[2]),
    ]
    statistics = batch.statistics(plans[0].groupings)
    alone = [expectations([made], statistics)[0] for made in plans]
    assert expectations(plans, statistics) == alone and all(alone)


def test_what_is_known_before_is_what_a_batch_shows(batch: MemoryBatch) -> None:
    made = plan("fragments", *QUERIES[:2])
    seen = observed_before(batch.statistics(made.groupings), made.groupings)
    assert (seen.events, seen.groups, seen.fragments) == (20_000, 50, 2)
    assert seen.alpha == pytest.approx(0.6, abs=0.02)
    assert seen.beta == pytest.approx(1.0)
    assert 590 * SECOND < seen.span <= 600 * SECOND


def test_what_is_not_known_is_assumed() -> None:
    made = plan("fragments", QUERIES[0])
    assert observed_before(Statistics(), made.groupings) is NOTHING_SEEN
    assert expectations([made], Statistics()) == [{}] and expectations([made, made], None) == [{}, {}]
    of_sizes = observed_before(Statistics(events=3 * NOTHING_SEEN.events), made.groupings)
    assert (of_sizes.events, of_sizes.span) == (3 * NOTHING_SEEN.events, 3 * NOTHING_SEEN.span)


def test_more_than_four_times_off_is_misjudged() -> None:
    expected = Expected(10_000, 50, 50_000)
    assert expected.misjudged(Expected(40_000, 50, 50_000)) is None
    assert expected.misjudged(Expected(40_001, 50, 50_000)) == "40,001 partials instead of about 10,000"
    assert expected.misjudged(Expected(2_000, 50, 50_000)) == "2,000 partials instead of about 10,000"
    assert expected.misjudged(Expected(9_000, 5_000, 50_000)) == "5,000 groups instead of about 50"
    assert Expected(10, 1, 50_000).misjudged(Expected(900, 200, 50_000)) is None, "few, whatever was expected"
    assert far_off({}, {"k": Expected(10, 10, 10)}) == {}


def test_what_is_expected_grows_by_no_more_than_the_events() -> None:
    expected = Expected(10_000, 5_000, 50_000)
    assert expected.misjudged(Expected(10_000, 5_000, 5_000_000)) is None, "all events are of groups that were there"
    assert expected.misjudged(Expected(1_000_000, 500_000, 5_000_000)) is None, "so are others of other groups"
    assert expected.misjudged(Expected(1_000, 500, 5_000)) is expected.misjudged(Expected(5_000, 5_000, 5_000)) is None
    assert expected.misjudged(Expected(100_000, 20_000, 100_000)) == "100,000 partials instead of about 20,000"
    assert expected.misjudged(Expected(1_000, 1_000, 25_000)) == "1,000 partials instead of about 5,000"
