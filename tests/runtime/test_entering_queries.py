"""What a stream makes of queries that come and go, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from by_slices import bind
from memory_batch import MemorySource
from mullion.algebra.streams import Stream
from mullion.errors import NotSupported
from mullion.language.parse import parse_query
from mullion.language.types import INT, TIMESTAMP
from mullion.options import Options
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.stream_run import StreamRun

STREAM = Stream("s", (("ts", TIMESTAMP), ("x", INT)), "ts")


def query(text: str, name: str = "q") -> SlicedAggregation:
    return bind(parse_query(text, name=name), {"s": STREAM})


def run(newest: int | None = None) -> StreamRun:
    sink: Any = None
    made = StreamRun(STREAM, sink, Options(), MemorySource(STREAM, forgets=True))
    made.newest = newest
    return made


@pytest.mark.parametrize(
    ("newest", "start_at", "start"),
    [(None, None, None), (7, None, 8), (7, 3, 8), (7, 12, 12), (-5, 0, 0), (0, None, 1), (-5, -9, -4)],
)
def test_windows_start_after_the_newest_event_and_not_before_start_at(
    newest: int | None, start_at: int | None, start: int | None
) -> None:
    at = "" if start_at is None else f"START AT TIMESTAMP '{_text(start_at)}'"
    text = f"CREATE QUERY q {at} AS SELECT count(*) AS c FROM s [RANGE 4 us SLIDE 2 us]"
    entrance, _ = run(newest).admission.enter(bind(parse_query(text), {"s": STREAM}))
    assert entrance.start == (start_at if newest is None else start)


def _text(micros: int) -> str:
    return f"1970-01-01 00:00:00.{micros:06d}" if micros >= 0 else f"1969-12-31 23:59:59.{1_000_000 + micros:06d}"


def test_slots_and_edges_of_a_dropped_query_are_reclaimed() -> None:
    stays = query("SELECT sum(x) AS t FROM s [RANGE 10 s SLIDE 5 s] WHERE x > 1", "stays")
    leaves = query("SELECT max(x) AS m FROM s [RANGE 7 s SLIDE 3 s] WHERE x < 9", "leaves")
    made = run()
    made.set_queries([stays, leaves])
    made.set_queries([stays])
    plan = made.sets["shared"].plan
    assert plan is not None
    (grouping,) = plan.groupings
    assert [slot.predicate for slot in grouping.slots] == [stays.predicate]
    assert plan.windows == (stays.window,)
    assert not any("max" in state.name for state in grouping.states)


def test_a_source_that_cannot_be_read_twice_refuses_what_nobody_kept() -> None:
    made = run(newest=100)
    wanted = query("CREATE QUERY q BACKFILL AS SELECT count(*) AS c FROM s [RANGE 40 us SLIDE 20 us]")
    with pytest.raises(NotSupported, match="cannot be read twice"):
        made.admission.check(wanted)
