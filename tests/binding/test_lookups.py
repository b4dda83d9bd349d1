"""Joins of a stream with tables: which lookups they become, what is shared, what is refused."""

from __future__ import annotations

import pytest

from by_slices import bind
from mullion.algebra.lookups import event_types
from mullion.algebra.streams import Stream, Table
from mullion.errors import CheckError, NotSupported, TextError
from mullion.language.parse import parse_query
from mullion.language.query import Call, Column
from mullion.language.render import render
from mullion.language.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP
from mullion.planner.sliced import SlicedAggregation

TRADES = Stream("trades", (("ts", TIMESTAMP), ("symbol", STRING), ("price", DOUBLE), ("volume", INT)), "ts")
QUOTES = Stream("quotes", (("ts", TIMESTAMP), ("symbol", STRING), ("bid", DOUBLE)), "ts")
CLOSE = Table("close", (("symbol", STRING), ("cp", DOUBLE), ("sector", STRING), ("parent", STRING)), "csv")
INDEX = Table("index", (("symbol", STRING), ("weight", DOUBLE)), "csv")
SECTORS = Table("sectors", (("sector", STRING), ("code", BIGINT), ("lot", INT)), "csv")
STREAMS = {"trades": TRADES, "quotes": QUOTES}
TABLES = {table.name: table for table in (CLOSE, INDEX, SECTORS)}
W = "[RANGE '10 min' SLIDE '1 min']"


def bound(text: str) -> SlicedAggregation:
    return bind(parse_query(text.replace("[]", W)), STREAMS, TABLES)


def names(text: str) -> list[str]:
    return [lookup.name for lookup in bound(text).lookups]


def predicate(text: str) -> str:
    found = bound(text).predicate
    return "" if found is None else render(found)


CLOSE_NAME = "close[symbol = symbol]"


@pytest.mark.parametrize(
    "joined",
    [
        "trades [] t, close c WHERE t.symbol = c.symbol",
        "trades [], close WHERE close.symbol = trades.symbol",
        "close c, trades [] t WHERE t.symbol = c.symbol",
        "trades [] t JOIN close c ON t.symbol = c.symbol",
        "trades [] t INNER JOIN close c ON c.SYMBOL = t.Symbol",
        "close c JOIN trades [] t USING (symbol)",
        "TRADES [] t CROSS JOIN Close c WHERE t.symbol = c.symbol",
        "trades [] t JOIN close c ON t.symbol = c.symbol AND c.symbol = t.symbol",
    ],
)
def test_all_ways_to_write_an_inner_join_are_one_lookup(joined: str) -> None:
    query = bound(f"SELECT count(*) FROM {joined}")
    assert [lookup.name for lookup in query.lookups] == [CLOSE_NAME]
    assert query.predicate == Column(f"{CLOSE_NAME}.#matched")
    assert query.lookups[0] is bound("SELECT sum(cp) FROM trades [] x JOIN close y ON x.symbol = y.symbol").lookups[0]


def test_the_columns_of_a_lookup() -> None:
    query = bound("SELECT c.cp, max(price - cp) AS d FROM trades [] t, close c WHERE t.symbol = c.symbol GROUP BY c.cp")
    (lookup,) = query.lookups
    assert lookup.types()[f"{CLOSE_NAME}.cp"] == DOUBLE
    assert lookup.types()[f"{CLOSE_NAME}.#matched"] == BOOLEAN
    assert set(event_types(TRADES, query.lookups)) == {*TRADES.types, *lookup.types()}
    assert query.keys == (Column(f"{CLOSE_NAME}.cp"),)
    assert query.template.names == ("cp", "d")
    (argument,) = [aggregate.argument for aggregate in query.template.aggregates]
    assert argument == Call("subtract", (Column("price"), Column(f"{CLOSE_NAME}.cp")))


