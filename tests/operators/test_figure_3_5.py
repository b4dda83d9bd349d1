"""Both plans of Figure 3.5 at work, under all strategies: the same rows with the same lives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mullion.algebra.nodes import Node
from mullion.operators.network import Network, StepEvents
from mullion.options import Expiry
from relational_plans import NEGATION_ABOVE, NEGATION_BELOW, optimise

MINUTE = 60_000_000
LAST = 13


def arrivals(random: np.random.Generator, minute: int, count: int) -> StepEvents:
    times = np.sort(random.integers(minute * MINUTE, (minute + 1) * MINUTE, count))
    values = {
        name: pa.array(random.integers(*span, count), pa.int32()) for name, span in {"a": (0, 6), "b": (5, 20)}.items()
    }
    return StepEvents(pa.table({**values, "ts": pa.array(times).cast(pa.timestamp("us", "UTC"))}), times)


def lives(plan: Node, strategy: str, seed: int) -> list[str]:
    """Rows with when they came and when they left, after everything has left."""
    random = np.random.default_rng(seed)
    network = Network(strategy)
    network.set_roots([plan])
    found: dict[tuple[int, ...], list[object]] = {}
    for minute in range(LAST + 1):
        batch = {stream: arrivals(random, minute, count) for stream, count in {"S1": 5, "S2": 5, "S3": 2}.items()}
        now = (minute + (1 if minute < LAST else 60)) * MINUTE
        delta = network.advance(batch if minute < 10 else {}, now)[plan]
        rows = delta.fresh.rows.to_pylist()
        for row, id_, start, end in zip(rows, delta.fresh.ids, delta.fresh.start, delta.fresh.end, strict=True):
            found[tuple(id_)] = [sorted(row.items()), int(start), int(end)]
        for id_, at in zip(delta.retracted.ids, delta.retracted.at, strict=True):
            found[tuple(id_)][2] = int(at)
    return sorted(map(repr, found.values()))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_both_plans_under_all_strategies_give_the_same_rows_with_the_same_lives(seed: int) -> None:
    expected = lives(NEGATION_ABOVE, "upa", seed)
    assert len(expected) > 10
    for plan in (NEGATION_ABOVE, NEGATION_BELOW, optimise(NEGATION_ABOVE).root):
        for strategy in Expiry:
            assert lives(plan, strategy, seed) == expected
