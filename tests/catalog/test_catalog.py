"""Names in the catalog, and what it costs to come and go."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import pytest

from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.binding.relations import bind
from mullion.catalog.catalog import Catalog
from mullion.engine import Engine
from mullion.errors import CheckError, MullionError
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, STRING, TIMESTAMP
from mullion.service.ways import queried_streams

COLUMNS = (("ts", TIMESTAMP), ("symbol", STRING), ("price", DOUBLE), ("volume", BIGINT))
TRADES, QUOTES = Stream("trades", COLUMNS, "ts"), Stream("Quotes", COLUMNS, "ts")


def catalog(*names: str) -> Catalog:
    made = Catalog()
    made.add_stream(TRADES)
    made.add_stream(QUOTES)
    for name in names:
        made.add_query(query(name))
    return made


def query(name: str, stream: str = "trades") -> Relation:
    text = f"SELECT count(*) AS n FROM {stream} [RANGE '10 s' SLIDE '5 s']"
    return bind(parse_query(text, name=name), {"trades": TRADES, "Quotes": QUOTES})


def test_a_query_is_found_whatever_the_case() -> None:
    assert catalog("Total").query_named("tOTAL").name == "Total"


@pytest.mark.parametrize("again", ["Total", "total", "TOTAL"])
def test_no_two_queries_differ_by_case_alone(again: str) -> None:
    with pytest.raises(CheckError, match=f"there is already a query '{again}'\n  choose another name or drop it first"):
        catalog("Total").add_query(query(again))


@pytest.mark.parametrize("again", ["trades", "TRADES", "quotes"])
def test_streams_and_tables_share_their_names(again: str) -> None:
    made = catalog()
    with pytest.raises(CheckError, match=f"there is already a stream or table '{again}'"):
        made.add_stream(Stream(again, COLUMNS, "ts"))
    with pytest.raises(CheckError, match=f"there is already a stream or table '{again}'"):
        made.add_table(Table(again, COLUMNS, "parquet"))
    made.add_table(Table("symbols", COLUMNS, "parquet"))
    with pytest.raises(CheckError, match="there is already a stream or table 'Symbols'"):
        made.add_stream(Stream("Symbols", COLUMNS, "ts"))
    assert [*made.streams, *made.tables] == ["trades", "Quotes", "symbols"]


def test_from_knows_which_one_is_meant() -> None:
    """A materialised query has no name of a stream or a table, whichever came first; other queries may."""
    made, prices = catalog(), relation("prices", "SELECT price FROM trades [NOW]")
    with pytest.raises(CheckError, match="there is already a stream or table 'Trades'"):
        made.add_query(replace(prices, name="Trades", materialized=True))
    made.add_query(replace(prices, name="Trades"))
    made.add_query(replace(prices, materialized=True))
    with pytest.raises(CheckError, match="there is already a materialised query 'Prices'"):
        made.add_stream(Stream("Prices", COLUMNS, "ts"))
    with pytest.raises(CheckError, match="there is already a materialised query 'Prices'"):
        made.add_table(Table("Prices", COLUMNS, "parquet"))


def test_an_unknown_query_is_refused_with_the_nearest() -> None:
    made = catalog("Total", "other")
    for ask in (made.query_named, made.drop_query):
        with pytest.raises(CheckError, match=r"unknown query 'totl'\n  did you mean 'Total'\?"):
            ask("totl")
    assert [*made.queries] == ["Total", "other"]


def test_a_dropped_name_is_free_again_in_any_case() -> None:
    made = catalog("Total", "other")
    made.drop_query("TOTAL")
    with pytest.raises(CheckError, match="unknown query 'Total'"):
        made.query_named("Total")
    made.add_query(query("total", "quotes"))
    assert made.query_named("Total").name == "total"
    assert [*made.queries] == ["other", "total"]
    assert made.queries["total"].streams == ("Quotes",)


def test_queries_keep_the_order_they_came_in() -> None:
    made, later = catalog("b", "a", "c"), query("a")
    made.add_query(query("q", "quotes"))
    made.replace_query(later)
    assert [*made.queries] == ["b", "a", "c", "q"] and made.query_named("a") is later


def test_a_copy_and_its_original_go_their_own_ways() -> None:
    before = catalog("a", "b")
    after = before.copy()
    after.drop_query("a")
    after.add_query(query("c"))
    after.add_stream(Stream("news", COLUMNS, "ts"))
    before.add_query(query("d"))
    assert [*before.queries] == ["a", "b", "d"]
    assert [*after.queries] == ["b", "c"]
    assert before.query_named("A").name == "a" and "news" not in before.streams
    before.add_table(Table("News", COLUMNS, "parquet"))
    with pytest.raises(CheckError):
        before.query_named("c")


def test_a_free_name_is_free() -> None:
    made = catalog("x", "QUERY_3")
    assert made.free_name() == made.free_name() == "query_4"
    made.add_query(query("query_4"))
    made.drop_query("x")
    assert made.free_name() == "query_5"


def engine() -> Engine:
    made = Engine()
    made.catalog.add_stream(TRADES)
    return made


def test_a_script_that_fails_changes_nothing() -> None:
    made = engine()
    made.query("SELECT count(*) AS n FROM trades [RANGE '10 s' SLIDE '5 s']", name="first")
    script = """CREATE QUERY second AS SELECT count(*) AS n FROM trades [RANGE '10 s' SLIDE '5 s'];
        DROP QUERY first; DROP QUERY nobody"""
    with pytest.raises(MullionError, match="unknown query 'nobody'"):
        made.execute(script)
    assert [*made.catalog.queries] == ["first"]
    assert made.query("SELECT count(*) AS n FROM trades [RANGE '10 s' SLIDE '5 s']") == "query_2"


def calls_of(act: Callable[[], object]) -> int:
    """How many calls, of Python functions and of built-in ones, it takes."""
    count = 0

    def seen(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def test_the_thousandth_query_comes_and_goes_as_cheaply_as_the_first() -> None:
    made = engine()

    def add(number: int, name: str | None = None) -> None:
        window = f"[RANGE '{number + 7} s' SLIDE '{number % 11 + 1} s']"
        made.query(f"SELECT sum(price) AS total FROM trades {window} WHERE volume > {number}", name=name)

    def drop(number: int) -> None:
        made.drop(f"Q{number}")

    for number in range(10):
        add(number, f"q{number}")
    few_adds, few_unnamed = calls_of(lambda: add(10, "q10")), calls_of(lambda: add(11))
    few_drops = calls_of(lambda: drop(10))
    for number in range(20, 1020):
        add(number, f"q{number}")
    assert calls_of(lambda: add(2000, "q2000")) < 3 * few_adds
    assert calls_of(lambda: add(2001)) < 3 * few_unnamed
    assert calls_of(lambda: drop(500)) < 3 * few_drops
    assert calls_of(lambda: add(500, "q500")) < 3 * few_adds


def relation(
    name: str, text: str = "SELECT t.price FROM trades [NOW] t, Quotes [NOW] q WHERE t.symbol = q.symbol"
) -> Relation:
    return bind(parse_query(text, name=name), {"trades": TRADES, "Quotes": QUOTES})


def test_queries_of_every_kind_share_their_names() -> None:
    made = catalog("Total")
    made.add_query(relation("Pairs"))
    for again in ("total", "PAIRS"):
        for kind in (relation, query):
            with pytest.raises(CheckError, match=f"there is already a query '{again}'"):
                made.add_query(kind(again))
    assert made.query_named("pairs") is made.queries["Pairs"] and made.query_named("TOTAL") is made.queries["Total"]
    with pytest.raises(CheckError, match="unknown query 'pair'\n  did you mean 'Pairs'"):
        made.query_named("pair")


def test_streams_are_queried_until_the_last_query_is_dropped() -> None:
    made = catalog()
    made.add_query(relation("pairs"))
    made.add_query(replace(relation("prices", "SELECT price FROM trades [NOW]"), materialized=True))
    before = made.copy()
    assert queried_streams(made) == {"trades", "Quotes"} and list(made.materialized) == ["prices"]
    made.drop_query("PAIRS")
    assert queried_streams(made) == {"trades"} and list(made.queries) == ["prices"]
    made.drop_query("prices")
    assert queried_streams(made) == set() and queried_streams(before) == {"trades", "Quotes"}
    assert made.materialized == {} and list(before.materialized) == ["prices"]
    made.add_query(query("pairs"))


class AskedMeanwhile(dict[str, Relation]):
    """Queries of which another thread asks just before and just after each change."""

    def __init__(self, queries: dict[str, Relation], ask: Callable[[], object]) -> None:
        super().__init__(queries)
        self._ask = ask

    def __setitem__(self, name: str, query: Relation) -> None:
        self._ask()
        super().__setitem__(name, query)
        self._ask()

    def __delitem__(self, name: str) -> None:
        self._ask()
        super().__delitem__(name)
        self._ask()


def test_nothing_stays_that_was_made_while_queries_changed() -> None:
    made = catalog("a", "b")

    def starts() -> list[tuple[str, int | None]]:
        return made.made_of_queries("starts", lambda: [(name, own.start) for name, own in made.queries.items()])

    made.queries = AskedMeanwhile(made.queries, starts)
    made.add_query(query("c"))
    assert starts() == [("a", None), ("b", None), ("c", None)] and starts() is starts()
    made.replace_query(replace(made.queries["b"], start=1))
    assert starts() == [("a", None), ("b", 1), ("c", None)]
    made.drop_query("A")
    assert starts() == [("b", 1), ("c", None)]