def test_what_is_left_of_the_conditions() -> None:
    text = (
        "SELECT count(*) FROM trades [] t JOIN close c ON t.symbol = c.symbol AND t.price > c.cp WHERE c.sector = 'x'"
    )
    query = bound(text)
    assert isinstance(query.predicate, Call) and query.predicate.function == "and"
    assert [render(part) for part in query.predicate.args] == [
        f"`{CLOSE_NAME}.#matched`",
        f"price > `{CLOSE_NAME}.cp`",
        f"`{CLOSE_NAME}.sector` = 'x'",
    ]
    assert predicate("SELECT count(*) FROM trades [] t LEFT JOIN close c ON t.symbol = c.symbol") == ""
    left = "SELECT count(*) FROM trades [] t LEFT JOIN close c ON t.symbol = c.symbol WHERE c.cp > t.price"
    assert predicate(left) == f"`{CLOSE_NAME}.cp` > price"


def test_an_inner_and_a_left_join_share_the_lookup() -> None:
    inner = bound("SELECT count(*) FROM trades [] t JOIN close c ON t.symbol = c.symbol")
    left = bound("SELECT count(*) FROM trades [] t LEFT OUTER JOIN close c ON c.symbol = t.symbol")
    assert inner.lookups[0] is left.lookups[0]


def test_conditions_over_the_table_alone_belong_to_a_left_join() -> None:
    text = "SELECT count(*) FROM trades [] t LEFT JOIN close c ON t.symbol = c.symbol AND {}"
    (lookup,) = bound(text.format("c.cp > 5 AND c.sector = 'x'")).lookups
    assert lookup.where is not None and render(lookup.where) == "cp > 5.0D AND sector = 'x'"
    assert (
        lookup
        is bound(text.format("'x' = c.sector AND c.cp > 5").replace("'x' = c.sector", "c.sector = 'x'")).lookups[0]
    )
    assert lookup.name == "close[symbol = symbol where cp > 5.0D AND sector = 'x']"


def test_keys_of_several_columns_and_expressions_and_types() -> None:
    text = "SELECT count(*) FROM trades [] t, close c WHERE {}"
    two = "t.symbol = c.symbol AND c.cp = t.price"
    assert names(text.format(two)) == ["close[price = cp, symbol = symbol]"]
    assert names(text.format(" AND ".join(reversed(two.split(" AND "))))) == names(text.format(two))
    assert names(text.format("upper(t.symbol) = c.symbol")) == ["close[upper(symbol) = symbol]"]
    assert names(text.format("t.symbol = lower(c.symbol)")) == ["close[symbol = lower(symbol)]"]
    assert names(text.format("t.volume = c.cp")) == ["close[CAST(volume AS DOUBLE) = cp]"]
    other = "SELECT count(*) FROM trades [] t, sectors s WHERE s.code = t.volume + s.lot AND t.volume = s.lot"
    assert names(other) == ["sectors[volume = lot]"]


def test_chains_are_ordered_by_what_they_need() -> None:
    chain = [
        "SELECT count(*) FROM trades [] t, close c, sectors s WHERE t.symbol = c.symbol AND c.sector = s.sector",
        "SELECT count(*) FROM sectors s, close c, trades [] t WHERE s.sector = c.sector AND c.symbol = t.symbol",
        "SELECT count(*) FROM sectors s JOIN close c ON s.sector = c.sector JOIN trades [] t ON c.symbol = t.symbol",
        "SELECT count(*) FROM trades [] t JOIN (close c JOIN sectors s ON s.sector = c.sector) ON c.symbol = t.symbol",
    ]
    wanted = [CLOSE_NAME, f"sectors[`{CLOSE_NAME}.sector` = sector]"]
    assert [names(text) for text in chain] == [wanted] * 4
    assert len({bound(text).predicate for text in chain}) == 1
    left = chain[2].replace("s JOIN", "s LEFT JOIN")
    with pytest.raises(CheckError, match="no condition joins table 'sectors'"):
        bound(left)
    mixed = chain[0].replace("trades [] t, close c, sectors s WHERE", "{} JOIN trades [] t ON").partition(" AND")[0]
    mixed = mixed.format("close c LEFT JOIN sectors s ON s.sector = c.sector")
    assert names(mixed) == wanted and predicate(mixed) == f"`{CLOSE_NAME}.#matched`"


