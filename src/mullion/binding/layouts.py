"""Where the columns of a query's sources are in a relation that is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mullion.algebra.nodes import Filter, Node, TableLookup, nodes
from mullion.binding.scope import Scope
from mullion.errors import NotSupported, Place
from mullion.expressions.evaluate import is_event_only
from mullion.expressions.shared import shared
from mullion.expressions.typing import resolve, resolve_predicate
from mullion.language.query import Call, Column, Expr, rewrite, walk
from mullion.language.render import render
from mullion.language.types import Type


@dataclass(frozen=True)
class Layout:
    """A node that holds columns of sources. `columns` gives the name there of each (source number, column)."""

    node: Node
    scope: Scope
    columns: Mapping[tuple[int, str], str]
    of_one_window: bool = False
    """Whether the query groups the events of one window and does nothing else (`one_window`)."""

    def plain(self, expr: Expr) -> Expr:
        """An expression as written, over the node's columns."""
        if self.of_one_window:
            return self.scope.plain(expr)
        return self.placed(self.scope.qualified(expr, range(len(self.scope.sources))))

    def placed(self, qualified: Expr) -> Expr:
        """A qualified expression over the node's columns."""

        def change(node: Expr) -> Expr | None:
            if not isinstance(node, Column) or node.table is None:
                return None
            return Column(self.columns[self.scope.numbers[node.table], node.name], place=node.place)

        return rewrite(qualified, change)

    def has(self, name: str) -> bool:
        return self.scope.has(name)

    def column_names(self) -> list[str]:
        return self.scope.column_names()

    def typed(self, qualified: Expr) -> tuple[Expr, Type]:
        return typed(self.placed(qualified), self.node.types)

    def predicate(self, qualified: Expr) -> Expr:
        return predicate(self.placed(qualified), self.node.types)

    def filtered(self, predicates: Iterable[Expr]) -> Layout:
        """The rows for which all these are true, which are resolved and over the node's columns."""
        both = together(predicates)
        return self if both is None else replace(self, node=Filter(self.node, both))

    def filtered_as_written(self, conditions: Sequence[Expr]) -> Layout:
        """The rows for which all these are true, in this order. They are over the node's columns, but not resolved."""
        if not conditions:
            return self
        both = conditions[0] if len(conditions) == 1 else Call("and", tuple(conditions))
        resolved = resolve_predicate(both, self.node.types)
        refuse_what_spark_cannot_see(_combined(resolved), self.node, both.place)
        return replace(self, node=Filter(self.node, shared(resolved)))


def together(predicates: Iterable[Expr]) -> Expr | None:
    """The predicates joined by AND, each once, in an order that does not depend on how they were written."""
    distinct = sorted(set(predicates), key=render)
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    return shared(Call("and", tuple(distinct)))


def typed(expr: Expr, types: Mapping[str, Type]) -> tuple[Expr, Type]:
    """The resolved expression and its type. It is evaluated where Spark is not."""
    resolved, type_ = resolve(expr, types)
    _refuse_event_only(resolved, expr)
    return shared(resolved), type_


def predicate(expr: Expr, types: Mapping[str, Type]) -> Expr:
    resolved = resolve_predicate(expr, types)
    _refuse_event_only(resolved, expr)
    return shared(resolved)


def _refuse_event_only(resolved: Expr, written: Expr) -> None:
    if not is_event_only(resolved):
        return
    only = [node for node in walk(resolved) if isinstance(node, Call) and is_event_only(node)][-1]
    raise computed_by_spark_alone(only.function, only.place or written.place)


def computed_by_spark_alone(function: str, place: Place | None) -> NotSupported:
    """The error for a function that only Spark computes, in a query that Spark does not evaluate."""
    hint = "Spark alone computes it; it serves aggregates over a single stream"
    return NotSupported(f"{function} in this query", place, hint=hint)


def refuse_what_spark_cannot_see(parts: Iterable[Expr], node: Node, place: Place | None) -> None:
    """Some functions are Spark's alone, and Spark does not see the columns of tables."""
    added = {name for below in nodes(node) if isinstance(below, TableLookup) for name in below.lookup.types()}
    for part in parts if added else ():
        if is_event_only(part) and any(isinstance(n, Column) and n.name in added for n in walk(part)):
            only = [n for n in walk(part) if isinstance(n, Call) and is_event_only(n)][-1]
            raise NotSupported(f"{only.function} together with a table's columns", only.place or place)


def _combined(predicate: Expr) -> list[Expr]:
    """What AND, OR and NOT combine."""
    if isinstance(predicate, Call) and predicate.function in ("and", "or", "not"):
        return [condition for arg in predicate.args for condition in _combined(arg)]
    return [predicate]
