"""Keys in their order at the end of ORDER BY decide nothing, since ties go by keys."""

from __future__ import annotations

import pytest

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, STRING, TIMESTAMP

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("j", STRING), ("n", BIGINT)), "ts")


@pytest.mark.parametrize(
    ("order", "deciding"),
    [
        ("m DESC", 1),
        ("m DESC, k", 1),
        ("m DESC, k, j", 1),
        ("k, j", 0),
        ("k", 0),
        ("j, k", 1),  # k alone is the first key
        ("m DESC, j", 2),
        ("m, k DESC", 2),
        ("m, k NULLS LAST", 2),
        ("m, k, j DESC", 3),
        ("k, m", 2),
    ],
)
def test_what_order_by_decides(order: str, deciding: int) -> None:
    text = f"SELECT k, j, max(n) AS m FROM s [RANGE 4 s SLIDE 2 s] GROUP BY k, j ORDER BY {order} LIMIT 3"
    template = bind(parse_query(text), {"s": STREAM}, {}).template
    assert template.deciding_order == template.order_by[:deciding]
