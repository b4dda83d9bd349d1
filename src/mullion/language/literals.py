"""Constants: numbers, dates, timestamps and durations from their text, with Spark's types."""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

from mullion.errors import NotSupported, ParseError, Place, closest
from mullion.language import types
from mullion.language.dialect import DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, MONTH_UNITS, SECOND, UNITS
from mullion.language.query import Literal

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_MICROSECONDS = 2**63 - 1
MAX_PRECISION = 38

_SUFFIX = re.compile(r"(?i)(bd|[lsydf])?$")
_INTEGERS = {"y": (types.TINYINT, 7), "s": (types.SMALLINT, 15), "l": (types.BIGINT, 63)}
_PART = re.compile(r"\s*([+-]?)\s*(\d+\.?\d*|\.\d+)\s*([A-Za-z_]+)", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?\s*(\S+)?", re.ASCII
)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)


def number(text: str, place: Place) -> Literal:
    """A number, perhaps with a sign and one of Spark's suffixes."""
    suffix = (_SUFFIX.search(text) or [""])[0].lower()
    digits = text[: len(text) - len(suffix)]
    exponent = "e" in digits.lower()
    if suffix in ("d", "f") or (exponent and not suffix):
        return _floating(digits, single=suffix == "f", place=place)
    whole = "." not in digits and not exponent
    if suffix in _INTEGERS:
        type_, bits = _INTEGERS[suffix]
        value = int(digits) if whole and len(digits) < 25 else None
        if value is None or not -(2**bits) <= value < 2**bits:
            raise ParseError(f"{text} is not a whole number that fits {type_}", place)
        return Literal(value, type_, place=place)
    if whole and not suffix and len(digits) < 25:
        value = int(digits)
        for type_, bits in ((types.INT, 31), (types.BIGINT, 63)):
            if -(2**bits) <= value < 2**bits:
                return Literal(value, type_, place=place)
    return _decimal(digits, place)


def _floating(digits: str, *, single: bool, place: Place) -> Literal:
    value = float(digits)
    try:
        if single:
            value = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        value = math.inf
    if math.isinf(value):
        raise ParseError(f"{digits} is out of range", place)
    return Literal(value, types.FLOAT if single else types.DOUBLE, place=place)


def _decimal(digits: str, place: Place) -> Literal:
    value = Decimal(digits) if len(digits) <= 100 else None
    if value is not None and -MAX_PRECISION <= value.adjusted() <= MAX_PRECISION:
        _, figures, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        if exponent > 0:
            figures, exponent = figures + (0,) * exponent, 0
            value = Decimal(int(value))
        scale = -exponent
        precision = max(len(figures), scale, 1)
        if precision <= MAX_PRECISION:
            return Literal(value, types.decimal(precision, scale), place=place)
    raise ParseError(f"a decimal has at most {MAX_PRECISION} digits", place)


def days(text: str, place: Place) -> int:
    """Days since the epoch of a date such as 2024-02-29."""
    match = _DATE.fullmatch(text.strip())
    try:
        if match:
            return (date(*map(int, match.groups())) - date(1970, 1, 1)).days
    except ValueError:
        pass
    raise ParseError(f"'{text}' is not a date, expected YYYY-MM-DD", place)


def parsed_instant(text: str, place: Place, *, zoned: bool = True) -> int:
    """Microseconds since the epoch of a timestamp; UTC when no zone is written."""
    match = _TIMESTAMP.fullmatch(text.strip())
    try:
        if match and (zoned or not match[8]):
            year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
            fraction = int((match[7] or "").ljust(6, "0")[:6])
            moment = datetime(year, month, day, hour, minute, second, fraction, tzinfo=_zone(match[8]))
            return (moment - EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError, OSError):
        pass
    zone = " [zone]" if zoned else ""
    raise ParseError(f"'{text}' is not a timestamp, expected YYYY-MM-DD [HH:MM[:SS[.ffffff]]]{zone}", place)


def _zone(text: str | None) -> tzinfo:
    if text is None or text.upper() in ("Z", "UTC", "GMT"):
        return UTC
    if match := _OFFSET.fullmatch(text):
        shift = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if shift > timedelta(hours=18):
            raise ValueError(text)
        return timezone(-shift if match[1] == "-" else shift)
    if not re.fullmatch(r"[A-Za-z]\w*(?:/[\w+-]+)*", text, re.ASCII):
        raise ValueError(text)
    try:
        return ZoneInfo(text)
    except KeyError as error:
        raise ValueError(text) from error


def duration(text: str, place: Place | None = None) -> int:
    """Microseconds of a duration such as `12 min`, `1 h 30 min` or `1.5 s`, exactly.

    >>> duration("1 h 30 min") // 60_000_000
    90
    """
    where = place or Place(text, 0, len(text))
    total: int | Fraction = 0
    at = 0
    if not text.strip() or len(text) > 1000:
        raise ParseError("expected a duration such as '5 min'", where)
    while text[at:].strip():
        match = _PART.match(text, at)
        if not match:
            raise ParseError(f"'{text.strip()}' is not a duration, expected a number and a unit as in '5 min'", where)
        amount = (int(match[2]) if match[2].isdecimal() else Fraction(match[2])) * unit(match[3], where)
        total += -amount if match[1] == "-" else amount
        at = match.end()
    return exact(total, where)


def unit(name: str, place: Place) -> int:
    """Microseconds of a unit."""
    if name.lower() in MONTH_UNITS:
        raise NotSupported(f"a duration in {name.lower()}", place, hint="months differ in length: write days")
    if name.lower() not in UNITS:
        raise ParseError(f"unknown unit '{name}'", place, hint=closest(name, UNITS) or "units: us, ms, s, min, h, d")
    return UNITS[name.lower()]


def exact(total: int | Fraction, place: Place) -> int:
    if total.denominator != 1:
        raise ParseError("a duration must be a whole number of microseconds", place)
    if not -MAX_MICROSECONDS - 1 <= total <= MAX_MICROSECONDS:
        raise ParseError("the duration is too long", place)
    return int(total)


def largest_unit(microseconds: int) -> tuple[int, str, str]:
    """The amount, short name and SQL name of the largest unit that tells the duration exactly."""
    for size, short, long in (
        (DAY, "d", "DAY"),
        (HOUR, "h", "HOUR"),
        (MINUTE, "min", "MINUTE"),
        (SECOND, "s", "SECOND"),
        (MILLISECOND, "ms", "MILLISECOND"),
    ):
        if microseconds and microseconds % size == 0:
            return microseconds // size, short, long
    return microseconds // MICROSECOND, ("us" if microseconds else "s"), ("MICROSECOND" if microseconds else "SECOND")
