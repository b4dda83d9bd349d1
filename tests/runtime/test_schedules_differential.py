"""Queries with SLIDE AT MOST against the reference, whatever happens around them: at the instants that were chosen for
them they answer what they should, and while there is capacity no more than their period lies between two instants."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_course import STREAM, Course, event
from moving_clusters import moving_clusters
from mullion import reference
from mullion.algebra.relation import Relation
from mullion.binding import relations
from mullion.binding.entering import entered
from mullion.language.parse import parse_query
from mullion.options import Options, Schedule
from mullion.planner.physical import by_way
from mullion.reference.window_aggregates import answer_windows
from mullion.reference.windows import answered
from mullion.runtime import sharding_choice
from mullion.runtime.monitor import Monitor
from mullion.runtime.pace import Conditions, Pace
from mullion.runtime.stream_run import StreamRun
from mullion.slices import kept, kept_covers

ITEMS = ("max(x) AS n", "sum(x) AS n, count(*) AS m", "count(*) AS n", "avg(x) AS n", "median(x) AS n")


@dataclass(frozen=True)
class Asked:
    items: str
    range: int
    period: int
    at_most: bool = True
    keys: bool = False
    where: str = ""
    backfill: bool = False

    def text(self) -> str:
        item = f"k, {self.items}" if self.keys else self.items
        slide = f"SLIDE {'AT MOST ' if self.at_most else ''}{self.period} us"
        rest = f"{self.where}{' GROUP BY k' if self.keys else ''}"
        return f"SELECT {item} FROM s [RANGE {self.range} us {slide}]{rest}"


@dataclass(frozen=True)
class Trial:
    asked: list[Asked]
    entering: list[tuple[int, Asked]]
    """After so many batches."""
    leaving: list[tuple[int, int]]
    """After so many batches, the query of this number."""
    batches: list[list[dict[str, Any]]]
    heartbeats: frozenset[int]
    """After these batches event time goes on to the next event."""
    restarts: frozenset[int]
    crashes: frozenset[int]
    capacity: float | None
    behind: float
    schedule: Schedule
    sharing: str
    moving: int | None
    sharded: bool
    slides: bool

    @property
    def is_moving(self) -> bool:
        return self.moving is not None and self.sharing == "auto"


asked_queries = st.builds(
    Asked,
    st.sampled_from(ITEMS),
    st.integers(1, 24),
    st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 33]),
    st.sampled_from([True, True, True, False]),
    st.booleans(),
    st.sampled_from(["", "", " WHERE x > 3", " WHERE x <= 3", " WHERE x < 2", " WHERE x >= 2 AND x <= 3"]),
    st.booleans(),
)


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    gaps = draw(st.lists(st.sampled_from([0, 1, 1, 2, 3, 7, 40]), min_size=1, max_size=40))
    times = [3 + sum(gaps[: i + 1]) for i in range(len(gaps))]
    dice = random.Random(draw(st.integers(0, 99)))
    arrived = sorted(((t + dice.randint(0, 2), i) for i, t in enumerate(times)))
    events = [event(times[i], dice.choice("ab"), dice.randint(0, 9)) for _, i in arrived]
    number = draw(st.integers(1, 6))
    cuts = sorted(draw(st.lists(st.integers(0, len(events)), min_size=number - 1, max_size=number - 1)))
    batches = [events[a:b] for a, b in pairwise([0, *cuts, len(events)])]
    sometime = st.integers(0, number - 1)
    return Trial(
        asked=draw(st.lists(asked_queries, min_size=1, max_size=5)),
        entering=draw(st.lists(st.tuples(sometime, asked_queries), max_size=2)),
        leaving=draw(st.lists(st.tuples(sometime, st.integers(0, 4)), max_size=2)),
        batches=batches,
        heartbeats=draw(st.frozensets(sometime, max_size=3)),
        restarts=draw(st.frozensets(sometime, max_size=2)),
        crashes=draw(st.frozensets(sometime, max_size=2)),
        capacity=draw(st.sampled_from([None, None, 1.0, 4.0, 15.0])),
        behind=draw(st.sampled_from([1.0, 1.0, 3.0])),
        schedule=draw(st.sampled_from(list(Schedule))),
        sharing=draw(st.sampled_from(["on", "on", "off", "auto"])),
        moving=draw(st.sampled_from([None, 1, 2])),
        sharded=draw(st.sampled_from([False, False, True])),
        slides=draw(st.booleans()),
    )


class Crash(Exception):
    pass


@dataclass
class Played:
    """A trial at work, and what the scheduler decided in it."""

    trial: Trial
    place: Path
    instants: dict[str, list[int]] = field(default_factory=dict)
    known: dict[str, Relation] = field(default_factory=dict)

    def run(self) -> Course:
        trial = self.trial
        options = Options.of(
            schedule=trial.schedule, sharing=trial.sharing, shard_above=1 if trial.sharded else 200_000
        )
        course = self.course = Course([], options=options, place=self.place)
        self._tell(course.run)
        for i, asked in enumerate(trial.asked):
            self._enter(f"q{i}", asked)
        for number, batch in enumerate(trial.batches):
            if number in trial.crashes:
                self._crash(batch)
            else:
                self._take(batch)
            if number in trial.heartbeats:
                self._go_on(number)
            for at, left in trial.leaving:
                if at == number:
                    course.queries = [query for query in course.queries if query.name != f"q{left}"]
            for j, (at, asked) in enumerate(trial.entering):
                if at == number:
                    self._enter(f"e{j}", asked)
            if number in trial.restarts:
                self._begin()
        self._note(course.end)
        return course

    def _go_on(self, number: int) -> None:
        """A heartbeat that makes no event late. Windows that begin after the newest event wait."""
        run, later = self.course.run, [e["ts"] for batch in self.trial.batches[number + 1 :] for e in batch]
        time = min(later, default=1000)
        if run.newest is None or time <= run.newest:
            return
        for name, instants in self._note(lambda: run.advance(time)).items():
            assert all(instant <= run.newest + dict(named(self.trial))[name].range for instant in instants)

    def _begin(self) -> None:
        self.course.begin()
        self._tell(self.course.run)

    def _tell(self, run: StreamRun) -> None:
        """The capacity of every batch, in units of cost. Pasts are waited for, so that nothing depends on threads."""
        run.bounded = True
        pace = run.scheduling.pace
        pace.unit = 1.0
        if self.trial.capacity is not None:
            pace.conditions = Conditions(every=self.trial.capacity, bounded=False)
        elif self.trial.behind > 1.0:
            pace.conditions = Conditions(bounded=False)
        pace.behind(self.trial.behind)

    def _enter(self, name: str, asked: Asked) -> None:
        text = f"CREATE QUERY {name}{' BACKFILL' if asked.backfill else ''} AS {asked.text()}"
        relation = relations.bind(parse_query(text), {"s": STREAM})
        (plan,) = by_way([relation], {"s": STREAM}).slices
        entrance, _ = self.course.run.admission.enter(plan)
        self.known[name] = entered(relation, entrance)
        self.course.queries = [*self.course.queries, *by_way([self.known[name]], {"s": STREAM}).slices]

    def _take(self, batch: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
        return self._note(lambda: self.course.take(*batch))

    def _note(self, step: Any) -> dict[str, list[int]]:
        """Do something, and add the instants that it was decided to answer."""
        decided: dict[str, list[int]] = {}
        scheduling = self.course.run.scheduling
        due = scheduling.due

        def noting(*given: Any, **more: Any) -> Any:
            made = due(*given, **more)
            for name, runs in made.runs.items():
                decided[name] = [run.first + i * run.slide for run in runs for i in range(run.count)]
            return made

        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(scheduling, "due", noting)
                step()
        finally:
            for name, instants in decided.items():
                self.instants.setdefault(name, []).extend(instants)
        return decided

    def _crash(self, batch: Sequence[dict[str, Any]]) -> None:
        """The batch is answered, but not committed; played again it decides the same, unless clusters fall by lot."""
        before = {name: list(instants) for name, instants in self.instants.items()}
        journal = self.course.run.journal
        assert journal is not None

        def fail(*given: Any) -> None:
            raise Crash

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(journal, "commit", fail)
            with pytest.raises(Crash):
                self._take(batch)
        first, self.instants = self.instants, before
        self._begin()
        self._take(batch)
        assert self.instants == first or self.trial.is_moving


@contextmanager
def circumstances(trial: Trial) -> Iterator[None]:
    moving = moving_clusters(trial.moving or 0) if trial.is_moving else nullcontext()
    with moving, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pace, "measured", lambda *given: None)
        patch.setattr(Monitor, "stretch", trial.behind)
        patch.setattr(sharding_choice, "SHARDS", 2)
        if trial.slides:
            patch.setattr(kept, "STEP", 0.0)
            patch.setattr(kept, "CALM", 1)
            patch.setattr(kept, "MOVED", 0.0)
            patch.setattr(kept_covers, "COMBINED", 0.0)
            patch.setattr(kept_covers, "STEADY", 2)
        yield


def check(trial: Trial) -> None:
    with TemporaryDirectory() as place, circumstances(trial):
        played = Played(trial, Path(place))
        course = played.run()
        events = [e for batch in trial.batches for e in batch]
        everything = trial.capacity is None and trial.behind == 1.0
        left = {f"q{number}" for _, number in trial.leaving}
        for name, relation in played.known.items():
            asked = next(a for n, a in named(trial) if n == name)
            instants = played.instants.get(name, [])
            if asked.at_most:
                right = reference.answer_at(relation, STREAM, events, instants)
            elif name in left:
                continue
            else:
                right = answer_windows(relation, STREAM, events, {}, answered)
            rows = [row[1:] for row in right.rows]
            assert same(course.answers(name), rows), (name, asked, instants)
            assert all(a < b for a, b in pairwise(instants))
            if everything and asked.at_most:
                assert all(b - a <= asked.period for a, b in pairwise(instants)), (name, instants)
                first = [relation.after, relation.start and relation.start + asked.range - 1]
                lowest = max([min(e["ts"] for e in events), *(time for time in first if time is not None)]) + 1
                assert not instants or instants[0] - lowest < asked.period, (name, instants, lowest)


def named(trial: Trial) -> list[tuple[str, Asked]]:
    begun = [(f"q{i}", asked) for i, asked in enumerate(trial.asked)]
    return begun + [(f"e{j}", asked) for j, (_, asked) in enumerate(trial.entering)]


def same(found: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> bool:
    return sorted(map(repr, found)) == sorted(map(repr, right))


@settings(max_examples=100)
@given(trials())
def test_answers_are_those_of_the_reference_at_the_instants_that_they_carry(trial: Trial) -> None:
    check(trial)
