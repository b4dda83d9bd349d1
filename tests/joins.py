"""Random tables, and random joins of the stream with them: equal keys twice, NULL keys, rows that nothing finds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from mullion.algebra.streams import Table
from mullion.language.types import DOUBLE, INT, STRING
from strategies import (
    NUMBERS,
    SYMBOLS,
    TRADES,
    Draw,
    Example,
    Frame,
    Setting,
    event_lists,
    frames,
    queries,
    settings_of_time,
)

Rows = list[Mapping[str, Any]]

CLOSE = Table("close", (("symbol", STRING), ("cp", DOUBLE), ("sector", STRING), ("lot", INT)), "csv")
SECTORS = Table("sectors", (("sector", STRING), ("code", INT), ("boss", STRING)), "csv")

JOINS = {
    "T, close c WHERE t.symbol = c.symbol": "c",
    "close c, T WHERE c.symbol = t.symbol AND t.price > c.cp": "c",
    "T JOIN close c ON t.symbol = c.symbol AND t.volume = c.lot": "c",
    "T JOIN close c ON t.price = c.cp": "c",
    "T JOIN close c ON t.volume = c.cp": "c",
    "T JOIN close c ON upper(t.symbol) = c.symbol AND t.price <> c.cp": "c",
    "T JOIN close c ON t.symbol = lower(c.symbol)": "c",
    "T LEFT JOIN close c ON t.symbol = c.symbol": "c",
    "T LEFT JOIN close c ON c.symbol = t.symbol AND c.cp >= 0.5 AND c.sector IS NOT NULL": "c",
    "T LEFT JOIN close c ON c.symbol = t.symbol WHERE c.lot IS NULL": "c",
    "T, close c, sectors s WHERE t.symbol = c.symbol AND c.sector = s.sector": "cs",
    "sectors s, close c, T WHERE t.symbol = c.symbol AND c.sector = s.sector AND s.code = c.lot": "cs",
    "T, close c, sectors s WHERE t.symbol = c.symbol AND t.symbol = s.boss": "cs",
    "T, close c, sectors s WHERE t.symbol = c.symbol AND t.symbol = s.boss AND c.lot = s.code": "cs",
    "T JOIN close c ON t.symbol = c.symbol LEFT JOIN sectors s ON c.sector = s.sector": "cs",
    "T LEFT JOIN close c ON t.symbol = c.symbol LEFT JOIN sectors s ON c.sector = s.sector AND s.code > 1": "cs",
    "T LEFT JOIN close c ON t.symbol = c.symbol JOIN sectors s ON c.sector = s.sector": "cs",
    "T LEFT JOIN close c ON t.symbol = c.symbol JOIN sectors s ON t.symbol = s.boss WHERE c.lot = s.code": "cs",
    "T JOIN (close c JOIN sectors s ON c.sector = s.sector) ON t.symbol = c.symbol": "cs",
    "close c LEFT JOIN sectors s ON c.sector = s.sector JOIN T ON t.symbol = c.symbol": "cs",
    "T, close c, close s WHERE t.symbol = c.symbol AND c.sector = s.symbol": "cc",
    "T LEFT JOIN close c ON t.symbol = c.symbol LEFT JOIN close s ON t.volume = s.lot": "cc",
}
COLUMNS = {
    "t": ("symbol", "price", "volume"),
    "c": ("symbol", "cp", "sector", "lot"),
    "s": ("sector", "code", "boss"),
}
EXTRA = ("c.cp > 0.5", "c.sector IS NULL", "t.price > c.cp OR c.lot = 1", "t.volume > 1", "NOT t.flag")


def with_stream(joined: str, stream: str) -> str:
    words = joined.split(" ")
    return " ".join(stream + word[1:] if word in ("T", "T,") else word for word in words)


def columns_in(joined: str) -> list[str]:
    """The columns that a join makes, with the names of their tables."""
    second = {"cs": "s", "cc": "c"}.get(JOINS[joined])
    own = {"t": COLUMNS["t"], "c": COLUMNS["c"]} | ({"s": COLUMNS[second]} if second else {})
    return [f"{table}.{name}" for table, names in own.items() for name in names]


def _rows(table: Table, *values: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[Rows]:
    """Rows of a table, in half of the cases none with the first column of another."""
    named = st.tuples(*values).map(lambda row: dict(zip(table.types, row, strict=True)))
    first = next(iter(table.types))
    return st.lists(named, max_size=most) | st.lists(named, max_size=most, unique_by=lambda row: row[first])


_symbols, _small = st.sampled_from(SYMBOLS), st.sampled_from((0, 1, 2, 3, None))
close_rows = _rows(CLOSE, _symbols, st.sampled_from((*NUMBERS, math.nan)), _symbols, _small, most=8)
sector_rows = _rows(SECTORS, _symbols, _small, _symbols, most=6)


@st.composite
def joined_queries(
    draw: Draw[Any], setting: Setting, name: str, windows: st.SearchStrategy[Frame] | None = None
) -> str:
    """CREATE QUERY over the stream and one or two tables, with a window of those given, periodic ones by default."""
    joined = draw(st.sampled_from(sorted(JOINS)))
    columns = columns_in(joined)
    keys = draw(st.lists(st.sampled_from(columns), max_size=2, unique=True))
    functions = st.builds("{}({})".format, st.sampled_from(("count", "max", "min")), st.sampled_from(columns))
    sums = st.sampled_from(("count(*)", "sum(t.price)", "avg(c.cp)", "sum(t.volume * c.lot)", "sum(1 / c.lot)"))
    items = [*keys, *draw(st.lists(functions | sums, min_size=1, max_size=3, unique=True))]
    extra = draw(st.sampled_from((None, *EXTRA)))
    if extra is not None:
        joined += f" AND ({extra})" if "WHERE" in joined else f" WHERE {extra}"
    frame = draw((frames(setting) if windows is None else windows).filter(lambda f: "[" in f.source))
    text = f"SELECT {', '.join(f'{item} AS i{i}' for i, item in enumerate(items))} "
    text += f"FROM {with_stream(joined, frame.source + ' t')}"
    return f"CREATE QUERY {name} AS {text}" + (f" GROUP BY {', '.join(keys)}" if keys else "")


@st.composite
def joined_examples(draw: Draw[Any], *, most_queries: int = 5, most_events: int = 25) -> Example:
    """Queries with joins, and perhaps one without."""
    setting = draw(settings_of_time)
    number = draw(st.integers(1, most_queries))
    texts = [draw(joined_queries(setting, f"q{i}")) for i in range(number)]
    texts += draw(st.lists(queries(setting, "alone"), max_size=1))
    events = draw(event_lists(setting, prices=(*NUMBERS, math.nan), most=most_events))
    tables = {"close": (CLOSE, draw(close_rows)), "sectors": (SECTORS, draw(sector_rows))}
    return Example(TRADES, events, texts, tables)
