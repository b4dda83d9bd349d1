"""Comparisons, three-valued logic, IN, and the extremes of several values. NaN equals NaN and is above every number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mullion.expressions import int128
from mullion.expressions.arrays import Array
from mullion.expressions.functions.base import Args, Function, Plain, Signature, first_of, gives, register, spelling
from mullion.expressions.functions.coercion import all_common, as_it_is, comparison, literal_decimal
from mullion.expressions.vector import Vector
from mullion.language.query import Call, Expr
from mullion.language.types import BOOLEAN, NULL, Type


def comparable(*, equality: bool) -> Callable[[Args], Sequence[Type] | None]:
    def coerce(args: Args) -> Sequence[Type] | None:
        (x, a), (y, b) = args
        if b.kind == "decimal" and a.is_integer:
            a = literal_decimal(x, a)
        if a.kind == "decimal" and b.is_integer:
            b = literal_decimal(y, b)
        met = comparison(a, b, equality=equality)
        return None if met is None else (met, met)

    return coerce


def same(x: Any, y: Any) -> bool:
    return bool(x == y or (x != x and y != y))


def below(x: Any, y: Any) -> bool:
    return bool(x < y or (y != y and x == x))


def same_arrays(x: Array, y: Array) -> Array:
    if x.dtype == int128.WIDE:
        return int128.same(x, y)
    if x.dtype.kind == "f":
        return np.asarray((x == y) | ((x != x) & (y != y)))
    return np.asarray(x == y, np.bool_)


def below_arrays(x: Array, y: Array) -> Array:
    if x.dtype == int128.WIDE:
        return int128.below(x, y)
    if x.dtype.kind == "f":
        return np.asarray((x < y) | ((y != y) & (x == x)))
    if x.dtype.kind == "b":
        return np.asarray(~x & y)
    return np.asarray(x < y, np.bool_)


def compare(name: str, symbol: str, row: Any, vector: Any, *, equality: bool = False) -> Function:
    return Function(
        name=name,
        least=2,
        most=2,
        coerce=comparable(equality=equality),
        result=gives(BOOLEAN),
        text=f"({{0}} {symbol} {{1}})",
        row=Plain(row),
        vector=Plain(vector),
        strings=True,
        decimals=True,
    )


def null_safe(signature: Signature, x: Vector, y: Vector) -> tuple[Array, Array]:
    both = x.valid & y.valid
    equal = same_arrays(x.values, y.values)
    return (both & equal) | (~x.valid & ~y.valid), np.ones(1, np.bool_)


def both_row(signature: Signature, *values: Any) -> bool | None:
    return False if False in values else None if None in values else True


def either_row(signature: Signature, *values: Any) -> bool | None:
    return True if True in values else None if None in values else False


def both(signature: Signature, *args: Vector) -> tuple[Array, Array]:
    """False wherever one is false, known there or where all are known."""
    values, valid = args[0].values & args[0].valid, args[0].valid
    for arg in args[1:]:
        no = (valid & ~values) | (arg.valid & ~arg.values)
        values = values & arg.values & arg.valid
        valid = no | (valid & arg.valid)
    return values, valid


def either(signature: Signature, *args: Vector) -> tuple[Array, Array]:
    values, valid = args[0].values & args[0].valid, args[0].valid
    for arg in args[1:]:
        values = values | (arg.values & arg.valid)
        valid = values | (valid & arg.valid)
    return values, valid


def truths(args: Args) -> Sequence[Type] | None:
    return [BOOLEAN] * len(args) if all(t in (BOOLEAN, NULL) for _, t in args) else None


def in_row(signature: Signature, x: Any, *items: Any) -> bool | None:
    if x is None:
        return None
    if any(item is not None and same(x, item) for item in items):
        return True
    return None if None in items else False


def in_vector(signature: Signature, x: Vector, *items: Vector) -> tuple[Array, Array]:
    constants = [i for i in items if len(i) == 1 and i.valid[0]]
    is_in: Array = np.zeros(len(x), np.bool_)
    if x.values.dtype == np.object_:
        wanted = {i.values[0] for i in constants}
        is_in = np.fromiter((v in wanted for v in x.values), np.bool_, len(x))
    elif x.values.dtype == int128.WIDE:
        for item in constants:
            is_in = is_in | same_arrays(x.values, item.values)
    elif constants:
        wanted_values = np.concatenate([i.values for i in constants])
        is_in = np.isin(x.values, wanted_values)
        if x.values.dtype.kind == "f" and (wanted_values != wanted_values).any():
            is_in |= x.values != x.values
    known = is_in | np.bool_(not any(len(i) == 1 and not i.valid[0] for i in items))
    for item in items:
        if len(item) != 1:
            hit = item.valid & same_arrays(x.values, item.values)
            is_in, known = is_in | hit, known & item.valid | is_in | hit
    return is_in, x.valid & known


def extreme_row(above: bool) -> Any:
    def row(signature: Signature, *values: Any) -> Any:
        best: Any = None
        for value in values:
            if value is not None and (best is None or (below(best, value) if above else below(value, best))):
                best = value
        return best

    return row


def extreme_vector(above: bool) -> Any:
    def vector(signature: Signature, *args: Vector) -> tuple[Array, Array]:
        values, valid = args[0].values, args[0].valid
        for arg in args[1:]:
            better = below_arrays(values, arg.values) if above else below_arrays(arg.values, values)
            take = arg.valid & (~valid | better)
            values, valid = np.where(take, arg.values, values), valid | arg.valid
        return values, valid

    return vector


def extreme(name: str, above: bool) -> Function:
    return Function(
        name=name,
        least=2,
        most=None,
        coerce=all_common(strings=False),
        result=first_of,
        row=extreme_row(above),
        vector=extreme_vector(above),
        strict=False,
        decimals=True,
    )


def not_null(args: Args) -> Expr:
    return Call("not", (Call("is_null", (args[0][0],)),))


register(
    compare("eq", "=", same, same_arrays, equality=True),
    compare("ne", "<>", lambda x, y: not same(x, y), lambda x, y: ~same_arrays(x, y), equality=True),
    compare("lt", "<", below, below_arrays),
    compare("le", "<=", lambda x, y: not below(y, x), lambda x, y: ~below_arrays(y, x)),
    compare("gt", ">", lambda x, y: below(y, x), lambda x, y: below_arrays(y, x)),
    compare("ge", ">=", lambda x, y: not below(x, y), lambda x, y: ~below_arrays(x, y)),
    Function(
        name="eq_null_safe", aliases=("equal_null",), least=2, most=2, coerce=comparable(equality=True),
        result=gives(BOOLEAN), text="({0} <=> {1})", strict=False, strings=True, decimals=True, vector=null_safe,
        row=lambda s, x, y: x is y if x is None or y is None else same(x, y),
    ),
    Function(
        name="and", least=2, most=None, coerce=truths, result=gives(BOOLEAN), row=both_row, vector=both, strict=False,
        text=lambda args: f"({' AND '.join(args)})",
    ),
    Function(
        name="or", least=2, most=None, coerce=truths, result=gives(BOOLEAN), row=either_row, vector=either,
        strict=False, text=lambda args: f"({' OR '.join(args)})",
    ),
    Function(
        name="not", least=1, most=1, coerce=truths, result=gives(BOOLEAN), text="(NOT {0})",
        row=Plain(lambda x: not x), vector=Plain(np.logical_not),
    ),
    Function(
        name="is_null", aliases=("isnull",), least=1, most=1, coerce=as_it_is, result=gives(BOOLEAN),
        text="({0} IS NULL)", row=Plain(lambda x: x is None), strict=False, strings=True, decimals=True,
        vector=lambda s, x: (~x.valid, np.ones(1, np.bool_)),
    ),
    spelling("isnotnull", 1, 1, not_null, ("is_not_null",)),
    Function(
        name="in", least=2, most=None, coerce=all_common(strings=True), result=gives(BOOLEAN), row=in_row,
        vector=in_vector, strict=False, strings=True, decimals=True,
        text=lambda args: f"({args[0]} IN ({', '.join(args[1:])}))",
    ),
    extreme("greatest", True),
    extreme("least", False),
)  # fmt: skip
