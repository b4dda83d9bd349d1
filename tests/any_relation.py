"""Random queries over relations, as SQL texts, and random events for them.

    example = data.draw(examples())
    relation = bind_relation(parse_query(example.text), STREAMS, TABLES)
    reference.answer(relation, STREAMS, example.events, example.tables)

Every query within a query gives two columns, k and v, so that any of them may stand where another does: a join in
NOT EXISTS, a union under DISTINCT, an aggregate over a negation, a negation in a join. Times are microseconds, events
lie within some thirty of them, and windows are a few long; so nearly everything meets something.

Texts are thrown by dice whose seed is drawn: that is fast and even. Events are drawn one by one, so that those of a
failure shrink.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from mullion.algebra.streams import Stream, Table
from mullion.language.types import DOUBLE, INT, STRING, TIMESTAMP
from strategies import Draw, Event, timestamp

STREAMS = {
    "a": Stream("a", (("ts", TIMESTAMP), ("k", INT), ("v", DOUBLE)), "ts"),
    "b": Stream("b", (("ts", TIMESTAMP), ("k", INT), ("w", DOUBLE)), "ts"),
    "c": Stream("c", (("ts", TIMESTAMP), ("k", INT), ("x", DOUBLE)), "ts"),
}
VALUE = {"a": "v", "b": "w", "c": "x"}
"""The column of each stream besides its time and key."""
NAMED = Table("named", (("id", INT), ("name", STRING), ("level", DOUBLE)), "csv")
TABLES = {"named": NAMED}

KEYS = (0, 1, 1, 2, None)
VALUES = (0.0, -0.0, 0.25, 1.0, 1.0, -1.5, 2.0, math.nan, None)
"""Sums of these are exact, so that they don't depend on the order."""
LENGTHS = range(1, 15)
"""Of windows."""
ORIGINS = (0, -20, 1_704_067_200_000_000)

Rows = list[Event]
Tables = Mapping[str, tuple[Table, Rows]]


@dataclass(frozen=True)
class Example:
    """A query, what happened, and what the tables hold."""

    text: str
    events: Mapping[str, Rows]
    tables: Tables


# Events


