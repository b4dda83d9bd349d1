"""Names and types of an expression.

`resolve` checks an expression and writes out everything that Spark would add silently: the spelling of columns, the
canonical names of functions, and every implicit conversion as a Cast. Evaluation and Spark SQL then need
no rules of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from math import isfinite
from typing import Any

import numpy as np

import mullion.expressions.functions  # noqa: F401  (fills the registry)
from mullion.errors import CheckError, NotSupported, Place, closest
from mullion.expressions.functions.base import NAMES, Function
from mullion.expressions.functions.casts import cast_row, castable
from mullion.expressions.functions.coercion import common
from mullion.expressions.functions.parsing import parse_integer
from mullion.expressions.functions.sparks import unknown_function
from mullion.expressions.vector import has_arrow_type
from mullion.language.dialect import AGGREGATES, OPERATOR_ONLY
from mullion.language.query import AggregateCall, Call, Case, Cast, Column, Exists, Expr, Literal, walk
from mullion.language.types import BIGINT, BINARY, BOOLEAN, DATE, FLOAT, NULL, STRING, TIMESTAMP, Type, decimal

Typed = tuple[Expr, Type]


def resolve(expr: Expr, columns: Mapping[str, Type]) -> Typed:
    """The expression with all conversions written out, and its type: Spark's."""
    resolved = _Resolver(columns).resolve(expr)
    _refuse_mixed(resolved[0])
    return resolved


def _refuse_mixed(expr: Expr) -> None:
    """An expression is evaluated in one place."""
    calls = [node for node in walk(expr) if isinstance(node, Call)]
    by_kernel = [call for call in calls if NAMES[call.function].kernel_only]
    by_spark = [call for call in calls if NAMES[call.function].event_only] if by_kernel else []
    if by_spark:
        message = f"{by_spark[0].function} and {by_kernel[0].function} in one expression"
        hint = f"only Spark computes {by_spark[0].function}, and Spark may not compute {by_kernel[0].function}"
        raise NotSupported(message, by_kernel[0].place or by_spark[0].place, hint=hint)


def resolve_predicate(expr: Expr, columns: Mapping[str, Type]) -> Expr:
    """As `resolve`, for an expression that must be true or false."""
    resolved, type_ = resolve(expr, columns)
    if type_ == NULL:
        return cast(resolved, NULL, BOOLEAN, expr.place)
    if type_ != BOOLEAN:
        raise CheckError(f"a condition must be boolean, but this is {type_}", expr.place)
    return resolved


def type_of(expr: Expr, columns: Mapping[str, Type]) -> Type:
    """The type of an expression that is resolved already."""
    return _Resolver(columns).resolve(expr)[1]


def cast(expr: Expr, source: Type, target: Type, place: Place | None) -> Expr:
    """The expression as another type. Constants are converted now where that takes no arithmetic."""
    if source == target:
        return expr
    if not castable(source, target):
        raise CheckError(f"cannot cast {source} to {target}", place)
    if isinstance(expr, Literal):
        folded = converted(expr, source, target)
        if folded is not None:
            return folded
    if source == STRING and target.is_integer:
        return Call(f"{target.kind}$", (expr,), place=place)
    if source.kind == "decimal" and target == TIMESTAMP:
        # Spark's own cast wraps around when the seconds are too many.
        micros = Call("multiply", (expr, Literal(Decimal(1_000_000), decimal(7, 0))), place=place)
        return Call("timestamp_micros", (Cast(micros, BIGINT, place=place),), place=place)
    if source == BINARY and target == STRING:
        return Call("text$", (Cast(expr, target, place=place),), place=place)
    return Cast(expr, target, place=place)


def converted(literal: Literal, source: Type, target: Type) -> Literal | None:
    """The constant in the target type, so that comparisons with constants show the constant; None to leave it."""
    if literal.value is None:
        return Literal(None, target, place=literal.place)
    if source == STRING and target in (DATE, TIMESTAMP):
        # Spark would read 'now' and 'today', whose meaning changes while a query stands.
        return Literal(cast_row(source, target)(literal.value), target, place=literal.place)
    value: Any
    if source == STRING and target.is_integer:
        value = parse_integer(literal.value, target)
    elif target.is_numeric and (source.is_numeric or source == STRING):
        value = cast_row(source, target)(literal.value)
    else:
        return None
    if value is not None and target == FLOAT:
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    if value is None or (source == STRING and not isfinite(value)):
        return None
    return Literal(value, target, place=literal.place)


