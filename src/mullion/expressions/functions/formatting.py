"""From values to strings, as Spark writes them."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from mullion.expressions.functions.calendar import DAY, civil


def format_double(value: float, *, single: bool = False) -> str:
    """Java's way: always a point, and an exponent from 10^7 up and below 10^-3.

    >>> format_double(1e7), format_double(0.5)
    ('1.0E7', '0.5')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return sign + "0.0"
    _, tuple_digits, exponent = Decimal(str(np.float32(value)) if single else repr(value)).as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, tuple_digits)).lstrip("0").rstrip("0")
    point = len("".join(map(str, tuple_digits)).lstrip("0")) + exponent
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def format_date(days: int) -> str:
    year, month, day = civil(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def format_timestamp(micros: int) -> str:
    days, rest = divmod(micros, DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{format_date(days)} {clock}{tail}"


def format_interval(micros: int) -> str:
    days, rest = divmod(abs(micros), DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"INTERVAL '{'-' if micros < 0 else ''}{days} {clock}{tail}' DAY TO SECOND"