def test_independent_lookups_have_one_order() -> None:
    a = "SELECT count(*) FROM trades [] t, close c, index i WHERE t.symbol = c.symbol AND t.symbol = i.symbol"
    b = "SELECT count(*) FROM index x, trades [] t, close y WHERE y.symbol = t.symbol AND x.symbol = t.symbol"
    assert bound(a).lookups == bound(b).lookups and bound(a).predicate == bound(b).predicate
    ring = "SELECT count(*) FROM {} WHERE t.symbol = c.symbol AND t.symbol = i.symbol AND c.cp = i.weight"
    assert names(ring.format("trades [] t, close c, index i")) == names(ring.format("index i, close c, trades [] t"))


def test_a_table_twice() -> None:
    text = "SELECT count(*) FROM trades [] t, close a, close b WHERE t.symbol = a.symbol AND {}"
    assert names(text.format("a.parent = b.symbol")) == [CLOSE_NAME, f"close[`{CLOSE_NAME}.parent` = symbol]"]
    assert len(names(text.format("t.symbol = b.parent"))) == 2
    with pytest.raises(NotSupported, match="twice by the same keys"):
        bound(text.format("t.symbol = b.symbol"))


def test_having_order_and_filter_see_the_tables() -> None:
    query = bound(
        "SELECT sector, max(t.price) FILTER (WHERE c.cp > 1) AS top FROM trades [] t JOIN close c USING (symbol) "
        "GROUP BY c.sector HAVING min(cp) > 0 ORDER BY sector, max(volume * cp)"
    )
    assert query.template.names == ("sector", "top") and query.keys == (Column(f"{CLOSE_NAME}.sector"),)


def test_the_text_of_a_query_binds_to_the_same_query() -> None:
    for text in (
        "SELECT count(*) FROM trades [] t, close c WHERE t.symbol = c.symbol AND c.cp > 2",
        "SELECT max(code) AS m FROM trades [] JOIN close c USING (symbol) LEFT JOIN sectors s ON s.sector = c.sector",
    ):
        query = bound(text)
        assert bind(parse_query(query.text), STREAMS, TABLES) == query


def test_a_long_name_is_cut() -> None:
    long = "t.symbol = c.symbol AND c.sector = '" + "x" * 300 + "'"
    (name,) = names(f"SELECT count(*) FROM trades [] t LEFT JOIN close c ON {long}")
    assert len(name) < 100 and name.startswith("close[#")


