"""Expressions over rows, and when two values are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.evaluate import evaluate
from mullion.expressions.vector import Vector
from mullion.language.query import Expr
from mullion.language.types import Type
from mullion.reference.aggregates import canonical_value

TIME = "#t"
"""The event's time, in microseconds, among its columns."""
DECAYED = ("decayed_sum", "decayed_until", "decayed_now")


def value(expr: Expr, columns: Mapping[str, Vector]) -> Any:
    """The value of an expression over one row."""
    return evaluate(expr, columns, 1).to_list()[0]


def passes(condition: Expr | None, columns: Mapping[str, Vector]) -> bool:
    return condition is None or value(condition, columns) is True


def values_of(expr: Expr, columns: Sequence[tuple[str, Type]], rows: Sequence[Sequence[Any]]) -> list[Any]:
    """The values of an expression over each of several rows, which have these columns."""
    vectors = {name: Vector.of(type_, [row[i] for row in rows]) for i, (name, type_) in enumerate(columns)}
    return evaluate(expr, vectors, len(rows)).to_list()


def contribution(bound: BoundAggregate, columns: Mapping[str, Vector]) -> tuple[Any, ...]:
    """What a row gives to an aggregate: no value when FILTER drops it, otherwise one."""
    if not passes(bound.where, columns):
        return ()
    if bound.function in DECAYED:
        known = None if bound.argument is None else value(bound.argument, columns)
        return ((known, columns[TIME].to_list()[0]),)
    if len(bound.values) > 1:
        several = tuple(value(expr, columns) for expr, _ in bound.values)
        return (None if None in several else several,)
    return (1 if bound.argument is None else value(bound.argument, columns),)


def equal(a: Any, b: Any) -> bool:
    """As join keys are: NULL equals nothing, NaN equals NaN."""
    return a is not None and b is not None and bool(a == b or (a != a and b != b))


def one_value(values: Sequence[Any]) -> tuple[Any, ...]:
    """Rows of which this is the same are equal as in DISTINCT: NULLs are equal, NaNs too, and zeros of either sign."""
    return tuple(tuple(map(canonical_value, v)) if isinstance(v, list) else canonical_value(v) for v in values)
