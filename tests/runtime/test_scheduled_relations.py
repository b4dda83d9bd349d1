"""Relations with SLIDE AT MOST in runs that are behind now and then: at the multiples of their period that are left
they answer what SLIDE does, each once, whatever the batches, crashes, restarts and shards; at rest at all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_operators import bind_relation
from mullion import reference
from mullion.algebra.nodes import has_total
from mullion.algebra.relation import Relation
from mullion.binding.entering import entering_at
from mullion.instants import THE_END
from mullion.language.parse import parse_query
from mullion.operators.network import StepEvents
from mullion.options import DEFAULTS, Options, Relief, Sharing
from mullion.runtime.monitor import SourceLag
from mullion.runtime.relation_run import RelationRun
from mullion.runtime.relation_shards import Sharding
from mullion.service.steering import EPOCH
from mullion.storage.journal import Journal
from mullion.storage.marks import Mark
from mullion.surface.progress import warnings
from operators.test_stretched_instants import chosen
from relation_runs import STREAMS, Batches, Source, Store, batches, some_crashes
from without_spark import in_turn, local_engine

JOINED = "FROM a [RANGE {} us SLIDE AT MOST {} us], b [RANGE {} us SLIDE AT MOST {} us] WHERE a.k = b.k"
TEXTS = {
    "pairs": f"SELECT a.k AS k, a.v AS x, b.v AS y {JOINED.format(9, 2, 5, 2)}",
    "alone": "SELECT k, v FROM a [RANGE 8 us SLIDE AT MOST 3 us] x "
    "WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 4 us] y WHERE y.k = x.k)",
    "keys": "SELECT DISTINCT a.k AS k FROM a [RANGE 6 us SLIDE AT MOST 1 us], b [ROWS 4] WHERE a.v = b.v",
    "counts": f"SELECT a.k AS k, count(*) AS n, sum(b.v) AS total {JOINED.format(9, 2, 5, 2)} GROUP BY a.k",
    "longer": f"SELECT a.k AS k, max(b.v) AS n {JOINED.format(14, 2, 10, 2)} GROUP BY a.k HAVING max(b.v) > 1",
    "exact": f"SELECT a.k AS k, count(*) AS n {JOINED.format(9, 2, 5, 2)} GROUP BY a.k".replace(" AT MOST", ""),
    "total": f"SELECT count(*) AS n, sum(b.v) AS total {JOINED.format(9, 3, 9, 3)}",
    "values": "SELECT b.k AS k, count(DISTINCT a.v) AS n FROM a [RANGE 7 us SLIDE AT MOST 2 us], b [RANGE 7 us] "
    "WHERE a.k = b.k GROUP BY b.k",
    "both": "SELECT a.k AS k FROM a [RANGE 9 us SLIDE AT MOST 4 us] UNION ALL SELECT b.k AS k FROM b [RANGE 3 us]",
    "window": f"WSTREAM (SELECT a.k AS k, count(*) AS n, sum(b.v) AS total {JOINED.format(9, 2, 5, 2)} GROUP BY a.k) "
    "[RANGE 9 us]",
}


def bound(name: str, text: str | None = None, begin: str = "") -> Relation:
    return bind_relation(parse_query(f"CREATE QUERY {name}{begin} AS {text or TEXTS[name]}"), STREAMS, {})


@dataclass
class Steps:
    """Steps that were made, also of runs before: from when on, up to when, and of how many instants one is answered."""

    made: dict[Mark, tuple[int, int, int]] = field(default_factory=dict)

    def note(self, mark: Mark, since: int, now: int, stretch: int) -> None:
        if mark in self.made:
            assert (since, stretch) == (self.made[mark][0], self.made[mark][2]), (
                "a step that is made again decides alike"
            )
        self.made[mark] = since, now, stretch

    def taken(self) -> list[tuple[int, int]]:
        return [(now, stretch) for _, now, stretch in self.made.values() if now < THE_END]


class Paced(RelationRun):
    """A run whose streams are behind by chance."""

    dice = random.Random(0)
    steps = Steps()
    stretches: Sequence[int] = (1, 2, 4, 8)

    def receive(self, *given: Any, **more: Any) -> None:
        self.pace.tell(every=0.0, bounded=False)
        self.pace.behind(float(self.dice.choice(self.stretches)))
        super().receive(*given, **more)

    def _answer(self, settled: Mapping[str, StepEvents], now: int, mark: Mark) -> None:
        self.steps.note(mark, self.now, now, self.pace.stretch)
        super()._answer(settled, now, mark)


@dataclass
class Trial:
    given: Batches
    relations: list[Relation]
    stretches: Sequence[int] = (1, 2, 4, 8)
    options: Options = DEFAULTS
    sharded: bool = False
    seed: int = 0
    store: Store = field(default_factory=Store)
    steps: Steps = field(default_factory=Steps)

    def started(self, journal: Path | None) -> Paced:
        sharding = Sharding(in_turn, lambda: -1, count=3) if self.sharded else None
        opened = None if journal is None else Journal(journal)
        run = Paced(("a", "b"), self.store, self.options, journal=opened, sharding=sharding)
        run.dice, run.steps, run.stretches = random.Random(self.seed), self.steps, self.stretches
        run.restore()
        self.store.resume(run.committed)
        run.set_relations(self.relations)
        return run

    @property
    def events(self) -> dict[str, list[dict[str, Any]]]:
        return {name: [event for of, some in self.given if of == name for event in some] for name in STREAMS}

    def check(self) -> None:
        for relation in self.relations:
            found, every = self.store.rows(relation.name), reference.answer(relation, STREAMS, self.events)
            instants, answered = {row[1] for row in every.rows}, {row[1] for row in found}
            left = instants
            if relation.at_most:
                left = chosen(relation, self.steps.taken(), instants)
            if relation.at_most and has_total(relation.plan):
                # What waits for a later event is put off by the step that answers it, too.
                assert answered <= left and {t for t in instants if t // (relation.slide or 1) % 8 == 0} <= answered
                left = answered if set(self.stretches) != {1} else left
            right = reference.answer_at(relation, STREAMS, self.events, left)
            assert found == sorted(right.rows, key=repr), relation.name


def test_a_join_is_answered_at_every_second_multiple_from_the_next_commit_on(tmp_path: Path) -> None:
    """Pairs at 1, 3, 5 and 9, of which windows that end at 2, 4, .. 18 hold one. The commit of the step up to 5 says
    that the run is behind, so of 6 and 8, which the next one brings, it answers the multiple of 4; its commit says that
    the run is behind no more."""
    relation = bound("q", "SELECT count(*) AS n, a.k AS k " + JOINED.format(10, 2, 10, 2) + " GROUP BY a.k")
    store = Store()
    run = RelationRun(("a", "b"), store)
    run.set_relations([relation])
    run.pace.tell(every=0.0, bounded=False)
    source = Source(tmp_path, [(name, [event(time)]) for time in (1, 3, 5, 9, 20) for name in "ab"])
    answered = []
    for stretch in (1, 1, 1, 1, 1, 2, 2, 1, 1, 1):
        run.pace.behind(stretch)
        source.deliver(run)
        answered.append(sorted({row[1] for row in store.rows("q")}))
    assert answered[3::2] == [[2], [2, 4], [2, 4, 8], [2, 4, 8, 10, 12, 14, 16, 18]]


seeds = st.integers(0, 10_000)
some_texts = st.lists(st.sampled_from(sorted(TEXTS)), min_size=1, max_size=5, unique=True)
stretches = st.sampled_from(((1,), (1, 2), (1, 1, 2, 4, 8), (8,)))


@pytest.mark.slow
@settings(max_examples=120)
@given(seeds, some_texts, stretches, st.booleans(), st.sampled_from(Sharing), st.booleans())
def test_answers_are_those_of_slide_at_the_instants_that_are_left(
    seed: int, names: list[str], stretches: Sequence[int], sharded: bool, sharing: Sharing, killed: bool
) -> None:
    """Whatever the batches, and wherever runs are killed and others go on from the last commit."""
    relations = [bound(name) for name in names]
    trial = Trial(batches(seed, 20), relations, stretches, Options(sharing=sharing), sharded, seed)
    with TemporaryDirectory() as place:
        crashes = some_crashes(seed) if killed else ()
        Source(Path(place), trial.given).run_through(crashes, lambda: trial.started(Path(place) / "journal"))
    trial.check()


@pytest.mark.slow
@settings(max_examples=60)
@given(seeds, some_texts, some_texts, stretches, st.booleans())
def test_those_that_enter_and_leave_meanwhile(
    seed: int, names: list[str], later: list[str], stretches: Sequence[int], restarted: bool
) -> None:
    """Those that enter after half of the batches answer windows from then on, and one of them leaves again. One has
    its past, and answers after a time."""
    dice, first = random.Random(seed), [bound(name) for name in names]
    first.append(replace(bound("past", TEXTS["counts"]), backfill=True, after=dice.randrange(12)))
    trial = Trial(batches(seed, 30), first, stretches, seed=seed)
    with TemporaryDirectory() as place:
        source, journal = Source(Path(place), trial.given), Path(place) / "journal"
        run = trial.started(journal)
        while source.done < 15:
            source.deliver(run)
        start = 1 + max((newest for newest in source.newest.values() if newest is not None), default=0)
        entering = [entering_at(bound(f"{name}_later", TEXTS[name]), start) for name in later]
        stopping = replace(bound("stopping", TEXTS["counts"]), start=start, stop=start + dice.randrange(15))
        leaving = bound("leaving", TEXTS["counts"])
        trial.relations = [*first, *entering, stopping, leaving]
        run.set_relations(trial.relations)
        while source.done < 22:
            source.deliver(run)
        trial.relations = [*first, *entering, stopping]
        if restarted:
            run = trial.started(journal)
        run.set_relations(trial.relations)
        source.run(run)
    trial.check()


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_run_that_reads_a_source_to_its_end_is_never_behind(name: str, tmp_path: Path) -> None:
    given = batches(7, 20)
    trial = Trial(given, [bound(name)], stretches=(8,))
    run = trial.started(None)
    run.receive = partial(RelationRun.receive, run)  # type: ignore[method-assign]
    run.pace.behind(8.0)
    Source(tmp_path, given).run(run)
    assert {stretch for _, stretch in trial.steps.taken()} == {1}
    assert trial.store.rows(name) == sorted(reference.answer(bound(name), STREAMS, trial.events).rows, key=repr) != []


def event(time: int, key: str = "x", value: int = 1) -> dict[str, Any]:
    return {"ts": time, "k": key, "v": value}


SCRIPT = """
CREATE STREAM a (ts TIMESTAMP, k STRING, v BIGINT) USING json OPTIONS (path 'a') TIMESTAMP BY ts;
CREATE STREAM b (ts TIMESTAMP, k STRING, v BIGINT) USING json OPTIONS (path 'b') TIMESTAMP BY ts IDLE AFTER 1 s;
CREATE QUERY q AS SELECT a.k AS k, count(*) AS n FROM a [RANGE 4 us SLIDE AT MOST 2 us], b [RANGE 4 us]
WHERE a.k = b.k GROUP BY a.k;
"""


def test_the_monitors_of_streams_say_how_far_behind_relations_are(tmp_path: Path) -> None:
    """A pair at every microsecond, in batches of four. Stream b is behind after the second one, so that 10 is put off,
    and after the last one, so that 18 is, to which event time goes on without events."""
    place = {"checkpoint": tmp_path / "state", "out": tmp_path / "out"}
    with local_engine(SCRIPT, **place) as engine:
        engine.start(follow=True)
        for number in range(4):
            engine._runs.of("b").overload.monitor.steps[Relief.STRETCH] = number % 2
            for name in "ab":
                engine.deliver(name, [event(4 * number + i) for i in range(4)], number)
        assert engine._runs.of("a").overload.monitor.can_stretch
        for name in "ab":
            engine.advance(name, EPOCH + timedelta(microseconds=19))
        ends = {row["window_end"].microsecond for row in engine.results("q").to_arrow().to_pylist()}
        assert ends == {2, 4, 6, 8, 12, 14, 16}
        assert engine.stats["relations"]["a + b"]["scheduled"] == {"q": {"executions": 7, "put_off": 2}}
        assert "schedule of a + b so far: q 2 of 9 instants put off" in str(engine.explain())
        assert "query q: RSTREAM every 2 us, more seldom while the run is behind" in str(engine.explain("q"))
        (sentence,) = warnings({}, tmp_path, scheduled=engine.relations.scheduled)
        assert sentence == "query q was answered more seldom while the run was behind: 2 of 9 instants put off"


def test_what_relations_take_of_a_batch_is_part_of_its_time() -> None:
    with slow_relations() as (engine, run, _):
        for number in range(2):
            for name in "ab":
                engine.deliver(name, [event(number)], number)
        assert run.overload.monitor.rates.lag == 20.0, "the source does not tell what waits, so it is the last batch"
        engine._runs.hand_over(run)
        assert run.overload.monitor.stretch == engine.relations.run_of(("a", "b")).pace.conditions.stretch == 2.0


def test_what_comes_while_relations_are_at_work_waits() -> None:
    """Five batches as large as the one at work come meanwhile, each of which takes as long."""
    with slow_relations() as (engine, run, clock):
        with patch.object(type(run.source), "waiting", lambda *_: SourceLag(clock.now / 4, 1.0)):
            for name in "ab":
                engine.deliver(name, [event(0)], 0)
        assert run.overload.monitor.rates.lag == 5 * 20.0


@contextmanager
def slow_relations() -> Iterator[tuple[Any, Any, Clock]]:
    """An engine whose joins take 20 seconds, by a clock of stream b."""
    with local_engine(SCRIPT) as engine:
        engine.start(follow=True)
        run, clock = engine._runs.of("b"), Clock()
        run.timer = clock
        relations = engine.relations.run_of(("a", "b"))
        with patch.object(type(relations), "receive", lambda *given, **more: clock.add(20.0, given[1])):
            yield engine, run, clock


@dataclass
class Clock:
    now: float = 0.0

    def add(self, seconds: float, stream: str) -> None:
        self.now += seconds if stream == "b" else 0.0

    def __call__(self) -> float:
        return self.now