REFUSED = [
    ("trades [] t, close c WHERE t.symbol = c.symbl", "unknown column 'symbl' in close", "did you mean 'symbol'?"),
    ("trades [] t, close c WHERE t.symbol = x.symbol", "unknown stream, table or alias 'x'", None),
    ("trades [] t, close c WHERE t.symbol = symbol", "column 'symbol' is ambiguous", "write t.symbol or c.symbol"),
    ("trades [] t, close c WHERE t.symbol = c.symbol AND pric > 1", "unknown column 'pric'", "did you mean 'price'?"),
    ("trades [] t, close c", "no condition joins table 'close'", "WHERE t.symbol = c.symbol"),
    ("trades [] t, close c WHERE c.symbol = 'A'", "no condition joins table 'close'", "equality"),
    ("trades [] t CROSS JOIN close c", "no condition joins table 'close'", "equality"),
    ("trades [] t LEFT JOIN close c ON t.price > c.cp", "no condition joins table 'close'", "ON t.symbol = c.symbol"),
    ("trades [] t, close t WHERE t.symbol = t.symbol", "two sources are called 't'", "name of its own"),
    ("trades [] t, clse c WHERE t.symbol = c.symbol", "unknown stream or table 'clse'", "did you mean 'close'?"),
    ("trades [] t, close [] c WHERE t.symbol = c.symbol", "'close' is a table and has no window", "leave it out"),
    ("close", "'close' is a table, and a query needs a stream", "join it"),
    ("trades t, close c WHERE t.symbol = c.symbol", "stream 'trades' needs a window", "RANGE"),
    ("index i, trades [] t JOIN close c ON i.symbol = c.symbol", "alias 'i'", "ON sees only the two sides"),
    ("trades [] t JOIN close c ON t.symbol = c.symbol AND max(cp) > 1", "an aggregate is not allowed in ON", None),
]
UNSUPPORTED = [
    ("trades [] t RIGHT JOIN close c ON t.symbol = c.symbol", "RIGHT JOIN"),
    ("trades [] t FULL OUTER JOIN close c ON t.symbol = c.symbol", "FULL JOIN"),
    ("close c LEFT JOIN trades [] t ON t.symbol = c.symbol", "the stream on its right"),
    ("trades [] t LEFT JOIN close c ON t.symbol = c.symbol AND t.price > c.cp", "this condition of a LEFT JOIN"),
    ("trades [] t LEFT JOIN close c ON t.symbol = c.symbol AND t.price > 1", "this condition of a LEFT JOIN"),
    ("trades [] t LEFT JOIN close c ON t.symbol = initcap(c.symbol)", "initcap over a table's columns"),
    ("trades [] t LEFT JOIN (close c JOIN index i ON c.symbol = i.symbol) ON t.symbol = c.symbol", "several tables"),
]


@pytest.mark.parametrize(("joined", "message", "hint"), REFUSED)
def test_mistakes_are_shown(joined: str, message: str, hint: str | None) -> None:
    with pytest.raises(CheckError) as error:
        bound(f"SELECT count(*) FROM {joined}")
    assert message in error.value.message
    assert error.value.place is not None
    assert hint is None or hint in (error.value.hint or "")


@pytest.mark.parametrize(("joined", "feature"), UNSUPPORTED)
def test_what_is_not_executed_is_refused(joined: str, feature: str) -> None:
    with pytest.raises(NotSupported, match=feature) as error:
        bound(f"SELECT count(*) FROM {joined}")
    assert error.value.place is not None


def test_an_ambiguous_item_is_shown() -> None:
    with pytest.raises(TextError, match="column 'symbol' is ambiguous"):
        bound("SELECT symbol, count(*) FROM trades [] t JOIN close c ON t.symbol = c.symbol GROUP BY symbol")
    with pytest.raises(CheckError, match=r"add c.cp to GROUP BY"):
        bound("SELECT c.cp, count(*) FROM trades [] t JOIN close c USING (symbol)")


@pytest.mark.parametrize(
    "asked",
    [
        "count(*) FROM trades [] t, close c WHERE t.symbol = c.symbol AND initcap(c.sector) = 'Tech'",
        "count(*) FROM trades [] t, close c WHERE t.symbol = c.symbol AND NOT (initcap(c.parent) = 'A' OR c.cp > 3)",
        "max(initcap(t.symbol) || c.sector) FROM trades [] t LEFT JOIN close c ON t.symbol = c.symbol",
        "count(*) FROM trades [] t, close c WHERE t.symbol = c.symbol GROUP BY initcap(c.sector)",
    ],
)
def test_what_only_spark_can_compute_is_refused_over_a_tables_columns(asked: str) -> None:
    with pytest.raises(NotSupported, match="together with a table's columns"):
        bound(f"SELECT {asked}")


def test_what_only_spark_can_compute_may_stand_beside_a_table() -> None:
    where = "t.symbol = c.symbol AND initcap(t.symbol) = 'A' AND c.cp > 3"
    assert bound(f"SELECT count(*) FROM trades [] t, close c WHERE {where}").predicate is not None
