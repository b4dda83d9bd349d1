"""Functions on dates and timestamps, in UTC, over Spark's whole range of years."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from mullion.errors import CheckError, closest
from mullion.expressions.arrays import Array
from mullion.expressions.functions.base import Args, Coerce, Function, Plain, Signature, gives, register, spelling
from mullion.expressions.functions.calendar import (
    DAY,
    add_months,
    civil,
    day_number,
    iso_week,
    month_length,
    truncate_days,
    weekday,
)
from mullion.expressions.functions.coercion import exactly, integers, takes
from mullion.expressions.functions.numbers import fit_integer
from mullion.language.query import Call, Cast, Expr, Literal
from mullion.language.types import BIGINT, DATE, INT, NAMES, NULL, STRING, TIMESTAMP, Type

SECOND = 1_000_000
DATE_UNITS = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month", "mm": "month", "mon": "month",
    "week": "week",
}  # fmt: skip
CLOCK_UNITS = {
    "day": DAY, "dd": DAY, "hour": 3600 * SECOND, "minute": 60 * SECOND, "second": SECOND, "millisecond": 1000,
    "microsecond": 1,
}  # fmt: skip


def part(
    name: str, of: Type, meaning: Callable[[Any], Any], aliases: tuple[str, ...] = (), text: Any = None
) -> Function:
    """A field of a date or time: the formula is the same for one value and for an array."""
    return Function(
        name=name,
        aliases=aliases,
        least=1,
        most=1,
        coerce=takes(of),
        result=gives(INT),
        row=Plain(lambda x: int(meaning(x))),
        vector=Plain(lambda x: meaning(x.astype(np.int64))),
        text=text,
    )


def counted(
    name: str, coerce: Coerce, result: Type, meaning: Callable[[Any], Any], text: str | None = None
) -> Function:
    """A time as a number, or a number as a time, where every value has one."""
    return Function(
        name=name, least=1, most=1, coerce=coerce, result=gives(result), row=Plain(meaning),
        vector=Plain(lambda x: meaning(x.astype(np.int64))), text=text,
    )  # fmt: skip


def unit_of(args: Args, at: int, known: Sequence[str]) -> str:
    expr = args[at][0]
    while isinstance(expr, Cast):
        expr = expr.arg
    if not isinstance(expr, Literal) or not isinstance(expr.value, str):
        raise CheckError("the unit must be a constant, such as 'month'", args[at][0].place)
    if expr.value.lower() not in known:
        hint = closest(expr.value, known) or f"units are {', '.join(known)}"
        raise CheckError(f"unknown unit '{expr.value}'", args[at][0].place, hint=hint)
    return expr.value.lower()


def trunc_types(args: Args) -> Sequence[Type] | None:
    unit_of(args, 1, tuple(DATE_UNITS))
    return takes(DATE, STRING)(args)


def date_trunc_types(args: Args) -> Sequence[Type] | None:
    unit_of(args, 0, (*DATE_UNITS, *CLOCK_UNITS))
    return takes(STRING, TIMESTAMP)(args)


def truncate(unit: str, micros: Any) -> Any:
    unit = unit.lower()
    if unit in CLOCK_UNITS:
        return micros // CLOCK_UNITS[unit] * CLOCK_UNITS[unit]
    return truncate_days(DATE_UNITS[unit], micros // DAY) * DAY


def date_trunc_vector(signature: Signature, unit: Array, micros: Array) -> Any:
    """Only a value within a year of the lower end of all times can fall below it."""
    result = truncate(unit[0], micros) if len(unit) else micros
    return result, result <= micros


def trunc_vector(signature: Signature, days: Array, unit: Array) -> Any:
    return truncate_days(DATE_UNITS[unit[0].lower()], days.astype(np.int64)) if len(unit) else days


def fit_date(value: int) -> int | None:
    return fit_integer(value, DATE)


def make_date(year: int, month: int, day: int) -> int | None:
    if not (1 <= month <= 12 and 1 <= day <= month_length(year, month)):
        return None
    return fit_date(int(day_number(year, month, day)))


def moved(signature: Signature, days: Array, by: Array, sign: int) -> Any:
    result = days.astype(np.int64) + sign * by.astype(np.int64)
    return result, (result >= -(1 << 31)) & (result < 1 << 31)


def moving(name: str, sign: int, operator: str, aliases: tuple[str, ...] = ()) -> Function:
    def coerce(args: Args) -> Sequence[Type] | None:
        by = args[1][1]
        ok = by == NULL or (by.is_integer and by != BIGINT)
        return takes(DATE, INT)(args) if ok else None

    return Function(
        name=name,
        aliases=aliases,
        least=2,
        most=2,
        coerce=coerce,
        result=gives(DATE),
        text=f"date_from_unix_date(try_{operator}(unix_date({{0}}), {{1}}))",
        row=Plain(lambda days, by: fit_date(days + sign * by)),
        vector=lambda s, days, by: moved(s, days, by, sign),
        fallible=True,
    )


def from_number(scale: int) -> Callable[[Args], Expr | None]:
    """Through a checked product, where Spark's own function would fail on a number that is too large."""

    def rewrite(args: Args) -> Expr | None:
        x, type_ = args[0]
        if type_.is_integer:
            return Call("timestamp_micros", (Call("multiply", (Cast(x, BIGINT), Literal(scale, BIGINT))),))
        if type_.is_numeric and scale == SECOND:
            return Cast(x, TIMESTAMP)
        return None

    return rewrite


