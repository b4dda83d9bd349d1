"""What one run over everything that came would have answered, and whether the runs of a trial did.

The oracle is the slow reference over all events but those that were late when they came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from operator import eq
from typing import Any

import pyarrow as pa

import any_relation
from any_window import TICKS
from by_slices import bind
from mullion import reference
from mullion.algebra.relation import Relation
from mullion.binding import relations
from mullion.binding.entering import entering_at
from mullion.engine import Engine
from mullion.errors import MullionError
from mullion.language.parse import parse_query
from mullion.language.query import TIME_AXIS, Named, Query, Window
from mullion.planner.physical import sliced
from mullion.summaries.summary_facts import stats
from operators.test_relations_differential import as_rows, comparable
from promises import Promised
from runtime.test_asking import micros
from runtime.test_core_differential import assert_same, rows_of
from seam_trials import STREAMS, Trial
from strategies import Event

MARKS = ("n_bound", "high_bound", "total_bound", "is_complete")
"""Of joins that let rows go: safe and not sharp."""
BOUNDS = "SELECT APPROX count(volume) AS n, max(volume) AS high, min(volume) AS low, sum(volume) AS total"


@dataclass
class Oracle:
    """What a run over everything would have answered."""

    trial: Trial
    kept: dict[str, list[Event]]
    newest: dict[str, int | None]
    starts: dict[str, int | None]
    """From when on a query that entered answers."""
    read: dict[str, int]
    """How many files of each stream were read."""
    promised: dict[str, Promised]
    """What streams have said of their keys."""
    beats: dict[str, int] = field(default_factory=dict)
    """The last heartbeat of each stream."""

    @classmethod
    def of(cls, trial: Trial) -> Oracle:
        nothing = dict.fromkeys(STREAMS, 0)
        promised = {name: Promised(trial.endings.get(name)) for name in STREAMS}
        return cls(trial, {name: [] for name in STREAMS}, dict.fromkeys(STREAMS), {}, nothing, promised)

    def asks(self, run: int) -> set[str]:
        """The streams that somebody asks by then; nobody reads the others."""
        present = [name for name in self.trial.texts if self.trial.joining.get(name, 0) <= run]
        asking = self.trial.asking
        once = asking.keep or any(since <= run for since in asking.synopses.values())
        asked = {stream for name in present for stream in self.streams_of(name)} | ({"trades"} if once else set())
        watched = self.trial.watched or self.trial.memory is not None
        return asked | set(any_relation.STREAMS) if watched else asked

    def streams_of(self, name: str) -> Sequence[str]:
        return self.bound(name).streams

    def bound(self, name: str) -> Relation:
        return relations.bind(parse_query(self.trial.texts[name]), self.trial.streams, any_relation.TABLES)

    def begins(self, run: int) -> None:
        """Queries that enter with this run answer what starts with the newest event or after it."""
        for name, joins in self.trial.joining.items():
            if joins == run:
                seen = [t for stream in self.streams_of(name) if (t := self.newest[stream]) is not None]
                self.starts[name] = max(seen) + self._misses(name) if seen else None

    def _misses(self, name: str) -> bool:
        """Whether it lacks events of the newest time: where their order counts and event time went on past them."""
        plan, newest, watermark = sliced(self.bound(name), STREAMS), self.newest["trades"], self.watermark("trades")
        is_past = newest is not None and watermark is not None and watermark > newest
        return plan is not None and plan.axis != TIME_AXIS and is_past

    def reads(self, stream: str, until: int) -> None:
        """The files up to a number, in batches."""
        while self.read[stream] < until:
            first, self.read[stream] = self.read[stream], min(until, self.read[stream] + self.trial.at_a_time)
            self._sees(stream, self.trial.files[stream][first : self.read[stream]])

    def _sees(self, stream: str, files: Sequence[Sequence[Event]]) -> None:
        """A batch: an event before the watermark, as it was when the batch began, is late."""
        limit = self.watermark(stream)
        for event in (event for file in files for event in file):
            time = event["ts"]
            if time is None or (limit is not None and time < limit) or not self.promised[stream].takes(event):
                continue
            self.kept[stream].append(event)
            known = self.newest[stream]
            self.newest[stream] = time if known is None else max(known, time)

    def watermark(self, stream: str) -> int | None:
        newest = self.newest[stream]
        marks = [] if newest is None else [newest - self.trial.lateness[stream]]
        marks += [self.beats[stream]] if stream in self.beats else []
        return max(marks, default=None)

    def beat(self, stream: str, time: int) -> bool:
        """Event time goes on, unless it is further."""
        watermark = self.watermark(stream)
        if watermark is not None and time <= watermark:
            return False
        self.beats[stream] = time
        return True

    def ends(self, stream: str, key: tuple[Any, ...], beats: Mapping[str, int]) -> bool:
        """Somebody says that a key is over, unless nothing has come. A kill may have it said twice: between both, no
        heartbeat lets event time go on."""
        times = [time for time in (self.newest[stream], self.beats.get(stream)) if time is not None]
        if not times or stream in beats:
            return False
        self.promised[stream].ends.append((key, max(times)))
        return True

    def check(self, name: str, table: pa.Table) -> None:
        query, bound = parse_query(self.trial.texts[name]), self.bound(name)
        start = max((t for t in (query.start_at, self.starts.get(name)) if t is not None), default=None)
        plan = sliced(bound, STREAMS)
        if plan is None:
            relation = self._with_its_past(bound) if bound.backfill else entering_at(bound, start, frozenset())
            tables = {"named": (any_relation.NAMED, self.trial.table)}
            reached = max(
                (mark for stream in bound.streams if (mark := self.watermark(stream)) is not None), default=None
            )
            wanted = reference.answer(relation, any_relation.STREAMS, self.kept, tables, event_time=reached)
            without = ("expires_at",) if self.trial.expiry == "nt" else ()
            without += MARKS if self.trial.limits else ()
            found = comparable(as_rows(table), wanted.names, without)
            right = comparable(wanted.rows, wanted.names, without)
            missing = Counter() if self.trial.may_miss_rows(name) else right - found
            assert not found - right and not missing, f"{bound.text}\ntoo many: {found - right}\nmissing: {missing}"
        elif (window := window_of(query)) is not None and window.at_most:
            instants = sorted(set(table["window_end"].cast("int64").to_pylist()))
            asked = replace(query, start_at=start)
            right = reference.answer_at(asked, TICKS, self.kept["trades"], instants).rows
            assert_same(plan, rows_of(plan, table), right)
            self._check_deadlines(asked, instants)
        else:
            right = reference.answer(replace(query, start_at=start), TICKS, self.kept["trades"]).rows
            assert_same(plan, rows_of(plan, table), right)

    def _check_deadlines(self, asked: Query, instants: Sequence[int]) -> None:
        """No more than the period lies between two answers; those of groups without a row are not seen."""
        window = window_of(asked)
        assert window is not None and window.slide is not None
        if not asked.group_by and asked.having is None and asked.limit is None:
            assert all(after - before <= window.slide for before, after in pairwise(instants)), (asked, instants)

    def _with_its_past(self, bound: Relation) -> Relation:
        """As if it had been there from the start, but that it answers only what ends after the newest event."""
        joined = self.starts.get(bound.name)
        return bound if joined is None or bound.after is not None else replace(bound, after=joined)

    def asks_once(self, engine: Engine, run: int) -> None:
        """Every question is answered for the time that it states, or refused when what it needs was not kept."""
        asking, events = self.trial.asking, self.kept["trades"]
        for text in asking.questions:
            try:
                answer = engine.ask(text)
            except MullionError as problem:
                assert "KEEP" in str(problem) and asking.keep != " KEEP 1000 ROWS", text
                continue
            query = parse_query(text)
            bound = bind(query, {"trades": TICKS})
            right = reference.ask(query, TICKS, events).rows
            if events and bound.frame.attribute is None and bound.frame.slide is None:
                right = right_at(query, events, micros(answer.answered_up_to))
            assert_same(bound, rows_of(bound, answer.to_arrow()), right)
        if asking.synopses.get("grams", run + 1) <= run:
            for rows in (1, 4, 12):
                self._check_bounds(engine, f"{BOUNDS} FROM trades [ROWS {rows}]", events, rows)

        of_volume = [name for name in ("often", "short") if asking.synopses.get(name, run + 1) <= run]
        if of_volume and events:
            self._check_counts(engine, events, of_volume)

    def _check_counts(self, engine: Engine, events: Sequence[Event], summaries: Sequence[str]) -> None:
        """The truth lies within the bounds of a summary, for every value and windows of any length; what reaches
        further back than any of them is refused."""
        told = {one.definition.name: stats(one) for one in engine._explainer.summaries()}
        for name in set(summaries) & {"short"}:
            newest_zone = 16 * len(events)
            assert told[name]["bytes"] <= told[name]["memory"] + newest_zone
        newest, oldest = (pick(event["ts"] for event in events) for pick in (max, min))
        for length in {1, (newest - oldest) // 3 + 1, newest - oldest + 1}:
            reaches = any((since := told[name]["since"]) is None or since <= newest - length for name in summaries)
            inside = [event["volume"] for event in events if event["ts"] > newest - length]
            for where, counted in conditions({*(event["volume"] for event in events), 12345} - {None}):
                text = f"SELECT APPROX count(*) AS n FROM trades [RANGE {length} us]{where}"
                try:
                    (row,) = engine.ask(text).to_arrow().select(["n_low", "n_high"]).to_pylist()
                except MullionError as problem:
                    assert "does not hold all events" in str(problem) and not reaches, (text, problem)
                    continue
                assert row["n_low"] <= sum(map(counted, inside)) <= row["n_high"], (text, row, inside)
            if reaches:
                text = f"SELECT APPROX volume, count(*) AS n FROM trades [RANGE {length} us] GROUP BY volume"
                groups = (
                    engine.ask(text).to_arrow().select(["volume", "n_low", "n_high"])
                )  # bounds may lie before year 1
                check_groups(groups.to_pylist(), Counter(inside))

    def _check_bounds(self, engine: Engine, text: str, events: Sequence[Event], rows: int) -> None:
        try:
            (row,) = engine.ask(text).to_arrow().to_pylist()
        except MullionError as problem:
            assert "has not seen" in str(problem) and self.trial.asking.synopses["grams"]
            return
        last = sorted(events, key=lambda event: event["ts"])[-rows:]
        held = [event["volume"] for event in last if event["volume"] is not None]
        assert row["n_low"] == row["n_high"] == len(held), (text, row, held)
        if held:
            for name, value in (("high", max(held)), ("low", min(held)), ("total", sum(held))):
                assert row[f"{name}_low"] <= value <= row[f"{name}_high"], (text, row, held)


def conditions(values: set[int]) -> Iterator[tuple[str, Callable[[int | None], bool]]]:
    """Conditions on a column that may be NULL, and what they mean."""
    for value in values:
        yield f" WHERE volume = {value}", partial(eq, value)
    some = sorted(values)[:2]
    listed = ", ".join(map(str, some))
    yield "", lambda value: True
    yield f" WHERE volume IN ({listed})", lambda value: value in some
    yield f" WHERE volume NOT IN ({listed})", lambda value: value is not None and value not in some
    yield f" WHERE volume <> {some[0]} OR volume IS NULL", lambda value: value != some[0]
    yield f" WHERE volume > {some[0]}", lambda value: value is not None and value > some[0]


def check_groups(rows: Sequence[dict[str, Any]], truth: Counter[int | None]) -> None:
    """Every value that came has a row, whose bounds hold its count."""
    found = {row["volume"]: row for row in rows}
    assert len(found) == len(rows) and set(truth) <= set(found), (rows, truth)
    for value, row in found.items():
        assert row["n_low"] <= truth[value] <= row["n_high"] and row["n_high"] > 0, (row, truth)


def window_of(query: Query) -> Window | None:
    return query.source.window if isinstance(query.source, Named) else None


def right_at(query: Query, events: Sequence[Event], up_to: int) -> list[tuple[Any, ...]]:
    """What a question would have been answered when it was up to some time, now or earlier."""
    if up_to == max(event["ts"] for event in events):
        return reference.ask(query, TICKS, events).rows
    # A window that ends at an edge before now holds what came before the edge, as if it slid there.
    assert isinstance(query.source, Named) and query.source.window is not None
    sliding = replace(query, source=replace(query.source, window=replace(query.source.window, slide=1)))
    known = [event for event in events if event["ts"] <= up_to]
    return reference.ask(sliding, TICKS, [*known, {**events[0], "ts": up_to + 1}]).rows
