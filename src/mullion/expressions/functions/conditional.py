"""Choices between values. IF, IFNULL and NVL2 are written out as CASE and COALESCE."""

from __future__ import annotations

from typing import Any

import numpy as np

from mullion.expressions.arrays import Array
from mullion.expressions.functions.base import Args, Function, Signature, first_of, register, spelling
from mullion.expressions.functions.coercion import all_common, comparison
from mullion.expressions.functions.comparison import same, same_arrays
from mullion.expressions.vector import Vector
from mullion.language.query import Call, Case, Expr, Literal
from mullion.language.types import NULL


def first_known(signature: Signature, *values: Any) -> Any:
    return next((v for v in values if v is not None), None)


def first_known_vector(signature: Signature, *args: Vector) -> tuple[Array, Array]:
    values, valid = args[0].values, args[0].valid
    for arg in args[1:]:
        if valid.all():
            break
        values, valid = np.where(valid, values, arg.values), valid | arg.valid
    return values, valid


def unless_equal(signature: Signature, x: Vector, y: Vector) -> tuple[Array, Array]:
    return x.values, x.valid & ~(y.valid & same_arrays(x.values, y.values))


def if_case(args: Args) -> Expr:
    (condition, _), (yes, _), (no, _) = args
    return Case(((condition, yes),), no)


def nvl2_case(args: Args) -> Expr:
    (x, _), (known, _), (unknown, _) = args
    return Case(((Call("is_null", (x,)), unknown),), known)


def nullif_case(args: Args) -> Expr | None:
    """Where the two have different types, the comparison is made in a common type but the result keeps its own."""
    (x, a), (y, b) = args
    if a == NULL:
        return x
    if a == b or b == NULL or comparison(a, b, equality=True) is None:
        return None
    return Case(((Call("eq", (x, y)), Literal(None, a)),), x)


register(
    Function(
        name="coalesce", least=1, most=None, coerce=all_common(strings=True), result=first_of, row=first_known,
        vector=first_known_vector, strict=False, strings=True, decimals=True,
    ),
    spelling("ifnull", 2, 2, lambda args: Call("coalesce", tuple(a for a, _ in args)), ("nvl",)),
    spelling("if", 3, 3, if_case, ("iff",)),
    spelling("nvl2", 3, 3, nvl2_case),
    Function(
        name="nullif", least=2, most=2, result=first_of, strict=False, strings=True, decimals=True, vector=unless_equal,
        coerce=lambda args: [args[0][1]] * 2 if NULL in (args[0][1], args[1][1]) or args[0][1] == args[1][1] else None,
        row=lambda s, x, y: None if x is None or (y is not None and same(x, y)) else x,
        rewrite=nullif_case,
    ),
)  # fmt: skip
