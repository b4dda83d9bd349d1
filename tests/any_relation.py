"""Random queries over relations, as SQL texts, and random events for them.

    example = data.draw(examples())
    relation = bind_relation(parse_query(example.text), STREAMS, TABLES)
    answer_relation(relation, STREAMS, example.events, example.tables)

Every query within a query gives two columns, k and v, so that any of them may stand where another does: a join in
NOT EXISTS, a union under DISTINCT, an aggregate over a negation, a negation in a join. Times are microseconds, events
lie within some forty of them, and windows are a few long; so nearly everything meets something.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from mullion.catalog.streams import Stream, Table
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
    for name, stream in STREAMS.items():
        number = draw(st.sampled_from((most, most, most, most // 2, most // 2, 1, 0)))
        times = [*range(origin, origin + 26), *([None] if untimed else [])]
        one = st.tuples(st.sampled_from(times), st.sampled_from(KEYS), st.sampled_from(VALUES))
        made = draw(st.lists(one, min_size=number, max_size=number))
        found[name] = [dict(zip(stream.types, row, strict=True)) for row in made]
    return found


@st.composite
def table_rows(draw: Draw[Any]) -> Rows:
    row = st.tuples(st.sampled_from(KEYS), st.sampled_from(("x", "y", None)), st.sampled_from(VALUES))
    return [dict(zip(NAMED.types, found, strict=True)) for found in draw(st.lists(row, max_size=4))]


# Queries


@dataclass(frozen=True)
class Style:
    """What a query may be made of."""

    slide: int | None
    """None: answered at every change."""
    kinds: Sequence[str] = ("range", "rows", "partitioned", "unbounded", "now")
    """The windows, by what limits them; besides periodic ones."""
    tables: bool = True
    nested: int = 2
    """How deep queries stand within queries."""


@st.composite
def windows(draw: Draw[Any], style: Style) -> str:
    length = draw(st.integers(1, 14))
    if style.slide is not None and draw(st.sampled_from((True, True, True, False))):
        return f"[RANGE {length} us SLIDE {style.slide} us]"
    match draw(st.sampled_from((*["range"] * 3 * ("range" in style.kinds), *style.kinds))):
        case "range":
            return f"[RANGE {length} us]"
        case "rows":
            step = draw(st.sampled_from((1, 1, 2, 3)))
            return f"[ROWS {draw(st.integers(1, 5))}" + (f" SLIDE {step}]" if step > 1 else "]")
        case "partitioned":
            return f"[PARTITION BY k ROWS {draw(st.integers(1, 3))}]"
        case "unbounded":
            return "[RANGE UNBOUNDED]"
        case kind:
            assert kind == "now", kind
            return "[NOW]"


def conditions(column: str) -> st.SearchStrategy[str]:
    return st.sampled_from((f"{column} > 0.5", f"{column} <= 1.0", f"{column} IS NOT NULL", f"NOT {column} < 0"))


@st.composite
def _filtered(draw: Draw[Any], written: list[str], column: str) -> str:
    """WHERE with these conditions, and perhaps one more."""
    if draw(st.sampled_from((False, False, True))):
        written = [*written, draw(conditions(column))]
    return f" WHERE {' AND '.join(written)}" if written else ""


@st.composite
def _scan(draw: Draw[Any], style: Style, depth: int) -> str:
    name = draw(st.sampled_from(sorted(STREAMS)))
    value = VALUE[name]
    where = draw(_filtered([], value))
    return f"SELECT k, {value} AS v FROM {name} {draw(windows(style))}{where}"


@st.composite
def _part(draw: Draw[Any], style: Style, depth: int, alias: str) -> tuple[str, str, str]:
    """A source with its key and its value: a stream, or now and then a query."""
    if depth > 0 and draw(st.sampled_from((False, False, True))):
        return f"({draw(rows(style, depth - 1))}) {alias}", f"{alias}.k", f"{alias}.v"
    name = draw(st.sampled_from(sorted(STREAMS)))
    return f"{name} {draw(windows(style))} {alias}", f"{alias}.k", f"{alias}.{VALUE[name]}"


@st.composite
def _join(draw: Draw[Any], style: Style, depth: int) -> str:
    number = draw(st.sampled_from((2, 2, 2, 3)))
    parts = [draw(_part(style, depth, f"p{i}")) for i in range(number)]
    written = [f"{parts[0][1]} = {key}" for _, key, _ in parts[1:]]
    if draw(st.sampled_from((False, False, True))):
        written.append(f"{parts[0][2]} {draw(st.sampled_from(('<', '>=', '<>')))} {parts[-1][2]}")
    where = draw(_filtered(written, parts[-1][2]))
    return f"SELECT p0.k AS k, {parts[-1][2]} AS v FROM {', '.join(source for source, _, _ in parts)}{where}"


@st.composite
def _on_values(draw: Draw[Any], style: Style, depth: int) -> str:
    """A join on doubles, NaNs and zeros of either sign among them."""
    first, second = draw(_part(style, depth, "p0")), draw(_part(style, 0, "p1"))
    return f"SELECT p1.k AS k, {first[2]} AS v FROM {first[0]}, {second[0]} WHERE {first[2]} = {second[2]}"


@st.composite
def _exists(draw: Draw[Any], style: Style, depth: int) -> str:
    """EXISTS or NOT EXISTS over a stream, a query or a join of two."""
    sources = [draw(_part(style, depth, "p0"))]
    written = []
    if draw(st.sampled_from((False, False, True))):
        sources.append(draw(_part(style, 0, "p1")))
        written.append(f"p0.k = {sources[1][1]}")
    inner = draw(_part(style, depth, "i"))
    correlated = [f"i.k = {sources[0][1]}"]
    if draw(st.sampled_from((False, False, False, True))):
        correlated.append(f"{inner[2]} = {sources[0][2]}")
    found = f"EXISTS (SELECT 1 FROM {inner[0]}{draw(_filtered(correlated, inner[2]))})"
    written.append(draw(st.sampled_from(("NOT ", "NOT ", ""))) + found)
    where = draw(_filtered(written, sources[-1][2]))
    return f"SELECT p0.k AS k, {sources[-1][2]} AS v FROM {', '.join(source for source, _, _ in sources)}{where}"


@st.composite
def _distinct(draw: Draw[Any], style: Style, depth: int) -> str:
    items = draw(st.sampled_from(("k, v", "k, 1.0 AS v", "k, k + 0.5 AS v")))
    return f"SELECT DISTINCT {items} FROM ({draw(rows(style, depth - 1))}) d"


@st.composite
def _set(draw: Draw[Any], style: Style, depth: int) -> str:
    """UNION ALL and EXCEPT ALL. A part with either stands in FROM."""
    parts = [f"SELECT k, v FROM ({draw(rows(style, depth - 1))}) s{i}" for i in range(draw(st.sampled_from((2, 2, 3))))]
    words = sorted(draw(st.lists(st.sampled_from(("UNION", "EXCEPT")), min_size=2, max_size=2)), reverse=True)
    text = parts[0]
    for word, part in zip(words, parts[1:], strict=False):
        text += f" {word} ALL {part}"
    return text


@st.composite
def _within(draw: Draw[Any], style: Style, depth: int) -> str:
    where = draw(_filtered([], "s.v"))
    return f"SELECT s.k AS k, s.v AS v FROM ({draw(rows(style, depth - 1))}) s{where}"


@st.composite
def _named(draw: Draw[Any], style: Style, depth: int) -> str:
    name = draw(st.sampled_from(sorted(STREAMS)))
    way = draw(st.sampled_from(("JOIN", "LEFT JOIN")))
    value = draw(st.sampled_from(("n.level", f"s.{VALUE[name]}")))
    source = f"{name} {draw(windows(style))} s {way} named n ON s.k = n.id"
    return f"SELECT s.k AS k, {value} AS v FROM {source}{draw(_filtered([], value))}"


AGGREGATES = ("sum(g.v)", "max(g.v)", "min(g.v)", "count(*)", "count(g.v)", "avg(g.v)", "count(DISTINCT g.v)")


@st.composite
def _grouped(draw: Draw[Any], style: Style, depth: int) -> str:
    """A part of a larger query: over windows of time, whose groups all come to an end."""
    ending = Style(style.slide, ("range", "now"), tables=style.tables)
    having = draw(st.sampled_from(("", "", " HAVING count(*) > 1")))
    below = draw(rows(ending, depth - 1))
    return f"SELECT g.k AS k, {draw(st.sampled_from(AGGREGATES))} AS v FROM ({below}) g GROUP BY g.k{having}"


@st.composite
def rows(draw: Draw[Any], style: Style, depth: int) -> str:
    """A SELECT of k and v."""
    shallow = [_scan, _scan, _join, _exists, _on_values, *([_named] if style.tables else [])]
    deep = [_join, _exists, _distinct, _distinct, _set, _within, _grouped]
    made = draw(st.sampled_from(shallow + (deep if depth > 0 else [])))
    return str(draw(made(style, depth)))


@st.composite
def aggregates(draw: Draw[Any], style: Style) -> str:
    """The aggregates of a query, with or without GROUP BY."""
    items = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True))
    text = ", ".join(f"{item} AS n{i}" for i, item in enumerate(items)) + f" FROM ({draw(rows(style, 1))}) g"
    if draw(st.booleans()):
        return f"SELECT {text}"
    return f"SELECT g.k AS k, {text} GROUP BY g.k" + draw(st.sampled_from(("", " HAVING count(*) > 1")))


@st.composite
def internal(draw: Draw[Any], style: Style) -> str:
    """A join in which one or both windows are INTERNAL."""
    ours, theirs = draw(st.sampled_from(((" INTERNAL", ""), ("", " INTERNAL"), (" INTERNAL", " INTERNAL"))))
    slide = "" if style.slide is None else f" SLIDE {style.slide} us"
    first = f"a [RANGE {draw(st.integers(1, 14))} us{slide}{ours}]"
    return f"SELECT a.k, v, w FROM {first}, b [RANGE {draw(st.integers(1, 14))} us{theirs}] WHERE a.k = b.k"


OUTPUTS = ("", "", "", "RSTREAM", "ISTREAM", "ISTREAM", "DSTREAM", "WSTREAM")


@st.composite
def told(draw: Draw[Any], text: str, style: Style, *, of_rows: bool) -> str:
    """The query as one of the streams that tell of it."""
    output = draw(st.sampled_from(OUTPUTS))
    if output == "WSTREAM":
        return f"WSTREAM ({text}) {draw(st.sampled_from(('[ROWS 3]', '[RANGE 9 us]', '[ROWS 4 SLIDE 2]')))}"
    is_periodic = f"SLIDE {style.slide} us" in text
    is_restored = of_rows and is_periodic and output in ("RSTREAM", "ISTREAM") and draw(st.booleans())
    if output in ("", "RSTREAM") and is_periodic and draw(st.sampled_from((False, False, True))):
        columns = "k, v" if of_rows else "1"
        text += f" ORDER BY {columns} LIMIT {draw(st.integers(1, 4))}"
    return f"{output}{' RESTORE' * is_restored} ({text})" if output else text


@st.composite
def styles(draw: Draw[Any], *, tables: bool = True) -> Style:
    return Style(draw(st.sampled_from((None, 3, 5, 5, 7))), tables=tables)


@st.composite
def relations(
    draw: Draw[Any],
    *,
    origin: int = 0,
    outputs: bool = True,
    tables: bool = True,
    internals: bool = True,
    lives: bool = True,
) -> str:
    """The text of a query: its relation, and perhaps its output, INTERNAL windows, and START AT and STOP AT."""
    style = draw(styles(tables=tables))
    kind = draw(st.sampled_from(("rows", "rows", "rows", "aggregates", *(["internal"] if internals else []))))
    if kind == "internal":
        return str(draw(internal(style)))
    text = draw(rows(style, style.nested) if kind == "rows" else aggregates(style))
    if outputs:
        text = draw(told(text, style, of_rows=kind == "rows" and "g.k" not in text))
    if not lives:
        return str(text)
    begins = draw(st.sampled_from((*[None] * 6, 0, 7)))
    ends = draw(st.sampled_from((*[None] * 6, 12, 30)))
    begin = "" if begins is None else f" START AT {timestamp(origin + begins)}"
    end = "" if ends is None else f" STOP AT {timestamp(origin + ends)}"
    return f"CREATE QUERY q{begin}{end} AS {text}"


@st.composite
def examples(draw: Draw[Any], *, most: int = 10, **given: bool) -> Example:
    """A query and its input. `given` as for `relations`."""
    origin = draw(st.sampled_from(ORIGINS))
    text = draw(relations(origin=origin, **given))
    return Example(text, draw(events(most=most, origin=origin)), {"named": (NAMED, draw(table_rows()))})


__all__ = ["NAMED", "STREAMS", "TABLES", "VALUE", "Example", "events", "examples", "relations", "table_rows"]
