"""Random streams, events and queries. Queries are drawn as SQL text, so that the parser takes part.

Times are drawn in units: a unit lies between a microsecond and an hour, events lie within some hundred units, and
windows are some units long. So windows overlap and have gaps, and the slowest computation of an example stays fast.
Doubles that are ordered or compared are sums of nothing, so that rounding cannot change who comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

from hypothesis import strategies as st

from mullion.algebra.streams import Stream, Table
from mullion.language.limits import FIRST_TIME, LAST_TIME, moment
from mullion.language.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, decimal

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[T]], T]
Event = Mapping[str, Any]

TRADES = Stream(
    "trades",
    (
        ("ts", TIMESTAMP),
        ("symbol", STRING),
        ("price", DOUBLE),
        ("volume", INT),
        ("big", BIGINT),
        ("amount", decimal(10, 2)),
        ("flag", BOOLEAN),
        ("day", DATE),
    ),
    "ts",
)

US, MS, SECOND, MINUTE, HOUR = 1, 1_000, 1_000_000, 60_000_000, 3_600_000_000
UNITS = (US, 7 * US, MS, SECOND, MINUTE, HOUR)
ORIGINS = (0, -3 * HOUR, -1, 1_704_067_200 * SECOND, -2_000_000_000 * SECOND - 13)

SYMBOLS = ("A", "B", "b", "", "Ä", "A%", None)
NUMBERS = (0.0, -0.0, 0.25, 1.0, -1.5, 0.1, 0.7, 2.75, 100.0, None)
PRICES = (*NUMBERS, float("nan"), float("inf"), float("-inf"))
VOLUMES = (0, 1, 2, 3, 5, 8, -1, -7, 2**31 - 1, -(2**31), None)
BIGS = (0, 1, -1, 10**12, 2**62, 2**63 - 1, -(2**63), None)
AMOUNTS = (Decimal("0.00"), Decimal("1.25"), Decimal("-3.10"), Decimal("99999999.99"), Decimal("0.01"), None)
DAYS = (0, 1, -1, 19_723, None)


@dataclass(frozen=True)
class Setting:
    """The scale of an example: the length of a unit, and a time that its events are near to."""

    unit: int
    origin: int


@dataclass(frozen=True)
class Example:
    stream: Stream
    events: list[Event]
    queries: list[str]
    tables: Mapping[str, tuple[Table, list[Event]]] = field(default_factory=dict)


YEARS = 365 * 24 * HOUR
EXTREMES = (Setting(60 * YEARS, FIRST_TIME), Setting(30 * YEARS, LAST_TIME - 125 * 30 * YEARS))
"""Events from the very first time on, and up to the last."""

settings_of_time = st.builds(Setting, st.sampled_from(UNITS), st.sampled_from(ORIGINS)) | st.sampled_from(EXTREMES)


@st.composite
def times(draw: Draw[Any], setting: Setting, most: int = 40) -> list[int]:
    """Clustered, with ties, gaps and disorder."""
    least = draw(st.sampled_from((0, *[most // 2] * 5)))
    places = draw(st.lists(st.integers(0, 12), min_size=least, max_size=most))
    fractions = draw(st.lists(st.sampled_from((0, 0, 1, setting.unit // 2)), min_size=1, max_size=3))
    stride = draw(st.sampled_from((1, 1, 2, 5)))
    jump = draw(st.sampled_from((0, 0, 17, 60)))
    found = []
    for i, place in enumerate(places):
        after = jump if place > 8 else 0
        found.append(setting.origin + (place * stride + after) * setting.unit + fractions[i % len(fractions)])
    return found if draw(st.sampled_from((False, False, True))) else sorted(found)


@st.composite
def event_lists(draw: Draw[Any], setting: Setting, *, prices: tuple[Any, ...] = PRICES, most: int = 40) -> list[Event]:
    found = []
    rows = st.tuples(
        st.sampled_from(SYMBOLS),
        st.sampled_from(prices),
        st.sampled_from(VOLUMES),
        st.sampled_from(BIGS),
        st.sampled_from(AMOUNTS),
        st.sampled_from((True, False, None)),
        st.sampled_from(DAYS),
    )
    kinds = draw(st.lists(rows, min_size=8, max_size=12))
    instants = draw(times(setting, most))
    picks = draw(st.lists(st.integers(0, len(kinds) - 1), min_size=len(instants), max_size=len(instants)))
    for time, pick in zip(instants, picks, strict=True):
        values = kinds[pick]
        found.append(dict(zip(TRADES.types, (time, *values), strict=True)))
    return found


def duration(micros: int) -> str:
    """A duration as a person would write it."""
    for size, name in ((HOUR, "h"), (MINUTE, "min"), (SECOND, "s"), (MS, "ms")):
        if micros and micros % size == 0:
            return f"{micros // size} {name}"
    return f"{micros} us"


def timestamp(micros: int) -> str:
    return f"TIMESTAMP '{moment(micros).replace(tzinfo=None).isoformat(sep=' ')}'"


@dataclass(frozen=True)
class Frame:
    """A window as it is written: after FROM, or in GROUP BY."""

    range: int
    slide: int
    offset: int
    source: str
    grouping: str = ""
    in_time: bool = True
    """Whether its bounds are times, so that START AT and STOP AT may be written."""


@st.composite
def frames(draw: Draw[Any], setting: Setting) -> Frame:
    unit = setting.unit
    kind = draw(st.sampled_from(("overlapping", "overlapping", "tumbling", "hopping")))
    slide = draw(st.integers(2, 15)) * unit
    range_ = slide
    if kind == "overlapping":
        range_ = slide + draw(st.integers(1, 25)) * unit
    elif kind == "hopping":
        range_ = max(1, slide - draw(st.integers(1, 14)) * unit) if slide > unit else slide
    if unit > US and draw(st.sampled_from((False, False, False, True))):
        range_, slide = range_ + draw(st.integers(0, 5)), slide + draw(st.integers(0, 5))
    offset = draw(st.sampled_from((0, 0, unit, -unit, 1, 3 * unit + 1)))
    size, step = duration(range_), duration(slide)
    form = draw(st.sampled_from(("bracket", "bracket", "bracket", "window", "hop")))
    if form == "bracket":
        shift = f" OFFSET '{duration(offset)}'" if offset else ""
        return Frame(range_, slide, offset, f"trades [RANGE '{size}' SLIDE {step}{shift}]")
    if form == "window":
        shown = f"window(ts, '{size}', '{step}', '{duration(offset)}')"
        return Frame(range_, slide, offset + range_, "trades", shown)
    source = f"HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '{step}', INTERVAL '{size}', INTERVAL '{duration(offset)}')"
    return Frame(range_, slide, offset + range_, source)


SIMPLE = (
    "true",
    "volume > 1",
    "volume BETWEEN 1 AND 5",
    "price < 1.0",
    "price >= 0.25",
    "price IS NOT NULL",
    "price = price",
    "symbol = 'A'",
    "symbol IN ('A', 'B', '')",
    "symbol IS NULL",
    "symbol LIKE 'A%'",
    "upper(symbol) <> 'B'",
    "flag",
    "NOT flag",
    "amount >= 1.25",
    "big > 0",
    "day >= DATE '1970-01-01'",
    "volume % 2 = 0",
    "volume / 0 > 1",
    "CASE WHEN flag THEN volume ELSE 0 END > 1",
    "coalesce(price, 0) > 0",
    "volume > 1000000000000",
)


@st.composite
def predicates(draw: Draw[Any]) -> str:
    first = draw(st.sampled_from(SIMPLE))
    how = draw(st.sampled_from(("", "", "AND", "OR", "NOT")))
    if how == "NOT":
        return f"NOT ({first})"
    return f"({first}) {how} ({draw(st.sampled_from(SIMPLE))})" if how else first


KEYS = (
    "symbol",
    "flag",
    "day",
    "price",
    "amount",
    "volume % 3",
    "upper(symbol)",
    "CASE WHEN price > 0 THEN 'up' WHEN price < 0 THEN 'down' END",
    "price * 0",
    "big",
)
EXACT = (
    "count(*)",
    "count(price)",
    "count(symbol)",
    "sum(volume)",
    "sum(big)",
    "sum(amount)",
    "min(price)",
    "max(price)",
    "max(symbol)",
    "min(symbol)",
    "min(amount)",
    "max(amount)",
    "min(day)",
    "max(flag)",
    "min(ts)",
    "max(big)",
    "min(big)",
    "max(volume * 2)",
    "avg(amount)",
)
ROUNDED = (
    "sum(price)",
    "avg(price)",
    "avg(volume)",
    "sum(price * volume)",
    "avg(big)",
    "var_pop(price)",
    "var_samp(volume)",
    "stddev_pop(amount)",
    "stddev_samp(price)",
    "sum(volume / 3)",
)
ABOVE = (
    "max(price) - min(price)",
    "sum(volume) / count(*)",
    "coalesce(sum(volume), 0) + 1",
    "CASE WHEN count(*) > 1 THEN max(symbol) ELSE 'few' END",
    "CAST(max(day) AS STRING)",
    "sum(amount) * 2",
    "window_end",
    "1",
)


PLAIN = (*EXACT, *ROUNDED)
OVER_VALUES = (
    "count(DISTINCT symbol)",
    "count(DISTINCT price)",
    "count(DISTINCT symbol, flag)",
    "count(DISTINCT price, volume % 2, day)",
    "sum(DISTINCT volume)",
    "sum(DISTINCT amount)",
    "sum(DISTINCT big)",
    "avg(DISTINCT volume)",
    "avg(DISTINCT price)",
    "min(DISTINCT price)",
    "max(DISTINCT symbol)",
    "median(price)",
    "median(volume)",
    "percentile(price, 0.9)",
    "percentile(amount, 0.25)",
    "percentile(big, 0)",
    "percentile(volume, 1)",
    "mode(symbol)",
    "mode(price)",
    "mode(day)",
    "mode(volume % 3)",
    "top_k(symbol, 2)",
    "top_k(price, 3)",
    "top_k(flag, 1)",
    "top_k(amount, 100)",
)
"""Aggregates that need to know how often each value occurs."""
ENDS = (
    "first(price)",
    "last(price)",
    "first(symbol) IGNORE NULLS",
    "last(symbol, true)",
    "first(volume)",
    "last(volume) RESPECT NULLS",
    "last(big, true)",
    "first(ts)",
    "last(amount)",
    "first(day, true)",
)
"""Aggregates that depend on the order of events."""
DECAYS = ("decay(price, '3 s')", "decay(volume, '20 us')", "decay(amount, INTERVAL '1' DAY)", "decay(big, '1 ms')")
"""Sums that fade, over windows in time; their half-lives are far shorter or longer than some of these."""
SKETCHED = (
    "approx_frequency(volume, 3)",
    "approx_frequency(symbol, 'A')",
    "approx_frequency(price, 0.1)",
    "approx_frequency(amount, 1.25, 0.2)",
    "approx_frequency(day, DATE '1970-01-02')",
    "approx_frequency(flag, TRUE)",
)
"""Of so few values that they are exact."""
EVERY_AGGREGATE = (*PLAIN, *OVER_VALUES, *ENDS, *SKETCHED)


@st.composite
def aggregates(draw: Draw[Any], among: tuple[str, ...] = PLAIN) -> str:
    found = draw(st.sampled_from(among))
    if draw(st.sampled_from((False, False, False, True))):
        return f"{found} FILTER (WHERE {draw(st.sampled_from(SIMPLE))})"
    return str(found)


@st.composite
def queries(
    draw: Draw[Any],
    setting: Setting,
    name: str = "q",
    *,
    windows: st.SearchStrategy[Frame] | None = None,
    among: tuple[str, ...] = PLAIN,
    created: bool = True,
) -> str:
    """CREATE QUERY with a window of those given, periodic ones by default, and aggregates among those given. Without
    CREATE QUERY when the question is to be asked once."""
    frame = draw(frames(setting) if windows is None else windows)
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True)) if draw(st.booleans()) else []
    items = [k for k in keys if draw(st.booleans())] + draw(st.lists(aggregates(among), min_size=1, max_size=3))
    if draw(st.booleans()):
        items.append(draw(st.sampled_from(ABOVE)))
    text = "SELECT " + ", ".join(f"{item} AS c{i}" for i, item in enumerate(items)) + f" FROM {frame.source}"
    if draw(st.booleans()):
        text += f" WHERE {draw(predicates())}"
    if keys or frame.grouping:
        text += " GROUP BY " + ", ".join([*keys, *([frame.grouping] if frame.grouping else [])])
    if draw(st.sampled_from((*[False] * 4, True))):
        bound = draw(st.sampled_from(("count(*) > 1", "count(*) < 3", "max(volume) >= 2", "min(price) < 1")))
        text += f" HAVING {bound}"
    order = draw(st.lists(aggregates(EXACT) | st.sampled_from((*keys, "window_end")), max_size=2))
    if keys and order and draw(st.booleans()):
        way = st.sampled_from(("", " DESC", " ASC NULLS LAST", " DESC NULLS FIRST"))
        text += " ORDER BY " + ", ".join(term + draw(way) for term in order)
    if draw(st.sampled_from((False, False, False, True))):
        text += f" LIMIT {draw(st.sampled_from((*range(1, 9), 0)))}"
    if not created:
        return text
    start, stop = draw(st.tuples(*[st.sampled_from((*[None] * 7, 0, 3, 10) if frame.in_time else (None,))] * 2))
    begin = "" if start is None else f" START AT {timestamp(setting.origin + start * setting.unit)}"
    length = frame.range + setting.unit * ((start or 0) + 4 * (stop or 0))
    end = "" if stop is None else f" STOP AT {timestamp(setting.origin + length)}"
    past = " BACKFILL" if start is not None and draw(st.booleans()) else ""
    return f"CREATE QUERY {name}{begin}{end}{past} AS {text}"


@st.composite
def examples(draw: Draw[Any], *, most_queries: int = 8, most_events: int = 40) -> Example:
    """A stream, what happened on it, and who asks."""
    setting = draw(settings_of_time)
    number = draw(st.integers(1, most_queries))
    texts = [draw(queries(setting, f"q{i}")) for i in range(number)]
    return Example(TRADES, draw(event_lists(setting, most=most_events)), texts)


COVERING = (
    ("volume = 1", "volume = 2", "volume IN (1, 2)"),
    ("volume IS NULL", "volume = 1", "volume = 2", "volume = 1 OR volume = 2 OR volume IS NULL"),
    ("volume < 3", "volume >= 3", "volume IS NOT NULL"),
    ("NOT volume >= 3", "volume < 3"),
    ("volume < 5", "volume < 2", "volume >= 2 AND volume < 5", "volume < 3", "volume >= 3 AND volume < 5"),
    ("true", "volume <> 1", "volume = 1 OR volume IS NULL"),
    ("true", "volume IS NULL", "volume > 1", "volume <= 1"),
    ("volume < 5", "volume > 1", "volume IS NOT NULL"),
    ("symbol = 'A'", "volume = 1", "symbol = 'A' OR volume = 1"),
    ("volume > 1 AND symbol = 'A'", "volume <= 1 AND symbol = 'A'", "symbol = 'A' AND volume IS NOT NULL"),
    ("symbol = 'A'", "symbol = 'A' AND flag", "symbol = 'A' AND NOT flag", "symbol = 'A' AND flag IS NULL"),
)
"""Predicates of which some are unions of others, or what is left of them."""
COMBINED = (
    "count(*) AS c0, sum(volume) AS c1",
    "max(price) AS c0",
    "min(big) AS c0, max(symbol) AS c1",
    "sum(price) AS c0, max(volume) AS c1",
    "avg(amount) AS c0, count(price) AS c1",
    "count(DISTINCT symbol) AS c0, sum(volume) AS c1",
)


@st.composite
def covered_examples(draw: Draw[Any], most_events: int = 40) -> Example:
    """Queries that differ in their predicates, so that some cover others, over a window or a longer one too."""
    setting = draw(settings_of_time)
    slide, range_ = draw(st.tuples(st.integers(2, 9), st.integers(1, 25)))
    lengths = [draw(st.sampled_from((range_, range_, range_ + 3))) for _ in range(2)]
    sources = [f"[RANGE '{duration(n * setting.unit)}' SLIDE {duration(slide * setting.unit)}]" for n in lengths]
    items, keys = draw(st.sampled_from(COMBINED)), draw(st.sampled_from(("", "symbol", "symbol", "flag, volume % 3")))
    above = draw(st.sampled_from(("", "", "", " HAVING count(*) > 1", " ORDER BY c0 DESC LIMIT 2"))) if keys else ""
    families = draw(st.lists(st.sampled_from(COVERING), min_size=1, max_size=2))
    predicates = draw(st.permutations(list(dict.fromkeys(where for family in families for where in family))))
    named = [f"{key} AS k{i}" for i, key in enumerate(keys.split(", "))] if keys else []
    texts = []
    for i, where in enumerate(predicates):
        own = draw(st.sampled_from((items, items, items, "sum(volume) AS c0")))
        source = sources[i == len(predicates) - 1]
        rest = ("" if where == "true" else f" WHERE {where}") + (f" GROUP BY {keys}" if keys else "") + above
        texts.append(f"CREATE QUERY q{i} AS SELECT {', '.join([*named, own])} FROM trades {source}{rest}")
    return Example(TRADES, draw(event_lists(setting, most=most_events)), texts)
