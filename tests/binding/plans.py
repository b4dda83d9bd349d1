"""Queries bound to the algebra, and nodes of it in a few words, to compare them with."""

from __future__ import annotations

from mullion.algebra.nodes import Filter, Join, Node, Project, Scan
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.binding.relations import bind
from mullion.expressions.typing import resolve, resolve_predicate
from mullion.language.parse import parse_expression, parse_query
from mullion.language.query import Column, Named, Window
from mullion.language.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP
from mullion.planner.physical import sliced

A = Stream("a", (("ts", TIMESTAMP), ("k", STRING), ("v", INT)), "ts")
B = Stream("b", (("ts", TIMESTAMP), ("k", STRING), ("v", BIGINT)), "ts")
C = Stream("c", (("ts", TIMESTAMP), ("k", STRING), ("j", INT)), "ts")
T = Table("t", (("k", STRING), ("cp", DOUBLE)), "csv")
R = Table("r", (("k", STRING), ("most", INT)), "csv", retroactive=True)
STREAMS = {stream.name: stream for stream in (A, B, C)}
TABLES = {table.name: table for table in (T, R)}
MINUTE = 60_000_000


def full(text: str) -> str:
    """[] stands for a periodic window, [c] for a continuous one."""
    return text.replace("[]", "[RANGE 10 min SLIDE 1 min]").replace("[c]", "[RANGE 10 min]")


def bound(text: str, **materialized: Relation) -> Relation:
    relation = bind(parse_query(full(text)), STREAMS, TABLES, materialized)
    assert sliced(relation, STREAMS) is None
    return relation


def root(text: str, **materialized: Relation) -> Node:
    return bound(text, **materialized).root


def window(text: str) -> Window:
    source = parse_query(f"SELECT k FROM a [{text}]").source
    assert isinstance(source, Named) and source.window is not None
    return source.window


def scan(stream: Stream, text: str = "RANGE 10 min") -> Scan:
    return Scan(stream.name, window(text), stream.columns)


def where(node: Node, text: str) -> Filter:
    return Filter(node, resolve_predicate(parse_expression(text), node.types))


def project(node: Node, *texts: str) -> Project:
    """Columns c0, c1, .. of a node; those of joins are written in backquotes."""
    found = [resolve(parse_expression(text), node.types) for text in texts]
    return Project(node, tuple((f"c{i}", *item) for i, item in enumerate(found)))


def keys(*columns: str) -> tuple[tuple[Column, ...], ...]:
    """One key for each part of a join."""
    return tuple((Column(name),) for name in columns)


def residual(join: Join, text: str) -> Join:
    return Join(join.parts, join.keys, resolve_predicate(parse_expression(text), join.types))


PAIR = Join((scan(A), scan(B)), keys("k", "k"))
