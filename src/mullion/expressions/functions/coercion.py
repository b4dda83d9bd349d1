"""Spark's implicit conversions with ANSI off: which common type values of different types meet in."""

from __future__ import annotations

from collections.abc import Sequence

from mullion.expressions.functions.base import Args, Coerce
from mullion.language.query import Expr, Literal
from mullion.language.types import BOOLEAN, DATE, DOUBLE, NULL, STRING, TIMESTAMP, TIMESTAMP_NTZ, Type, decimal

PRECEDENCE = ("tinyint", "smallint", "int", "bigint", "float", "double")
DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
MAX_PRECISION = 38
TIMES = ("date", "timestamp_ntz", "timestamp")


def as_decimal(type_: Type) -> Type:
    """The decimal that holds every value of an integer type."""
    return type_ if type_.kind == "decimal" else decimal(DIGITS[type_.kind], 0)


def literal_decimal(expr: Expr, type_: Type) -> Type:
    """Next to a decimal, an integer constant counts with the digits that it has, unless a CAST made it."""
    if isinstance(expr, Literal) and expr.value is not None and type_.is_integer and not expr.cast:
        return decimal(len(str(abs(expr.value))), 0)
    return as_decimal(type_)


def wider_decimal(a: Type, b: Type) -> Type:
    """Holds both; when 38 digits are too few, digits after the point are given up."""
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    return decimal(min(whole + scale, MAX_PRECISION), max(0, min(scale, MAX_PRECISION - whole)))


def numeric(a: Type, b: Type) -> Type:
    """The type that two numbers meet in."""
    if a.kind == "decimal" or b.kind == "decimal":
        if a.is_fractional or b.is_fractional:
            return DOUBLE
        return wider_decimal(as_decimal(a), as_decimal(b))
    return a if PRECEDENCE.index(a.kind) >= PRECEDENCE.index(b.kind) else b


def tightest(a: Type, b: Type) -> Type | None:
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    if a.is_numeric and b.is_numeric:
        return numeric(a, b)
    if a.kind in TIMES and b.kind in TIMES:
        return a if TIMES.index(a.kind) > TIMES.index(b.kind) else b
    return None


def wider(a: Type, b: Type) -> Type | None:
    """As `tightest`, and a string beside anything but a truth value or bytes makes a string."""
    common_type = tightest(a, b)
    if common_type is None and STRING in (a, b):
        other = b if a == STRING else a
        return None if other.kind in ("boolean", "binary") else STRING
    return common_type


def common(types: Sequence[Type], *, strings: bool = True) -> Type | None:
    """The type that the branches of CASE, COALESCE and IN meet in; without `strings`, of GREATEST and LEAST."""
    meet = wider if strings else tightest
    met: Type | None = NULL
    for type_ in sorted(types, key=lambda t: t != STRING):
        met = meet(met, type_) if met is not None else None
    return met


def comparison(a: Type, b: Type, *, equality: bool) -> Type | None:
    common_type = tightest(a, b)
    if common_type is not None:
        return common_type
    if STRING in (a, b):
        other = b if a == STRING else a
        if other.kind == "decimal" and other.scale:
            return DOUBLE
        return other if other.is_numeric or other.kind in (*TIMES, "boolean") else None
    if equality and BOOLEAN in (a, b):
        other = b if a == BOOLEAN else a
        return other if other.is_numeric else None
    return None


def implicit(type_: Type, wanted: Type) -> Type | None:
    """What an argument is cast to where a function wants another type, or None."""
    if type_ in (wanted, NULL):
        return wanted
    if wanted == STRING:
        return None if type_.kind == "binary" else STRING
    if wanted.is_numeric:
        return wanted if type_.is_numeric or type_ == STRING else None
    if wanted in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return wanted if type_.kind in TIMES or type_ == STRING else None
    return None


def takes(*wanted: Type) -> Coerce:
    """Arguments of these types; further arguments are of the last one."""

    def coerce(args: Args) -> Sequence[Type] | None:
        types = [implicit(t, wanted[min(i, len(wanted) - 1)]) for i, (_, t) in enumerate(args)]
        return None if None in types else [t for t in types if t is not None]

    return coerce


def exactly(type_: Type) -> Coerce:
    """Only this type: some functions convert nothing."""
    return lambda args: [type_] * len(args) if all(t in (type_, NULL) for _, t in args) else None


def integers(type_: Type) -> Coerce:
    return lambda args: [type_] * len(args) if all(t.is_integer or t == NULL for _, t in args) else None


def all_common(*, strings: bool) -> Coerce:
    def coerce(args: Args) -> Sequence[Type] | None:
        common_type = common([t for _, t in args], strings=strings)
        return None if common_type is None else [common_type] * len(args)

    return coerce


def as_it_is(args: Args) -> Sequence[Type]:
    return [t for _, t in args]
