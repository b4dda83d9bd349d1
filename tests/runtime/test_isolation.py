"""What questions see of an engine whose windows slide while they read: each its state, none a mixture."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.errors import MullionError
from mullion.options import Isolation
from mullion.slices import pieces
from runtime.test_asking import micros
from runtime.test_asking_anything import ITEMS, WINDOWS
from without_spark import EngineWithoutSpark, local_engine

STREAM = """
CREATE STREAM s (ts TIMESTAMP, k STRING, x INT, v DOUBLE) USING parquet OPTIONS (path 'nowhere')
TIMESTAMP BY ts LATENESS '0 s' AHEAD '3000000 days' {keep};
"""
QUERY = "CREATE QUERY q AS SELECT k, sum(x) AS t, max(x) AS m FROM s [RANGE '100 us' SLIDE '1 us'] GROUP BY k;"
YEAR = 365 * 86_400 * 1_000_000
BATCH = 4
"""Events of a batch, one every microsecond."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few events are many pieces, all of which are reduced."""
    monkeypatch.setattr(pieces, "LEAST_ROWS", 0)
    monkeypatch.setattr(pieces, "MOST_ROWS", 3)


def batch(number: int, size: int = BATCH) -> list[dict[str, Any]]:
    times = range(10 * YEAR + number * size, 10 * YEAR + (number + 1) * size)
    return [{"ts": t, "k": "ab"[t % 2], "x": t * 7 % 11, "v": t * 5 % 13 / 4} for t in times]


def rows(engine: EngineWithoutSpark, text: str, isolation: str) -> list[dict[str, Any]]:
    answer = engine.ask(text, isolation=isolation)
    return sorted(answer.to_arrow().to_pylist(), key=str)


def during(engine: EngineWithoutSpark, act: Callable[[], None]) -> None:
    """Do something whenever a reader has read a sub-window, unless it holds the window."""
    published = engine._runs.published

    def record(kind: str, *what: Any) -> None:
        if kind == "read" and not published._holding_back:
            act()

    published.record = record


def check_latest(engine: EngineWithoutSpark, question: str, isolation: str, act: Callable[[], None]) -> None:
    """While `act` happens, a question sees what a snapshot after it shows, or is refused as that one is."""
    found, refused = None, ""
    during(engine, act)
    try:
        found = rows(engine, question, isolation)
    except MullionError as problem:
        refused = str(problem)
    during(engine, lambda: None)
    if found is None:
        with pytest.raises(MullionError) as again:
            rows(engine, question, "snapshot")
        assert str(again.value) == refused
    else:
        assert found == rows(engine, question, "snapshot"), question


def test_the_smallest_example() -> None:
    """A batch comes after the first of two sub-windows was read. The state when asked is 1 + 2, when answered 2 + 4."""
    script = STREAM.format(keep="") + "CREATE QUERY q AS SELECT sum(x) AS t FROM s [RANGE '9 us' SLIDE '1 us']"
    text = "SELECT sum(x) AS t FROM s [RANGE '2 us' SLIDE '1 us']"
    given_ = [[{"ts": 10 * YEAR + i, "k": "a", "x": x, "v": None}] for i, x in enumerate((1, 2, 4, 8))]
    found = {}
    for isolation in Isolation:
        with local_engine(script) as engine:
            for number in range(3):
                engine.deliver("s", given_[number], number)
            late = iter([3])
            during(engine, lambda engine=engine, late=late: [engine.deliver("s", given_[n], n) for n in late] and None)
            found[isolation.value] = [row["t"] for row in rows(engine, text, isolation)]
    assert found == {"snapshot": [3], "latest": [6], "restarting": [6], "serial": [3]}


