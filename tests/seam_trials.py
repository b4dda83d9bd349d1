"""Random runs that share a checkpoint: what comes, how it is cut into files and runs, where one is killed, who asks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

import any_relation
from any_window import KINDS, TICKS, ticks, windows_of
from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.limits import FIRST_TIME, LAST_TIME
from mullion.language.parse import parse_join_memory, parse_query
from mullion.planner.rules import make_plan
from mullion.slices.inputs import kernel_columns
from mullion.testing import STEPS
from promises import Ending, endings
from strategies import DECAYS, EVERY_AGGREGATE, Draw, Event, Frame, Setting, queries, settings_of_time

T = TypeVar("T")
STREAMS = {"trades": TICKS, **any_relation.STREAMS}
SYNOPSES = {
    "best": "SYNOPSIS best ON trades(price) USING ordered_sharing (rows 8)",
    "most": "SYNOPSIS most ON trades(volume) USING ordered_sharing (rows 20)",
    "grams": "SYNOPSIS grams ON trades(volume) USING timegram (buckets 4, rows 12)",
    "often": "SUMMARY often ON trades(volume) WITH GRANULARITY 3 us AND COLLAPSE (4, 29)",
    "short": "SUMMARY short ON trades(volume) WITH GRANULARITY 3 us AND COLLAPSE (2, 9) MEMORY '60 B'",
    "sketched": "SUMMARY sketched ON trades(price) WITH GRANULARITY 2 us AND COLLAPSE (3, 2) USING count_sketch",
}
KEYS = "SUMMARY keys_{0} ON {0}(k) WITH GRANULARITY 4 us AND COLLAPSE (2, 3) MEMORY '{1} B'"
"""Where relations prefer some rows, what they may keep of them."""
LITTLE, MUCH = 500, 1 << 30
LIMITS = [f"{rows} ROWS SHED {first} MARK EXACT" for rows in (1, 2, 4) for first in ("OLDEST", "RAREST")]
LIMITED = st.fixed_dictionaries({}, optional=dict.fromkeys(any_relation.STREAMS, st.sampled_from(LIMITS)))
ENDINGS = {
    "trades": endings("flag", (True,), (("symbol",), ("symbol", "volume"))),
    **{name: endings(value, (1.0, 2.0, 0.25)) for name, value in any_relation.VALUE.items()},
}
EXTREMES = (("max", "min"), ("price", "volume"), (1, 3, 8, 12, 20))


@dataclass(frozen=True)
class OneRun:
    """A run over what is there: how many files of each stream are new to it, and where it is killed, if it is."""

    files: Mapping[str, int]
    kill: tuple[str, int] | None = None
    beats: Mapping[str, int] = field(default_factory=dict)
    """Heartbeats at its end, by stream."""
    said: bool = False
    """Whether they are told to the engine, or requested in the checkpoint before it starts."""
    over: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """A key that is over at its end, by stream, said or requested likewise."""


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
    """The run with which a query enters; those that are not named are there from the beginning."""
    table: list[Event]
    runs: list[OneRun]
    sharing: str
    expiry: str
    at_a_time: int
    """Files in a batch."""
    sharded: bool
    asking: Asking
    watched: bool
    """Whether somebody reads the streams of relations from the beginning: what enters later has missed something."""
    endings: Mapping[str, Ending] = field(default_factory=dict)
    """Which events end the keys of streams, where any do."""
    memory: int | None = None
    """MEMORY of summaries on the keys of relations; None where there are none."""
    limits: Mapping[str, str] = field(default_factory=dict)
    """MEMORY of streams: what joins may keep of them."""
    idle: bool = False
    """Whether streams say IDLE AFTER, which changes nothing in runs that have an end."""

    @property
    def streams(self) -> Mapping[str, Stream]:
        limits = {name: parse_join_memory(text) for name, text in self.limits.items()}
        return {name: replace(stream, memory=limits.get(name)) for name, stream in STREAMS.items()}

    def may_miss_rows(self, name: str) -> bool:
        """Whether a query tells a part of its answer, since there is too little memory."""
        return self.memory == LITTLE and "WITH PREFERENCE" in self.texts[name]


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
    expiry = draw(st.sampled_from(("upa", "upa", "nt", "scan")))
    limits = {} if expiry == "nt" else draw(st.just({}) | st.just({}) | LIMITED)
    style = st.builds(any_relation.Style, st.builds(Random, st.integers(0, 2**32 - 1)), st.sampled_from((None, 3)))
    related = style.map(any_relation.bounded) if limits else any_relation.relations(origin=origin)
    for i in range(draw(st.integers(0 if texts else 1, 2))):
        text = draw(related.map(any_relation.scheduled) | related)
        named = text.replace("CREATE QUERY q", f"CREATE QUERY r{i}", 1)
        named = named if named != text else f"CREATE QUERY r{i} AS {text}"
        texts[f"r{i}"] = named.replace(" AS ", " BACKFILL AS ", 1) if draw(st.booleans()) else named
    if not limits and draw(st.sampled_from((False, False, True))):
        texts["r2"] = f"CREATE QUERY r2 AS {any_relation.promising(draw(style))}"
    events: dict[str, list[Event]] = {
        "trades": draw(ticks(setting, most=25)),
        **draw(any_relation.events(origin=origin)),
    }
    files = {name: draw(files_of(some)) for name, some in events.items()}
    unit = {"trades": setting.unit}
    lateness = {name: draw(st.sampled_from((0, 1, 4, 50))) * unit.get(name, 1) for name in STREAMS}
    times = {name: [event["ts"] for event in some if event["ts"] is not None] or [0] for name, some in events.items()}
    reach = {
        name: st.integers(max(min(own) - 5, FIRST_TIME), min(max(own) + 30 * unit.get(name, 1), LAST_TIME))
        for name, own in times.items()
    }
    beats = st.fixed_dictionaries({}, optional=reach) | st.just({})
    ending = draw(st.fixed_dictionaries({}, optional=ENDINGS) | st.just({}))
    known = {name: keys_of(own, events[name]) for name, own in ending.items()}
    over = st.fixed_dictionaries({}, optional={name: st.sampled_from(keys) for name, keys in known.items() if keys})
    runs = []
    left = {name: len(some) for name, some in files.items()}
    kills = st.sampled_from((None, None, None, *((step, at) for step in STEPS for at in (1, 2))))
    while any(left.values()):
        new = {name: draw(st.integers(0, min(number, 3))) for name, number in left.items()}
        left = {name: number - new[name] for name, number in left.items()}
        runs.append(OneRun(new, draw(kills), draw(beats), draw(st.booleans()), draw(over)))
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
    if "periodic" in kinds and draw(st.booleans()):
        own = queries(
            setting, "q", windows=windows_of(setting, kinds=("periodic",), axes=("ts",)), among=EVERY_AGGREGATE
        )
        text = draw(own.filter(is_for_the_kernel)).replace("CREATE QUERY q", "CREATE QUERY q3", 1)
        texts["q3"] = at_most(re.sub(r" OFFSET (-?\d+ \w+|'[^']*')", "", text))
    if joining and len(runs) > 1:
        for i in range(draw(st.sampled_from((0, 0, 1, 2)))):
            name, joins = f"q{4 + i}", draw(st.integers(1, len(runs) - 1))
            newest = newest_at(files["trades"], runs[:joins])
            later[name], texts[name] = joins, draw(at_the_newest(setting, name, newest, texts))
    scheduled = {name: at_most(text) if name < "q3" and draw(st.booleans()) else text for name, text in texts.items()}
    return Trial(
        files,
        lateness,
        scheduled,
        later,
        draw(any_relation.table_rows()),
        runs,
        draw(st.sampled_from(("auto", "auto", "off"))),
        expiry,
        draw(st.sampled_from((1, 2, 10))),
        draw(st.sampled_from((False, False, True))),
        draw(asked_once(setting, windows, [text for name, text in texts.items() if name < "q3"], len(runs))),
        draw(st.booleans()),
        ending,
        draw(st.sampled_from((LITTLE, MUCH))) if any("PREFERENCE" in text for text in texts.values()) else None,
        limits,
        draw(st.booleans()),
    )


def newest_at(files: Sequence[Sequence[Event]], runs: Sequence[OneRun]) -> int:
    """The newest event of trades after some runs, if these read it."""
    read = files[: sum(run.files.get("trades", 0) for run in runs)]
    return max((event["ts"] for file in read for event in file if event["ts"] is not None), default=0)


@st.composite
def at_the_newest(draw: Draw[Any], setting: Setting, name: str, newest: int, others: Mapping[str, str]) -> str:
    """A query one of whose windows starts with the newest event when it enters. It may ask what another one does."""
    range_, slide = (draw(st.integers(1, 6)) * setting.unit for _ in range(2))
    shift = (newest + range_) % slide
    source = f"trades [RANGE {range_} us SLIDE {slide} us{f' OFFSET {shift} us' if shift else ''}]"
    window = st.just(Frame(range_, slide, shift, source, in_time=True))
    plain = queries(setting, name, windows=window, among=EVERY_AGGREGATE).filter(is_for_the_kernel).filter(may_join)
    same = [text for other, text in others.items() if other < "q3" and may_join(text) and "trades [" in text]
    taken = st.sampled_from(same or [""]).map(lambda text: re.sub(r"trades \[.*?\]", source, text))
    named = taken.map(lambda text: re.sub(r"^CREATE QUERY q\d", f"CREATE QUERY {name}", text))
    return draw(plain | named.filter(lambda text: bool(text) and "decay" not in text))


def keys_of(ending: Ending, events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """The keys of some events that may be over."""
    keys = dict.fromkeys(tuple(event[name] for name in ending.keys) for event in events)
    return [key for key in keys if None not in key]


def may_join(text: str) -> bool:
    """A query over another column, from a landmark on, or with its past, cannot always enter a stream that has begun;
    relations come by their past."""
    is_relation = text.startswith("CREATE QUERY r")
    return "WATTR" not in text and "FROM TIMESTAMP" not in text and (is_relation or "BACKFILL" not in text)


def at_most(text: str) -> str:
    """The same query with SLIDE AT MOST, if its window slides in event time from a multiple of its slide on."""
    is_periodic = "[RANGE" in text and not any(w in text for w in ("UNBOUNDED", "OFFSET", "WATTR", "TUPLE", "decay"))
    return text.replace(" SLIDE ", " SLIDE AT MOST ", 1) if is_periodic else text


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
