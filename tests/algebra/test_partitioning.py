"""By what plans can be split: by hand, and that the answers of the parts together are those of the whole."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from any_relation import KEYS, STREAMS, TABLES, VALUES, relation
from by_operators import bind_relation
from mullion.algebra.nodes import Join, Node, nodes
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.expressions.vector import Vector
from mullion.instants import EVER_BEFORE, THE_END
from mullion.language.parse import parse_query
from mullion.language.types import DOUBLE, INT, STRING, TIMESTAMP
from mullion.operators.answering import Answering
from mullion.operators.network import StepEvents
from mullion.planner.partitioning import describe_keys, relation_keys, shard_keys
from mullion.reference.aggregates import canonical_value
from mullion.runtime.shard_step import fallen_to, grouped
from relational_plans import NEGATION_ABOVE, NEGATION_BELOW, column, join, keys_of, scan, unless

ORDERS = Stream("orders", (("ts", TIMESTAMP), ("id", INT), ("item", STRING), ("price", DOUBLE)), "ts")
PAYMENTS = Stream("payments", (("ts", TIMESTAMP), ("order_id", INT), ("item", STRING), ("sum", DOUBLE)), "ts")


def split(text: str) -> str | None:
    """By what the events of a query are split."""
    both = {"orders": ORDERS, "payments": PAYMENTS}
    keys = relation_keys(bind_relation(parse_query(text.replace("10 s]", "10 s SLIDE 1 s]"), name="q"), both, {}))
    return None if keys is None else describe_keys(keys)


BOTH = "FROM orders [RANGE 10 s] o, payments [RANGE 10 s] p WHERE o.id = p.order_id"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"SELECT o.price AS p {BOTH}", "orders by id, payments by order_id"),
        (f"SELECT o.id AS i {BOTH} AND o.item = p.item", "orders by id and item, payments by order_id and item"),
        (f"SELECT DISTINCT o.id AS i, p.sum AS s {BOTH}", "orders by id, payments by order_id"),
        (f"SELECT DISTINCT p.sum AS s {BOTH}", None),
        (f"SELECT o.id AS i, sum(p.sum) AS s {BOTH} GROUP BY o.id", "orders by id, payments by order_id"),
        (f"SELECT o.id AS i, sum(p.sum) AS s {BOTH} GROUP BY o.id, p.item", "orders by id, payments by order_id"),
        (f"SELECT p.item AS i, sum(p.sum) AS s {BOTH} GROUP BY p.item", None),
        (f"SELECT count(*) AS n {BOTH}", None),
        (
            "SELECT id FROM orders [RANGE 10 s] o WHERE NOT EXISTS "
            "(SELECT 1 FROM payments [RANGE 10 s] p WHERE p.order_id = o.id)",
            "orders by id, payments by order_id",
        ),
        ("SELECT DISTINCT price FROM orders [RANGE 10 s]", "orders by price"),
        ("SELECT DISTINCT id % 7 AS x FROM orders [RANGE 10 s]", "orders by id % 7"),
        (
            "SELECT id AS x FROM orders [RANGE 10 s] UNION ALL SELECT order_id AS x FROM payments [RANGE 10 s]",
            "orders by id, payments by order_id",
        ),
        (
            "SELECT id AS x FROM orders [RANGE 10 s] EXCEPT ALL SELECT order_id AS x FROM payments [RANGE 10 s]",
            "orders by id, payments by order_id",
        ),
        # A stream is split in one way only.
        ("SELECT a.id AS x FROM orders [RANGE 10 s] a, orders [RANGE 5 s] b WHERE a.id = b.id", "orders by id"),
        ("SELECT a.id AS x FROM orders [RANGE 10 s] a, orders [RANGE 5 s] b WHERE a.item = b.item", "orders by item"),
        ("SELECT a.ts AS x FROM orders [RANGE 10 s] a, orders [RANGE 5 s] b WHERE a.price = b.id", None),
        # The last rows of a stream have any keys; those of a partition have its keys.
        ("SELECT a.id AS i FROM orders [ROWS 5] a, payments [RANGE 9 s] b WHERE a.id = b.order_id", None),
        (
            "SELECT a.id AS i FROM orders [PARTITION BY id ROWS 5] a, payments [RANGE 9 s] b WHERE a.id = b.order_id",
            "orders by id, payments by order_id",
        ),
        (
            "SELECT a.id AS i FROM orders [PARTITION BY item ROWS 5] a, payments [RANGE 9 s] b WHERE a.id = b.order_id",
            None,
        ),
        # What is told of the result as a whole.
        (f"SELECT o.id AS i {BOTH} ORDER BY i", None),
        (f"SELECT o.id AS i {BOTH} LIMIT 3", None),
        (f"ISTREAM (SELECT o.id AS i {BOTH})", "orders by id, payments by order_id"),
        (f"ISTREAM (SELECT o.price AS p {BOTH})", None),
        (f"DSTREAM (SELECT o.price AS p {BOTH})", None),
        (f"RSTREAM (SELECT o.price AS p {BOTH})", "orders by id, payments by order_id"),
        ("RSTREAM (SELECT DISTINCT id FROM orders [RANGE 9 s])", None),
        ("SELECT DISTINCT id FROM orders [RANGE 9 s]", "orders by id"),
        ("SELECT o.id AS i FROM orders [RANGE 10 s] o, payments [RANGE UNBOUNDED] p WHERE o.id = p.order_id", None),
        (
            "SELECT o.id AS i FROM orders [RANGE 9 s] o, payments [RANGE UNBOUNDED] p WHERE o.id = p.order_id",
            "orders by id, payments by order_id",
        ),
    ],
)
def test_by_what_queries_are_split(text: str, expected: str | None) -> None:
    assert split(text) == expected


def keys(root: Node) -> list[str] | None:
    found = shard_keys(root)
    return None if found is None else sorted({describe_keys({scan_.stream: k}) for scan_, k in found.items()})


def test_nested_keys_must_agree() -> None:
    assert keys(NEGATION_ABOVE) == keys(NEGATION_BELOW) == ["S1 by a", "S2 by a", "S3 by a"]
    assert keys(join(join(scan("S1"), scan("S2")), scan("S3"), on="b")) is None
    assert keys(unless(join(scan("S1"), scan("S2")), scan("S3"), on="1.a")) == ["S1 by a", "S2 by a", "S3 by a"]
    exists = Join((scan("S1"), keys_of(scan("S2"), "b")), ((column("a"),), (column("k0"),)))
    assert keys(exists) == ["S1 by a", "S2 by b"]


def test_what_is_computed_of_equal_floats_may_differ() -> None:
    """0.0 and -0.0 are one value of DISTINCT, but 1 / x tells them apart."""
    once = "(SELECT DISTINCT price AS x FROM orders [RANGE 9 s]) d"
    assert split(f"SELECT DISTINCT x AS y FROM {once}") == "orders by price"
    assert split(f"SELECT DISTINCT 1 / x AS y FROM {once}") is None


# The answers of the parts together


@cache
def pool() -> list[Relation]:
    """Relations in which rows meet others, and which can be split."""
    texts = [relation(Random(seed), 1 + seed % 2) for seed in range(400)]
    bound = [bind_relation(parse_query(text), STREAMS, TABLES) for text in texts]
    meeting = ("Join", "AntiJoin", "Distinct", "Difference", "Aggregated")
    meets = [r for r in bound if any(type(node).__name__ in meeting for node in nodes(r.plan))]
    return [r for r in meets if relation_keys(r) is not None]


def events_of(dice: Random, name: str, number: int = 14) -> StepEvents:
    times = sorted(dice.randrange(26) for _ in range(number))
    columns = STREAMS[name].columns
    values = [times, [dice.choice(KEYS) for _ in times], [dice.choice(VALUES) for _ in times]]
    rows = {c: Vector.of(t, own).to_arrow() for (c, t), own in zip(columns, values, strict=True)}
    return StepEvents(pa.table(rows), np.array(times), np.arange(number))


def table_of(name: str) -> pa.Table:
    rows = {"id": [0, 1, 1, None], "name": ["x", "y", None, "x"], "level": [0.25, -0.0, math.nan, 1.0]}
    return pa.table({c: Vector.of(t, rows[c]).to_arrow() for c, t in TABLES[name].columns})


def answers(one: Relation, events: dict[str, StepEvents], nows: list[int], newest: int) -> Counter[Any]:
    answering, table, found = Answering(), table_of("named"), Counter[Any]()
    answering.set_relations([one], {one.name: one.plan})
    since = EVER_BEFORE
    for now in [*nows, THE_END]:
        part = {name: chosen(e, np.flatnonzero((e.times >= since) & (e.times < now))) for name, e in events.items()}
        told = answering.step(part, since, now, lambda name: table, newest=newest, ended=now == THE_END)
        for some in told:
            for row in zip(*(c.to_pylist() for c in some.table.columns), strict=True):
                found[tuple(map(same, row))] += 1
        since = now
    return found


def chosen(events: StepEvents, index: Any) -> StepEvents:
    assert events.numbers is not None
    return StepEvents(events.rows.take(pa.array(index)), events.times[index], events.numbers[index])


def same(value: Any) -> Any:
    return round(value, 9) + 0.0 if isinstance(value, float) and value == value else canonical_value(value)


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(4))
def test_the_parts_together_answer_as_the_whole(turn: int) -> None:
    dice = Random(turn)
    relations = pool()[turn::4]
    assert len(relations) > 20
    told = 0
    for one in relations:
        (group,) = grouped([one], {one.name: one.plan})
        events = {name: events_of(dice, name) for name in one.streams}
        newest = max(int(e.times[-1]) for e in events.values())
        nows = sorted(dice.sample(range(20), 2))
        parts = Counter[Any]()
        for shard in range(3):
            mine = {
                name: chosen(e, fallen_to(shard, 3, e.rows, group.keys[name], group.types[name]))
                for name, e in events.items()
            }
            parts += answers(one, mine, nows, newest)
        whole = answers(one, events, nows, newest)
        assert parts == whole, one.text
        told += sum(whole.values())
    assert told > 100
