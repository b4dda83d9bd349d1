"""Questions asked at every moment of a batch: whatever they answer is right for the time that they state."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from by_slices import bind
from mullion import reference
from mullion.algebra.streams import Stream
from mullion.errors import MullionError
from mullion.language.parse import parse_query
from mullion.language.types import DOUBLE, INT, STRING, TIMESTAMP
from mullion.spark.results import OneAnswer
from mullion.storage import fault_points
from runtime.test_core_differential import assert_same, rows_of
from without_spark import EngineWithoutSpark, local_engine

LATENESS = 4
STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT), ("v", DOUBLE)), "ts", LATENESS)
SCRIPT = f"""
CREATE STREAM s (ts TIMESTAMP, k STRING, x INT, v DOUBLE) USING parquet OPTIONS (path 'nowhere')
TIMESTAMP BY ts LATENESS '{LATENESS} us' KEEP '40 us';
CREATE SYNOPSIS best ON s(v) USING ordered_sharing (rows 20);
CREATE SYNOPSIS grams ON s(x) USING timegram (buckets 4, rows 20);
CREATE QUERY periodic AS SELECT k, sum(x) AS n, max(v) AS h FROM s [RANGE 10 us SLIDE 5 us] GROUP BY k;
CREATE QUERY ordered AS SELECT sum(x) AS n FROM s [ROWS 4 SLIDE 2];
CREATE QUERY held MATERIALIZED AS SELECT k, x FROM s [RANGE 9 us] WHERE x > 0;
CREATE QUERY keys MATERIALIZED AS SELECT DISTINCT k FROM s [RANGE 6 us];
"""
QUESTIONS = {
    "SELECT max(v) AS h FROM s [ROWS 7]": "the synopsis best (ordered sharing)",
    "SELECT min(v) AS l FROM s [ROWS 20]": "the synopsis best (ordered sharing)",
    "SELECT k, sum(x) AS n FROM s [RANGE 10 us SLIDE 5 us] GROUP BY k": "the sub-windows that standing queries keep",
    "SELECT count(*) AS n, max(v) AS h FROM s [RANGE 12 us]": "the events that the stream keeps",
    "SELECT k, count(*) AS n FROM s [ROWS 6] GROUP BY k": "the events that the stream keeps",
}
Event = Mapping[str, Any]


def batches(rng: random.Random) -> list[list[Event]]:
    """Events with ties, and disorder within the lateness."""
    made: list[list[Event]] = []
    newest = 0
    for _ in range(rng.randrange(3, 8)):
        part: list[Event] = []
        low = newest - LATENESS
        for _ in range(rng.randrange(1, 9)):
            ts = rng.randrange(max(low, 0), newest + 5)
            v = rng.choice((0.5, 1.5, -2.0, None, 7.25, float(rng.randrange(9))))
            part.append({"ts": ts, "k": rng.choice("abc"), "x": rng.choice((1, 2, -3, None)), "v": v})
        newest = max(newest, *(e["ts"] for e in part))
        made.append(part)
    return made


class Asking:
    """Asks everything, and compares with what the reference says of the events up to the commit that was answered."""

    def __init__(self, engine: EngineWithoutSpark, given: list[list[Event]]) -> None:
        self.engine, self.given, self.rng = engine, given, random.Random(len(given))
        self.asked = self.materialised = 0
        self.reached: int | None = None
        """Up to when materialised results were known before."""
        self.committed = 0
        """Batches whose commit is done for sure; one more may be."""

    def something(self, step: str = "") -> None:
        """Two of the questions, while a batch is at work."""
        if not step.startswith("index"):
            self.everything(self.rng.sample(list(QUESTIONS), 2), between=1)

    def everything(self, texts: Sequence[str] = tuple(QUESTIONS), *, between: int = 0) -> None:
        """`between`: how many batches may be committed while it asks."""
        if not self.committed:
            return
        seen = [self.committed + more for more in range(between + 1)]
        for text in texts:
            source = QUESTIONS[text]
            answer = self.engine.ask(text)
            assert source in answer.answered_from or "kept" in answer.answered_from or "keep" in answer.answered_from
            self._check(text, answer, seen)
        if self.asked % 2:
            self._check_bounds(seen)
        else:
            self._check_materialised()
        self.asked += 1

    def _events(self, number: int) -> list[Event]:
        return [event for part in self.given[:number] for event in part]

    def _check(self, text: str, answer: OneAnswer, seen: list[int]) -> None:
        query = parse_query(text)
        bound = bind(query, {"s": STREAM})
        problems = []
        for number in dict.fromkeys(min(n, len(self.given)) for n in seen):
            try:
                assert_same(
                    bound, rows_of(bound, answer.to_arrow()), reference.ask(query, STREAM, self._events(number)).rows
                )
            except AssertionError as problem:
                problems.append(f"{number} batches: {problem}")
            else:
                newest = max(e["ts"] for e in self._events(number))
                slide = bound.frame.slide
                assert micros(answer.answered_up_to) == (newest if slide is None else newest // slide * slide)
                return
        raise AssertionError("\n".join([text, answer.answered_from, *problems]))

    def _check_bounds(self, seen: list[int]) -> None:
        answer = self.engine.ask("SELECT APPROX count(x) AS n, sum(x) AS t FROM s [ROWS 9]")
        (row,) = answer.to_arrow().to_pylist()
        for number in dict.fromkeys(min(n, len(self.given)) for n in seen):
            last = sorted(self._events(number), key=lambda e: e["ts"])[-9:]
            held = [e["x"] for e in last if e["x"] is not None]
            is_then = max(e["ts"] for e in last) == micros(answer.answered_up_to)
            is_all = row["n_low"] == row["n_high"] == len(held)
            if is_then and is_all and (not held or row["t_low"] <= sum(held) <= row["t_high"]):
                return
        raise AssertionError(row)

    def _check_materialised(self) -> None:
        """Rows of results are right for the time that is stated, whatever was read by then."""
        answer = self.engine.ask("SELECT h.k AS k, h.x AS x FROM held h JOIN keys y ON h.k = y.k")
        if answer.answered_up_to is None:
            assert self.reached is None
            return
        now = micros(answer.answered_up_to)
        assert self.reached is None or now >= self.reached
        self.reached = now
        known = [e for part in self.given for e in part if e["ts"] <= now]
        keys = {e["k"] for e in known if e["ts"] > now - 6}
        wanted = [(e["k"], e["x"]) for e in known if e["ts"] > now - 9 and (e["x"] or 0) > 0 and e["k"] in keys]
        found = [(row["k"], row["x"]) for row in answer.to_arrow().to_pylist()]
        assert sorted(found) == sorted(wanted), now
        self.materialised += bool(found)


def micros(time: datetime | None) -> int:
    assert time is not None
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[str], None]]:
    """What to do at each step of a batch; nobody cuts the power here, so nobody waits for the disk."""
    monkeypatch.setattr("os.fsync", lambda handle: None)
    found: list[Callable[[str], None]] = []
    monkeypatch.setattr(fault_points, "on_fault_point", found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_at_every_step_of_a_batch(seed: int, tmp_path: Path, moments: list[Callable[[str], None]]) -> None:
    """From callbacks, between the steps of a commit, after it, and after restarts."""
    rng = random.Random(seed)
    given = batches(rng)
    place: dict[str, Any] = {"checkpoint": tmp_path / "state", "out": tmp_path / "out"} if seed % 2 else {}
    restarts = {number for number in range(len(given)) if place and rng.random() < 0.4}
    done = 0
    asked = 0
    reached: int | None = None
    while done < len(given):
        with local_engine(SCRIPT, **place) as engine:
            asking = Asking(engine, given)
            asking.committed, asking.reached = done, reached
            asking.everything()
            moments[:] = [asking.something]
            engine.on_answer(lambda name, rows: asking.something())  # noqa: B023
            while done < len(given):
                engine.deliver("s", given[done], done)
                done += 1
                asking.committed = done
                asking.everything()
                if done in restarts:
                    break
            moments.clear()
            if done == len(given):
                engine.end("s")
                asking.everything()
                asking.everything()
            asked, reached = asked + asking.asked, asking.reached
            assert engine.failed_callbacks == {}
    assert asked > 2 * len(given)


@pytest.mark.slow
def test_from_another_thread(moments: list[Callable[[str], None]]) -> None:
    """A thread that asks all the time while batches are at work."""
    given = [part for seed in range(4) for part in batches(random.Random(seed))]
    shift, made = 0, []
    for part in given:
        made.append([{**event, "ts": event["ts"] + shift} for event in part])
        shift = max(event["ts"] for event in made[-1])
    with local_engine(SCRIPT) as engine:
        asking = Asking(engine, made)
        over, problems = threading.Event(), list[BaseException]()

        def ask() -> None:
            while not over.is_set() and not problems:
                try:
                    asking.everything(between=len(made))
                except BaseException as problem:
                    problems.append(problem)

        thread = threading.Thread(target=ask)
        thread.start()
        for number, part in enumerate(made):
            engine.deliver("s", part, number)
            asking.committed = max(1, number - 3)
        # However slow the machine is, the thread is through with every question once.
        while thread.is_alive() and not problems and not (asking.asked and asking.materialised):
            thread.join(0.01)
        over.set()
        thread.join()
        assert not problems, problems[0]
        assert asking.asked and asking.materialised


YEAR_2000 = 946_684_800
STREAM_THAT_KEEPS = """
CREATE STREAM s (ts TIMESTAMP, x INT) USING rate TIMESTAMP BY ts LATENESS '{lateness}' {keep}
"""


def test_a_batch_that_spans_more_time_than_a_later_one_is_not_taken_for_the_newest_events() -> None:
    """The second batch is let go, all of it being old, and the first stays for its newest event: of the events before
    that one, nobody knows any more which are the newest."""
    script = STREAM_THAT_KEEPS.format(lateness="1 h", keep="KEEP '10 s'")
    seconds = [[1, 2, 3, 100], [50, 51, 52]]
    with local_engine(script) as engine:
        for number, times in enumerate(seconds):
            engine.deliver("s", [{"ts": 1_000_000 * (YEAR_2000 + t), "x": t} for t in times], number)
        engine.deliver("s", [{"ts": 1_000_000 * (YEAR_2000 + 101), "x": 101}], 2)
        assert engine.ask("SELECT min(x) AS x FROM s [ROWS 1]").to_arrow()["x"].to_pylist() == [101]
        with pytest.raises(MullionError, match="no longer has all the events"):
            engine.ask("SELECT min(x) AS x FROM s [ROWS 4]")
