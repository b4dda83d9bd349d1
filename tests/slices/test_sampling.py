"""What a sample of a batch says of it, against all of its events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from by_slices import bind
from memory_batch import MemoryBatch, as_events
from mullion.algebra.streams import Stream, Table
from mullion.kernels.lookup import prepare
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, STRING, TIMESTAMP
from mullion.planner.expected import expectations
from mullion.planner.plan import Plan
from mullion.planner.rules import make_plan
from mullion.planner.statistics import COUNTED, FOOTERS
from mullion.slices import sampling

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", BIGINT), ("y", DOUBLE)), "ts")
SITES = Table("sites", (("name", STRING), ("city", STRING)), "csv")


def plan(*texts: str) -> Plan:
    found = [bind(parse_query(t, name=f"q{i}"), {"s": STREAM}, {"sites": SITES}) for i, t in enumerate(texts)]
    return make_plan(STREAM, found)


def batch(rows: list[dict[str, Any]]) -> MemoryBatch:
    return MemoryBatch(STREAM, as_events(STREAM, [{"y": None, "x": 0, "k": "a", **row} for row in rows]), 0)


WINDOW = "[RANGE 1 min SLIDE 1 min]"


def test_a_small_batch_is_counted() -> None:
    rows = [
        {"ts": t, "k": k, "x": x} for t, k, x in [(7, "a", 1), (3, None, 2), (9, "b", 3), (None, "c", 4), (5, "a", 5)]
    ]
    made = plan(
        f"SELECT k, count(*) AS n FROM s {WINDOW} WHERE x > 2 GROUP BY k",
        f"SELECT x % 2, count(*) AS n FROM s {WINDOW} WHERE x > 1 GROUP BY x % 2",
        f"SELECT count(*) AS n FROM s {WINDOW}",
    )
    found = batch(rows).statistics(made.groupings)
    assert (found.events, found.oldest, found.newest, found.sampled) == (4, 3, 9, 4)
    assert (found.events_from, found.times_from) == (COUNTED, COUNTED)
    assert {name: groups.number for name, groups in found.groups.items()} == {"k": 3, "x % 2L": 2, "()": 1}
    assert found.groups["k"].frequencies.tolist() == [0.5, 0.25, 0.25]
    shares = [found.selectivity(g.name, predicate) for g in made.groupings for predicate in g.predicates]
    assert shares == [0.5, 0.75]


def test_nan_and_null_are_groups_like_any_other() -> None:
    values = [float("nan"), float("nan"), None, None, 0.0, -0.0]
    made = plan(f"SELECT y, count(*) AS n FROM s {WINDOW} GROUP BY y")
    found = batch([{"ts": t, "y": y} for t, y in enumerate(values)]).statistics(made.groupings)
    assert found.groups["y"].number == 3


def test_an_empty_batch_has_nothing() -> None:
    made = plan(f"SELECT k, count(*) AS n FROM s {WINDOW} WHERE x > 2 GROUP BY k")
    found = batch([]).statistics(made.groupings)
    assert (found.events, found.oldest, found.span, found.groups["k"].number) == (0, None, None, 0)
    assert found.selectivity("k", made.groupings[0].predicates[0]) is None


@pytest.mark.slow
def test_a_large_batch_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 of 20,000 events, groups as skewed as words are."""
    monkeypatch.setattr("memory_batch.MOST_SAMPLED", 2000)
    monkeypatch.setattr(sampling, "MOST_ASKED", 1000)
    dice = np.random.default_rng(3)
    keys = (dice.zipf(1.6, 20_000) % 500).tolist()
    numbers = dice.integers(0, 100, 20_000)
    rows = [{"ts": t, "k": str(key), "x": int(x)} for t, (key, x) in enumerate(zip(keys, numbers, strict=True))]
    made = plan(f"SELECT k, count(*) AS n FROM s {WINDOW} WHERE x < 30 GROUP BY k")
    found = batch(rows).statistics(made.groupings)
    right = len(set(keys))
    assert (found.events, found.sampled, found.events_from) == (20_000, 2000, FOOTERS)
    assert right / np.sqrt(10) <= found.groups["k"].number <= right * np.sqrt(10)
    assert found.selectivity("k", made.groupings[0].predicates[0]) == pytest.approx(0.3, abs=0.05)


def test_groups_of_looked_up_rows_need_the_tables() -> None:
    text = f"SELECT city, count(*) AS n FROM s {WINDOW} JOIN sites ON k = name WHERE x > 0 GROUP BY city"
    made = plan(text)
    (grouping,) = made.groupings
    rows = batch([{"ts": t, "k": k, "x": 1} for t, k in enumerate("aabbc")])
    assert rows.statistics(made.groupings).groups == {}
    table = pa.table({"name": ["a", "b", "b"], "city": ["Graz", "Linz", "Wels"]})
    prepared = tuple(prepare(lookup, table) for lookup in grouping.lookups)
    found = rows.statistics(made.groupings, prepared)
    # a is found once, b twice: three cities of six joined events, and c finds nothing.
    assert found.groups[grouping.name].number >= 3
    assert found.groups[grouping.name].is_exact


def test_a_few_events_far_away_do_not_stretch_time() -> None:
    """Ten of 3,000 events are a century later than the others, which come within an hour."""
    minute = 60_000_000
    rows = [{"ts": t * minute // 50, "k": str(t % 20)} for t in range(3000)]
    rows += [{"ts": 10**9 * minute + t, "k": "far"} for t in range(10)]
    made = plan(f"SELECT k, count(*) AS n FROM s {WINDOW} GROUP BY k")
    found = batch(rows).statistics(made.groupings)
    assert found.newest == 10**9 * minute + 9
    assert found.span == pytest.approx(60 * minute, rel=0.05)
    (expected,) = expectations([made], found)[0].values()
    assert expected.partials == pytest.approx(60 * 20, rel=0.15)