@st.composite
def events(draw: Draw[Any], *, most: int = 10, origin: int = 0, untimed: bool = True) -> dict[str, Rows]:
    """Events of all streams in the order of arrival, with ties and disorder, NULLs and NaNs; now and then of one stream
    none, or only one event, and if `untimed`, some without a time."""
    found = {}
    for name, stream_ in STREAMS.items():
        few, enough = draw(st.sampled_from(((most // 2, most), (most // 2, most), (most // 2, most), (0, 2))))
        times = [*range(origin, origin + 26), *([None] if untimed else [])]
        one = st.tuples(st.sampled_from(times), st.sampled_from(KEYS), st.sampled_from(VALUES))
        made = draw(st.lists(one, min_size=few, max_size=enough))
        found[name] = [dict(zip(stream_.types, row, strict=True)) for row in made]
    return found


@st.composite
def table_rows(draw: Draw[Any]) -> Rows:
    row = st.tuples(st.sampled_from(KEYS), st.sampled_from(("x", "y", None)), st.sampled_from(VALUES))
    return [dict(zip(NAMED.types, found, strict=True)) for found in draw(st.lists(row, max_size=4))]


# Queries


@dataclass(frozen=True)
class Style:
    """What a query may be made of, and the dice that decide."""

    dice: Random
    slide: int | None
    """None: answered at every change."""
    kinds: Sequence[str] = ("range", "range", "range", "rows", "partitioned", "unbounded", "now")
    """The windows, by what limits them; besides periodic ones."""
    tables: bool = True

    def one(self, *choices: Any) -> Any:
        return self.dice.choice(choices)

    def happens(self, share: float) -> bool:
        return self.dice.random() < share


@dataclass(frozen=True)
class Source:
    """What stands in FROM, with its key and its value."""

    text: str
    key: str
    value: str


def window(style: Style) -> str:
    length = style.one(*LENGTHS)
    if style.slide is not None and style.happens(0.75):
        rows = "rows" in style.kinds and style.happens(0.15)
        return f"[{f'ROWS {style.one(1, 2, 4)}' if rows else f'RANGE {length} us'} SLIDE {style.slide} us]"
    match style.one(*style.kinds):
        case "range":
            return f"[RANGE {length} us]"
        case "rows":
            return f"[ROWS {style.one(1, 2, 3, 4, 5)}{style.one('', '', ' SLIDE 2', ' SLIDE 3')}]"
        case "partitioned":
            return f"[PARTITION BY k ROWS {style.one(1, 2, 3)}]"
        case "unbounded":
            return "[RANGE UNBOUNDED]"
        case kind:
            assert kind == "now", kind
            return "[NOW]"


def where(style: Style, written: list[str], column: str) -> str:
    """WHERE with these conditions, and perhaps one more."""
    if style.happens(0.3):
        test = style.one("{} > 0.5", "{} <= 1.0", "{} IS NOT NULL", "NOT {} < 0")
        written = [*written, test.format(column)]
    return f" WHERE {' AND '.join(written)}" if written else ""


def stream(style: Style, alias: str) -> Source:
    name = style.one(*STREAMS)
    return Source(f"{name} {window(style)} {alias}", f"{alias}.k", f"{alias}.{VALUE[name]}")


def source(style: Style, depth: int, alias: str) -> Source:
    """A stream, or now and then a query."""
    if depth == 0 or style.happens(0.6):
        return stream(style, alias)
    return Source(f"({rows(style, depth - 1)}) {alias}", f"{alias}.k", f"{alias}.v")


def plain(style: Style, depth: int) -> str:
    read = stream(style, "s")
    return f"SELECT s.k AS k, {read.value} AS v FROM {read.text}{where(style, [], read.value)}"


def join(style: Style, depth: int) -> str:
    parts = [source(style, depth, f"p{i}") for i in range(style.one(2, 2, 2, 3))]
    first, last = parts[0], parts[-1]
    written = [f"{first.key} = {part.key}" for part in parts[1:]]
    if style.happens(0.3):
        written.append(f"{first.value} {style.one('<', '>=', '<>')} {last.value}")
    every = ", ".join(part.text for part in parts)
    return f"SELECT p0.k AS k, {last.value} AS v FROM {every}{where(style, written, last.value)}"


def join_on_values(style: Style, depth: int) -> str:
    """On doubles, NaNs and zeros of either sign among them."""
    first, second = source(style, depth, "p0"), stream(style, "p1")
    return f"SELECT p1.k AS k, {first.value} AS v FROM {first.text}, {second.text} WHERE {first.value} = {second.value}"


def existence(style: Style, depth: int) -> str:
    """EXISTS or NOT EXISTS over a stream, a query or a join of two."""
    outer, written = [source(style, depth, "p0")], []
    if style.happens(0.3):
        outer.append(stream(style, "p1"))
        written.append(f"p0.k = {outer[1].key}")
    inner = source(style, depth, "i")
    correlated = [f"i.k = {outer[0].key}"]
    if style.happens(0.2):
        correlated.append(f"{inner.value} = {outer[0].value}")
    found = f"EXISTS (SELECT 1 FROM {inner.text}{where(style, correlated, inner.value)})"
    written.append(style.one("NOT ", "NOT ", "") + found)
    every = ", ".join(part.text for part in outer)
    return f"SELECT p0.k AS k, {outer[-1].value} AS v FROM {every}{where(style, written, outer[-1].value)}"


def distinct(style: Style, depth: int) -> str:
    items = style.one("k, v", "k, 1.0 AS v", "k, k + 0.5 AS v")
    return f"SELECT DISTINCT {items} FROM ({rows(style, depth - 1)}) d"


def set_operation(style: Style, depth: int) -> str:
    """UNION ALL and EXCEPT ALL, of which unions come first."""
    parts = [f"SELECT k, v FROM ({rows(style, depth - 1)}) s{i}" for i in range(style.one(2, 2, 3))]
    words = sorted((style.one("UNION", "EXCEPT") for _ in parts[1:]), reverse=True)
    return parts[0] + "".join(f" {word} ALL {part}" for word, part in zip(words, parts[1:], strict=True))


def sub_query(style: Style, depth: int) -> str:
    return f"SELECT s.k AS k, s.v AS v FROM ({rows(style, depth - 1)}) s{where(style, [], 's.v')}"


def looked_up(style: Style, depth: int) -> str:
    read = stream(style, "s")
    value = style.one("n.level", read.value)
    joined = f"{read.text} {style.one('JOIN', 'LEFT JOIN')} named n ON s.k = n.id"
    return f"SELECT s.k AS k, {value} AS v FROM {joined}{where(style, [], value)}"


AGGREGATES = (
    "sum(g.v)",
    "max(g.v)",
    "min(g.v)",
    "count(*)",
    "count(g.v)",
    "avg(g.v)",
    "count(DISTINCT g.v)",
    "approx_frequency(g.v, 1)",
)
HAVING = ("", "", " HAVING count(*) > 1")


def grouped(style: Style, depth: int) -> str:
    """A part of a larger query: over windows of time, whose groups all come to an end."""
    below = rows(replace(style, kinds=("range", "now")), depth - 1)
    return f"SELECT g.k AS k, {style.one(*AGGREGATES)} AS v FROM ({below}) g GROUP BY g.k{style.one(*HAVING)}"


SHALLOW = (plain, join, existence, join_on_values)
DEEP = (join, existence, existence, distinct, distinct, set_operation, set_operation, grouped, sub_query)


def rows(style: Style, depth: int) -> str:
    """A SELECT of k and v, with queries within it down to a depth."""
    kinds = (*SHALLOW, looked_up) if style.tables else SHALLOW
    return str(style.one(*kinds, *(DEEP if depth > 0 else ()))(style, depth))


def aggregates(style: Style, depth: int) -> str:
    """The aggregates of a whole query, with or without GROUP BY."""
    items = style.dice.sample(AGGREGATES, style.one(1, 2, 3))
    named = ", ".join(f"{item} AS n{i}" for i, item in enumerate(items)) + f" FROM ({rows(style, depth)}) g"
    return f"SELECT {named}" if style.happens(0.5) else f"SELECT g.k AS k, {named} GROUP BY g.k{style.one(*HAVING)}"


def internal(style: Style) -> str:
    """A join in which one or both windows are INTERNAL."""
    slide = "" if style.slide is None else f" SLIDE {style.slide} us"
    ours, theirs = style.one((" INTERNAL", ""), ("", " INTERNAL"), (" INTERNAL", " INTERNAL"))
    first = f"a [RANGE {style.one(*LENGTHS)} us{slide}{ours}]"
    return f"SELECT a.k, v, w FROM {first}, b [RANGE {style.one(*LENGTHS)} us{theirs}] WHERE a.k = b.k"


def promising(style: Style) -> str:
    """A join or selection with a preference, whose budget is never short."""
    slide = "" if style.slide is None else f" SLIDE {style.slide} us"
    names = style.dice.sample(list(STREAMS), style.one(1, 2, 2, 3))
    windows = [style.one(f"RANGE {style.one(*LENGTHS)} us{slide}", "RANGE UNBOUNDED") for _ in names]
    every = ", ".join(f"{name} [{window}]" for name, window in zip(names, windows, strict=True))
    written = [f"{names[0]}.k = {name}.k" for name in names[1:]]
    if style.happens(0.3):
        written.append(f"{VALUE[names[0]]} {style.one('<', '>=', '<>')} {VALUE[names[-1]]}")
    preference = style.one("DESC 1", "ASC 1", "WEIGHTED 1")
    budget = style.one("1000000 ROWS", "1000000 EVENTS", "1 h")
    last = VALUE[names[-1]]
    text = f"SELECT {names[0]}.k AS k, {last} AS v FROM {every}{where(style, written, last)}"
    return f"{text} WITH PREFERENCE {preference} BUDGET {budget}"


def bounded(style: Style) -> str:
    """A join of windows of time, which may keep so many rows at the most; or groups of it."""
    names = [style.one(*STREAMS) for _ in range(style.one(2, 2, 2, 3))]
    slide = "" if style.slide is None else f" SLIDE {style.slide} us"
    windows = [style.one(f"RANGE {style.one(*LENGTHS)} us{slide}", f"RANGE UNBOUNDED{slide}") for _ in names]
    every = ", ".join(f"{name} [{window}] p{i}" for i, (name, window) in enumerate(zip(names, windows, strict=True)))
    first, last = f"p0.{VALUE[names[0]]}", f"p{len(names) - 1}.{VALUE[names[-1]]}"
    written = [f"p0.k = p{i}.k" for i in range(1, len(names))]
    if style.happens(0.3):
        written.append(f"{first} {style.one('<', '>=', '<>')} {last}")
    joined = f"FROM {every}{where(style, written, last)}"
    if style.slide is None or style.happens(0.5):
        return f"SELECT p0.k AS k, {last} AS v {joined}"
    items = f"count(*) AS n, max({last}) AS high, sum(abs({first})) AS total"
    return style.one(f"SELECT {items} {joined}", f"SELECT p0.k AS k, {items} {joined} GROUP BY p0.k")


def told(style: Style, text: str, *, of_groups: bool) -> str:
    """The query as one of the streams that tell of it."""
    output = style.one("", "", "RSTREAM", "ISTREAM", "ISTREAM", "DSTREAM", "WSTREAM")
    if output == "WSTREAM":
        return f"WSTREAM ({text}) {style.one('[ROWS 3]', '[RANGE 9 us]', '[ROWS 4 SLIDE 2]')}"
    is_periodic = f" us SLIDE {style.slide} us" in text
    if output in ("", "RSTREAM") and is_periodic and style.happens(0.3):
        items = text.partition(" FROM ")[0].count(" AS ")
        order = str(style.one(*range(1, items + 1))) if of_groups else style.one("k, v", "k", "v DESC")
        text += f" ORDER BY {order} LIMIT {style.one(1, 2, 3, 4)}"
    restored = " RESTORE" if output in ("RSTREAM", "ISTREAM") and is_periodic and not of_groups else ""
    return f"{output}{style.one('', restored)} ({text})" if output else text


def relation(
    dice: Random,
    depth: int,
    *,
    origin: int = 0,
    outputs: bool = True,
    tables: bool = True,
    internals: bool = True,
    lives: bool = True,
) -> str:
    """The text of a query: a relation, and perhaps its output, INTERNAL windows, and START AT and STOP AT."""
    style = Style(dice, dice.choice((None, None, 3, 5, 7)), tables=tables)
    kind = style.one("rows", "rows", "rows", "aggregates", "internal" if internals else "rows")
    if kind == "internal":
        return promising(style) if style.happens(0.4) else internal(style)
    text = rows(style, depth) if kind == "rows" else aggregates(style, depth)
    if outputs:
        text = told(style, text, of_groups=text.startswith("SELECT g.k AS k, ") or kind == "aggregates")
    if not lives:
        return text
    begins, ends = style.one(*[None] * 8, 0, 7), style.one(*[None] * 8, 12, 30)
    begin = "" if begins is None else f" START AT {timestamp(origin + begins)}"
    end = "" if ends is None else f" STOP AT {timestamp(origin + ends)}"
    return f"CREATE QUERY q{begin}{end} AS {text}"


def scheduled(text: str) -> str:
    """The same query with SLIDE AT MOST, where that makes sense."""
    exact = ("ISTREAM", "DSTREAM", "RESTORE", "INTERNAL", "UNBOUNDED SLIDE")
    if any(word in text for word in exact) or re.search(r"ROWS \d+ SLIDE \d+ us", text):
        return text
    return re.sub(r" SLIDE (\d+ us)", r" SLIDE AT MOST \1", text)


@st.composite
def relations(draw: Draw[Any], *, nested: int = 2, origin: int = 0, **given: bool) -> str:
    """Texts of queries, with queries within queries down to `nested`; `given` as for `relation`."""
    depth = draw(st.sampled_from(range(nested, -1, -1)))
    return relation(Random(draw(st.integers(0, 2**32 - 1))), depth, origin=origin, **given)


@st.composite
def examples(draw: Draw[Any], *, most: int = 10, nested: int = 2, **given: bool) -> Example:
    """A query and its input; `given` as for `relation`."""
    origin = draw(st.sampled_from(ORIGINS))
    text = draw(relations(nested=nested, origin=origin, **given))
    return Example(text, draw(events(most=most, origin=origin)), {"named": (NAMED, draw(table_rows()))})
