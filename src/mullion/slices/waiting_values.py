"""The values of events that wait for their place, as questions to a synopsis take them in."""

from __future__ import annotations

from math import fsum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mullion.aggregates.extremes import float_order
from mullion.expressions.arrays import Mask, Real, Times
from mullion.expressions.vector import Vector
from mullion.language.types import Type
from mullion.lazy import cached_property
from mullion.slices.order import times_of


class Tail(NamedTuple):
    """What some values come to: how many, the least and the largest of them, and numbers that add up to their sum
    exactly; None where it is beyond all doubles."""

    number: int
    least: float | None
    largest: float | None
    parts: tuple[float, ...] | None


class WaitingValues:
    """One column of the events that wait, in the order that they have so far.

    >>> events = pa.table({"#t": [5, 3], "x": [1.5, 2.5]})
    >>> waiting = WaitingValues(events, "x", Type("double"))
    >>> waiting.values.tolist(), waiting.tail(1)
    ([2.5, 1.5], Tail(number=1, least=1.5, largest=1.5, parts=(1.5,)))
    """

    def __init__(self, events: pa.Table | None, column: str, type_: Type) -> None:
        self.times: Times = np.empty(0, np.int64)
        self.values: Real = np.empty(0)
        self.known: Mask = np.empty(0, np.bool_)
        if events is not None and len(events):
            times = times_of(events)
            order = np.argsort(times, kind="stable")
            self.times = times[order]
            self.values, self.known = np.zeros(len(times)), np.zeros(len(times), np.bool_)
            if column in events.schema.names:  # Events that came before any synopsis on the column lack it.
                vector = Vector.from_arrow(events.column(column), type_)
                self.values, self.known = vector.to_doubles()[order], vector.valid[order]

    def __len__(self) -> int:
        return len(self.times)

    def tail(self, rows: int) -> Tail:
        """Of the last so many that wait, or of all."""
        return self._all if rows >= len(self) else self._of(rows)

    @cached_property
    def _all(self) -> Tail:
        return self._of(len(self))

    def _of(self, rows: int) -> Tail:
        first = len(self) - rows
        own = self.values[first:][self.known[first:]]
        if not len(own):
            return Tail(0, None, None, ())
        order = float_order(own)
        values = own.tolist()
        return Tail(len(values), values[order.argmin()], values[order.argmax()], _exactly(values))


def _exactly(values: list[float]) -> tuple[float, ...] | None:
    """Few numbers with the same sum; the first is the nearest double, each of the others what is left."""
    parts: list[float] = []
    if not np.isfinite(values).all():
        return (float(np.sum(values)),)
    try:
        while rest := fsum([*values, *(-part for part in parts)]):
            parts.append(rest)
    except OverflowError:
        return None
    return tuple(parts)
