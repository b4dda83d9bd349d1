"""HAVING that asks for a number of events lets groups with fewer go before anything is made of them."""

from __future__ import annotations

import pytest

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, STRING, TIMESTAMP

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("n", BIGINT)), "ts")


@pytest.mark.parametrize(
    ("having", "least"),
    [
        ("count(*) >= 3", 3),
        ("count(*) > 3", 4),
        ("3 <= count(*)", 3),
        ("count(*) >= 2 AND min(n) < 5 AND count(*) > 6", 7),
        ("count(*) >= 9223372036854775807", 1 << 62),
        ("count(*) >= -1", 1),
        ("count(*) <= 3", 1),
        ("count(n) >= 3", 1),
        ("count(DISTINCT n) >= 3", 1),
        ("count(*) FILTER (WHERE n > 0) >= 3", 1),
        ("count(*) >= 3 OR max(n) > 1", 1),
        ("NOT count(*) >= 3", 1),
        ("count(*) >= 3 AND sum(n) + 1 > 0", 1),  # its overflow is counted for all groups
    ],
)
def test_what_having_asks_for(having: str, least: int) -> None:
    text = f"SELECT k, max(n) AS m FROM s [RANGE 4 s SLIDE 2 s] GROUP BY k HAVING {having}"
    query = bind(parse_query(text), {"s": STREAM}, {})
    assert query.template.least_events == least
