"""Relations over two streams that deliver in batches: whatever the batches, their interleaving, crashes and restarts,
the answers are those of the reference, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from by_operators import bind_relation
from mullion.language.parse import parse_query
from mullion.options import Options, Sharing
from mullion.runtime.relation_run import RelationRun
from mullion.testing import Crash, crash_at
from relation_runs import (
    STREAMS,
    TEXTS,
    Source,
    Store,
    batches,
    check_one_that_enters_late,
    expected,
    some_crashes,
    started,
)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_answers_do_not_depend_on_batches(seed: int, shared: bool, tmp_path: Path) -> None:
    given = batches(seed)
    store = Store()
    Source(tmp_path, given).run(started(store, None, Options(sharing=Sharing.ON if shared else Sharing.OFF)))
    assert {name: store.rows(name) for name in TEXTS} == expected(given)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_crash_loses_and_repeats_nothing(seed: int, tmp_path: Path) -> None:
    given = batches(seed, number=20)
    store, source = Store(), Source(tmp_path, given)
    source.run_through(some_crashes(seed), lambda: started(store, tmp_path / "journal"))
    assert {name: store.rows(name) for name in TEXTS} == expected(given)


@pytest.mark.parametrize("step", ["before operators", "before commit"])
def test_after_a_failed_step_another_stream_finds_nothing_to_go_on_with(step: str, tmp_path: Path) -> None:
    """It would commit a step without the events that the failed one had taken."""
    store, source = Store(), Source(tmp_path, batches(2, number=20))
    run = started(store, tmp_path / "journal")
    with crash_at(step, 3), pytest.raises(Crash):
        source.run(run)
    before, marks = run.now, list(store.written)
    for name in STREAMS:
        run.receive(name, source.intakes[name].batches, source.newest[name], ended=True)
    assert run.now == before
    assert list(store.written) == marks


def test_a_finished_run_that_is_started_again_tells_nothing_new(tmp_path: Path) -> None:
    given = batches(1)
    store, source = Store(), Source(tmp_path, given)
    source.run(started(store, tmp_path / "journal"))
    marks = list(store.written)
    source.run(started(store, tmp_path / "journal"))
    assert list(store.written) == marks
    assert {name: store.rows(name) for name in TEXTS} == expected(given)


def test_bad_values_are_taken_as_null_and_counted_for_the_query_that_met_them(tmp_path: Path) -> None:
    given = [("a", [{"ts": 1, "k": "x", "v": 0}, {"ts": 2, "k": "x", "v": 2}]), ("b", [{"ts": 3, "k": "x", "v": 1}])]
    store = Store()
    run = RelationRun(("a", "b"), store)
    texts = {
        "divides": "SELECT a.k AS k, b.v / a.v AS share FROM a [RANGE 9 us], b [RANGE 9 us] WHERE a.k = b.k",
        "neighbour": "SELECT a.k AS k FROM a [RANGE 9 us], b [RANGE 9 us] WHERE a.k = b.k",
    }
    run.set_relations([bind_relation(parse_query(text, name=name), STREAMS, {}) for name, text in texts.items()])
    Source(tmp_path, given).run(run)
    assert sorted(row[3] is None for row in store.rows("divides")) == [False, True]
    assert run.counts.bad_by_query == {"divides": 1, "neighbour": 0}


def test_a_relation_that_joins_late_shares_what_is_there(tmp_path: Path) -> None:
    store = Store()
    check_one_that_enters_late(RelationRun(("a", "b"), store), store, Source(tmp_path, batches(3, number=30)))


def test_totals_after_a_heartbeat_of_long_ago_take_no_steps_on_the_way_to_the_first_event(tmp_path: Path) -> None:
    """Event time has gone on to 15 us after 1970, without events; the first ones are of 2024."""
    text = "SELECT count(*) AS n FROM a [RANGE 9 us SLIDE 5 us], b [RANGE 9 us] WHERE a.k = b.k"
    year_2024 = 1_704_067_200_000_000
    store = Store()
    run = RelationRun(("a", "b"), store)
    run.set_relations([bind_relation(parse_query(text, name="total"), STREAMS, {})])
    for name in STREAMS:
        run.receive(name, [], 15)
    Source(tmp_path, [(name, [{"ts": year_2024 + 1, "k": "x", "v": 1}]) for name in STREAMS]).run(run)
    assert [row[1:] for row in store.rows("total")] == [(year_2024 + 5, 1), (year_2024 + 10, 1)]
    assert run.next_number < 5
