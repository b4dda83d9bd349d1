"""approx_frequency(x, value [, error]): about how often a value came."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mullion.aggregates.base import Aggregate, Partial
from mullion.aggregates.count_sketch import ROWS, CountSketches, deviations
from mullion.aggregates.integer_states import always
from mullion.aggregates.keys import stable_codes
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, Type
from mullion.plural import plural

USUAL = 1024
"""Counters in a row unless told: an error of a tenth."""
LEAST_WIDTH, MOST_WIDTH = 16, 1 << 17
SURE = 0.99
"""The probability with which an answer errs by no more than is stated."""


@dataclass(frozen=True)
class ApproxFrequency(Aggregate):
    """The second argument is the value. The optional third one is the error: with a probability of 99 % the answer is
    off by at most so many times the root of the sum of the squared counts of the other values, 0.1 unless told.

    Whatever values queries ask for, they share one sketch.
    """

    name = "approx_frequency"
    casts_text = False
    is_exact = False
    asks_for_value = True
    value: Any = None
    width: int = USUAL

    def with_parameters(self, parameters: tuple[Any, ...]) -> Aggregate:
        if len(parameters) not in (1, 2):
            wanted = "an argument, a value and, if wanted, an error"
            raise TypeError(f"takes {wanted}, not {plural(1 + len(parameters), 'argument')}")
        width = USUAL if len(parameters) == 1 else width_for(parameters[1])
        return replace(self, value=parameters[0], width=width)

    def _partial(self, argument: Type | None) -> CountSketches:
        if argument is None:
            raise TypeError("needs an argument")
        return CountSketches(argument, self.width)

    def result(self, argument: Type | None) -> Type:
        self._partial(argument)
        return BIGINT

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        return (self._partial(argument),)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        partial = self._partial(argument)
        sketches = partial.opened(states[0][0])
        (code,) = stable_codes(Vector.of(partial.argument, [self.value])).tolist()
        estimates = (partial.estimate(sketch, code) for sketch in sketches)
        return always(np.fromiter(estimates, np.int64, len(sketches)), BIGINT)


def width_for(error: Any) -> int:
    """The fewest counters in a row with which an answer errs by no more.

    >>> width_for(0.1), width_for(0.01)
    (962, 96101)
    """
    try:
        wanted = float(error)
    except (TypeError, ValueError):
        wanted = math.nan
    if isinstance(error, bool | str) or not 0 < wanted < 1:
        raise TypeError(f"needs an error between 0 and 1, not {error}")
    width = math.ceil((deviations(ROWS, SURE) / wanted) ** 2) + 1
    if width > MOST_WIDTH:
        raise TypeError(f"has an error of {deviations(ROWS, SURE) / math.sqrt(MOST_WIDTH):.2g} at best, not {error}")
    return max(width, LEAST_WIDTH)
