"""Aggregates over windows of one join, answered from one synopsis."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from by_operators import bind_relation
from mullion.algebra.nodes import Node
from mullion.algebra.streams import Stream
from mullion.errors import CheckpointError
from mullion.instants import THE_END
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, STRING, TIMESTAMP
from mullion.operators import join_synopsis
from mullion.operators.join_synopsis import JoinSynopsisOperator
from mullion.operators.kernels import join_cells
from mullion.operators.network import Network
from mullion.operators.probed import ProbedOperator
from networks import Patient, columns_of, reference_lives, same

COLUMNS = (("ts", TIMESTAMP), ("k", STRING), ("v", BIGINT), ("x", DOUBLE))
COLUMNS_OF = dict.fromkeys("abc", COLUMNS)
STREAMS = {name: Stream(name, COLUMNS, "ts") for name in "abc"}


def plan(
    length: int,
    slide: int,
    *,
    longer: int = 0,
    items: str = "count(*) AS n",
    keys: str = " GROUP BY a.k",
    also: str = "",
    third: bool = False,
) -> Node:
    """An aggregate over the join of a window of a length, and others that are longer."""
    windows = [f"a [RANGE {length} us SLIDE {slide} us]", f"b [RANGE {length + longer} us SLIDE {slide} us]"]
    windows += [f"c [RANGE {length} us SLIDE {slide} us]"] if third else []
    also += " AND c.k = b.k" if third else ""
    text = f"SELECT {items} FROM {', '.join(windows)} WHERE a.k = b.k{also}{keys}"
    return bind_relation(parse_query(text), STREAMS, {}).plan


def probing(network: Network) -> list[ProbedOperator]:
    return [own.operator for own in network.working.values() if isinstance(own.operator, ProbedOperator)]


def synopses(network: Network) -> list[JoinSynopsisOperator]:
    return [own.operator for own in network.working.values() if isinstance(own.operator, JoinSynopsisOperator)]


def event(ts: int, k: str | None = "p", v: int | None = 1, x: float | None = 0.5) -> dict[str, Any]:
    return {"ts": ts, "k": k, "v": v, "x": x}


# Which aggregates share one


def test_windows_of_many_lengths_and_slides_share_one_synopsis() -> None:
    network = Network()
    network.set_roots(
        [plan(10, 5), plan(20, 5, items="max(a.v) AS m"), plan(30, 10, items="sum(b.x) AS s"), plan(7, 5)]
    )
    (synopsis,) = synopses(network)
    assert len(probing(network)) == 4
    assert synopsis.node.grid == (1, 0)
    assert synopsis.node.cells == 30


def test_other_keys_conditions_and_differences_have_their_own() -> None:
    network = Network()
    network.set_roots([plan(10, 5), plan(10, 5, keys=""), plan(10, 5, also=" AND a.v > 1"), plan(10, 5, longer=5)])
    assert len(synopses(network)) == 4
    network.set_roots([plan(10, 5, longer=5), plan(20, 5, longer=5)])
    (synopsis,) = synopses(network)
    assert synopsis.node.longer == (0, 5)


@pytest.mark.parametrize(
    "items",
    ["count(DISTINCT a.v) AS n", "max(a.k) AS m", "first(a.v) AS f", "stddev_pop(a.v) AS s", "sum(a.v + b.v) AS s"],
)
def test_what_cells_cannot_hold_or_may_be_bad_is_aggregated_row_by_row(items: str) -> None:
    network = Network()
    network.set_roots([plan(10, 5, items=items)])
    assert not synopses(network)
    network.set_roots([bind_relation(parse_query(AT_EVERY_CHANGE), STREAMS, {}).plan])
    assert not synopses(network)


AT_EVERY_CHANGE = "SELECT a.k AS k, count(*) AS n FROM a [RANGE 9 us], b [RANGE 9 us] WHERE a.k = b.k GROUP BY a.k"


def test_cells_are_few_however_many_results_there_are() -> None:
    network = Network()
    network.set_roots([plan(20, 5), plan(10, 5)])
    rows = [event(ts) for ts in range(20) for _ in range(5)]
    network.advance({name: columns_of(COLUMNS_OF, {name: rows}, name, 0, 20) for name in "ab"}, 20)
    (synopsis,) = synopses(network)
    assert synopsis.rows_held == 3  # those of [5, 20); 10,000 results are in them or have left
    assert [operator.rows_held for operator in probing(network)] == [0, 0]


def test_new_results_wait_for_an_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """One result of each of the keys 0 to 7, an instant at 10: cells are made there, and in between when four wait."""
    monkeypatch.setattr(join_synopsis, "MOST_WAITING", 3)
    made, cells = [], JoinSynopsisOperator._answers
    monkeypatch.setattr(
        JoinSynopsisOperator, "_answers", lambda own, new, now: made.append(now) or cells(own, new, now)
    )
    root, network, heard = plan(10, 10, items="a.k AS k, count(*) AS n"), Network(), Patient()
    network.set_roots([root])
    rows = [event(ts, str(ts)) for ts in range(8)]
    for now in range(1, 12):
        own = {name: columns_of(COLUMNS_OF, {name: rows}, name, now - 1, now) for name in "ab"}
        heard.hear(network.advance(own, now)[root])
    assert made == [1, 5, 10]
    assert sorted(heard.lives) == [((str(k), 1), 9, 19) for k in range(8)]


def test_groups_keep_their_cells_when_one_that_comes_before_them_begins() -> None:
    root, network, heard = plan(10, 5, items="a.k AS k, count(*) AS n"), Network(), Patient()
    network.set_roots([root])
    rows = [event(1, "q"), event(7, "p"), event(7, "p")]
    for before, now in ((0, 5), (5, 10)):
        own = {name: columns_of(COLUMNS_OF, {name: rows}, name, before, now) for name in "ab"}
        heard.hear(network.advance(own, now)[root])
    assert sorted(heard.lives) == [(("p", 4), 9, 14), (("q", 1), 4, 9), (("q", 1), 9, 14)]


def test_rows_of_a_checkpoint_of_before_are_refused() -> None:
    root = plan(10, 5)
    network = Network()
    network.set_roots([root])
    (operator,) = probing(network)
    parts = {**operator.parts(), "rows": [columns_of(COLUMNS_OF, {"a": [event(1)]}, "a", 0, 9).rows]}
    with pytest.raises(CheckpointError, match="keep rows of their own"):
        operator.restore(parts)


# Against the reference


@pytest.mark.slow
@pytest.mark.parametrize("steps", [(200,), (30, 31, 95, 200)])
def test_many_instants_at_once_look_at_intervals_of_cells(steps: tuple[int, ...]) -> None:
    assert join_cells._is_tree_less.py_func(50, 50, 140, 280) and not join_cells._is_tree_less.py_func(50, 50, 5, 10)
    items = "count(*) AS n, sum(a.v) AS s, min(b.v) AS low, max(a.v) AS high, sum(a.x) AS t"
    roots = [plan(40, 1, items=items, keys=" GROUP BY a.x"), plan(15, 1, items=items, keys=" GROUP BY a.x")]
    given = {n: [event(2 * i + at, str(i), 37 * i % 11, 0.5) for i in range(50)] for at, n in enumerate("ab")}
    network, heard, before = Network(), {root: Patient() for root in roots}, -1
    network.set_roots(roots)
    for now in steps:
        told = network.advance({n: columns_of(COLUMNS_OF, given, n, before, now) for n in "ab"}, now)
        for root in roots:
            heard[root].hear(told[root])
        before = now
    for root in roots:
        assert same(heard[root].lives) == same(reference_lives(root, given))


class Visit(NamedTuple):
    """A plan that comes and goes; how long its longest window is."""

    root: Node
    longest: int
    has_keys: bool
    come: int
    go: int


ITEMS = [
    "count(*) AS n",
    "sum(a.v) AS s, avg(b.v) AS m",
    "min(a.v) AS low, max(b.x) AS high",
    "sum(a.x) AS s, count(b.x) AS n",
    "count(*) FILTER (WHERE a.v > 1) AS n, max(b.v) FILTER (WHERE b.v < 3) AS m",
]


@st.composite
def visits(draw: st.DrawFn) -> Visit:
    length, longer = draw(st.integers(2, 12)), draw(st.sampled_from([0, 0, 3, -1]))
    keys = draw(st.sampled_from([" GROUP BY a.k", " GROUP BY a.k", " GROUP BY a.v, b.x", ""]))
    root = plan(
        length,
        draw(st.integers(1, 6)),
        longer=longer,
        items=draw(st.sampled_from(ITEMS)),
        keys=keys,
        also=draw(st.sampled_from(["", "", " AND a.v > 1", " AND a.v < b.v"])),
        third=draw(st.sampled_from([False, False, False, True])),
    )
    come = draw(st.sampled_from([-100, -100, -100, 0, 7])) if keys else -100  # a total begins with the first event
    return Visit(root, max(length, length + longer), bool(keys), come, draw(st.sampled_from([THE_END, THE_END, 12])))


events = st.fixed_dictionaries(
    {
        name: st.lists(
            st.builds(
                event,
                st.sampled_from([*range(-6, 15), *range(-6, 15), 70, 73]),
                st.sampled_from(["p", "p", "p", "q", "q", None]),
                st.sampled_from([0, 1, 2, 3, None, 2**62]),
                st.sampled_from([0.25, -0.0, 1e300, float("nan"), float("inf"), None]),
            ),
            min_size=2,
            max_size=12 if name != "c" else 4,
        ).map(lambda rows: sorted(rows, key=lambda row: row["ts"]))
        for name in "abc"
    }
)


@pytest.mark.slow
@given(
    st.lists(visits(), min_size=1, max_size=4),
    events,
    st.sets(st.integers(-6, 20), max_size=8),
    st.booleans(),
    st.sampled_from([0, 2, 1_000]),
)
def test_answers_are_those_of_the_reference(
    queries: Any, events: Any, times: set[int], restarts: bool, waiting: int
) -> None:
    """Whoever comes, leaves and shares, whenever the network starts again, and however many results may wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_synopsis, "MOST_WAITING", waiting)
        check(queries, events, times, restarts)


