"""Values of any type as text and back, and how often each occurs in runs of events.

Sketches keep values of any type under one text each. Equal values have equal texts: -0.0 and 0.0 are one value, and so
are all NaNs, as Spark groups them.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from mullion.expressions.arrays import Array, Index, Whole
from mullion.expressions.coding.canonical import bits
from mullion.expressions.coding.dictionary import ordered_codes
from mullion.expressions.coding.hashes import keys_of
from mullion.expressions.vector import Vector
from mullion.language.types import Type


def text_of(type_: Type) -> Callable[[Any], str]:
    """What turns a Python value of the type into its text."""
    if type_.kind == "string":
        return str
    if type_.kind == "binary":
        return lambda value: bytes(value).decode("latin-1")
    if type_.kind == "boolean":
        return lambda value: "1" if value else "0"
    if type_.is_fractional:
        return lambda value: repr(value + 0.0)
    if type_.kind == "decimal":
        return lambda value: str(value if value else value.copy_abs())
    return str


def value_of(type_: Type) -> Callable[[str], Any]:
    """What turns a text back into the value."""
    if type_.kind == "string":
        return str
    if type_.kind == "binary":
        return lambda text: text.encode("latin-1")
    if type_.kind == "boolean":
        return lambda text: text == "1"
    if type_.is_fractional:
        return float
    return Decimal if type_.kind == "decimal" else int


def rank_of(value: Any) -> tuple[bool, Any]:
    """By what values are put in ascending order: NaN is the largest number."""
    return (True, 0.0) if value != value else (False, value)


def stable_codes(events: Vector) -> Whole:
    """Whole numbers that are equal where the values are, in every run of every process; of texts, bytes and long
    decimals a hash of 64 bits."""
    if events.coded is not None:
        codes, values = events.coded
        own = stable_codes(values)
        return own[np.where(events.valid, codes, 0)] if len(own) else np.zeros(len(events), np.int64)
    if events.values.dtype.kind in "OV":
        return keys_of([events.to_arrow()], len(events)).codes
    return bits(events.values)


class PresentValues(NamedTuple):
    """The values of runs of events without the NULLs: run i is values[bounds[i]] to values[bounds[i + 1]]."""

    values: Array
    bounds: list[int]

    @staticmethod
    def of(events: Vector, starts: Index) -> PresentValues:
        ends = [*starts.tolist(), len(events)]
        if events.valid.all():
            return PresentValues(events.values, ends)
        before = np.concatenate([[0], np.cumsum(events.valid)])
        return PresentValues(events.values[events.valid], before[ends].tolist())


class CountedValues(NamedTuple):
    """How often each value occurs in each run: `distinct[code]` in `run` so many `times`; by run, then value."""

    distinct: list[Any]
    run: Index
    code: Index
    times: Index

    @staticmethod
    def of(events: Vector, starts: Index) -> CountedValues:
        values, bounds = PresentValues.of(events, starts)
        code, decoded = ordered_codes(
            Vector(events.type, values, np.ones(len(values), np.bool_)).to_arrow(), events.type
        )
        distinct = decoded.to_list()
        run = np.repeat(np.arange(len(starts)), np.diff(bounds))
        pair, count = np.unique(run * max(1, len(distinct)) + code, return_counts=True)
        return CountedValues(distinct, *np.divmod(pair, max(1, len(distinct))), count)
