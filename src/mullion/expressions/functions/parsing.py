"""From strings to values, as Spark reads them; None for a string that cannot be read."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from mullion.expressions.functions.calendar import DAY, day_number, month_length
from mullion.expressions.functions.numbers import EXACT, fit_decimal, fit_integer
from mullion.language.types import Type

SPACE = "".join(map(chr, range(33))) + "\x7f"
"""Spark trims spaces and control characters before it reads."""

INTEGER = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?", re.ASCII)
DOUBLE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?[fd]?", re.ASCII | re.IGNORECASE)
DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
TIMESTAMP = re.compile(
    r"([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(.*))?)?)?)?)?",
    re.ASCII,
)
OFFSETS = tuple(
    re.compile(rf"(?:UTC|GMT|UT)?([+-]){digits}()()", re.ASCII)
    for digits in (
        r"(\d{1,2})",
        r"(\d{1,2}):(\d{1,2})",
        r"(\d\d)(\d\d)",
        r"(\d\d)(\d\d)(\d\d)",
        r"(\d{1,2}):(\d\d):(\d\d)",
    )
)
"""With two empty groups at the end, for minutes and seconds that are not written."""
SHORT_ZONES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""What Java takes them for."""
zones = cache(available_timezones)
TRUE = frozenset(("t", "true", "y", "yes", "1"))
FALSE = frozenset(("f", "false", "n", "no", "0"))
NAMED = {"inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}


def parse_boolean(text: str) -> bool | None:
    word = text.strip(SPACE).lower()
    return True if word in TRUE else False if word in FALSE else None


def parse_integer(text: str, type_: Type) -> int | None:
    """Digits after the point are dropped; an exponent is not read.

    >>> from mullion.language.types import INT
    >>> parse_integer(" 1.9 ", INT), parse_integer("1e3", INT)
    (1, None)
    """
    match = INTEGER.fullmatch(text.strip(SPACE))
    if match is None or not (match[2] or match[3] is not None):
        return None
    return fit_integer(int(match[1] + (match[2] or "0")), type_)


def parse_double(text: str) -> float | None:
    word = text.strip(SPACE)
    if DOUBLE.fullmatch(word):
        return float(word.rstrip("fFdD"))
    word = word.lower()
    if word == "nan":
        return float("nan")
    return float(NAMED[word]) if word in NAMED else None


def parse_decimal(text: str, type_: Type) -> Decimal | None:
    word = text.strip(SPACE)
    if not DECIMAL.fullmatch(word):
        return None
    try:
        return fit_decimal(Decimal(word, EXACT), type_)
    except InvalidOperation:
        return None


def days_of(sign: str, year: str, month: str | None, day: str | None) -> int | None:
    numbers = int(sign + year), int(month or 1), int(day or 1)
    if not (1 <= numbers[1] <= 12 and 1 <= numbers[2] <= month_length(numbers[0], numbers[1])):
        return None
    return int(day_number(*numbers))


def parse_date(text: str) -> int | None:
    match = DATE.fullmatch(text.strip(SPACE))
    return None if match is None else days_of(*match.group(1, 2, 3, 4))


def parse_timestamp(text: str, *, zoned: bool = True) -> int | None:
    """Microseconds since the epoch. A time without a date is refused: its meaning would change from day to day."""
    match = TIMESTAMP.fullmatch(text.strip(SPACE))
    if match is None:
        return None
    days = days_of(*match.group(1, 2, 3, 4))
    hour, minute, second = (int(match[i] or 0) for i in (5, 6, 7))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int((match[8] or "")[:6].ljust(6, "0"))
    local = days * DAY + (hour * 3600 + minute * 60 + second) * 1_000_000 + fraction
    zone = (match[9] or "").strip()
    offset = zone_offset(zone, local) if zone else 0
    if offset is None:
        return None
    value = local - (offset if zoned else 0)
    return value if -(1 << 63) <= value < 1 << 63 else None


def zone_offset(zone: str, local: int) -> int | None:
    """Microseconds that the zone is ahead of UTC at a local time."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    zone = SHORT_ZONES.get(zone, zone)
    match = next((found for form in OFFSETS if (found := form.fullmatch(zone))), None)
    if match is not None:
        hours, minutes, seconds = (int(match[i] or 0) for i in (2, 3, 4))
        if hours > 18 or minutes > 59 or seconds > 59 or hours * 3600 + minutes * 60 + seconds > 18 * 3600:
            return None
        return (hours * 3600 + minutes * 60 + seconds) * (-1_000_000 if match[1] == "-" else 1_000_000)
    if zone not in zones():
        return None
    try:
        at = datetime(1970, 1, 1, tzinfo=ZoneInfo(zone)) + timedelta(microseconds=local)
        shift = at.utcoffset()
    except (ValueError, KeyError, OSError, OverflowError):
        return None
    return None if shift is None else round(shift.total_seconds() * 1_000_000)
