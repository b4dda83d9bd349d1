"""Windows of every kind and over every axis against the slow reference: however the input is cut, shared, merged and
restarted, the same rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_window import KINDS, TICKS, examples_of, ticks, windows_of
from joins import CLOSE, SECTORS, close_rows, joined_queries, sector_rows
from mullion import reference
from mullion.language.parse import parse_query
from runtime.test_core_differential import Manner, assert_same, bound_in, run
from strategies import ENDS, NUMBERS, OVER_VALUES, Draw, Example, queries, settings_of_time


def check(example: Example, manner: Manner) -> None:
    found = run(example, manner)
    for text in example.queries:
        query = parse_query(text)
        bound = bound_in(example, query)
        wanted = reference.answer(query, example.stream, example.events, example.tables).rows
        assert_same(bound, found.get(bound.name, []), wanted)


MANNERS = {
    "one batch": Manner(),
    "the last batch known": Manner(batches=3, ends_known=True),
    "many batches": Manner(batches=7),
    "unshared": Manner(shared=False, batches=3),
    "merged": Manner(batches=7, most_entries=0),
    "restarted": Manner(batches=5, restart=True),
    "dense rows": Manner(batches=2, method="rows"),
    "fragments": Manner(batches=2, method="fragments"),
    "slow watermark": Manner(batches=7, lag=100_000_000),
    "partials apart": Manner(batches=3, sized=False),
    "sliding": Manner(batches=9, slides=True),
    "little memory": Manner(batches=4, little_memory=True),
    "little memory, restarted": Manner(batches=5, little_memory=True, restart=True, most_entries=2),
    "little memory, slow watermark": Manner(batches=3, little_memory=True, lag=100_000_000),
}
manners = st.builds(
    Manner,
    shared=st.booleans(),
    slicing=st.sampled_from(("paired", "paned")),
    batches=st.sampled_from((1, 2, 3, 7)),
    most_entries=st.sampled_from((48, 0, 2)),
    restart=st.booleans(),
    method=st.sampled_from(("auto", "fragments", "rows")),
    lag=st.sampled_from((0, 0, 1, 100_000_000)),
    sized=st.booleans(),
    little_memory=st.booleans(),
)


@pytest.mark.slow
@pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS)
@settings(max_examples=4)
@given(example=examples_of())
def test_each_manner_gives_what_the_reference_gives(manner: Manner, example: Example) -> None:
    check(example, manner)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5)
@given(data=st.data(), manner=manners)
def test_each_kind_of_window_in_all_manners(kind: str, data: st.DataObject, manner: Manner) -> None:
    check(data.draw(examples_of(kinds=[kind])), manner)


@settings(max_examples=12)
@given(examples_of(kinds=["periodic"], axes=["ts"], among=(*OVER_VALUES, *ENDS), most_queries=4), manners)
def test_values_and_ends_over_time(example: Example, manner: Manner) -> None:
    check(example, manner)


@pytest.mark.slow
@settings(max_examples=12)
@given(examples_of(kinds=["unbounded", "landmark"], axes=["ts"], most_queries=4), manners)
def test_windows_over_time_that_nothing_leaves(example: Example, manner: Manner) -> None:
    check(example, manner)


@settings(max_examples=5)
@given(examples_of(most_queries=8, most_events=20), manners)
def test_many_queries_over_many_axes(example: Example, manner: Manner) -> None:
    check(example, manner)


@st.composite
def joined_by_rows(draw: Draw[Any]) -> Example:
    """Joins with tables over windows of every kind; PARTITION BY would have to say whose symbol it means."""
    setting = draw(settings_of_time)
    windows = windows_of(setting, kinds=[kind for kind in KINDS if kind != "partitioned"], axes=["ts"])
    texts = [draw(joined_queries(setting, f"q{i}", windows)) for i in range(draw(st.integers(1, 3)))]
    texts += draw(st.lists(queries(setting, "alone", windows=windows), max_size=1))
    events = draw(ticks(setting, prices=NUMBERS, most=20))
    tables = {"close": (CLOSE, draw(close_rows)), "sectors": (SECTORS, draw(sector_rows))}
    return Example(TICKS, events, texts, tables)


@settings(max_examples=12)
@given(joined_by_rows(), manners)
def test_joins_with_tables(example: Example, manner: Manner) -> None:
    check(example, manner)


def test_the_last_rows_of_each_partition_with_a_table() -> None:
    text = (
        "CREATE QUERY q AS SELECT c.sector, count(*) AS n, last(t.price) AS p "
        "FROM trades [PARTITION BY t.symbol ROWS 2 SLIDE 3] t JOIN close c ON t.symbol = c.symbol GROUP BY c.sector"
    )
    rows = [{"symbol": s, "cp": 1.0, "sector": sector, "lot": 1} for s, sector in (("A", "x"), ("B", "x"), ("B", "y"))]
    nothing = dict.fromkeys(TICKS.types)
    events = [{**nothing, "ts": i // 2, "symbol": "ABAAC"[i % 5], "price": float(i)} for i in range(14)]
    example = Example(TICKS, events, [text], {"close": (CLOSE, rows)})
    for manner in (*MANNERS.values(), Manner(batches=14, restart=True, most_entries=0)):
        check(example, manner)


TIES = (
    "[ROWS 3]",
    "[ROWS 2 SLIDE 2]",
    "[PARTITION BY flag ROWS 2]",
    "[RANGE 2 us SLIDE 1 TUPLE]",
    "[RANGE UNBOUNDED SLIDE 2 TUPLES]",
    "[FROM TIMESTAMP '1970-01-01 00:00:00.000001' SLIDE 1 TUPLE]",
)


@pytest.mark.slow
@pytest.mark.parametrize("window", TIES)
def test_windows_that_end_at_the_same_time_are_ordered_and_cut_one_by_one(window: str) -> None:
    """Many events of one time: windows after each of them are shown with equal bounds."""
    text = (
        f"CREATE QUERY q AS SELECT symbol, count(*) AS n, sum(volume) AS v FROM trades {window} "
        "GROUP BY symbol HAVING count(*) < 4 ORDER BY v DESC NULLS LAST, symbol LIMIT 2"
    )
    nothing = dict.fromkeys(TICKS.types)
    kinds = [("A", 1, True), ("B", 2, False), (None, 3, True), ("B", None, None), ("A", 9, True)]
    events = [
        {**nothing, "ts": i // 6, "symbol": symbol, "volume": volume, "flag": flag}
        for i in range(18)
        for symbol, volume, flag in [kinds[i * 2 % 5]]
    ]
    example = Example(TICKS, events, [text])
    for manner in (*MANNERS.values(), Manner(batches=18, restart=True, most_entries=0)):
        check(example, manner)


@pytest.mark.parametrize("number", [0, 1])
def test_no_event_and_one_event(number: int) -> None:
    windows = ("[ROWS 3]", "[ROWS 2 SLIDE 2]", "[PARTITION BY symbol ROWS 1]", "[RANGE 1 us]", "[NOW]")
    more = (
        "[RANGE UNBOUNDED]",
        "[RANGE 3 SLIDE 2 WATTR seq]",
        "[RANGE UNBOUNDED SLIDE 1 s]",
        "[RANGE 1 SLIDE 1 TUPLE WATTR seq]",
    )
    items = "count(*) AS n, median(price) AS m, first(volume) AS f, sum(volume) AS s"
    texts = [f"CREATE QUERY q{i} AS SELECT {items} FROM trades {w}" for i, w in enumerate((*windows, *more))]
    event = {**dict.fromkeys(TICKS.types), "ts": -7, "price": float("nan"), "volume": 3, "seq": 4}
    for manner in (Manner(), Manner(batches=3, restart=True)):
        check(Example(TICKS, [event] * number, texts), manner)