def test_a_name_that_is_none() -> None:
    with (
        local_engine(STREAM.format(keep="KEEP 10 ROWS")) as engine,
        pytest.raises(MullionError, match=r"^isolation is one of snapshot, latest, restarting, serial, not 'newest'$"),
    ):
        engine.ask("SELECT count(*) AS n FROM s [ROWS 3]", isolation="newest")


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["", "KEEP 1000000 ROWS"])
def test_at_rest_all_are_alike(keep: str) -> None:
    queries = "".join(f"CREATE QUERY q{i} AS SELECT {items} FROM s [RANGE 9 us SLIDE 1 us] {'GROUP BY k' * (i == 2)};"
                      for i, items in enumerate(ITEMS))  # fmt: skip
    answered = 0
    with local_engine(STREAM.format(keep=keep) + queries) as engine:
        for number in range(4):
            engine.deliver("s", batch(number, 5), number)
        for window in (*WINDOWS, "RANGE 8 us SLIDE 1 us", "RANGE 4 us", "RANGE 6 us SLIDE 2 us"):
            for items in ITEMS:
                text = f"SELECT {items} FROM s [{window}]" + (" GROUP BY k" if items.startswith("k") else "")
                try:
                    wanted = rows(engine, text, "snapshot")
                except MullionError as problem:
                    for isolation in ("latest", "restarting", "serial"):
                        with pytest.raises(MullionError, match=r"^stream 's' keeps no events|no longer has all"):
                            rows(engine, text, isolation)
                    assert not keep, problem
                    continue
                assert [rows(engine, text, i) for i in ("latest", "restarting", "serial")] == [wanted] * 3
                answered += 1
    assert answered >= 9


QUESTIONS = (
    "SELECT k, sum(x) AS t, max(x) AS m, count(DISTINCT x) AS d FROM s [RANGE '7 us' SLIDE '1 us'] GROUP BY k",
    "SELECT sum(x) AS t, median(v) AS m FROM s [RANGE '9 us' SLIDE '2 us'] WHERE x > 3",
    "SELECT count(*) AS n FROM s [RANGE '5 us']",
    "SELECT max(x) AS m FROM s [ROWS 5]",
    "SELECT a.x AS x, b.v AS v FROM s [RANGE '4 us'] a, s [RANGE '4 us'] b WHERE a.k = b.k",
    "SELECT k, x FROM big",
    "SELECT APPROX max(v) AS m FROM s [ROWS 4]",
    "SELECT APPROX count(*) AS n FROM s [RANGE '9 us'] WHERE x = 4",
)
STANDING = """
CREATE QUERY w AS SELECT k, sum(x) AS t, max(x) AS m, count(DISTINCT x) AS d FROM s [RANGE '11 us' SLIDE '1 us']
GROUP BY k;
CREATE QUERY p AS SELECT sum(x) AS t, median(v) AS m FROM s [RANGE '12 us' SLIDE '1 us'] WHERE x > 3;
CREATE QUERY big MATERIALIZED AS SELECT k, x FROM s [RANGE '12 us'] WHERE x > 2;
CREATE SYNOPSIS top ON s(x) USING ordered_sharing (rows 20);
CREATE SYNOPSIS gram ON s(v) USING timegram (buckets 4, rows 20);
CREATE SUMMARY often ON s(x) WITH GRANULARITY 4 us AND COLLAPSE (2, 3);
"""


