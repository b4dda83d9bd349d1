"""The promising join: Figure 1 of the paper by hand, then the reference on random streams, budgets and steps."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.algebra.nodes import Node, Project, Promising, nodes
from mullion.binding.relations import bind
from mullion.errors import CheckpointError
from mullion.instants import THE_END
from mullion.language.parse import parse_query
from mullion.language.query import Column
from mullion.language.types import INT
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.network import Network
from mullion.operators.offering import OfferingOperator
from mullion.operators.promising_join import PromisingJoinOperator
from mullion.operators.timed_rows import TimedRows
from mullion.reference.promising import told_in_steps
from networks import columns_of
from promising import COLUMNS, STREAMS, Summary, as_told, events_of, promising, ranges, steps, streams, told, world_of

ROW = 80
"""Bytes of a row: k and v have four, and ts, number, id, start and end eight; beside them id, code and run."""
FIGURE_1 = {
    "s2": events_of((0, 5), (0, 5), (0, 9), (0, 3)),
    "s1": events_of((10, 9), (10, 5), (10, 9), (10, 5), (10, 3), (10, 5)),
}
"""Two 5s, a 9 and a 3 wait in stream 2. Of stream 1 only three tuples can be processed (ali 1.1)."""


def keys_told(order: str, **budget: int) -> list[int]:
    """The keys of what is told in the step of stream 1."""
    (_, rows), _ = told(promising(order, **budget), FIGURE_1, [5, 20])
    return sorted(values[0] for _, values, _, _ in rows)


def test_figure_1() -> None:
    """Most output; what is rare; and a part that is spread like the whole, of which two thirds are 5s."""
    assert keys_told("desc", events=3) == [5, 5, 5, 5, 5, 5]
    assert keys_told("asc", events=3) == [3, 9, 9]
    assert keys_told("weighted", events=3) in ([5, 5, 5, 5, 9], [3, 5, 5, 5, 5])
    assert keys_told("desc", rows=100) == keys_told("weighted", rows=100) == [3, 5, 5, 5, 5, 5, 5, 9, 9]


def test_what_waits_is_told_later_or_expires() -> None:
    """Nine pairs, four a step; rows of stream 2 are gone at 100, so nothing is told in the step after that."""
    node = promising("desc", rows=4)
    found, tallies = told(node, FIGURE_1, [5, 20, 50, 101, THE_END])
    assert [len(rows) for rows in found] == [0, 4, 4, 1, 0]
    assert [tally["waiting"] for tally in tallies] == [0, 5, 1, 0, 0]
    assert all(row[2:] == (10, 100) for rows in found for row in rows)
    found, tallies = told(node, FIGURE_1, [5, 20, 100, 101])
    assert [len(rows) for rows in found] == [0, 4, 4, 0]
    wanted = {"offered": 9, "told": 8, "waiting": 0, "expired": 1, "shed": 0, "share": 0.8889, "freshness": 1e-5}
    assert tallies[-1] == {**wanted, "shed_by_memory": 0, "rows_shed": 0, "bytes": 6 * ROW}


@given(streams, streams, steps, st.sampled_from(("asc", "desc", "weighted")), st.integers(1, 30))
def test_keys_with_equal_hashes_are_compared(s1: list, s2: list, nows: list[int], order: str, rows: int) -> None:
    """Where rows of equal codes may have different keys, the same is told as where they have not."""
    events, node = {"s1": s1, "s2": s2}, promising(order, range_=(10, 25), rows=rows)
    wanted = told(node, events, nows)
    with patch.object(KeyedSubWindow, "is_clean", False):
        assert told(node, events, nows) == wanted


BY = st.sampled_from(("e", "e * v", "v", "1", "k", "e / (v - 3)"))
ORDERS = st.sampled_from(("asc", "desc", "weighted"))
RESIDUALS = st.sampled_from((None, None, "`0.v` < `1.v`"))
BUDGETS = st.one_of(
    st.builds(lambda n: {"rows": n}, st.integers(1, 30)), st.builds(lambda n: {"events": n}, st.integers(1, 12))
)


@given(
    streams,
    streams,
    steps,
    st.tuples(ranges, ranges),
    st.sampled_from(("asc", "desc")),
    BY,
    RESIDUALS,
    BUDGETS,
    st.sampled_from(((1.0, ()), (0.5, (4,)), (0.8, (2, 10)))),
    st.booleans(),
)
def test_no_pair_that_is_left_has_a_better_promise(
    s1: list,
    s2: list,
    nows: list[int],
    range_: tuple,
    order: str,
    by: str,
    residual: str | None,
    budget: dict,
    fading: tuple,
    restarts: bool,
) -> None:
    node = promising(order, range_=range_, by=by, residual=residual, fade=fading[0], ages=fading[1], **budget)
    events = {"s1": s1, "s2": s2}
    found, tallies = told(node, events, nows, restarts=restarts)
    wanted = told_in_steps(world_of(node, events), node, nows)
    assert found == [as_told(rows) for rows in wanted]
    for tally in tallies:
        assert tally["offered"] == tally["told"] + tally["waiting"] + tally["expired"] + tally["shed"]
    assert sum(map(len, found)) == tallies[-1]["told"]


@given(
    streams,
    streams,
    steps,
    st.tuples(ranges, ranges),
    st.sampled_from(("asc", "desc", "weighted")),
    BY,
    RESIDUALS,
    BUDGETS,
    st.sampled_from(((1.0, ()), (0.5, (4,)))),
    st.booleans(),
)
def test_all_that_is_told_is_of_the_join_and_once(
    s1: list,
    s2: list,
    nows: list[int],
    range_: tuple,
    order: str,
    by: str,
    residual: str | None,
    budget: dict,
    fading: tuple,
    restarts: bool,
) -> None:
    node = promising(order, range_=range_, by=by, residual=residual, fade=fading[0], ages=fading[1], **budget)
    events = {"s1": s1, "s2": s2}
    found, tallies = told(node, events, nows, restarts=restarts)
    whole = as_told(world_of(node, events).rows(node))
    rows = [row for some in found for row in some]
    assert len(set(rows)) == len(rows) and set(rows) <= set(whole)
    for tally in tallies:
        assert tally["offered"] == tally["told"] + tally["waiting"] + tally["expired"] + tally["shed"]
    for some in found:
        assert len(some) <= budget.get("rows", len(some))
    if order == "weighted" and residual is None:
        assert sum(tally["waiting"] for tally in tallies) == 0


@given(streams, streams, steps, st.tuples(ranges, ranges), ORDERS, RESIDUALS, st.booleans())
def test_without_shortage_it_is_the_join(
    s1: list, s2: list, nows: list[int], range_: tuple, order: str, residual: str | None, restarts: bool
) -> None:
    events = {"s1": s1, "s2": s2}
    for budget in ({"rows": 10_000}, {"events": 1_000}, {"time": 10**12}):
        node = promising(order, range_=range_, residual=residual, **budget)
        found, tallies = told(node, events, nows, restarts=restarts)
        assert sorted(row for some in found for row in some) == sorted(as_told(world_of(node, events).rows(node)))
        assert tallies[-1]["offered"] == tallies[-1]["told"] and tallies[-1]["share"] == 1


def any_kind(dice: Random) -> Promising:
    """Of one shape; those with MEMORY keep rows of their own."""
    return promising(
        dice.choice(("asc", "desc", "weighted")),
        range_=(10, 25),
        by=dice.choice(("e", "e * v", "v", "1", "e / (v - 3)")),
        residual=dice.choice((None, None, "`0.v` < `1.v`")),
        fade=dice.choice((1.0, 0.5)),
        ages=(4,),
        memory=dice.choice((None, None, None, 900)),
        rows=dice.choice((1, 4, 9, 1000)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_joins_of_one_shape_share_rows_and_tell_what_each_would_alone(seed: int) -> None:
    """They come and go, with restarts between. One that comes later knows of the events from then on; numbers, by which
    samples are drawn, go on."""
    dice = Random(seed)
    times = {name: sorted(dice.randrange(60) for _ in range(60)) for name in ("s1", "s2")}
    events = {name: events_of(*((at, dice.choice((0, 0, 1, 2, None))) for at in own)) for name, own in times.items()}
    kinds, before, came = list(dict.fromkeys(any_kind(dice) for _ in range(4))), -(1 << 60), {"s1": 0, "s2": 0}
    network, alone = Network(), dict[Promising, Network]()
    for now in (*sorted(dice.sample(range(5, 60), 10)), THE_END):
        standing = [kind for kind in kinds if dice.random() < (0.8 if kind in alone else 0.4)]
        network.set_roots([root_of(kind) for kind in standing])
        if dice.random() < 0.3:
            network = restarted(network)
        for kind in standing:
            alone.setdefault(kind, Network()).set_roots([root_of(kind)])
        alone = {kind: alone[kind] for kind in standing}
        arrived = {name: columns_of(dict.fromkeys(events, COLUMNS), events, name, before, now) for name in events}
        arrived = {n: replace(own, numbers=came[n] + np.arange(len(own.times))) for n, own in arrived.items()}
        came, before = {name: came[name] + len(own.times) for name, own in arrived.items()}, now
        found = network.advance(arrived, now)
        for kind, by_itself in alone.items():
            wanted = by_itself.advance(arrived, now)[root_of(kind)].fresh
            if kind.order != "weighted":
                assert as_rows(found[root_of(kind)].fresh) == as_rows(wanted)
            assert (
                tally_of(network, kind)["offered"] == tally_of(by_itself, kind)["offered"] or kind.order == "weighted"
            )
        shared = [kind for kind in standing if kind.memory is None]
        stores = [own.operator for own in network.working.values() if isinstance(own.operator, OfferingOperator)]
        assert len(stores) == bool(shared) + len(standing) - len(shared), "the last one lets the rows go"


def restarted(network: Network) -> Network:
    again = Network()
    again.set_roots(network.roots)
    again.restore(network.parts())
    return again


def root_of(kind: Promising) -> Node:
    """Some read fewer columns than others, so that a join that comes may need more of rows that are there."""
    return Project(kind, (("v", Column("1.v"), INT),)) if kind.order == "asc" else kind


def as_rows(fresh: TimedRows) -> list[tuple]:
    values = fresh.rows.to_pylist()
    return sorted(zip(fresh.ids.tolist(), fresh.start, fresh.end, map(repr, values), strict=True))


def tally_of(network: Network, kind: Promising) -> dict:
    operator = network.operator(kind)
    assert isinstance(operator, PromisingJoinOperator)
    tally = operator.tally.facts()
    assert tally["offered"] == tally["told"] + tally["waiting"] + tally["expired"] + tally["shed"]
    return tally


def test_a_state_of_before_rows_were_shared_is_refused() -> None:
    node = promising(rows=4)
    network = Network()
    network.set_roots([node])
    with pytest.raises(CheckpointError, match="keep rows of their own"):
        network.restore({node.name: {"0.rows": [], "1.rows": []}})


OF_THREE = ("s1.k = s2.k AND s2.k = s3.k", "s1.k = s2.k AND s2.v = s3.k", "s1.k = s2.k AND s2.k = s3.k AND s1.v < s3.v")


def stacked(where: str, range_: tuple, preference: str, memory: int | None = None) -> Promising:
    """The promising joins of three streams."""
    windows = ["RANGE UNBOUNDED" if length is None else f"RANGE {length} us" for length in range_]
    sources = ", ".join(f"{name} [{window}]" for name, window in zip(STREAMS, windows, strict=True))
    text = f"SELECT s1.k, s2.k AS l, s3.k AS m FROM {sources} WHERE {where} WITH PREFERENCE {preference}"
    root = bind(parse_query(text), STREAMS, summaries=(Summary("s1", "k", 4, 3, memory=memory),)).root
    return next(node for node in nodes(root) if isinstance(node, Promising))


@given(
    streams,
    streams,
    streams,
    steps,
    st.tuples(ranges, ranges, ranges),
    st.sampled_from(OF_THREE),
    st.sampled_from(("ASC", "DESC", "WEIGHTED")),
    st.sampled_from(("1", "s1.v, s2.v, s3.v", "estimate(s1.k), s2.v, s3.v FADE FACTOR 0.5")),
    st.one_of(st.builds("{} ROWS".format, st.integers(1, 40)), st.builds("{} EVENTS".format, st.integers(1, 12))),
    st.sampled_from((None, None, 1500)),
)
def test_a_budget_is_that_of_all_joins_of_three_streams(
    s1: list, s2: list, s3: list, nows: list[int], range_: tuple, where: str, order: str, by: str, budget: str,
    memory: int | None,
) -> None:  # fmt: skip
    """What is told is of the join, once, within the budget, and the same after restarts; all of it is where the budget
    reaches."""
    events = {"s1": s1, "s2": s2, "s3": s3}
    node = stacked(where, range_, f"{order} {by} BUDGET {budget}", memory)
    found, tallies = told(node, events, nows)
    assert (found, tallies) == told(node, events, nows, restarts=True)
    whole, rows = as_told(world_of(node, events).rows(node)), [row for some in found for row in some]
    assert len(set(rows)) == len(rows) and set(rows) <= set(whole)
    for tally, some in zip(tallies, found, strict=True):
        assert tally["offered"] == tally["told"] + tally["waiting"] + tally["expired"] + tally["shed"]
        assert "EVENTS" in budget or len(some) <= int(budget.split()[0])
    enough, tallies = told(stacked(where, range_, f"{order} {by} BUDGET 100000 ROWS"), events, nows)
    assert sorted(row for some in enough for row in some) == sorted(whole)
    assert tallies[-1]["offered"] == tallies[-1]["told"] == len(whole)


def test_lower_joins_do_not_explode() -> None:
    """A hundred rows of one key in each of two streams make 10,000 pairs, of which the third stream meets none."""
    hot = [(1, 5)] * 100
    events = {"s1": events_of(*hot), "s2": events_of(*hot), "s3": events_of((1, 7), (12, 7))}
    events["s1"] += events_of((10, 7))
    events["s2"] += events_of((11, 7))
    node = stacked(
        "s1.k = s2.k AND s2.k = s3.k", (50, 50, 50), "ASC estimate(s1.k), estimate(s2.k), estimate(s3.k) BUDGET 20 ROWS"
    )
    found, tallies = told(node, events, [5, 20, 60, THE_END])
    assert [len(rows) for rows in found] == [0, 2, 0, 0], "what is rare comes first"
    assert tallies[0]["waiting"] == 10_000 - 10 and tallies[-1]["waiting"] == 0
    assert tallies[-1]["expired"] == tallies[-1]["offered"] - 2
