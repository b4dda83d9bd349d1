"""Joins within MEMORY: an example by hand, then random streams, limits, steps and restarts against the definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.algebra.nodes import Bounded, Filter, Join, Node, Scan
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.expressions.typing import resolve_predicate
from mullion.instants import THE_END
from mullion.language.parse import parse_expression
from mullion.language.query import Column, Window
from mullion.language.types import BIGINT, INT
from mullion.operators.bounded_join import BoundedJoinOperator
from mullion.operators.network import Network
from mullion.reference.bounded import evictions
from mullion.reference.world import World
from networks import lives_of, reference_lives, same
from promising import events_of, ranges, steps, streams

COLUMNS = (("k", INT), ("v", INT), ("ts", BIGINT))
NAMES = ("s1", "s2", "s3")
Streams = dict[str, list[dict[str, Any]]]


def bounded(
    most: tuple[int | None, ...],
    *,
    rarest: tuple[bool, ...] = (),
    lengths: tuple[int | None, ...] = (),
    where: str | None = None,
    residual: str | None = None,
) -> Bounded:
    parts: list[Node] = []
    for name, length in zip(NAMES, lengths or (100,) * len(most), strict=False):
        window = Window(unbounded=True) if length is None else Window(range=length)
        parts.append(Scan(name, window, COLUMNS))
    if where is not None:
        parts[0] = Filter(parts[0], resolve_predicate(parse_expression(where), parts[0].types))
    join = Join(tuple(parts), ((Column("k"),),) * len(parts))
    if residual is not None:
        join = Join(join.parts, join.keys, resolve_predicate(parse_expression(residual), join.types))
    return Bounded(join, most, rarest or (False,) * len(most))


def world_of(node: Bounded, events: Streams) -> World:
    return World(Relation("q", "", node), {name: Stream(name, COLUMNS, "ts") for name in NAMES}, events, {}, {})


def pairs(node: Bounded, events: Streams, *times: int) -> set[tuple[int, ...]]:
    """By the numbers of their events."""
    return {values[1::3] for values, *_ in lives_of(node, events, [*times, THE_END])}


def test_the_oldest_go_when_their_window_is_full() -> None:
    """Two rows fit. When the third comes, it meets what is there, and the first goes: event 1 of s2 finds two."""
    events = {"s1": events_of((1, 7), (2, 7), (4, 7)), "s2": events_of((3, 7), (5, 7))}
    assert pairs(bounded((2, None)), events) == {(0, 0), (1, 0), (2, 0), (1, 1), (2, 1)}
    assert pairs(bounded((2, None)), events, 2, 4) == {(0, 0), (1, 0), (2, 0), (1, 1), (2, 1)}


def test_the_rarest_go_first() -> None:
    """Two rows of s2 have key 7 and none has 8 when s1 becomes full: so its second row goes, not its first."""
    events = {"s1": events_of((2, 7), (3, 8), (4, 7)), "s2": events_of((1, 7), (1, 7), (5, 7), (5, 8))}
    assert pairs(bounded((2, None), rarest=(True, False)), events) == {(n, m) for n in (0, 2) for m in (0, 1, 2)}


@pytest.mark.parametrize("others", [(), ((2, 5),) * 40])
def test_what_leaves_right_after_is_no_partner(others: tuple[tuple[int, int], ...]) -> None:
    """The row of s2 with key 7 ends at 3, when nothing has come after 2: so key 7 has no partners, and the oldest goes.
    Others keep it company in its sub-window, or not."""
    s2 = events_of((0, 7), *others, (3, 7), (3, 8))
    events = {"s1": events_of((0, 7), (1, 7), (2, 8)), "s2": s2}
    node = bounded((2, None), rarest=(True, False), lengths=(100, 3))
    right = {(0, 0), (1, 0), (1, len(s2) - 2), (2, len(s2) - 1)}
    assert pairs(node, events) == pairs(node, events, 1, 3) == right


def test_rows_of_one_instant_meet_before_any_goes() -> None:
    events = {"s1": events_of((1, 7), (1, 7), (1, 7)), "s2": events_of((1, 7), (2, 7))}
    assert pairs(bounded((1, None)), events) == {(0, 0), (1, 0), (2, 0), (2, 1)}


limits = st.sampled_from((None, 1, 2, 3, 5, 17))


@given(data=st.data(), steps=steps, restarts=st.booleans())
def test_what_is_found_is_what_the_definition_says(data: st.DataObject, steps: list[int], restarts: bool) -> None:
    count = data.draw(st.sampled_from((2, 2, 2, 3)))
    node = bounded(
        tuple(data.draw(limits) for _ in range(count)),
        rarest=tuple(data.draw(st.booleans()) for _ in range(count)),
        lengths=tuple(data.draw(ranges) for _ in range(count)),
        where=data.draw(st.sampled_from((None, "v % 3 <> 1"))),
        residual=data.draw(st.sampled_from((None, "`0.v` <> `1.v`"))),
    )
    events = {name: data.draw(streams) for name in NAMES[:count]}
    went = [len(own) for own in evictions(world_of(node, events), node)]
    counted: list[int] = []

    def watch(network: Network) -> None:
        operator = network.operator(node)
        assert isinstance(operator, BoundedJoinOperator)
        counted[:] = operator.evicted_rows

    found = lives_of(node, events, steps, restarts=restarts, watch=watch)
    assert same(found) == same(reference_lives(node, events))
    assert counted == went


@pytest.mark.parametrize("rarest", [False, True])
@pytest.mark.slow
def test_windows_hold_what_they_may(rarest: bool) -> None:
    """At the end of a step, whatever came in it; beyond it a sixteenth is free."""
    events = {"s1": events_of(*((i, i % 7) for i in range(500))), "s2": events_of(*((i, i % 3) for i in range(500)))}
    node, held = bounded((32, None), rarest=(rarest, False), lengths=(None, 20)), list[int]()

    def watch(network: Network) -> None:
        operator = network.operator(node)
        assert isinstance(operator, BoundedJoinOperator)
        held.append(operator.stores[0].rows_held)

    lives_of(node, events, [100, 101, 400, 500, THE_END], watch=watch)
    assert max(held) <= 32 and min(held) >= 30