@pytest.mark.slow
@settings(max_examples=15)
@given(st.data())
def test_whatever_happens_between_two_reads(data: st.DataObject) -> None:
    """Batches, late events, queries that come and go and the end of the stream, while a question reads: it answers what
    a question answers that is asked the moment after."""
    isolation = data.draw(st.sampled_from(["latest", "restarting"]))
    with local_engine(STREAM.format(keep="KEEP 40 ROWS") + STANDING) as engine:
        state = {"batch": 0, "queries": 0, "ended": False}

        def deliver() -> None:
            if not state["ended"]:
                size = data.draw(st.integers(1, 6))
                made = batch(state["batch"], 6)[:size]
                if data.draw(st.booleans()):
                    made = [*made, {**made[0], "ts": made[0]["ts"] - 9}]
                engine.deliver("s", made, state["batch"])
                state["batch"] += 1

        def act() -> None:
            what = data.draw(st.sampled_from(["nothing", "nothing", "deliver", "deliver", "query", "drop", "end"]))
            if what == "deliver":
                deliver()
            elif what == "query" and not state["ended"]:
                state["queries"] += 1
                name = f"n{state['queries']}"
                engine.query("SELECT k, min(x) AS l FROM s [RANGE '6 us' SLIDE '3 us'] GROUP BY k", name=name)
            elif what == "drop" and state["queries"]:
                engine.drop(f"n{state['queries']}")
                state["queries"] -= 1
            elif what == "end" and data.draw(st.booleans()):
                engine.end("s")
                state["ended"] = True

        for _ in range(data.draw(st.integers(1, 5))):
            deliver()
        for question in data.draw(st.permutations(QUESTIONS)):
            check_latest(engine, question, isolation, act)


@pytest.mark.parametrize("question", ["SELECT k, x, y FROM pairs", "SELECT x, y FROM pairs WHERE k = 'a'"])
@pytest.mark.parametrize("updates", [0, 1, 3])
@pytest.mark.slow
def test_what_goes_into_a_kept_result_is_copied_to_its_readers(question: str, updates: int) -> None:
    """Rows of a join end at different times, so an update of the index puts rows into any sub-index (golab 7.4.3). One
    update under a reader makes it read nothing again; after several, it begins with the newest index."""
    script = (
        STREAM.format(keep="")
        + """
    CREATE QUERY pairs MATERIALIZED AS SELECT a.k AS k, a.x AS x, b.x AS y
    FROM s [RANGE '64 us'] a, s [RANGE '32 us'] b WHERE a.k = b.k AND a.x > 7;
    """
    )
    with local_engine(script) as engine:
        for number in range(20):
            engine.deliver("s", batch(number), number)
        published, seen = engine._runs.published, list[str]()
        number = 20

        def record(kind: str, *what: Any) -> None:
            nonlocal number
            seen.append(kind)
            if kind == "read" and seen.count("read") == 3:
                for number in range(20, 20 + updates):
                    engine.deliver("s", batch(number), number)

        published.record = record
        found = rows(engine, question, "latest")
        published.record = lambda *event: None
        assert found and found == rows(engine, question, "snapshot")
        assert seen.count("in vain") == (3 if updates == 3 else 0)


# Threads

SUB_WINDOWS = "SELECT k, sum(x) AS t, max(x) AS m FROM s [RANGE '50 us' SLIDE '1 us'] GROUP BY k"
KEPT = "SELECT sum(x) AS t, count(*) AS n FROM s [RANGE '50 us']"
SYNOPSIS = "SELECT max(x) AS m FROM s [ROWS 7]"
RESULT = "SELECT k, x FROM big"
PAIRS = "SELECT a.x AS x, b.x AS y FROM s [RANGE '9 us'] a, r [RANGE '9 us'] b WHERE a.k = b.k AND a.x > 7"
COLUMNS = {SUB_WINDOWS: ("k", "t", "m"), KEPT: ("t", "n"), SYNOPSIS: ("m",), RESULT: ("k", "x"), PAIRS: ("x", "y")}
ASKED = [SUB_WINDOWS, KEPT, RESULT, PAIRS, *[SYNOPSIS] * 16]
"""The first four read several pieces, between which the window may slide, and take far longer than the last."""
SCRIPT = (
    STREAM.format(keep="KEEP 400 ROWS")
    + STREAM.format(keep="KEEP 400 ROWS").replace("STREAM s", "STREAM r")
    + QUERY
    + """
CREATE QUERY big MATERIALIZED AS SELECT k, x FROM s [RANGE '30 us'] WHERE x > 8;
CREATE SYNOPSIS top ON s(x) USING ordered_sharing (rows 200);
"""
)


