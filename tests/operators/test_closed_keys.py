"""Keys that are over: which events break that promise, and what operators let go of without any answer changing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_relation import STREAMS, TABLES, VALUE, Example, examples
from by_operators import bind_relation
from mullion import reference
from mullion.algebra.streams import Stream
from mullion.instants import EVER_BEFORE, THE_END
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.operators.closed_keys import ClosedKeys
from operators.test_relations_differential import Manner, _Machine, as_rows, comparable, manners, run, settled
from promises import Ending, endings, kept

ORDERS = Stream("orders", (("ts", TIMESTAMP), ("id", STRING), ("shop", INT), ("status", STRING)), "ts")
CLOSED = Ending(("id",), "status", "closed", None)


def columns(events: list[Any]) -> pa.Table:
    types = {"id": pa.string(), "shop": pa.int32(), "status": pa.string()}
    return pa.table({name: pa.array([event[name] for event in events], t) for name, t in types.items()})


def told(closed: ClosedKeys, events: list[Any]) -> list[bool]:
    """Which events of a batch break a promise; the others make new ones."""
    table, times = columns(events), np.array([event["ts"] for event in events], np.int64)
    broken = closed.broken(table, times)
    closed.add(table.filter(pa.array(~broken)), times[~broken])
    return broken.tolist()


def order(ts: int, id_: str | None, status: str = "open", shop: int | None = 1) -> dict[str, Any]:
    return {"ts": ts, "id": id_, "shop": shop, "status": status}


def of(ending: Ending) -> ClosedKeys:
    stream = ending.of(ORDERS)
    assert stream.punctuation is not None
    return ClosedKeys(stream.punctuation, stream.types)


def test_what_comes_after_the_end_of_its_key_and_lies_behind_it_is_broken() -> None:
    closed = of(CLOSED)
    assert told(closed, [order(1, "a"), order(5, "a", "closed"), order(4, "a"), order(5, "a"), order(6, "b")]) == [
        False,
        False,
        False,
        True,
        False,
    ]
    assert told(closed, [order(9, "a"), order(9, None, "closed"), order(9, None), order(3, "a")]) == [
        True,
        False,
        False,
        False,
    ]
    assert len(closed) == 1


def test_a_key_may_be_used_again_after_for() -> None:
    closed = of(Ending(("id",), "status", "closed", 10))
    assert told(closed, [order(5, "a", "closed"), order(14, "a", "closed"), order(15, "a")]) == [False, True, False]
    closed.expire(15)
    assert len(closed) == 0 and told(closed, [order(15, "a")]) == [False]


batches = st.lists(
    st.lists(
        st.builds(
            order,
            st.integers(0, 12),
            st.sampled_from(("a", "b", None)),
            st.sampled_from(("open", "open", "closed")),
            st.sampled_from((1, 2, None)),
        ),
        max_size=8,
    ),
    max_size=4,
)


@given(batches, endings("status", ("closed",), (("id",), ("shop", "id"), ("id", "shop"))), st.booleans())
def test_batches_break_the_promises_that_one_event_after_the_other_does(
    some: list[Any], ending: Ending, restart: bool
) -> None:
    closed, found = of(ending), []
    for batch in some:
        if restart:
            again = of(ending)
            again.restore(closed.parts())
            closed = again
        found += [event for event, broken in zip(batch, told(closed, batch), strict=True) if not broken]
    assert found == kept(ending, [event for batch in some for event in batch])


# Operators


@st.composite
def punctuated_examples(draw: Any) -> tuple[Example, dict[str, Stream]]:
    """Examples over streams some of which tell when keys are over, without what breaks that."""
    example = draw(examples(most=14))
    streams = dict(STREAMS)
    events = dict(example.events)
    for name, stream in STREAMS.items():
        if draw(st.sampled_from((True, True, False))):
            ending = draw(endings(VALUE[name], (1.0, 2.0, 0.25)))
            in_order = sorted((e for e in events[name] if e["ts"] is not None), key=lambda event: event["ts"])
            streams[name], events[name] = ending.of(stream), kept(ending, in_order)
    return Example(example.text, events, example.tables), streams


@given(punctuated_examples(), manners())
def test_answers_are_those_without_punctuation(given_: tuple[Example, dict[str, Stream]], manner: Manner) -> None:
    example, streams = given_
    relation = bind_relation(parse_query(example.text), streams, TABLES)
    expected = reference.answer(relation, STREAMS, example.events, example.tables)
    answers = run(relation, example, Manner(settled(example, relation, manner.nows), manner.strategy, manner.restart))
    without = ("expires_at",) if manner.strategy == "nt" else ()
    found = comparable(as_rows(answers), expected.names, without)
    assert found == comparable(expected.rows, expected.names, without)


def held(text: str, events: dict[str, list[Any]], streams: dict[str, Stream], *, restart: bool = False) -> int:
    """The rows that operators hold after all events, one at a time."""
    relation = bind_relation(parse_query(text), streams, TABLES)
    example = Example(text, {**dict.fromkeys(STREAMS, ()), **events}, {})
    machine, before = _Machine(relation, "upa", example), EVER_BEFORE
    times = sorted({event["ts"] for some in events.values() for event in some})
    for now in (*(time + 1 for time in times), THE_END):
        machine = machine.restarted() if restart else machine
        machine.step(before, now)
        before = now
    return sum(machine.network.rows_held().values())


@pytest.mark.slow
def test_state_of_keys_that_are_over_goes() -> None:
    ending = Ending(("k",), "v", 1.0, None)
    # Of each of 10 keys: one payment (b), an order (a), its end, and one payment more.
    events: dict[str, list[Any]] = {"a": [], "b": []}
    for key in range(10):
        at = 10 * key
        events["b"] += [{"ts": at, "k": key, "w": 0.0}, {"ts": at + 9, "k": key, "w": 0.0}]
        events["a"] += [{"ts": at + 1, "k": key, "v": 0.0}, {"ts": at + 5, "k": key, "v": 1.0}]
    over = {**STREAMS, "a": ending.of(STREAMS["a"])}
    both = {**over, "b": Ending(("k",), "w", 0.0, None).of(STREAMS["b"])}
    once = {"a": events["a"], "b": [event for event in events["b"] if event["ts"] % 10 == 0]}
    joined = "SELECT a.k, b.w FROM a [RANGE UNBOUNDED], b [RANGE UNBOUNDED] WHERE a.k = b.k"
    assert held(joined, events, STREAMS) == 40
    assert held(joined, events, over) == held(joined, events, over, restart=True) == 20
    assert held(joined, once, both) == held(joined, once, both, restart=True) == 0
    three = (
        "SELECT a.k FROM a [RANGE UNBOUNDED], b [RANGE UNBOUNDED], c [RANGE UNBOUNDED] WHERE a.k = b.k AND b.k = c.k"
    )
    assert held(three, {**events, "c": []}, over) == held(three, {**events, "c": []}, STREAMS) == 40
    different = "SELECT DISTINCT k FROM a [RANGE UNBOUNDED]"
    assert (held(different, events, STREAMS), held(different, events, over)) == (10, 0)
    counted = "SELECT k, count(*) AS n FROM a [RANGE UNBOUNDED] GROUP BY k"
    assert (held(counted, events, STREAMS), held(counted, events, over)) == (30, 0)
    assert held("SELECT k, count(*) AS n FROM a [RANGE 5 us] GROUP BY k", events, over) == 0


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        (
            "SELECT k FROM a [RANGE UNBOUNDED] WHERE NOT EXISTS (SELECT b.k FROM b [RANGE UNBOUNDED] WHERE b.k = a.k)",
            {"a": Ending(("k",), "v", 1.0, None)},
        ),
        (
            "SELECT k FROM b [RANGE UNBOUNDED] WHERE NOT EXISTS "
            "(SELECT c.k FROM c [RANGE UNBOUNDED] WHERE c.k = b.k AND c.x < 1)",
            {"c": Ending(("k",), "x", 1.0, None)},
        ),
        (
            "SELECT k FROM a [RANGE UNBOUNDED] EXCEPT ALL SELECT k FROM b [RANGE UNBOUNDED]",
            {"a": Ending(("k",), "v", 1.0, None), "b": Ending(("k",), "w", 0.0, None)},
        ),
    ],
    ids=["excluded", "told", "except"],
)
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.slow
def test_what_nothing_can_change_any_more_goes(text: str, ending: dict[str, Ending], restart: bool) -> None:
    """Of each of 3,000 keys an event of b, one of a, and the last one of a; c only says that the key is over."""
    events: dict[str, list[Any]] = {"a": [], "b": [], "c": []}
    for key in range(3_000):
        events["b"].append({"ts": 10 * key, "k": key, "w": 0.0})
        events["a"] += [{"ts": 10 * key + 1, "k": key, "v": 0.0}, {"ts": 10 * key + 5, "k": key, "v": 1.0}]
        events["c"].append({"ts": 10 * key + 3, "k": key, "x": 1.0})

    def left(streams: dict[str, Stream]) -> int:
        relation = bind_relation(parse_query(text), streams, TABLES)
        example = Example(text, {**dict.fromkeys(STREAMS, ()), **events}, {})
        machine, before = _Machine(relation, "upa", example), EVER_BEFORE
        for now in range(0, 30_001, 3_000):
            machine = machine.restarted() if restart else machine
            machine.step(before, now)
            before = now
        return sum(machine.network.rows_held().values())

    whole, over = left(STREAMS), left({**STREAMS, **{name: own.of(STREAMS[name]) for name, own in ending.items()}})
    # What is over is forgotten when it is half of all.
    assert whole >= 3_000 and over < whole / 2
