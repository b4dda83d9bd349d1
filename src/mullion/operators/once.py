"""A question over relations that is asked once: the result as it is now, at the time of the newest event.

It is computed from the events that the streams keep, by the operators of standing queries in a network of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from mullion.catalog.algebra import LookedUp, Relation
from mullion.kernels.lookup import prepare
from mullion.language.types import TIMESTAMP
from mullion.language.vector import arrow_type
from mullion.operators.lives import EVER_BEFORE
from mullion.operators.looked_up import LookedUpOperator
from mullion.operators.network import Events, Network
from mullion.operators.result import Result
from mullion.planner.relations import answer_schema
from mullion.planner.update_pattern import pattern_of


def answer_now(
    relation: Relation, events: Mapping[str, Events], now: int, table: Callable[[str], pa.Table]
) -> pa.Table:
    """The rows that are there at the time `now`. `events` are those of each stream up to it, in their order."""
    network = Network()
    network.use([relation.root])
    for node, working in network.working.items():
        if isinstance(node, LookedUp):
            assert isinstance(working.operator, LookedUpOperator)
            working.operator.table_changed(prepare(node.lookup, table(node.lookup.table)), EVER_BEFORE)
    once = _at_one_instant(relation, now)
    assert once.stop is not None
    result = Result(once, pattern_of(relation.root), answer_schema(once), "upa")
    result.take(network.advance(events, now + 1)[relation.root])
    rows = result.answers(once.stop)
    return rows if relation.slide is not None else _as_of(rows, relation.longest, now)


def _at_one_instant(relation: Relation, now: int) -> Relation:
    """The last instant of a periodic question; otherwise the next microsecond, which sees what lives at `now`."""
    slide, offset = relation.slide or 1, relation.offset
    instant = now + 1 if relation.slide is None else (now - offset) // slide * slide + offset
    start = instant - (relation.longest or 0)
    return replace(relation, output="rstream", slide=slide, offset=offset, start=start, stop=instant)


def _as_of(rows: pa.Table, longest: int | None, now: int) -> pa.Table:
    time = arrow_type(TIMESTAMP)
    start = pa.nulls(len(rows), time) if longest is None else _times(now - longest, len(rows)).cast(time)
    rows = rows.set_column(0, rows.schema.field(0), start)
    return rows.set_column(1, rows.schema.field(1), _times(now, len(rows)).cast(time))


def _times(time: int, length: int) -> pa.Array:
    return pa.array(np.full(length, time, np.int64))


__all__ = ["answer_now"]
