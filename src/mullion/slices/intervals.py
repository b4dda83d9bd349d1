"""Arithmetic of bounds: from bounds of two numbers to bounds of what is computed of them.

Whatever number lies in the first interval and whatever in the second, the result lies in the interval that comes out,
computed exactly or in doubles. NaN is larger than any number: an interval up to NaN holds all that is
above its start.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf, isfinite, isnan, nan, nextafter
from typing import Any

NumberInterval = tuple[Any, Any]
"""Low and high; both None for NULL."""

NULL: NumberInterval = (None, None)
ANYTHING: NumberInterval = (-inf, nan)


def of_number(value: Any) -> NumberInterval:
    """A number as it was written; a double may be a little off it.

    >>> of_number(3), of_number(0.5)
    ((3.0, 3.0), (0.5, 0.5))
    """
    exact = Fraction(value)
    return _down(exact), _up(exact)


def negative(a: NumberInterval) -> NumberInterval:
    """
    >>> negative((1.0, 2.0))
    (-2.0, -1.0)
    """
    if a[0] is None or not isnan(a[1]):
        return NULL if a[0] is None else (-a[1], -a[0])
    return (nan, nan) if isnan(a[0]) else ANYTHING


def add(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    return _combined(a, b, lambda x, y: x + y)


def subtract(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """
    >>> subtract((8.0, 10.0), (1.0, 3.0))
    (5.0, 9.0)
    """
    return _combined(a, b, lambda x, y: x - y)


def multiply(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """
    >>> multiply((-1.0, 2.0), (3.0, 5.0))
    (-5.0, 10.0)
    """
    return _combined(a, b, lambda x, y: x * y)


def divide(a: NumberInterval, b: NumberInterval) -> NumberInterval:
    """By zero it is NULL, and where the divisor may be zero it may be anything.

    >>> divide((1.0, 2.0), (4.0, 4.0)), divide((1.0, 2.0), (-1.0, 4.0)), divide((1.0, 2.0), (0, 0))
    ((0.25, 0.5), (-inf, nan), (None, None))
    """
    if b[0] is not None and b[0] <= 0 <= b[1]:
        return NULL if b[0] == b[1] or a[0] is None else ANYTHING
    return _combined(a, b, lambda x, y: x / y)


OPERATIONS: dict[str, Callable[[NumberInterval, NumberInterval], NumberInterval]] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
}


def _combined(a: NumberInterval, b: NumberInterval, operation: Callable[[Any, Any], Any]) -> NumberInterval:
    if a[0] is None or b[0] is None:
        return NULL
    lows, highs = zip(*(_at(x, y, operation) for x in a for y in b), strict=True)
    if any(map(isnan, lows)):
        return (nan, nan) if all(map(isnan, lows)) else ANYTHING
    return min(lows), max(highs)


def _at(x: float, y: float, operation: Callable[[Any, Any], Any]) -> NumberInterval:
    """The doubles around the result for two numbers."""
    if not (isfinite(x) and isfinite(y)):
        return (operation(float(x), float(y)),) * 2
    exact = operation(Fraction(x), Fraction(y))
    return _down(exact), _up(exact)


def _down(exact: Fraction) -> float:
    try:
        near = float(exact)
    except OverflowError:
        return nextafter(inf, 0.0) if exact > 0 else -inf
    return nextafter(near, -inf) if Fraction(near) > exact else near


def _up(exact: Fraction) -> float:
    return -_down(-exact)
