"""Joins of windows: by hand, against the reference, in one step and in many, under all strategies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.algebra.nodes import Filter, Join, Project, Scan, Union
from mullion.expressions.coding import hashes
from mullion.expressions.typing import resolve_predicate
from mullion.instants import FOREVER
from mullion.language.parse import parse_expression
from mullion.language.query import Column, Window
from mullion.language.types import BIGINT, DOUBLE, STRING
from mullion.operators import row_store
from networks import lives_of, reference_lives, same

COLUMNS = (("ts", BIGINT), ("k", BIGINT), ("f", DOUBLE), ("s", STRING), ("v", BIGINT))
STRATEGIES = ("upa", "nt", "scan")
LAST = 200


def scan(stream: str, window: Window | int) -> Scan:
    window = Window(range=window) if isinstance(window, int) else window
    return Scan(stream, window, COLUMNS)


def event(ts: int, k: Any = 1, v: int = 0, f: Any = 0.0, s: Any = "x") -> dict[str, Any]:
    return {"ts": ts, "k": k, "f": f, "s": s, "v": v}


def on(names: str, *parts: Any, where: str | None = None) -> Join:
    keys = tuple(tuple(Column(name) for name in names.split()) for _ in parts)
    join = Join(parts, keys)
    return join if where is None else Join(parts, keys, resolve_predicate(parse_expression(where), join.types))


def numbers(node: Any) -> Project:
    """Only the columns `v`, to see who met whom."""
    items = tuple((name, Column(name), type_) for name, type_ in node.columns if name.split(".")[-1] == "v")
    return Project(node, items)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_result_lives_while_all_its_parts_do(strategy: str) -> None:
    plan = numbers(on("k", scan("a", 10), scan("b", 4)))
    events = {"a": [event(0, 1, 1), event(2, 2, 2)], "b": [event(3, 1, 5), event(9, 1, 6), event(10, 1, 7)]}
    expected = [((1, 5), 3, 7), ((1, 6), 9, 10)]
    for times in ([100], [3, 4, 9, 10, 11, 100], range(1, 30)):
        assert lives_of(plan, events, list(times), strategy=strategy) == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_event_that_pushes_another_out_ends_its_results(strategy: str) -> None:
    plan = numbers(on("k", scan("a", Window(rows=1, slide_rows=1)), scan("b", 10)))
    events = {"a": [event(0, 1, 1), event(6, 2, 2)], "b": [event(3, 1, 5), event(7, 2, 6)]}
    expected = [((1, 5), 3, 6), ((2, 6), 7, 17)]
    for times in ([100], [4, 6, 7, 100], range(1, 30)):
        assert lives_of(plan, events, list(times), strategy=strategy) == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_results_of_internal_windows_stay(strategy: str) -> None:
    a, b = scan("a", Window(range=5, internal=True)), scan("b", 10)
    events = {"a": [event(0, 1, 1)], "b": [event(3, 1, 5), event(5, 1, 6)]}
    for times in ([100], range(1, 30)):
        assert lives_of(numbers(on("k", a, b)), events, list(times), strategy=strategy) == [((1, 5), 3, 13)]
    both = numbers(on("k", a, scan("b", Window(range=5, internal=True))))
    assert lives_of(both, events, list(range(1, 30)), strategy=strategy) == [((1, 5), 3, FOREVER)]
    assert lives_of(numbers(a), events, [100], strategy=strategy) == [((1,), 0, FOREVER)]


def test_null_equals_nothing_and_nan_itself() -> None:
    keys = [None, float("nan"), 0.0, 1.5]
    events = {
        "a": [event(i, v=i, f=key) for i, key in enumerate(keys)],
        "b": [event(i, v=i, f=key) for i, key in enumerate([None, float("nan"), -0.0, 2.5])],
    }
    met = lives_of(numbers(on("f", scan("a", 50), scan("b", 50))), events, [100])
    assert [values for values, _, _ in met] == [(1, 1), (2, 2)]


def test_one_hot_key_is_no_trouble() -> None:
    events = {name: [event(i // 50, 1, i) for i in range(1000)] for name in "ab"}
    met = lives_of(numbers(on("k", scan("a", 50), scan("b", 50), where="`0.v` = `1.v`")), events, [7, 15, 100])
    assert [values for values, _, _ in met] == sorted(((i, i) for i in range(1000)), key=repr)


WINDOWS = st.one_of(
    st.builds(Window, range=st.integers(1, 15)),
    st.builds(Window, range=st.integers(1, 15), internal=st.just(True)),
    st.builds(Window, rows=st.integers(1, 4), slide_rows=st.integers(1, 3)),
    st.builds(Window, rows=st.integers(1, 4), slide_rows=st.integers(1, 3), internal=st.just(True)),
    st.just(Window(unbounded=True)),
    st.just(Window(now=True)),
    st.builds(Window, since=st.integers(0, 10)),
)
PARTITIONED = st.builds(lambda n: Window(rows=n, slide_rows=1, partition_by=(Column("k"),)), st.integers(1, 3))


@st.composite
def scans(draw: st.DrawFn) -> Scan:
    stream, since = draw(st.sampled_from("abc")), draw(st.sampled_from([None, None, None, 4]))
    window = draw(st.one_of(WINDOWS, WINDOWS, PARTITIONED))
    return Scan(stream, window, COLUMNS, window.partition_by, since)


@st.composite
def parts(draw: st.DrawFn, deep: int = 1) -> Any:
    kind = draw(st.sampled_from(["scan", "scan", "filter", "union", "join"]))
    node = draw(scans())
    if kind == "filter":
        return Filter(node, resolve_predicate(parse_expression("v % 3 <> 1"), node.types))
    if kind == "union":
        return Union((node, draw(scans())))
    if kind == "join" and deep:
        inner = on("k", node, draw(scans()))
        return Project(inner, tuple((name, Column(f"0.{name}"), type_) for name, type_ in COLUMNS))
    return node


@st.composite
def joins(draw: st.DrawFn) -> Any:
    inputs = draw(st.lists(parts(), min_size=2, max_size=3))
    where = draw(st.sampled_from([None, None, "`0.v` < `1.v`", "`0.v` + `1.v` <> 4"]))
    return on(draw(st.sampled_from(["k", "s", "f", "k s", "f s k"])), *inputs, where=where)


@st.composite
def streams(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    rows = st.builds(
        event,
        st.integers(0, 30),
        st.sampled_from([1, 1, 2, None]),
        st.integers(0, 5),
        st.sampled_from([0.0, -0.0, float("nan"), None]),
        st.sampled_from(["x", "x", "", None, "a longer text"]),
    )
    found = {name: draw(st.lists(rows, max_size=9)) for name in "abc"}
    return {name: sorted(own, key=lambda row: row["ts"]) for name, own in found.items()}


STEPS = st.sets(st.integers(1, 50), max_size=10).map(lambda times: [*sorted(times), LAST])


@pytest.mark.slow
@given(joins(), streams(), STEPS, st.sampled_from(STRATEGIES), st.booleans(), st.sampled_from([0, 3, row_store.SMALL]))
def test_joins_give_what_the_reference_says(
    plan: Any, events: Any, times: Any, strategy: str, restarts: bool, small: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_store, "SMALL", small)
        found = lives_of(plan, events, times, strategy=strategy, restarts=restarts)
    assert same(found) == same(reference_lives(plan, events))


@given(joins(), streams(), STEPS, st.sampled_from(STRATEGIES))
def test_colliding_hashes_are_no_equal_keys(plan: Any, events: Any, times: Any, strategy: str) -> None:
    original = hashes.mix_in

    def weak(codes: Any, more: Any) -> None:
        original(codes, more)
        codes %= 2

    hashes.mix_in = weak
    try:
        assert same(lives_of(plan, events, times, strategy=strategy)) == same(reference_lives(plan, events))
    finally:
        hashes.mix_in = original
