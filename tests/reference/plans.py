"""Plans of the algebra in a few words, and what they mean.

Streams a (ts, k, v), b (ts, k, w) and c (ts, k, x). An event is written (ts, k, value).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from by_slices import bind
from mullion import reference
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.nodes import Aggregated, AntiJoin, Filter, Join, Node, Project, Scan
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.expressions.typing import resolve, resolve_predicate
from mullion.language.parse import parse_expression, parse_query
from mullion.language.query import Column, Expr, Window
from mullion.language.types import DOUBLE, INT, TIMESTAMP

A = Stream("a", (("ts", TIMESTAMP), ("k", INT), ("v", DOUBLE)), "ts")
B = Stream("b", (("ts", TIMESTAMP), ("k", INT), ("w", DOUBLE)), "ts")
C = Stream("c", (("ts", TIMESTAMP), ("k", INT), ("x", DOUBLE)), "ts")
STREAMS = {"a": A, "b": B, "c": C}
T = Table("t", (("id", INT), ("name", INT)), "csv")
NAN = math.nan

Events = Sequence[tuple[Any, Any, Any]]


def window(**given: Any) -> Window:
    return Window(**given)


def scan(stream: Stream, *, partition: str | None = None, since: int | None = None, **given: Any) -> Scan:
    keys = () if partition is None else (expr(partition, stream.types),)
    return Scan(stream.name, Window(**given), stream.columns, keys, since)


def expr(text: str, types: Any) -> Expr:
    return resolve(parse_expression(text), dict(types))[0]


def pick(node: Node, *names: str) -> Project:
    """Some columns of a node: `0.k` becomes `k`, and the second of that name `1.k`."""
    items, used = [], set()
    for name in names:
        short = name.rpartition(".")[2]
        short = name if short in used else short
        used.add(short)
        items.append((short, column(name), node.types[name]))
    return Project(node, tuple(items))


def column(name: str) -> Expr:
    return Column(name)


def where(node: Node, text: str) -> Filter:
    return Filter(node, resolve_predicate(parse_expression(text), node.types))


def join(*parts: Node, on: str = "k", residual: str | None = None) -> Join:
    joined = Join(parts, tuple((column(on),) for _ in parts))
    if residual is None:
        return joined
    return Join(joined.parts, joined.keys, resolve_predicate(parse_expression(residual), joined.types))


def negation(left: Node, right: Node, left_key: str = "k", right_key: str = "k") -> AntiJoin:
    return AntiJoin(left, right, (column(left_key),), (column(right_key),))


def aggregates(*texts: str) -> tuple[BoundAggregate, ...]:
    """Aggregates over the columns of a."""
    query = parse_query(f"SELECT {', '.join(texts)} FROM a [RANGE 1 s SLIDE 1 s]")
    return bind(query, STREAMS).template.aggregates


def grouped(node: Node, *texts: str, keys: Sequence[str] = (), slide: int | None = None) -> Aggregated:
    found = tuple((column(name), node.types[name]) for name in keys)
    return Aggregated(node, found, aggregates(*texts), slide)


def relation(root: Node, **given: Any) -> Relation:
    given.setdefault("names", tuple(name for name, _ in root.columns))
    given.setdefault("output", "rstream" if given.get("slide") else "changes")
    return Relation("q", "", root, **given)


def streamed(**events: Events) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for name, stream in STREAMS.items():
        given = events.get(name, ())
        found[name] = [dict(zip(stream.types, event, strict=True)) for event in given]
    return found


def ask(asked: Relation, tables: Any = None, versions: Any = None, **events: Events) -> list[tuple[Any, ...]]:
    return reference.answer(asked, STREAMS, streamed(**events), tables, versions).rows


def states(root: Node, **events: Events) -> dict[int, list[Any]]:
    """What a continuous query holds after each change: its rows without times."""
    asked = relation(root, output="rstream")
    width = len(asked.names)
    found: dict[int, list[Any]] = {}
    for row in ask(asked, **events):
        items = row[2 : 2 + width]
        found.setdefault(row[1], []).append(items[0] if width == 1 else items)
    return found
