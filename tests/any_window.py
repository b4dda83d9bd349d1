"""Random windows of every kind, over the event time and over other columns that increase with it.

`examples_of(kinds=..., axes=..., among=...)` draws a stream, its events and queries with such windows. Kinds and axes
may be narrowed to those that a test is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from mullion.algebra.streams import Stream
from mullion.language.types import BIGINT, DATE, INT, TIMESTAMP
from strategies import (
    EVERY_AGGREGATE,
    PRICES,
    TRADES,
    Draw,
    Event,
    Example,
    Frame,
    Setting,
    duration,
    event_lists,
    queries,
    settings_of_time,
    timestamp,
)

TICKS = Stream("trades", (*TRADES.columns, ("seq", INT), ("number", BIGINT), ("seen", TIMESTAMP), ("due", DATE)), "ts")
"""Trades with columns that increase in the order of event time and arrival; some are NULL."""

KINDS = ("periodic", "rows", "partitioned", "range by tuples", "continuous", "unbounded", "landmark", "now")
AXES = ("ts", "seq", "number", "seen", "due")
DAY = 86_400_000_000
PARTITIONS = ("symbol", "flag", "symbol, flag", "price", "upper(symbol)", "volume % 2", "day")


@dataclass(frozen=True)
class Axis:
    """A column that windows go over: how its values are written, and about how far apart they are."""

    column: str
    unit: int
    origin: int
    in_time: bool

    def span(self, amount: int) -> str:
        return duration(amount) if self.in_time else str(amount)

    def instant(self, at: int) -> str:
        return timestamp(at) if self.in_time else str(at)


def axis_of(column: str, setting: Setting) -> Axis:
    if column == "due":
        return Axis(column, DAY, 0, True)
    in_time = column in ("ts", "seen")
    return Axis(column, setting.unit if in_time else 1, setting.origin if in_time else -5, in_time)


@st.composite
def windows_of(draw: Draw[Any], setting: Setting, *, kinds: Sequence[str] = KINDS, axes: Sequence[str] = AXES) -> Frame:
    kind = draw(st.sampled_from(kinds))
    axis = axis_of("ts" if kind in ("rows", "partitioned") else draw(st.sampled_from(axes)), setting)
    range_, slide = draw(st.integers(1, 20)) * axis.unit, draw(st.integers(2, 12)) * axis.unit
    if axis.unit > 1 and draw(st.sampled_from((False, False, True))):
        range_ += 1
    step = draw(st.integers(1, 5))
    shift = draw(st.sampled_from((0, 0, 1, -axis.unit, 3 * axis.unit)))
    by_time = f" SLIDE {axis.span(slide)}" + (f" OFFSET {axis.span(shift)}" if shift else "")
    by_tuples = f" SLIDE {step} {'TUPLE' if step == 1 else 'TUPLES'}"
    match kind:
        case "periodic":
            text = f"RANGE {axis.span(range_)}{by_time}"
        case "rows" | "partitioned":
            keys = f"PARTITION BY {draw(st.sampled_from(PARTITIONS))} " if kind == "partitioned" else ""
            text = f"{keys}ROWS {draw(st.integers(1, 12))}" + draw(st.sampled_from((f" SLIDE {step}", by_time)))
        case "range by tuples":
            text = f"RANGE {axis.span(range_)}{by_tuples}"
        case "continuous":
            text = f"RANGE {axis.span(range_)}"
        case "now":
            text = "NOW"
        case "unbounded":
            text = "RANGE UNBOUNDED" + draw(st.sampled_from((by_time, by_tuples, "")))
        case _:
            since = axis.instant(axis.origin + draw(st.integers(-2, 12)) * axis.unit)
            text = f"FROM {since}" + draw(st.sampled_from((by_time, by_tuples, "")))
    over = "" if axis.column == "ts" else f" WATTR {axis.column}"
    return Frame(range_, slide, shift, f"trades [{text}{over}]", in_time=axis.in_time)


@st.composite
def ticks(
    draw: Draw[Any], setting: Setting, *, prices: tuple[Any, ...] = PRICES, most: int = 40, untimed: bool = True
) -> list[Event]:
    """Events with ties, disorder and, if `untimed`, some without a time; now and then one event or none."""
    events = [
        dict(event)
        for event in draw(event_lists(setting, prices=prices, most=draw(st.sampled_from((most, most, most, most, 1)))))
    ]
    steps = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    holes = draw(st.sampled_from((0, 0, 5, 9)))
    seq = -5
    for rank, event in enumerate(sorted(events, key=lambda event: event["ts"])):
        seq += steps[rank % len(steps)]
        lag = setting.unit * (rank // 4)
        event |= {"seq": seq, "number": seq * 2 + 1, "seen": event["ts"] + lag, "due": seq // 3}
        if holes and rank % holes == 3:
            event |= dict.fromkeys(("seq", "number", "seen", "due"))
        if holes and untimed and rank % (holes + 2) == 4:
            event["ts"] = None
    return events


@st.composite
def examples_of(
    draw: Draw[Any],
    *,
    kinds: Sequence[str] = KINDS,
    axes: Sequence[str] = AXES,
    among: tuple[str, ...] = EVERY_AGGREGATE,
    created: bool = True,
    most_queries: int = 3,
    most_events: int = 25,
    untimed: bool = True,
) -> Example:
    """A stream, what happened on it, and who asks."""
    setting = draw(settings_of_time)
    windows = windows_of(setting, kinds=kinds, axes=axes)
    texts = [
        draw(queries(setting, f"q{i}", windows=windows, among=among, created=created))
        for i in range(draw(st.integers(1, most_queries)))
    ]
    return Example(TICKS, draw(ticks(setting, most=most_events, untimed=untimed)), texts)
