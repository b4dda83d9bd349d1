"""Many runs over a growing input, sharing a checkpoint, give what one run over all of it gives. Without a JVM."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.errors import CheckpointError, MullionError
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.service.steering import EPOCH
from seam_trials import Trial, trials
from seams import play
from without_spark import engine_without_spark, write_events

EVENTS = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("v", BIGINT)), "ts")
COUNTS = "SELECT count(*) AS n FROM s [RANGE 10 us SLIDE 10 us]"
KEYS = "SELECT DISTINCT k FROM s [RANGE 10 us SLIDE 10 us]"


@pytest.mark.slow
@settings(max_examples=40)
@given(trials())
def test_many_runs_are_one_run(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as base:
        play(trial, Path(base))


class World:
    """Streams s and t of events at whole microseconds, in a directory that grows."""

    def __init__(self, base: Path) -> None:
        self.base, self.files = base, 0

    def add(self, times: Sequence[int], stream: str = "s") -> None:
        events = [{"ts": time, "k": "xy"[time % 2], "v": time} for time in times]
        write_events(self.base / stream, self.files, EVENTS, events)
        self.files += 1

    def run(
        self, queries: dict[str, str], *, checkpoint: bool = True, lateness: int = 0, **how: Any
    ) -> dict[str, list[Any]]:
        """What queries have answered after one more run: the ends of windows with the first item."""
        place = {"checkpoint": self.base / "state"} if checkpoint else {}
        with engine_without_spark(out=self.base / "out", **place) as engine:
            self.prepare(engine, queries, lateness)
            engine.run(**how)
            return {name: told(engine, name) for name in queries}

    def prepare(self, engine: Engine, queries: dict[str, str], lateness: int = 0) -> None:
        for name in "st":
            engine.execute(
                f"CREATE STREAM {name} (ts TIMESTAMP, k STRING, v BIGINT) USING parquet "
                f"OPTIONS (path '{self.base / name}') TIMESTAMP BY ts LATENESS '{lateness} us'"
            )
        for name, text in queries.items():
            engine.query(text if text.startswith("CREATE") else f"CREATE QUERY {name} AS {text}")


def told(engine: Engine, name: str) -> list[Any]:
    rows = engine.results(name).to_arrow().to_pylist()
    return [(row["window_end"].microsecond, next(v for n, v in row.items() if n in "nk")) for row in rows]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_windows_that_shards_write_side_by_side_are_told_in_their_order(world: World) -> None:
    world.add([1, 2, 3, 4, 11, 12, 13, 14])
    with engine_without_spark(out=world.base / "out", shard_above=1) as engine:
        asked = {"q": "SELECT v % 10 AS k FROM s [RANGE 10 us SLIDE 10 us] GROUP BY v % 10"}
        world.prepare(engine, asked, lateness=100)
        engine.run()
        assert [end for end, _ in told(engine, "q")] == [10] * 4 + [20] * 4


def test_a_window_at_the_seam_holds_the_events_of_both_runs(world: World) -> None:
    asked = {"counts": COUNTS, "keys": KEYS}
    world.add([1, 3, 12, 14])
    assert world.run(asked) == {"counts": [(10, 2)], "keys": [(10, "y")]}
    world.add([15, 16, 23])
    assert world.run(asked)["counts"] == [(10, 2), (20, 4)]
    found = world.run(asked, close=True)
    assert found["counts"] == [(10, 2), (20, 4), (30, 1)]
    assert sorted(found["keys"]) == [(10, "y"), (20, "x"), (20, "y"), (30, "y")]


def test_without_a_checkpoint_the_end_of_the_input_is_the_end_of_the_stream(world: World) -> None:
    world.add([1, 3, 12, 14])
    assert world.run({"counts": COUNTS}, checkpoint=False)["counts"] == [(10, 2), (20, 2)]


def test_a_closed_run_may_be_started_again_while_nothing_has_come(world: World) -> None:
    asked = {"counts": COUNTS, "keys": KEYS}
    world.add([1, 3, 12, 14])
    closed = world.run(asked, close=True)
    assert closed["counts"] == [(10, 2), (20, 2)]
    assert world.run(asked) == world.run(asked, close=True) == closed


def test_a_query_that_joins_with_the_run_that_closes_stays_known(world: World) -> None:
    world.add([1, 3])
    world.run({"counts": COUNTS})
    both = {"counts": COUNTS, "more": COUNTS}
    assert world.run(both, close=True) == world.run(both) == {"counts": [(10, 2)], "more": []}


FOLLOWED = "SELECT l.k FROM s [RANGE 10 us SLIDE 10 us] l, t [RANGE 10 us SLIDE 10 us] r WHERE l.v = r.v + 1"
SUMS = "SELECT k, sum(v) AS n FROM s [RANGE 10 us SLIDE 10 us] GROUP BY k"


@pytest.mark.parametrize("at_work", [False, True], ids=["with a later run", "while one runs"])
def test_a_query_answers_the_window_that_starts_with_the_newest_event_before_it(world: World, at_work: bool) -> None:
    """Both streams have come to 20 when the queries enter: pairs and keys lack columns that nobody asked for then."""
    world.add([1, 19, 20])
    world.add([19, 20], "t")
    asked = {"counts": COUNTS, "keys_of_t": KEYS.replace("FROM s", "FROM t")}
    late = {"sums": SUMS, "pairs": FOLLOWED, "keys": KEYS}
    world.run(asked)
    places = {"out": world.base / "out", "checkpoint": world.base / "state"}
    with engine_without_spark(**places) as engine:
        world.prepare(engine, asked if at_work else asked | late)
        if at_work:
            engine.run()
            for name, text in late.items():
                engine.query(text, name=name)
        world.add([21, 22, 31])
        world.add([24, 31], "t")
        engine.run()
        found = {name: told(engine, name) for name in late}
    assert found["pairs"] == [(30, "y")]
    assert sorted(found["keys"]) == [(30, "x"), (30, "y")]
    assert sorted(found["sums"]) == [(30, "x"), (30, "y")]


IN_ORDER = (
    "ROWS 1",
    "ROWS 3 SLIDE 2",
    "ROWS 2 SLIDE 3 us",
    "PARTITION BY k ROWS 2 SLIDE 3",
    "RANGE 3 us",
    "RANGE 3 us SLIDE 2 TUPLES",
    "NOW",
    "RANGE UNBOUNDED SLIDE 2 TUPLES",
)


@pytest.mark.parametrize("others", [{}, {"rows": "SELECT count(*) AS n FROM s [ROWS 2]"}], ids=["first", "beside rows"])
def test_windows_over_the_order_of_events_start_with_the_newest_one(world: World, others: dict[str, str]) -> None:
    """Two events at 5 came before the queries, and one after: START AT 5 would have had all of them."""
    asked = {f"q{i}": f"SELECT count(*) AS n FROM s [{window}]" for i, window in enumerate(IN_ORDER)}
    start, whole = "START AT TIMESTAMP '1970-01-01 00:00:00.000005' AS", World(world.base / "whole")
    for times in ([1, 2, 5, 5], [5, 6, 8], [9, 20]):
        whole.add(times)
    right = whole.run({name: f"CREATE QUERY {name} {start} {text}" for name, text in asked.items()}, close=True)
    world.add([1, 2, 5, 5])
    world.run({"counts": COUNTS, **others})
    world.add([5, 6, 8])
    world.run({"counts": COUNTS, **others, **asked})
    world.add([9, 20])
    found = world.run({"counts": COUNTS, **others, **asked}, close=True)
    assert {name: found[name] for name in asked} == right and right["q0"][:3] == [(5, 1), (5, 1), (5, 1)]


def test_where_event_time_went_on_past_the_newest_event_windows_over_its_order_begin_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.add([1, 5])
    with engine_without_spark(out=world.base / "out", checkpoint=world.base / "state") as engine:
        world.prepare(engine, {"counts": COUNTS})
        engine.run()
        engine.advance("s", EPOCH + timedelta(microseconds=7))
        engine.query("SELECT count(*) AS n FROM s [ROWS 1]", name="late")
        world.add([8, 9])
        engine.run(close=True)
        assert told(engine, "late") == [(8, 1), (9, 1)]
    assert "not answered by late: that is not possible any more: event time has passed them" in caplog.text


@pytest.mark.parametrize("queries", [{"counts": COUNTS}, {"keys": KEYS}, {"counts": COUNTS, "keys": KEYS}])
@pytest.mark.parametrize("empty", [False, True], ids=["of some events", "of none"])
def test_what_comes_after_a_close_is_refused(world: World, queries: dict[str, str], empty: bool) -> None:
    if not empty:
        world.add([1, 3, 12, 14])
    closed = world.run(queries, close=True)
    with pytest.raises(CheckpointError, match="stream 's' was closed: it cannot be followed") as refused:
        world.run(queries, follow=True)
    assert "a new checkpoint" in str(refused.value)
    for text in (COUNTS, KEYS):
        with pytest.raises(CheckpointError, match="query 'new' is new to stream 's', which was closed"):
            world.run({**queries, "new": text})
    world.add([15, 16, 23])
    for close in (False, True, False):
        with pytest.raises(CheckpointError, match="stream 's' was closed, and there is more to read"):
            world.run(queries, close=close)
    with engine_without_spark(out=world.base / "out", checkpoint=world.base / "state") as engine:
        world.prepare(engine, queries)
        assert {name: told(engine, name) for name in queries} == closed


def test_an_engine_that_was_run_is_closed_unless_it_has_a_checkpoint(world: World) -> None:
    world.add([1, 3, 12, 14])
    with engine_without_spark() as engine:
        world.prepare(engine, {"counts": COUNTS})
        engine.run()
        engine.run()
        with pytest.raises(CheckpointError, match="query 'late' is new to stream 's', which was closed") as refused:
            engine.query(COUNTS, name="late")
        assert "give it a checkpoint" in str(refused.value)
        world.add([15])
        with pytest.raises(CheckpointError, match="there is more to read"):
            engine.run()
        assert told(engine, "counts") == [(10, 2), (20, 2)]


def test_only_input_that_ends_can_be_closed(world: World) -> None:
    with pytest.raises(MullionError, match="a run that follows its sources has no end"):
        world.run({"counts": COUNTS}, close=True, follow=True)
    with engine_without_spark() as engine:
        engine.execute("CREATE STREAM ticks (timestamp TIMESTAMP, value BIGINT) USING rate TIMESTAMP BY timestamp")
        engine.query("SELECT count(*) AS n FROM ticks [RANGE 1 s SLIDE 1 s]")
        with pytest.raises(MullionError, match="stream 'ticks' cannot be closed, since its source never ends"):
            engine.run(close=True)


def test_relations_go_on_where_one_of_their_streams_has_nothing_new(world: World) -> None:
    """What was known of it before still holds."""
    pairs = {
        "pairs": "SELECT count(*) AS n FROM s [RANGE 5 us SLIDE 5 us] s, t [RANGE 5 us] t WHERE s.k = t.k GROUP BY s.k"
    }
    world.add([1, 2])
    world.add([1, 3, 20], "t")
    world.run(pairs)
    world.add([7, 11])
    assert world.run(pairs)["pairs"] == [(5, 2)]


def test_a_relation_may_need_columns_that_events_in_waiting_lack(world: World) -> None:
    """They were read before it came, and it needs none of them."""
    world.add([1, 3, 5])
    world.run({"keys": KEYS})
    both = {"keys": KEYS, "values": "SELECT DISTINCT v AS n FROM s [RANGE 10 us SLIDE 10 us]"}
    assert world.run(both, close=True) == {"keys": [(10, "y")], "values": []}


UNBOUNDED = ("RANGE UNBOUNDED", "RANGE UNBOUNDED SLIDE 2 TUPLES", "RANGE UNBOUNDED SLIDE 2 us")


@pytest.mark.parametrize("window", UNBOUNDED)
def test_everything_since_a_start_goes_on_after_a_restart(world: World, window: str) -> None:
    text = f"CREATE QUERY q START AT TIMESTAMP '1970-01-01 00:00:00.000003' AS SELECT count(*) AS n FROM s [{window}]"
    whole = World(world.base / "whole")
    whole.add(range(12))
    expected = whole.run({"q": text}, close=True)["q"]
    for low, high in ((0, 7), (7, 9), (9, 12)):
        world.add(range(low, high))
        world.run({"q": text})
    assert world.run({"q": text}, close=True)["q"] == expected
    assert expected[-1][1] == 9


def test_a_window_without_events_waits_for_the_next_one_of_a_query_that_stops(world: World) -> None:
    """Nothing is answered after the last window that holds an event, and it is not known before which one that is."""
    text = "SELECT count(*) AS n FROM s [RANGE 3 us]"
    asked = {"q": f"CREATE QUERY q STOP AT TIMESTAMP '1970-01-01 00:00:00.000022' AS {text}"}
    for time in (1, 10, 10, 20, 30):
        world.add([time])
        world.run(asked)
    assert world.run(asked, close=True)["q"] == [(1, 1), (4, 0), (10, 2), (13, 0), (20, 1)]


def test_a_window_from_a_landmark_begins_with_an_earlier_event_that_comes_later(world: World) -> None:
    """As long as no window was answered, it is not known which one is the first."""
    text = "SELECT count(*) AS n FROM s [FROM TIMESTAMP '1970-01-01 00:00:00' SLIDE 10 us]"
    for time in (25, 5, 18):
        world.add([time])
        world.run({"q": text}, lateness=50)
    assert world.run({"q": text}, lateness=50, close=True)["q"] == [(10, 1), (20, 2), (30, 3)]


PAIRS = "SELECT p.k FROM s [RANGE 10 us SLIDE 10 us] p, t [RANGE 20 us SLIDE 10 us] q WHERE p.v = q.v"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (KEYS, [(20, "x"), (20, "y"), (30, "x")]),
        (f"ISTREAM ({KEYS})", [(20, "x")]),
        (f"DSTREAM ({KEYS})", [(30, "y"), (40, "x")]),
        (PAIRS, [(20, "x"), (20, "y")]),
    ],
)
def test_a_relation_that_joins_with_its_past_tells_what_it_would_have_told(
    world: World, text: str, right: list[Any]
) -> None:
    """The newest event is at 12 when it enters: everything up to then is not told, but is known."""
    world.add([1, 12])
    world.add([1, 12, 15], stream="t")
    world.run({"counts": COUNTS, "of_t": COUNTS.replace("FROM s", "FROM t")})
    asked = {"counts": COUNTS, "late": f"CREATE QUERY late BACKFILL AS {text}"}
    world.add([15])
    assert world.run(asked)["late"] == []
    world.add([24])
    assert sorted(world.run(asked, close=True)["late"]) == right


def test_a_relation_that_took_its_past_and_was_dropped_begins_anew(world: World) -> None:
    late = {"counts": COUNTS, "late": f"CREATE QUERY late BACKFILL AS {KEYS}"}
    world.add([1, 12])
    world.run({"counts": COUNTS})
    world.run(late)
    assert [path.name for path in (world.base / "state/relations").iterdir()] == ["s@late"]
    world.add([24])
    world.run({"counts": COUNTS})
    assert not list((world.base / "state/relations").iterdir())
    world.add([33])
    assert world.run(late, close=True)["late"] == [(30, "x"), (40, "y")]