def truncated_seconds(micros: Any) -> Any:
    """Towards the epoch, unlike unix_seconds: Spark has both."""
    seconds = micros // SECOND
    return seconds + ((micros < 0) & (micros % SECOND != 0))


def cast_call(type_: Type) -> Callable[[Args], Expr]:
    return lambda args: Cast(args[0][0], type_)


PARTS: dict[str, str] = {
    alias: function
    for function, aliases in {
        "year": "year y years yr yrs", "quarter": "quarter qtr", "month": "month mon mons months",
        "weekofyear": "week w weeks", "day": "day d days", "dayofweek": "dayofweek dow", "dayofyear": "doy",
        "hour": "hour h hours hr hrs", "minute": "minute m min mins minutes", "yearofweek$": "yearofweek",
        "isodow$": "dayofweek_iso dow_iso", "second$": "second s sec seconds secs",
    }.items()
    for alias in aliases.split()
}  # fmt: skip


def extract(args: Args) -> Expr:
    return Call(PARTS[unit_of(args, 0, tuple(PARTS))], (args[1][0],))


def second_with_fraction(micros: int) -> Any:
    return Decimal(micros % (60 * SECOND)).scaleb(-6)


register(
    part("year", DATE, lambda d: civil(d)[0]),
    part("quarter", DATE, lambda d: (civil(d)[1] - 1) // 3 + 1),
    part("month", DATE, lambda d: civil(d)[1]),
    part("day", DATE, lambda d: civil(d)[2], ("dayofmonth",)),
    part("dayofweek", DATE, lambda d: (weekday(d) + 1) % 7 + 1),
    part("weekday", DATE, weekday),
    part("dayofyear", DATE, lambda d: d - day_number(civil(d)[0], 1, 1) + 1),
    part("weekofyear", DATE, lambda d: iso_week(d)[1]),
    part("yearofweek$", DATE, lambda d: iso_week(d)[0], text="extract(YEAROFWEEK FROM {0})"),
    part("isodow$", DATE, lambda d: weekday(d) + 1, text="extract(DOW_ISO FROM {0})"),
    part("hour", TIMESTAMP, lambda t: t // (3600 * SECOND) % 24),
    part("minute", TIMESTAMP, lambda t: t // (60 * SECOND) % 60),
    part("second", TIMESTAMP, lambda t: t // SECOND % 60),
    Function(
        name="second$", least=1, most=1, coerce=takes(TIMESTAMP), result=gives(Type("decimal", 8, 6)),
        text="extract(SECOND FROM {0})", row=Plain(second_with_fraction),
    ),
    spelling("date_part", 2, 2, extract, ("extract", "datepart")),
    Function(
        name="date_trunc", least=2, most=2, coerce=date_trunc_types, result=gives(TIMESTAMP), fallible=True,
        text="try_add(date_trunc({0}, {1}), INTERVAL '0' SECOND)", strings=True, vector=date_trunc_vector,
        row=Plain(lambda unit, micros: fit_integer(truncate(unit, micros), TIMESTAMP)),
    ),
    Function(
        name="trunc", least=2, most=2, coerce=trunc_types, result=gives(DATE), strings=True, vector=trunc_vector,
        row=Plain(lambda days, unit: truncate_days(DATE_UNITS[unit.lower()], days)),
    ),
    counted("unix_seconds", exactly(TIMESTAMP), BIGINT, lambda t: t // SECOND),
    counted("unix_millis", exactly(TIMESTAMP), BIGINT, lambda t: t // 1000),
    counted("unix_micros", exactly(TIMESTAMP), BIGINT, lambda t: t),
    counted("unix_date", exactly(DATE), INT, lambda d: d),
    counted("date_from_unix_date", takes(INT), DATE, lambda d: d),
    counted("timestamp_micros", integers(BIGINT), TIMESTAMP, lambda t: t),
    spelling("timestamp_seconds", 1, 1, from_number(SECOND)),
    spelling("timestamp_millis", 1, 1, from_number(1000)),
    counted("unix_timestamp$", takes(TIMESTAMP), BIGINT, truncated_seconds, text="unix_timestamp({0})"),
    *(
        spelling(name, 1, 1, cast_call(NAMES[name]))
        for name in (
            "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "binary", "date",
            "timestamp",
        )
    ),
    moving("date_add", 1, "add", ("dateadd",)),
    moving("date_sub", -1, "subtract"),
    Function(
        name="datediff", aliases=("date_diff",), least=2, most=2, coerce=takes(DATE), result=gives(INT), fallible=True,
        text="try_subtract(unix_date({0}), unix_date({1}))", row=Plain(lambda a, b: fit_integer(a - b, INT)),
        vector=lambda s, a, b: moved(s, a, b, -1),
    ),
    Function(
        name="add_months", least=2, most=2, coerce=takes(DATE, INT), result=gives(DATE), fallible=True,
        text="try_add({0}, make_ym_interval(0, {1}))", row=Plain(lambda d, n: fit_date(add_months(d, n))),
    ),
    Function(
        name="last_day", least=1, most=1, coerce=takes(DATE), result=gives(DATE),
        row=Plain(lambda d: fit_date(d + month_length(*civil(d)[:2]) - civil(d)[2])),
    ),
    Function(
        name="make_date", least=3, most=3, coerce=takes(INT), result=gives(DATE), row=Plain(make_date), fallible=True
    ),
)  # fmt: skip
