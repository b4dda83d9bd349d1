"""count(*) and count(x)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mullion.aggregates.base import DISTRIBUTIVE, Aggregate, Partial
from mullion.aggregates.integer_states import WholeNumbers, always
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, BOOLEAN, Type


@dataclass(frozen=True)
class Count(WholeNumbers):
    """How many values are not NULL."""

    kind = "count"

    @property
    def stored(self) -> tuple[Type, ...]:
        return (BIGINT,)

    def spark(self, text: str) -> tuple[str, ...]:
        return (f"count({text})",)

    def lift(self, events: Vector) -> tuple[Vector, ...]:
        return (always(events.valid.astype(np.int64), BIGINT),)


class CountAggregate(Aggregate):
    name = "count"
    algebra = DISTRIBUTIVE
    casts_text = False

    def result(self, argument: Type | None) -> Type:
        return BIGINT

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        return (Count(argument or BOOLEAN),)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        return states[0][0]