def _plain(column: Column, type_: Type) -> Type:
    """The type of a column; refuses those that hold structs, arrays or maps."""
    if not has_arrow_type(type_) and type_.kind != "counted":
        hint = "name the columns that you want in place of *; fields of nested values must be columns of the source"
        raise NotSupported(f"a column of type {type_} ('{column.name.rpartition('.')[2]}')", column.place, hint=hint)
    return type_


class _Resolver:
    """One resolution. What it has made is remembered by identity, so that rewritten calls are not resolved again."""

    def __init__(self, columns: Mapping[str, Type]) -> None:
        self.columns = columns
        self.by_lower: dict[str, str] | None = None
        self.done: dict[int, Typed] = {}

    def resolve(self, expr: Expr) -> Typed:
        known = self.done.get(id(expr))
        if known is not None:
            return known
        match expr:
            case Column():
                result = self.column(expr)
            case Literal():
                result = expr, expr.type
            case Call():
                result = self.call(expr)
            case Cast():
                arg, type_ = self.resolve(expr.arg)
                made = cast(arg, type_, expr.type, expr.place)
                result = replace(made, cast=True) if isinstance(made, Literal) else made, expr.type
            case Case():
                result = self.case(expr)
            case AggregateCall():
                raise CheckError(f"aggregate {expr.function} is not allowed here", expr.place)
            case Exists():
                raise CheckError("EXISTS is not allowed here", expr.place)
        self.done[id(result[0])] = result
        return result

    def column(self, column: Column) -> Typed:
        if column.table is None:
            type_ = self.columns.get(column.name)
            if type_ is not None:
                return column, _plain(column, type_)
            if self.by_lower is None:
                self.by_lower = {name.lower(): name for name in self.columns}
            name = self.by_lower.get(column.name.lower())
            if name is not None:
                return Column(name, place=column.place), _plain(column, self.columns[name])
        written = column.name if column.table is None else f"{column.table}.{column.name}"
        raise CheckError(f"unknown column '{written}'", column.place, hint=closest(column.name, self.columns))

    def call(self, call: Call) -> Typed:
        function = NAMES.get(call.function) or NAMES.get(call.function.lower())
        if function is None:
            public = [name for name in NAMES if "$" not in name and name not in OPERATOR_ONLY]
            raise unknown_function(call.function, call.place, [*public, *AGGREGATES])
        check_arity(function, call)
        args = [self.resolve(arg) for arg in call.args]
        if function.rewrite is not None:
            rewritten = function.rewrite(args)
            if rewritten is not None:
                return self.resolve(rewritten)
        wanted = function.coerce(args)
        if wanted is None:
            types = ", ".join(str(t) for _, t in args)
            written = OPERATOR_ONLY.get(call.function, call.function)
            raise CheckError(f"{written} does not take ({types})", call.place)
        cast_args = [
            typed if typed[1] == target else (cast(*typed, target, typed[0].place or call.place), target)
            for typed, target in zip(args, wanted, strict=True)
        ]
        exprs = tuple(arg for arg, _ in cast_args)
        return Call(function.name, exprs, place=call.place), function.result(cast_args)

    def case(self, case: Case) -> Typed:
        conditions: list[Expr] = []
        values: list[Typed] = []
        for condition, value in case.branches:
            resolved, type_ = self.resolve(condition)
            if type_ not in (BOOLEAN, NULL):
                raise CheckError(f"a condition must be boolean, but this is {type_}", condition.place or case.place)
            conditions.append(cast(resolved, type_, BOOLEAN, condition.place))
            values.append(self.resolve(value))
        if case.otherwise is not None:
            values.append(self.resolve(case.otherwise))
        met = common([type_ for _, type_ in values])
        if met is None:
            types = ", ".join(str(type_) for _, type_ in values)
            raise CheckError(f"the branches have no common type ({types})", case.place)
        results = [cast(value, type_, met, case.place) for value, type_ in values]
        otherwise = results.pop() if case.otherwise is not None else None
        return Case(tuple(zip(conditions, results, strict=True)), otherwise, place=case.place), met


def check_arity(function: Function, call: Call) -> None:
    count = len(call.args)
    if count >= function.least and (function.most is None or count <= function.most):
        return
    if function.most is None:
        wanted = f"at least {function.least}"
    elif function.most == function.least:
        wanted = str(function.least)
    else:
        wanted = f"{function.least} to {function.most}"
    noun = "argument" if wanted == "1" else "arguments"
    raise CheckError(f"{call.function} takes {wanted} {noun}, not {count}", call.place)