def check(queries: Any, events: Any, times: set[int], restarts: bool) -> None:
    network, before, heard = Network(), -100, [Patient() for _ in queries]
    for now in [*sorted(times), 50, THE_END]:
        running = [i for i, query in enumerate(queries) if query.come <= before and now <= query.go]
        parts = network.parts() if restarts else None
        network = Network() if restarts else network
        network.set_roots([queries[i].root for i in running])
        if parts is not None:
            network.restore(parts)
        streams = network.columns_needed()
        told = network.advance({name: columns_of(COLUMNS_OF, events, name, before, now) for name in streams}, now)
        for i in running:
            heard[i].before = max(heard[i].before, before)
            heard[i].hear(told[queries[i].root])
        before = now
    for own, query in zip(heard, queries, strict=True):
        ends = [-100, *sorted(times), 50, THE_END]
        first, until = min(end for end in ends if end >= query.come), max(end for end in ends if end <= query.go)
        right = reference_lives(query.root, events)
        if not query.has_keys:  # up to when a total is answered is for the result of a query to say
            until = min(until, max((life[1] + 1 for life in right), default=until))
        first = -100 if query.come == -100 else first + query.longest
        told, expected = ([e for e in lives if first <= e[1] + 1 <= until] for lives in (own.lives, right))
        assert same(told) == same(expected)
