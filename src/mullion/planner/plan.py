"""The shared plan of a stream: everything that is computed for its queries, each thing once.

Plan
  windows, grid, way                 where the stream is cut, and how partials come about
  Grouping (one for each key set)
    keys                             what partials are grouped by
    predicates                       the bits of the signature
    states                           what is kept for every slice, fragment and group
    checks                           expressions whose bad values are counted
    queries                          who is answered from it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mullion.aggregates import REGISTRY, Invertible, Partial
from mullion.catalog.queries import BoundAggregate, Shape, StandingQuery
from mullion.catalog.streams import Stream
from mullion.language.query import Expr, Period
from mullion.language.render import render
from mullion.language.types import Type
from mullion.planner.slices import Grid

NO_GRID = Grid(1, 0)


@dataclass(frozen=True)
class StateColumn:
    """A partial over an expression, by a name that stays the same while queries come and go."""

    name: str
    partial: Partial
    argument: Expr | None

    @staticmethod
    def of(partial: Partial, argument: Expr | None) -> StateColumn:
        return StateColumn(f"{partial.kind}({'*' if argument is None else render(argument)})", partial, argument)

    @property
    def synopsis(self) -> str:
        """Prefixes need an inverse; a tree of intervals takes anything (golab 2.3.4)."""
        return "running" if isinstance(self.partial, Invertible) else "interval"


def states_of(aggregate: BoundAggregate) -> tuple[StateColumn, ...]:
    partials = REGISTRY[aggregate.function].partials(aggregate.argument_type)
    return tuple(StateColumn.of(partial, aggregate.argument) for partial in partials)


@dataclass(frozen=True)
class Grouping:
    """The queries over one stream that group by the same keys."""

    keys: tuple[Expr, ...]
    key_types: tuple[Type, ...]
    queries: tuple[StandingQuery, ...]
    predicates: tuple[Expr, ...] = ()
    states: tuple[StateColumn, ...] = ()
    checks: tuple[Expr, ...] = ()
    selective: bool = False
    """Every query has a predicate, so an event that satisfies none answers nobody."""

    @cached_property
    def name(self) -> str:
        """A name by which the sub-windows of one grouping find each other across plans."""
        return ", ".join(render(key) for key in self.keys) or "()"

    @cached_property
    def meanings(self) -> tuple[npt.NDArray[np.intp], list[tuple[str | None, Shape]]]:
        """The different (predicate, shape) pairs, and for each query the number of its own: queries that mean the
        same but for their windows are answered together."""
        names = dict(zip(self.predicates, self.predicate_names, strict=True))
        numbers: dict[tuple[str | None, Shape], int] = {}
        codes = [
            numbers.setdefault((None if q.predicate is None else names[q.predicate], q.shape), len(numbers))
            for q in self.queries
        ]
        return np.array(codes, np.intp), list(numbers)

    @cached_property
    def predicate_names(self) -> tuple[str, ...]:
        return tuple(render(p) for p in self.predicates)


@dataclass(frozen=True)
class Reason:
    """What a rule decided, and why."""

    rule: str
    text: str


@dataclass(frozen=True)
class Plan:
    stream: Stream
    queries: tuple[StandingQuery, ...]
    slicing: str = "paired"
    windows: tuple[Period, ...] = ()
    grid: Grid = NO_GRID
    groupings: tuple[Grouping, ...] = ()
    way: str = "native"
    reasons: tuple[Reason, ...] = field(default=())
