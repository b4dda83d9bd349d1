"""A query that answers or holds too much is stopped and told; its answers so far are right, its neighbours go on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from by_operators import bind_relation
from mullion.language.parse import parse_query
from mullion.language.query import Period
from mullion.options import Options
from mullion.runtime import portions
from mullion.runtime import relation_run as running
from mullion.runtime.lookup_tables import NO_TABLES
from mullion.runtime.portions import Portions
from mullion.runtime.relation_run import RelationRun
from mullion.runtime.run_state import RunState
from mullion.sinks.memory import MemorySink
from mullion.sinks.parquet import ParquetSink
from mullion.slices.due import Cursor, SeenEvents, due_windows
from mullion.slices.finalize import Answers
from mullion.slices.limits import Limits
from mullion.slices.window_runs import Due, WindowRuns
from mullion.storage.journal import Journal
from mullion.storage.marks import Mark
from relation_runs import STREAMS, Batches, Source, Store, batches
from slices.test_due import asked, query

YEAR = 365 * 86_400 * 1_000_000
MS = 1_000


# Windows in portions


def both(due: Due) -> list[tuple[int, int]]:
    return list(zip(due.query.tolist(), due.end.tolist(), strict=True))


@given(
    st.lists(asked, min_size=1, max_size=4), st.lists(st.integers(-50, 50), min_size=1, max_size=6), st.integers(1, 9)
)
def test_portions_and_limits_are_parts_of_all_windows(queries: list[Any], times: list[int], most: int) -> None:
    queries = [
        query(q.window, name=f"q{i}", grouped=bool(q.keys), start=q.start, stop=q.stop) for i, q in enumerate(queries)
    ]
    seen = SeenEvents(min(times), max(times), np.unique(times))

    def due(limit: int | None = None) -> WindowRuns:
        return due_windows(queries, {q.name: Cursor() for q in queries}, seen, None, (), limit)

    whole = both(due().whole())
    parts = list(due().portions(most))
    assert [len(part) for part in parts[:-1]] == [most] * (len(parts) - 1)
    assert [window for part in parts for window in both(part)] == whole
    limited = due(most)
    wanted = [[w for w in whole if w[0] == i] for i in range(len(queries))]
    assert both(limited.whole()) == [window for own in wanted for window in own[:most]]
    assert limited.exceeded == tuple(i for i, own in enumerate(wanted) if len(own) > most)


@pytest.mark.parametrize("given", [{}, {"start": 0}, {"stop": 2 * YEAR}, {"grouped": True}])
def test_a_gap_of_a_year_is_counted_and_not_listed(given: dict[str, Any]) -> None:
    one = query(Period(1000 * MS, MS), **given)
    due = due_windows([one], {"q": Cursor()}, SeenEvents(0, YEAR, np.array([0, YEAR])), None, (), 100)
    assert (len(due), due.exceeded) == (100, (0,))
    whole = due_windows([one], {"q": Cursor()}, SeenEvents(0, YEAR, np.array([0, YEAR])), None)
    assert len(whole) == (2000 if "grouped" in given else 31_536_001_000 if "start" not in given else 31_536_000_001)
    assert len(next(whole.portions(500))) == 500


# On the way to a sink


def answers(name: str, low: int, high: int) -> Answers:
    return Answers((name,), [0, high - low], pa.table({"x": range(low, high)}))


@pytest.mark.parametrize("sink", ["memory", "parquet"])
def test_parts_of_a_mark_are_one_answer(sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "PORTION", 10)
    to = MemorySink() if sink == "memory" else ParquetSink(tmp_path)
    run = RunState("s", to, Options(), journal=None, tables=NO_TABLES, published=None)
    for mark in (Mark(0), Mark(1)):
        written = Portions(run, mark)
        for low in range(0, 50, 5):
            written.add(answers("q", low, low + 5))
        written.add(answers("other", 0, 3))
        written.finish()
    assert (run.counts.answers, run.counts.answers_by_query) == (106, {"q": 100, "other": 6})
    assert pa.concat_tables(to.tables("q")).column("x").to_pylist() == [*range(50), *range(50)]
    assert pa.concat_tables(to.tables("other")).column("x").to_pylist() == [0, 1, 2, 0, 1, 2]
    if isinstance(to, ParquetSink):
        to.resume("s", ["q", "other"], Mark(0))
        assert pa.concat_tables(to.tables("q")).column("x").to_pylist() == [*range(50)]


# Relations

TOTAL = "SELECT count(*) AS n FROM a [RANGE 5 us SLIDE 1 us], b [RANGE 5 us] WHERE a.k = b.k"
PAIRS = "SELECT a.k AS k, a.v AS x, b.v AS y FROM a [RANGE 9 us], b [RANGE 5 us] WHERE a.k = b.k"
WIDE = "SELECT a.k AS k, a.v AS x FROM a [RANGE 2000 us], b [RANGE 2000 us] WHERE a.v = b.v"
GAP: Batches = [
    ("a", [{"ts": 1, "k": "x", "v": 1}]),
    ("b", [{"ts": 2, "k": "x", "v": 1}]),
    ("a", [{"ts": YEAR, "k": "x", "v": 2}]),
    ("b", [{"ts": YEAR + 1, "k": "x", "v": 2}]),
]


def ran(texts: dict[str, str], given: Batches, base: Path, options: Options, **more: Any) -> tuple[RelationRun, Store]:
    store = Store()
    run = RelationRun(("a", "b"), store, options, **more)
    run.restore()
    run.set_relations([bind_relation(parse_query(text, name=name), STREAMS, {}) for name, text in texts.items()])
    Source(base, given).run(run)
    return run, store


def test_a_total_over_a_year_of_microseconds_is_stopped_and_its_neighbour_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PORTION", 300)
    with caplog.at_level(logging.WARNING, "mullion"):
        run, store = ran({"total": TOTAL, "pairs": PAIRS}, GAP, tmp_path, Options(most_answers=1000))
    assert list(run.limits.stopped) == ["total"]
    assert "more than 1,000 answers" in run.limits.stopped["total"].reason
    assert [r.message for r in caplog.records] == [f"query total is stopped: {run.limits.stopped['total'].reason}"]
    assert store.rows("pairs") == ran({"pairs": PAIRS}, GAP, tmp_path / "alone", Options())[1].rows("pairs") != []


def test_totals_are_made_in_bounded_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near = [(name, [{**event, "ts": min(event["ts"], 5000)} for event in events]) for name, events in GAP]
    wanted = ran({"total": TOTAL}, near, tmp_path / "one", Options())[1].rows("total")
    monkeypatch.setattr(running, "PORTION", 100)
    run, store = ran({"total": TOTAL}, near, tmp_path / "many", Options())
    assert run.committed is not None and run.committed.batch > 40
    assert store.rows("total") == wanted and len(wanted) > 5000


def many(number: int) -> Batches:
    return [(name, [{"ts": i, "k": "x", "v": 1} for i in range(number)]) for name in "ab"]


@pytest.mark.parametrize(
    ("text", "limits", "reason"),
    [
        (WIDE, Options(most_held=100), "it holds"),
        ("SELECT a.k AS k, count(*) AS n FROM a [RANGE 2000 us], b [RANGE 2000 us] WHERE a.v = b.v GROUP BY a.k",
         Options(most_held=2000), "it holds"),
        ("SELECT k, v FROM a [RANGE 500 us SLIDE 1 us]", Options(most_answers=1000), "more than 1,000 answers"),
    ],
)  # fmt: skip
def test_who_holds_or_answers_too_much_is_stopped(text: str, limits: Limits, reason: str, tmp_path: Path) -> None:
    few = "SELECT a.k AS k FROM a [RANGE 1 us], b [RANGE 1 us] WHERE a.v = b.v"
    run, store = ran({"q": text, "few": few}, many(100), tmp_path, limits)
    assert list(run.limits.stopped) == ["q"] and reason in run.limits.stopped["q"].reason
    assert store.rows("few") == ran({"few": few}, many(100), tmp_path / "alone", Options())[1].rows("few") != []


@pytest.mark.slow
@pytest.mark.parametrize("step", ["before operators", "before commit", "after commit"])
def test_a_restart_knows_who_is_stopped_and_why(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PORTION", 300)
    store, source = Store(), Source(tmp_path, [*GAP, *_later(batches(3, number=10))])

    def started() -> RelationRun:
        run = RelationRun(("a", "b"), store, Options(most_answers=1000), journal=Journal(tmp_path / "journal"))
        run.restore()
        store.resume(run.committed)
        texts = {"total": TOTAL, "pairs": PAIRS}
        run.set_relations([bind_relation(parse_query(text, name=name), STREAMS, {}) for name, text in texts.items()])
        return run

    run = source.run_through([(step, occurrence) for occurrence in (1, 3, 2, 5)], started)
    assert list(run.limits.stopped) == ["total"] and "total" not in run.relations
    assert store.rows("pairs") == ran({"pairs": PAIRS}, source.given, tmp_path / "alone", Options())[1].rows("pairs")
    told = [row[1] for row in store.rows("total")]
    assert len(told) == len(set(told)), "no instant is told twice"


def _later(given: Batches) -> Batches:
    return [(name, [{**event, "ts": event["ts"] + YEAR + 100} for event in events]) for name, events in given]
