"""Bits of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mullion.expressions.arrays import Array
from mullion.expressions.functions.base import Args, Function, Plain, Signature, first_of, register
from mullion.expressions.functions.coercion import implicit, numeric
from mullion.language.types import BIGINT, INT, NULL, Type


def one_integer(args: Args) -> Sequence[Type] | None:
    type_ = INT if args[0][1] == NULL else args[0][1]
    return [type_] if type_.is_integer else None


def two_integers(args: Args) -> Sequence[Type] | None:
    a, b = (INT if t == NULL else t for _, t in args)
    if not (a.is_integer and b.is_integer):
        return None
    met = numeric(a, b)
    return met, met


def bitwise(name: str, symbol: str, meaning: Any) -> Function:
    return Function(
        name=name,
        least=2,
        most=2,
        coerce=two_integers,
        result=first_of,
        text=f"({{0}} {symbol} {{1}})",
        row=Plain(meaning),
        vector=Plain(meaning),
    )


def shifted_types(args: Args) -> Sequence[Type] | None:
    x, by = args[0][1], args[1][1]
    if not (by == NULL or implicit(by, INT)) or not (x.is_integer or x == NULL):
        return None
    return (BIGINT if x == BIGINT else INT), INT


def shift(name: str, left: bool) -> Function:
    """As Java: the distance counts modulo the width, and bits that leave are lost."""

    def vector(signature: Signature, x: Array, by: Array) -> Array:
        distance = (by & (63 if signature.result == BIGINT else 31)).astype(x.dtype)
        return np.asarray(np.left_shift(x, distance) if left else np.right_shift(x, distance))

    def row(signature: Signature, x: int, by: int) -> int:
        dtype = np.int64 if signature.result == BIGINT else np.int32
        return int(vector(signature, np.full(1, x, dtype), np.full(1, by, np.int32))[0])

    return Function(
        name=name, least=2, most=2, coerce=shifted_types, result=lambda args: args[0][1], row=row, vector=vector
    )


register(
    bitwise("bitand", "&", lambda x, y: x & y),
    bitwise("bitor", "|", lambda x, y: x | y),
    bitwise("bitxor", "^", lambda x, y: x ^ y),
    Function(
        name="bitnot",
        least=1,
        most=1,
        coerce=one_integer,
        result=first_of,
        text="(~ {0})",
        row=Plain(lambda x: ~x),
        vector=Plain(np.invert),
    ),
    shift("shiftleft", True),
    shift("shiftright", False),
)
