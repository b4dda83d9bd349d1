"""Where duplicates are dropped, and where that is idle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mullion.algebra.column_names import names_in
from mullion.algebra.nodes import Aggregated, AntiJoin, Distinct, Join, Node, Project, Union
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Column, Expr
from mullion.planner.rewrites.rule import Rule


def drop_idle_distinct(node: Node) -> Iterator[Node]:
    """DISTINCT does nothing where each row occurs once, and where only the existence of rows matters."""
    match node:
        case Distinct(input=Distinct() as inner):
            yield inner
        case AntiJoin(right=Distinct(input=below)):
            yield replace(node, right=below)
        case AntiJoin(right=Project(input=Distinct(input=below)) as project):
            yield replace(node, right=replace(project, input=below))
        case _:
            return


def push_distinct(node: Node) -> Iterator[Node]:
    """DISTINCT also below a join or union, where only the values of its input count and not their lifetimes: when it
    counts (over strict input), and below a periodic aggregate."""
    match node:
        case Distinct(input=below) if below.pattern is Pattern.STRICT:
            yield from (Distinct(inner) for inner in _distinct_below(below) if inner.pattern is Pattern.STRICT)
        case Aggregated(input=Distinct(input=below), slide=slide) if slide is not None and not node.asks_for_order:
            yield from (replace(node, input=Distinct(inner)) for inner in _distinct_below(below))
        case _:
            return


def _distinct_below(below: Node) -> Iterator[Node]:
    match below:
        case Union(parts=parts) if not all(isinstance(part, Distinct) for part in parts):
            yield Union(tuple(part if isinstance(part, Distinct) else Distinct(part) for part in parts))
        case Project(input=Join() as join, items=items) if not any(part.is_internal for part in join.parts):
            read = {name for _, expr, _ in items for name in names_in(expr)}
            read |= set() if join.residual is None else names_in(join.residual)
            parts = tuple(
                _narrow(part, {n.partition(".")[2] for n in read if n.startswith(f"{i}.")}, join.keys[i])
                for i, part in enumerate(join.parts)
            )
            if parts != join.parts:
                yield replace(below, input=replace(join, parts=parts))
        case _:
            return


def _narrow(part: Node, read: set[str], keys: Sequence[Expr]) -> Node:
    """The columns that are read and those of the keys, each row once."""
    if isinstance(part, Distinct):
        return part
    read = read.union(*(names_in(key) for key in keys))
    items = tuple((name, Column(name), type_) for name, type_ in part.columns if name in read)
    return Distinct(part if len(items) == len(part.columns) else Project(part, items))


DROP_IDLE = Rule(
    "drop_idle_distinct", "a row is there or not: telling duplicates apart adds nothing", drop_idle_distinct
)
PUSH_DISTINCT = Rule(
    "push_distinct", "duplicates are dropped before they are multiplied", push_distinct, keeps_ids=False
)
