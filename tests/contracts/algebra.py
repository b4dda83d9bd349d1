"""What the contract tests share: every argument type with values that are hard for it, and every partial there is."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

from mullion.aggregates import REGISTRY, Aggregate, Partial, State
from mullion.aggregates.approx_distinct import HyperLogLog
from mullion.aggregates.approx_percentile import Quantiles
from mullion.aggregates.count_sketch import CountSketches
from mullion.aggregates.frequent import FrequentItems
from mullion.aggregates.top_lists import TopLists
from mullion.language.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    decimal,
)

NAN, INF = math.nan, math.inf

VALUES: dict[Type, tuple[Any, ...]] = {
    BOOLEAN: (True, False),
    TINYINT: (0, 1, -128, 127),
    SMALLINT: (0, -1, -(2**15), 2**15 - 1),
    INT: (0, 3, -(2**31), 2**31 - 1),
    BIGINT: (0, -1, 1, 2**53 + 1, -(2**63), 2**63 - 1),
    FLOAT: (0.0, -0.0, 0.5, -2.25, 2.0**100, NAN, INF, -INF),
    DOUBLE: (0.0, -0.0, 0.1, -1e9, 1e9 + 0.25, 1e-300, NAN, INF, -INF),
    decimal(10, 2): (Decimal("0.00"), Decimal("-0.01"), Decimal("99999999.99"), Decimal("1.10")),
    decimal(38, 0): (Decimal(0), Decimal(1), Decimal(10**37), Decimal(10**38 - 1), Decimal(1 - 10**38)),
    decimal(18, 4): (
        Decimal("0.0000"),
        Decimal("9" * 14 + ".9999"),
        Decimal("-0.0001"),
        Decimal("-" + "9" * 14 + ".0000"),
    ),
    decimal(38, 38): (Decimal(0).scaleb(-38), Decimal("-0." + "9" * 38), Decimal("0." + "3" * 38)),
    STRING: ("", "A", "a", "Ä", "\U0001f600", "\uffff", "x" * 5000),
    BINARY: (b"", b"\x00", b"\xff", b"a" * 5000),
    DATE: (0, -719_162, 2_932_896),
    TIMESTAMP: (0, -62_135_596_800_000_000, 253_402_300_799_999_999, -1),
    TIMESTAMP_NTZ: (0, 1, -1),
}


APPROXIMATE: dict[str, Aggregate] = {
    "approx_count_distinct": REGISTRY["approx_count_distinct"],
    "approx_percentile": REGISTRY["approx_percentile"].with_parameters((0.5,)),
    "frequent": REGISTRY["frequent"].with_parameters((Decimal("0.2"),)),
    "frequent by lists": REGISTRY["frequent"].with_parameters((Decimal("0.2"), 3)),
    "approx_frequency": REGISTRY["approx_frequency"].with_parameters((5,)),
}


def _reachable() -> dict[str, Partial]:
    found: dict[str, Partial] = {}
    for aggregate in (*REGISTRY.values(), *APPROXIMATE.values()):
        for type_ in (None, *VALUES):
            try:
                partials = aggregate.partials(type_)
            except TypeError:
                continue
            found |= {f"{p.kind}-{p.argument}": p for p in partials if not p.takes_order}
    return found


PARTIALS = _reachable()
IN_ORDER = ("decayed_sum", "decayed_until", "decayed_now")
"""Aggregates that need the times of events; `aggregates/test_decay.py` is about them."""
SIMPLE = [
    n for n, a in REGISTRY.items() if a.is_exact and not a.from_values and not a.keeps_nulls and n not in IN_ORDER
]
"""Exact aggregates of states that events are lifted to one by one."""
AGGREGATES = [(name, type_) for name in SIMPLE for type_ in VALUES]


def picked(state: State, index: Any) -> State:
    return tuple(field[index] for field in state)


def stored_values(partial: Partial, stored: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(vector.to_list() for vector in stored), strict=True))


def readable(partial: Partial, kept: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """States that are kept as bytes by what they know: sketches that know the same may hold it in another order."""
    if isinstance(partial, TopLists):
        return [(json.loads(lists) if lists else None, *rest) for lists, *rest in kept]
    if isinstance(partial, HyperLogLog):
        return [(partial.estimate(row[0] and partial.read(row[0])),) for row in kept]
    if isinstance(partial, CountSketches):
        opened = [row[0] and partial.read(row[0]) for row in kept]
        return [
            (None if tally is None else (tally.total, tally.counters(partial.width).tobytes()),) for tally in opened
        ]
    if isinstance(partial, Quantiles):
        opened = [[sketch and partial.read(sketch) for sketch in row] for row in kept]
        return [tuple(partial.quantile(row, i / 20) for i in range(21)) for row in opened]
    if isinstance(partial, FrequentItems):
        opened = [None if row[0] is None else partial.read(row[0]) for row in kept]
        items = [[] if sketch is None else partial.values(sketch.at_least(1)) for sketch in opened]
        return [tuple(sorted(map(repr, found))) for found in items]
    return kept


def near(a: Any, b: Any) -> bool:
    """Equal, but for the last digits of doubles."""
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-300)
    return bool(a == b) and (a is None) == (b is None)
