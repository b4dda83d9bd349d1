"""Days and dates of the proleptic Gregorian calendar, over Spark's whole range of years.

Python's datetime ends at the years 1 and 9999. These are plain integer formulas (Hinnant, chrono-compatible low-level
date algorithms), so they work alike on Python integers and on int64 arrays.
"""

from __future__ import annotations

from typing import Any

DAY = 86_400_000_000
EPOCH = 719_468


def civil(days: Any) -> tuple[Any, Any, Any]:
    """Year, month and day of a day number.

    >>> civil(0), civil(-1)
    ((1970, 1, 1), (1969, 12, 31))
    """
    shifted = days + EPOCH
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 - 12 * (month_from_march >= 10)
    return year_of_era + era * 400 + (month <= 2), month, day


def day_number(year: Any, month: Any, day: Any) -> Any:
    """The inverse of `civil`.

    >>> day_number(2000, 3, 1)
    11017
    """
    early = month <= 2
    year = year - early
    era = year // 400
    year_of_era = year - era * 400
    of_year = (153 * (month - 3 + 12 * early) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year - EPOCH


def month_length(year: Any, month: Any) -> Any:
    next_year = year + (month == 12)
    return day_number(next_year, month % 12 + 1, 1) - day_number(year, month, 1)


def weekday(days: Any) -> Any:
    """Monday is 0."""
    return (days + 3) % 7


def iso_week(days: Any) -> tuple[Any, Any]:
    """ISO 8601 year and week: the week belongs to the year of its Thursday."""
    thursday = days - weekday(days) + 3
    year = civil(thursday)[0]
    return year, (thursday - day_number(year, 1, 1)) // 7 + 1


def truncate_days(unit: str, days: Any) -> Any:
    """The first day of the day's week, month, quarter or year."""
    if unit == "week":
        return days - weekday(days)
    year, month, _ = civil(days)
    if unit == "year":
        return day_number(year, month * 0 + 1, 1)
    if unit == "quarter":
        month = (month - 1) // 3 * 3 + 1
    return day_number(year, month, 1)


def add_months(days: int, months: int) -> int:
    """The same day of another month, or its last day when it has no such day."""
    year, month, day = civil(days)
    total = year * 12 + month - 1 + months
    year, month = total // 12, total % 12 + 1
    return int(day_number(year, month, min(day, month_length(year, month))))
