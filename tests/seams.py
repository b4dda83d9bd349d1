"""Random runs that share a checkpoint: what comes, how it is cut into files and runs, where a run is killed, who asks.

After every run, questions are asked once: of the events that a stream keeps, of synopses, of what queries hold.

    trial = draw(trials())
    play(trial, tmp_path)        # raises where the answers of all its runs are not those of one run over everything

Streams: trades, with windows of every kind over it, and a, b and c, with joins, DISTINCT, NOT EXISTS and so on. The
oracle is the slow reference over all events but those that were late when they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

import any_relation
from any_window import KINDS, TICKS, ticks, windows_of
from by_slices import bind
from mullion import reference
from mullion.algebra.relation import Relation
from mullion.binding import relations
from mullion.binding.entering import entering_at
from mullion.engine import Engine
from mullion.errors import MullionError
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_query
from mullion.language.query import Named, Query
from mullion.planner.physical import sliced
from mullion.planner.rules import make_plan
from mullion.service.steering import EPOCH
from mullion.slices.inputs import kernel_columns
from mullion.storage.manifest import stream_folder
from mullion.storage.requests import request_advance
from mullion.testing import STEPS, Crash, crash_at
from operators.test_relations_differential import as_rows, comparable
from promises import Ending, Promised, endings
from runtime.test_asking import micros
from runtime.test_core_differential import assert_same, rows_of
from strategies import DECAYS, EVERY_AGGREGATE, Draw, Event, Frame, Setting, queries, settings_of_time
from without_spark import engine_without_spark, write_events

T = TypeVar("T")
YEAR_9999 = 253_370_764_800
"""In seconds: no event is ahead of it."""
STREAMS = {"trades": TICKS, **any_relation.STREAMS}
SYNOPSES = {
    "best": "ON trades(price) USING ordered_sharing (rows 8)",
    "most": "ON trades(volume) USING ordered_sharing (rows 20)",
    "grams": "ON trades(volume) USING timegram (buckets 4, rows 12)",
}
ENDINGS = {
    "trades": endings("flag", (True,), (("symbol",), ("symbol", "volume"))),
    **{name: endings(value, (1.0, 2.0, 0.25)) for name, value in any_relation.VALUE.items()},
}
EXTREMES = (("max", "min"), ("price", "volume"), (1, 3, 8, 12, 20))
BOUNDS = "SELECT APPROX count(volume) AS n, max(volume) AS high, min(volume) AS low, sum(volume) AS total"


@dataclass(frozen=True)
class OneRun:
    """A run over what is there: how many files of each stream are new to it, and where it is killed, if it is."""

    files: Mapping[str, int]
    kill: tuple[str, int] | None = None
    beats: Mapping[str, int] = field(default_factory=dict)
    """Heartbeats at its end, by stream."""
    said: bool = False
    """Whether they are told to the engine, or requested in the checkpoint before it starts."""


@dataclass(frozen=True)
class Asking:
    """What is asked about trades after every run."""

    keep: str
    """KEEP and how much, or nothing."""
    synopses: Mapping[str, int]
    """The run with which each is made."""
    questions: tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    files: Mapping[str, list[list[Event]]]
    """The events of each file of each stream."""
    lateness: Mapping[str, int]
    texts: Mapping[str, str]
    joining: Mapping[str, int]
    """The run with which a query joins; those that are not named are there from the beginning."""
    table: list[Event]
    runs: list[OneRun]
    sharing: str
    expiry: str
    at_a_time: int
    """Files in a batch."""
    sharded: bool
    asking: Asking
    watched: bool
    """Whether somebody reads the streams of relations from the beginning: what joins later has missed something."""
    endings: Mapping[str, Ending] = field(default_factory=dict)
    """Which events end the keys of streams, where any do."""


# Drawing


@st.composite
def files_of(draw: Draw[Any], events: Sequence[Event]) -> list[list[Event]]:
    """Events in files, some of them empty."""
    ends = sorted(draw(st.lists(st.integers(0, len(events)), max_size=6)))
    return [list(events[low:high]) for low, high in zip([0, *ends], [*ends, len(events)], strict=True)]


def is_for_the_kernel(text: str) -> bool:
    """Whether a query can be answered without Spark."""
    if "decay" in text and ("WATTR seq" in text or "WATTR number" in text):
        return False  # whole numbers have no half-life
    query = bind(parse_query(text), {"trades": TICKS})
    return (
        kernel_columns(make_plan(TICKS, [replace(query, start=None, stop=None)], axis=query.axis).groupings) is not None
    )


@st.composite
def asked_once(
    draw: Draw[Any], setting: Setting, windows: st.SearchStrategy[Frame], standing: Sequence[str], runs: int
) -> Asking:
    """Questions about trades, some of them what queries answer all the time, and what is kept for them."""
    plain = queries(setting, windows=windows, among=EVERY_AGGREGATE, created=False).filter(is_for_the_kernel)
    extreme = st.builds("SELECT {}({}) AS c0 FROM trades [ROWS {}]".format, *map(st.sampled_from, EXTREMES))
    keep = f" KEEP '{draw(st.integers(1, 20)) * setting.unit} us'"
    made = draw(st.sampled_from(((), (), tuple(SYNOPSES), *((name,) for name in SYNOPSES))))
    return Asking(
        draw(st.sampled_from(("", "", keep, " KEEP 5 ROWS", " KEEP 1000 ROWS"))),
        {name: draw(st.sampled_from((0, 0, *range(runs)))) for name in made},
        (*draw(st.lists(plain | extreme, max_size=2)), *(text.split(" AS ", 1)[1] for text in standing)),
    )


@st.composite
def trials(draw: Draw[Any], *, kinds: Sequence[str] = KINDS, joining: bool = True) -> Trial:
    setting = draw(settings_of_time)
    windows = windows_of(setting, kinds=kinds)
    among = (*EVERY_AGGREGATE, *DECAYS)
    plain = queries(setting, "q", windows=windows, among=among).filter(is_for_the_kernel)
    origin = draw(st.sampled_from(any_relation.ORIGINS))
    texts = {
        f"q{i}": draw(plain).replace("CREATE QUERY q", f"CREATE QUERY q{i}", 1) for i in range(draw(st.integers(0, 3)))
    }
    related = any_relation.relations(origin=origin)
    for i in range(draw(st.integers(0 if texts else 1, 2))):
        text = draw(related)
        named = text.replace("CREATE QUERY q", f"CREATE QUERY r{i}", 1)
        named = named if named != text else f"CREATE QUERY r{i} AS {text}"
        texts[f"r{i}"] = named.replace(" AS ", " BACKFILL AS ", 1) if draw(st.booleans()) else named
    events: dict[str, list[Event]] = {
        "trades": draw(ticks(setting, most=25)),
        **draw(any_relation.events(origin=origin)),
    }
    files = {name: draw(files_of(some)) for name, some in events.items()}
    unit = {"trades": setting.unit}
    lateness = {name: draw(st.sampled_from((0, 1, 4, 50))) * unit.get(name, 1) for name in STREAMS}
    times = {name: [event["ts"] for event in some if event["ts"] is not None] or [0] for name, some in events.items()}
    reach = {name: st.integers(min(own) - 5, max(own) + 30 * unit.get(name, 1)) for name, own in times.items()}
    beats = st.fixed_dictionaries({}, optional=reach) | st.just({})
    runs = []
    left = {name: len(some) for name, some in files.items()}
    kills = st.sampled_from((None, None, None, *((step, at) for step in STEPS for at in (1, 2))))
    while any(left.values()):
        new = {name: draw(st.integers(0, min(number, 3))) for name, number in left.items()}
        left = {name: number - new[name] for name, number in left.items()}
        runs.append(OneRun(new, draw(kills), draw(beats), draw(st.booleans())))
        if len(runs) == 6:
            runs[-1] = replace(runs[-1], files={name: new[name] + number for name, number in left.items()})
            break
    if draw(st.booleans()):
        runs.append(OneRun({}, draw(kills)))
    later = {
        name: draw(st.integers(1, len(runs) - 1))
        for name, text in texts.items()
        if joining and len(runs) > 1 and may_join(text) and draw(st.sampled_from((False, False, True)))
    }
    return Trial(
        files,
        lateness,
        texts,
        later,
        draw(any_relation.table_rows()),
        runs,
        draw(st.sampled_from(("auto", "auto", "off"))),
        draw(st.sampled_from(("upa", "upa", "nt", "direct"))),
        draw(st.sampled_from((1, 2, 10))),
        draw(st.sampled_from((False, False, True))),
        draw(asked_once(setting, windows, [text for name, text in texts.items() if name < "r"], len(runs))),
        draw(st.booleans()),
        draw(st.fixed_dictionaries({}, optional=ENDINGS) | st.just({})),
    )


def may_join(text: str) -> bool:
    """A query over another column, or from a landmark on, cannot always join a stream that has begun."""
    return "WATTR" not in text and "FROM TIMESTAMP" not in text


def drawn(strategy: st.SearchStrategy[T], number: int) -> T:
    """What a strategy gives for a seed, always the same."""
    found: list[T] = []

    @seed(number)
    @settings(max_examples=3, database=None, phases=[Phase.generate], deadline=None, derandomize=False)
    @given(strategy)
    def keep(value: T) -> None:
        found.append(value)

    keep()
    return found[-1]


# Playing


def script(trial: Trial, base: Path, run: int) -> str:
    made = []
    for name, stream in STREAMS.items():
        columns = ", ".join(f"{column} {type_}" for column, type_ in stream.columns)
        options = f"path '{base / name}', maxFilesPerTrigger '{trial.at_a_time}'"
        keep = trial.asking.keep if name == "trades" else ""
        made.append(
            f"CREATE STREAM {name} ({columns}) USING parquet OPTIONS ({options}) "
            f"TIMESTAMP BY ts LATENESS '{trial.lateness[name]} us'{keep}"
            f"{f' PUNCTUATE {trial.endings[name].clause}' if name in trial.endings else ''}"
        )
    columns = ", ".join(f"{column} {type_}" for column, type_ in any_relation.NAMED.columns)
    made.append(f"CREATE TABLE named ({columns}) USING parquet OPTIONS (path '{base / 'named.parquet'}')")
    watched = any_relation.STREAMS if trial.watched else ()
    made += [f"CREATE QUERY of_{name} AS SELECT count(*) AS n FROM {name} [RANGE 5 us SLIDE 5 us]" for name in watched]
    made += [text for name, text in trial.texts.items() if trial.joining.get(name, 0) <= run]
    made += [
        f"CREATE SYNOPSIS {name} {SYNOPSES[name]}" for name, since in trial.asking.synopses.items() if since <= run
    ]
    return ";\n".join(made)


@dataclass
class Oracle:
    """What a run over everything would have answered."""

    trial: Trial
    kept: dict[str, list[Event]]
    newest: dict[str, int | None]
    starts: dict[str, int | None]
    """From when on a query that joined answers."""
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
        return asked | set(any_relation.STREAMS) if self.trial.watched else asked

    def streams_of(self, name: str) -> Sequence[str]:
        return self.bound(name).streams

    def bound(self, name: str) -> Relation:
        return relations.bind(parse_query(self.trial.texts[name]), STREAMS, any_relation.TABLES)

    def begins(self, run: int) -> None:
        """Queries that join with this run answer what starts after the newest event."""
        for name, joins in self.trial.joining.items():
            if joins == run:
                seen = [t for stream in self.streams_of(name) if (t := self.newest[stream]) is not None]
                self.starts[name] = max(seen) + 1 if seen else None

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
            found = comparable(as_rows(table), wanted.names, without)
            right = comparable(wanted.rows, wanted.names, without)
            assert found == right, f"{bound.text}\ntoo many: {found - right}\nmissing: {right - found}"
        else:
            right = reference.answer(replace(query, start_at=start), TICKS, self.kept["trades"]).rows
            assert_same(plan, rows_of(plan, table), right)

    def _with_its_past(self, bound: Relation) -> Relation:
        """As if it had been there from the start, but that it answers only what ends after the newest event."""
        joined = self.starts.get(bound.name)
        return bound if joined is None or bound.after is not None else replace(bound, after=joined - 1)

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


def right_at(query: Query, events: Sequence[Event], up_to: int) -> list[tuple[Any, ...]]:
    """What a question would have been answered when it was up to some time, now or earlier."""
    if up_to == max(event["ts"] for event in events):
        return reference.ask(query, TICKS, events).rows
    # A window that ends at an edge before now holds what came before the edge, as if it slid there.
    assert isinstance(query.source, Named) and query.source.window is not None
    sliding = replace(query, source=replace(query.source, window=replace(query.source.window, slide=1)))
    known = [event for event in events if event["ts"] <= up_to]
    return reference.ask(sliding, TICKS, [*known, {**events[0], "ts": up_to + 1}]).rows


def play(trial: Trial, base: Path) -> None:
    """All runs one after the other, the last of them closed, and then what they have answered."""
    table = {c: Vector.of(t, [row[c] for row in trial.table]).to_arrow() for c, t in any_relation.NAMED.columns}
    pq.write_table(pa.table(table), base / "named.parquet")
    oracle, written = Oracle.of(trial), dict.fromkeys(STREAMS, 0)
    for number, run in enumerate(trial.runs):
        close = number == len(trial.runs) - 1
        oracle.begins(number)
        for name, new in run.files.items():
            for file in trial.files[name][written[name] : written[name] + new]:
                write_events(base / name, written[name], STREAMS[name], file)
                written[name] += 1
        asked = oracle.asks(number)
        for name in asked:
            oracle.reads(name, written[name])
        beats = {name: time for name, time in run.beats.items() if name in asked and oracle.beat(name, time)}
        if asked:
            _run(trial, base, number, replace(run, beats=beats), oracle, close=close)
    with _engine(trial, base) as engine:
        engine.execute(script(trial, base, len(trial.runs)))
        for name in trial.texts:
            oracle.check(name, engine.results(name).to_arrow())


def _engine(trial: Trial, base: Path) -> Any:
    return engine_without_spark(
        out=base / "out",
        checkpoint=base / "checkpoint",
        clock=lambda: YEAR_9999,
        sharing=trial.sharing,
        expiry=trial.expiry,
        shard_above=0 if trial.sharded else 200_000,
    )


def _run(trial: Trial, base: Path, number: int, run: OneRun, oracle: Oracle, *, close: bool) -> None:
    said = run.said and not close
    for name, time in {} if said else run.beats.items():
        request_advance(base / "checkpoint" / stream_folder(name), time)
    for crash in ([crash_at(*run.kill)] if run.kill else []) + [nullcontext()]:
        with _engine(trial, base) as engine:
            engine.execute(script(trial, base, number))
            try:
                with crash:
                    engine.run(close=close)
                    for name, time in run.beats.items() if said else ():
                        _advance(engine, name, time)
            except Crash:
                continue
            if "trades" in oracle.asks(number):
                oracle.asks_once(engine, number)
        return


def _advance(engine: Engine, stream: str, time: int) -> None:
    """Unless a run that was killed has."""
    watermark = engine.runs[stream].watermark
    if watermark is None or watermark < time:
        engine.advance(stream, EPOCH + timedelta(microseconds=time))
