"""The queries of golab's Figure 3.7 and both plans of Figure 3.5, over links of generated connections.

| query | plan |
|---|---|
| 1 | connections of one protocol on two links with the same source |
| 2 | distinct sources of a link, or pairs of source and destination |
| 3 | connections of a link whose source is not on another |
| 4 | ftp connections of two links with the same source that is not on a third; with the negation above or below |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.connections import UNIT
from mullion.algebra.nodes import AntiJoin, Distinct, Filter, Join, Node, Project, Scan
from mullion.expressions.typing import resolve_predicate
from mullion.language.parse import parse_expression
from mullion.language.query import Column, Window
from mullion.language.types import BIGINT, DOUBLE, STRING, TIMESTAMP, Type

COLUMNS: tuple[tuple[str, Type], ...] = (
    ("ts", TIMESTAMP),
    ("duration", DOUBLE),
    ("protocol", STRING),
    ("payload", BIGINT),
    ("source", BIGINT),
    ("destination", BIGINT),
)
SOURCE = Column("source")


@dataclass(frozen=True)
class Query:
    """A query, by the length of its windows in units of time."""

    name: str
    figure: str
    plan: Callable[[int], Node]
    links: int
    """How many links it listens to."""


def link(number: int, window: int) -> Scan:
    return Scan(f"link{number}", Window(range=window * UNIT), COLUMNS)


def only(node: Node, protocol: str) -> Filter:
    return Filter(node, resolve_predicate(parse_expression(f"protocol = '{protocol}'"), node.types))


def same_source(left: Node, right: Node) -> Join:
    return Join((left, right), ((SOURCE,), (SOURCE,)))


def joined(protocol: str) -> Callable[[int], Node]:
    return lambda window: same_source(only(link(0, window), protocol), only(link(1, window), protocol))


def distinct(*names: str) -> Callable[[int], Node]:
    items = tuple((name, Column(name), dict(COLUMNS)[name]) for name in names)
    return lambda window: Distinct(Project(link(0, window), items))


def negated(window: int) -> Node:
    return AntiJoin(link(0, window), link(1, window), (SOURCE,), (SOURCE,))


def negation_above(window: int) -> Node:
    """The plan on the left of Figure 3.5: only the result hears of negative tuples."""
    both = same_source(only(link(0, window), "ftp"), only(link(1, window), "ftp"))
    return AntiJoin(both, link(2, window), (Column("0.source"),), (SOURCE,))


def negation_below(window: int) -> Node:
    """The plan on its right: the join hears of them too."""
    left = only(link(0, window), "ftp")
    return same_source(AntiJoin(left, link(2, window), (SOURCE,), (SOURCE,)), only(link(1, window), "ftp"))


QUERIES = (
    Query("1, ftp", "3.8", joined("ftp"), 2),
    Query("1, telnet", "3.9", joined("telnet"), 2),
    Query("2, source", "3.10", distinct("source"), 1),
    Query("2, source and destination", "3.11", distinct("source", "destination"), 1),
    Query("3", "3.14", negated, 2),
    Query("4, negation above", "3.15", negation_above, 3),
    Query("4, negation below", "3.15", negation_below, 3),
)