def the_state(text: str, newest: int, other: int) -> list[tuple[Any, ...]]:
    """What a question is answered when the newest event is at this time, and that of the other stream at another."""

    def events(low: int, high: int) -> list[dict[str, Any]]:
        first = 10 * YEAR
        return [e for t in range(max(low, first), high) for e in batch(t - first, 1)]

    if text == PAIRS:
        left, right = events(newest - 8, newest + 1), events(newest - 8, other + 1)
        return sorted((a["x"], b["x"]) for a in left for b in right if a["k"] == b["k"] and a["x"] > 7)
    if text == SYNOPSIS:
        return [(max(e["x"] for e in events(newest - 6, newest + 1)),)]
    if text == KEPT:
        held = events(newest - 49, newest + 1)
        return [(sum(e["x"] for e in held), len(held))]
    if text == RESULT:
        return sorted((e["k"], e["x"]) for e in events(newest - 29, newest + 1) if e["x"] > 8)
    held = events(newest - 50, newest)
    by_key = {k: [e["x"] for e in held if e["k"] == k] for k in "ab"}
    return [(k, sum(xs), max(xs)) for k, xs in sorted(by_key.items()) if xs]


class Readers:
    """Threads that ask, each of the questions in its turn, and check every answer."""

    def __init__(self, engine: EngineWithoutSpark, each: int) -> None:
        self.engine, self.each = engine, each
        self.problems: list[BaseException] = []
        self.moved = 0
        """Questions under which the window slid."""
        self._mine = threading.local()
        engine._runs.published.record = self._record

    def _record(self, kind: str, *what: Any) -> None:
        if kind == "commit":  # nothing slides meanwhile: this is the state at the commit
            self._mine.newest, self._mine.other = self._published("s"), self._published("r")

    def _published(self, stream: str) -> int:
        view = self.engine.runs[stream].view
        assert view is not None
        return view.newest

    def ask(self, seed: int) -> None:
        dice = random.Random(seed)
        try:
            for number in range(self.each):
                self._ask(ASKED[number % len(ASKED)], dice.choice(list(Isolation)))
        except BaseException as problem:
            self.problems.append(problem)

    def _ask(self, text: str, isolation: Isolation) -> None:
        before = self._published("s")
        answer = self.engine.ask(text, isolation=isolation)
        after = self._published("s")
        assert answer.newest is not None
        newest = micros(answer.newest)
        if isolation is Isolation.SNAPSHOT:
            assert before <= newest <= after
            others = {newest, newest - BATCH}
        else:
            assert newest == self._mine.newest
            others = {self._mine.other}
        self.moved += before != after
        found = [tuple(row[c] for c in COLUMNS[text]) for row in answer.to_arrow().to_pylist()]
        at = newest
        if text == RESULT:
            assert answer.answered_up_to is not None
            at = micros(answer.answered_up_to)
        assert sorted(found) in [the_state(text, at, other) for other in others], (text, isolation)


@pytest.fixture
def lively_threads() -> Iterator[None]:
    """Threads take turns ten times as often as they would."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 10)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("lively_threads")
def test_four_threads_ask_while_the_stream_runs() -> None:
    """10,000 questions. Every answer is a state that there was, or that there was when it was answered. The stream r
    comes after s."""
    with local_engine(SCRIPT) as engine:

        def deliver(number: int) -> None:
            for stream in "sr":
                engine.deliver(stream, batch(number), number)

        for number in range(30):
            deliver(number)
        readers = Readers(engine, 2_500)
        threads = [threading.Thread(target=readers.ask, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        number = 30
        while any(thread.is_alive() for thread in threads):
            deliver(number)
            number += 1
        for thread in threads:
            thread.join()
        assert not readers.problems, readers.problems[0]
        assert readers.moved > 100 and number > 40
