"""/ div % and pmod: by zero it is NULL, and no quotient wraps around."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from mullion.expressions.arrays import Array
from mullion.expressions.functions.arithmetic import LONG_MIN, two_numbers, two_numbers_result
from mullion.expressions.functions.base import Args, Function, Signature, gives, register
from mullion.expressions.functions.decimal_forms import quotient
from mullion.expressions.functions.numbers import BOUNDS, EXACT, SPARK, fit_decimal, fit_integer
from mullion.language.query import Call, Expr
from mullion.language.types import BIGINT, FLOAT, Type


def divide_row(signature: Signature, x: Any, y: Any) -> Any:
    if y == 0:
        return None
    if isinstance(y, Decimal):
        return fit_decimal(SPARK.divide(x, y), signature.result)
    if math.isinf(x) or math.isnan(x) or math.isnan(y):
        return x / y
    return float(np.float64(x) / np.float64(y)) if math.isfinite(y) else x / y


def div_row(signature: Signature, x: Any, y: Any) -> Any:
    if y == 0:
        return None
    if isinstance(y, Decimal):
        return fit_integer(int(EXACT.divide_int(x, y)), BIGINT)
    quotient = abs(x) // abs(y)
    return fit_integer(quotient if (x < 0) == (y < 0) else -quotient, BIGINT)


def div_vector(signature: Signature, x: Array, y: Array) -> Any:
    fits = (y != 0) & ~((x == LONG_MIN) & (y == -1))
    safe = np.where(fits, y, 1)
    quotient = x // safe
    remainder = x - quotient * safe
    return quotient + ((remainder != 0) & ((x < 0) != (safe < 0))), fits


def with_both(args: Sequence[str], body: str) -> str:
    """A text that names x and y more than once. Long arguments are bound by a lambda instead of being repeated, so
    that nesting does not make the text explode."""
    x, y = args
    if len(x) + len(y) < 100:
        return "(" + re.sub(r"\b[xy]\b", lambda name: x if name[0] == "x" else y, body) + ")"
    return f"element_at(zip_with(array({x}), array({y}), (x, y) -> {body}), 1)"


def div_text(args: Sequence[str]) -> str:
    """`div` alone wraps around for the lowest number div -1."""
    if args[1].rstrip("L").isdigit():
        return f"({args[0]} div {args[1]})"
    return with_both(args, "CASE WHEN y = -1L THEN try_multiply(x, y) ELSE (x div y) END")


def decimal_div_text(args: Sequence[str]) -> str:
    """`div` alone wraps around when the quotient is no BIGINT."""
    within = "try_divide(x, y) > -9223372036854775809BD AND try_divide(x, y) < 9223372036854775808BD"
    return with_both(args, f"CASE WHEN {within} THEN (x div y) END")


def decimals_apart(args: Args) -> Expr | None:
    kinds = {t.kind for _, t in args}
    if "decimal" in kinds and all(t.is_integer or t.kind == "decimal" for _, t in args):
        return Call("div$decimal", tuple(a for a, _ in args))
    return None


def java_remainder(x: Any, y: Any) -> Any:
    """The remainder with the sign of x."""
    if isinstance(y, Decimal):
        return EXACT.remainder(x, y)
    if isinstance(y, float):
        return math.nan if math.isinf(x) or math.isnan(x) or math.isnan(y) else math.fmod(x, y)
    rest = abs(x) % abs(y)
    return -rest if x < 0 else rest


def mod_row(signature: Signature, x: Any, y: Any) -> Any:
    if y == 0:
        return None
    rest = java_remainder(x, y)
    return fit_decimal(rest, signature.result) if isinstance(rest, Decimal) else rest


def java_sum(x: Any, y: Any, type_: Type) -> Any:
    """As Java adds: integers wrap around in 32 bits, or in 64 for a long, and floats are rounded to 32 bits."""
    if isinstance(x, Decimal):
        return EXACT.add(x, y)
    if isinstance(x, float):
        return float(np.float32(x + y)) if type_ == FLOAT else x + y
    low, high = BOUNDS["bigint" if type_ == BIGINT else "int"]
    return (x + y - low) % (high - low + 1) + low


def pmod_row(signature: Signature, x: Any, y: Any) -> Any:
    """Spark adds the divisor to a negative remainder in the type's own arithmetic, and so does this."""
    if y == 0:
        return None
    rest = java_remainder(x, y)
    if rest < 0:
        rest = java_remainder(java_sum(rest, y, signature.result), y)
    return fit_decimal(rest, signature.result) if isinstance(rest, Decimal) else rest


def mod_vector(signature: Signature, x: Array, y: Array) -> Any:
    fits = y != 0
    return np.fmod(x, np.where(fits, y, np.ones(1, y.dtype))), fits


def pmod_vector(signature: Signature, x: Array, y: Array) -> Any:
    fits = y != 0
    if x.dtype.kind == "i" and x.dtype.itemsize < 4:
        x, y = x.astype(np.int32), y.astype(np.int32)
    safe = np.where(fits, y, np.ones(1, y.dtype))
    rest = np.fmod(x, safe)
    return np.where(rest < 0, np.fmod(rest + safe, safe), rest), fits


def division(name: str, row: Any, vector: Any, text: Any, **other: Any) -> Function:
    return Function(
        name=name, least=2, most=2, row=row, vector=vector, text=text, fallible=True,
        **{"coerce": two_numbers(name), "result": two_numbers_result(name), **other},
    )  # fmt: skip


register(
    division(
        "divide",
        divide_row,
        lambda s, x, y: (x / y, y != 0),
        "try_divide({0}, {1})",
        aliases=("try_divide",),
        decimals=quotient,
    ),
    division("div", div_row, div_vector, div_text, result=gives(BIGINT), rewrite=decimals_apart),
    division("div$decimal", div_row, None, decimal_div_text, result=gives(BIGINT)),
    division("mod", mod_row, mod_vector, "try_mod({0}, {1})", aliases=("try_mod",)),
    division("pmod", pmod_row, pmod_vector, "pmod({0}, {1})"),
)
