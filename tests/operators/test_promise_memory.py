"""MEMORY of a promising join: an example by hand, then what must hold on random streams, budgets and steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.algebra.nodes import Promising
from mullion.instants import THE_END
from mullion.operators.network import Network
from mullion.operators.promise_memory import PromiseMemory
from mullion.operators.promise_offers import numbers_of
from mullion.operators.promising_join import PromisingJoinOperator
from networks import columns_of
from promising import COLUMNS, STREAMS, as_told, events_of, promising, ranges, steps, streams, told, world_of

ROW = 80
"""Bytes of a row: k and v have four, and ts, number, id, start and end eight; beside them id, code and run."""
SIXTEEN = 16 * ROW
"""Fifteen rows fit and a sample of one; when there are more, rows go until there are thirteen."""
SEVENTEEN = {
    "s1": events_of(*((0, key) for key in (5, 5, 5, 5, 5, 5, 7, 8, 9)), (25, 9), (25, 5), (25, 1)),
    "s2": events_of(*((0, key) for key in (5, 5, 5, 5, 5, 9)), (15, 7), (15, 8)),
}
"""At 20 there are six 5s, a 7, an 8 and a 9, and on the other side five 5s and a 9; its 7 and 8 are young."""


def whole_sample() -> Any:
    """The sample remembers every row that is gone, so that what is missed is counted exactly."""
    return patch.object(PromiseMemory, "_thin", lambda self, most: None)


def kept_rows(node: Promising, events: dict, nows: list[int]) -> Iterator[tuple[int, list[set[int]], dict]]:
    """After each step, the numbers of the rows that are kept of each input, and the tally."""
    network, before = Network(), -(1 << 60)
    network.set_roots([node])
    for now in nows:
        columns = dict.fromkeys(STREAMS, COLUMNS)
        network.advance({name: columns_of(columns, events, name, before, now) for name in STREAMS}, now)
        operator, before = network.operator(node), now
        assert isinstance(operator, PromisingJoinOperator)
        yield now, [set(numbers_of(store.windows).tolist()) for store in operator.stores], operator.tally.facts()


@pytest.mark.parametrize(
    ("order", "gone"),
    [("desc", [{6, 7, 8}, {5}]), ("asc", [set(), {0, 1, 2, 3}])],
    ids=["the keys with one partner", "the most frequent, of six partners"],
)
def test_the_least_promising_of_the_old_go(order: str, gone: list[set[int]]) -> None:
    node = promising(order, rows=1000, memory=SIXTEEN, ages=(10,))
    (_, kept, tally), *_ = kept_rows(node, SEVENTEEN, [20])
    assert [set(range(count)) - own for count, own in zip((9, 8), kept, strict=True)] == gone
    assert tally["rows_shed"] == 4 and tally["bytes"] <= SIXTEEN


def test_what_new_rows_would_have_met_is_counted() -> None:
    """33 pairs are told at once. Then a 9 misses the one that is gone, and a 5 meets five."""
    node = promising("desc", rows=1000, memory=SIXTEEN, ages=(10,))
    with whole_sample():
        found, tallies = told(node, SEVENTEEN, [20, 30])
    assert [len(rows) for rows in found] == [33, 5]
    counted = {name: tallies[-1][name] for name in ("offered", "told", "shed", "shed_by_memory", "share")}
    assert counted == {"offered": 39, "told": 38, "shed": 1, "shed_by_memory": 1, "share": 0.9744}


def test_what_waits_with_rows_that_go_is_shed() -> None:
    """Of 33 pairs 31 wait at 20, of which those of the rows that go are shed, and told never."""
    node = promising("desc", rows=2, memory=SIXTEEN, ages=(10,))
    found, tallies = told(node, SEVENTEEN, [20, 24, THE_END])
    assert len(found[0]) == 2 and tallies[0]["shed_by_memory"] == tallies[0]["shed"] > 0
    assert tallies[0]["waiting"] == 31 - tallies[0]["shed"]
    assert tallies[0]["offered"] == 33 and tallies[0]["bytes"] <= SIXTEEN


def test_without_a_limit_nothing_goes() -> None:
    for memory in (None, 10**9):
        _, tallies = told(promising("asc", rows=1000, memory=memory, ages=(10,)), SEVENTEEN, [20, 30, THE_END])
        assert tallies[-1]["rows_shed"] == 0 and tallies[-1]["share"] == 1


MEMORY = st.sampled_from((1, 4 * ROW, 8 * ROW, 16 * ROW, 24 * ROW))
ORDERS = st.sampled_from(("asc", "desc", "weighted"))
BUDGETS = st.sampled_from(({"rows": 1}, {"rows": 5}, {"rows": 1000}, {"events": 3}))
FADING = st.sampled_from(((1.0, ()), (1.0, (4,)), (0.5, (2, 10))))


@given(
    streams,
    streams,
    steps,
    st.tuples(ranges, ranges),
    ORDERS,
    st.sampled_from(("e", "e * v", "v", "1")),
    st.sampled_from((None, None, "`0.v` < `1.v`")),
    BUDGETS,
    FADING,
    MEMORY,
)
def test_a_part_of_the_join_within_the_memory(
    s1: list,
    s2: list,
    nows: list[int],
    range_: tuple,
    order: str,
    by: str,
    residual: str | None,
    budget: dict,
    fading: tuple,
    memory: int,
) -> None:
    """Every row is one of the join and told once, all is counted, the limit holds, and restarts change nothing."""
    fade, ages = fading
    node = promising(order, range_=range_, by=by, residual=residual, fade=fade, ages=ages, memory=memory, **budget)
    events = {"s1": s1, "s2": s2}
    found, tallies = told(node, events, nows)
    whole = as_told(world_of(node, events).rows(node))
    rows = [row for some in found for row in some]
    assert len(set(rows)) == len(rows) and set(rows) <= set(whole)
    for tally in tallies:
        assert tally["offered"] == tally["told"] + tally["waiting"] + tally["expired"] + tally["shed"]
        assert tally["shed_by_memory"] <= tally["shed"] and tally["bytes"] <= memory
    assert sum(map(len, found)) == tallies[-1]["told"]
    assert tallies[-1]["rows_shed"] or not tallies[-1]["shed_by_memory"]
    assert told(node, events, nows, restarts=True) == (found, tallies)


@given(streams, streams, steps, st.tuples(ranges, ranges), ORDERS, BUDGETS, FADING, MEMORY)
def test_what_is_missed_is_known_while_the_sample_is_whole(
    s1: list, s2: list, nows: list[int], range_: tuple, order: str, budget: dict, fading: tuple, memory: int
) -> None:
    """Then all pairs of the join are offered, and each is told, waits, has expired or is shed."""
    node = promising(order, range_=range_, fade=fading[0], ages=fading[1], memory=memory, **budget)
    events = {"s1": s1, "s2": s2}
    with whole_sample():
        _, tallies = told(node, events, nows)
    assert tallies[-1]["offered"] == len(world_of(node, events).rows(node))


@given(streams, streams, steps, st.tuples(ranges, ranges), st.sampled_from(("asc", "desc")), MEMORY)
def test_no_row_that_stays_promises_less(
    s1: list, s2: list, nows: list[int], range_: tuple, order: str, memory: int
) -> None:
    """By definition: of the oldest granularity, by how many rows of the other input have the key and live."""
    node = promising(order, range_=range_, rows=1000, ages=(4, 15), memory=memory)
    sides, before = (s1, s2), [set[int](), set[int]()]
    with whole_sample():
        for now, kept, _ in kept_rows(node, {"s1": s1, "s2": s2}, nows):
            lives = [
                {n: e["k"] for n, e in enumerate(own) if e["k"] is not None and _lives(e["ts"], length, now)}
                for own, length in zip(sides, range_, strict=True)
            ]
            ranks: dict[bool, list[tuple[int, int, int]]] = {True: [], False: []}
            for i in (0, 1):
                came = {n for n in lives[i] if n in before[i] or sides[i][n]["ts"] >= last_of(nows, now)}
                for n in came:
                    partners = sum(key == lives[i][n] for key in lives[1 - i].values())
                    age = sum(sides[i][n]["ts"] <= now - limit for limit in (4, 15))
                    ranks[n in kept[i]].append((-age, partners if order == "desc" else -partners, n))
            assert not ranks[True] or not ranks[False] or max(ranks[False]) <= min(ranks[True])
            before = kept


def _lives(start: int, length: int | None, now: int) -> bool:
    return start < now and (length is None or start + length > now)


def last_of(nows: list[int], now: int) -> int:
    return max((one for one in nows if one < now), default=-1)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["asc", "desc", "weighted"])
def test_the_share_is_about_right(order: str) -> None:
    """Of 40,000 rows 8,000 stay, and about 500 of the others are in the sample, a row for every fourth key."""
    dice = np.random.default_rng(5)
    keys = [dice.integers(0, 2000, 25_000) for _ in range(2)]
    times = np.repeat((0, 10), (20_000, 5_000)).tolist()
    named = zip(STREAMS, keys, strict=False)
    events = {name: events_of(*zip(times, own.tolist(), strict=True)) for name, own in named}
    found, tallies = told(promising(order, rows=10**9, ages=(5,), memory=10_000 * ROW), events, [5, 15])
    before, after = (
        int(np.prod([np.bincount(own[:n], minlength=2000) for own in keys], 0).sum()) for n in (20_000, None)
    )
    assert len(found[0]) == before == tallies[0]["offered"] and tallies[0]["rows_shed"] > 30_000
    missed = after - sum(map(len, found))
    assert missed > 0.5 * (after - before)
    assert tallies[-1]["shed"] == tallies[-1]["shed_by_memory"] == pytest.approx(missed, rel=0.16)


@pytest.mark.slow
def test_desc_keeps_more_of_the_join_than_any_rows_would() -> None:
    dice = np.random.default_rng(6)
    keys = [np.minimum(dice.zipf(1.3, 2000), 200).tolist() for _ in range(2)]
    events = {name: events_of(*enumerate(own)) for name, own in zip(STREAMS, keys, strict=False)}
    share = {}
    for order in ("desc", "weighted", "asc"):
        node = promising(order, range_=(1000, 1000), rows=10**9, ages=(10,), memory=250 * ROW)
        share[order] = sum(map(len, told(node, events, list(range(50, 2001, 50)))[0]))
    assert share["desc"] > 1.5 * share["weighted"] > 1.5 * share["asc"]
