"""What aggregates over windows of one join share: a basic interval synopsis of its results (golab 8.3.2)."""

from __future__ import annotations

from collections.abc import Collection
from math import gcd
from typing import NamedTuple

from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.column_names import names_in
from mullion.algebra.costs import Estimates, OperatorCost
from mullion.algebra.grid import Grid
from mullion.algebra.nodes.base import SameLives
from mullion.algebra.nodes.join_view import HIDDEN_START
from mullion.algebra.nodes.registry import physical
from mullion.algebra.texts import list_text
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Expr
from mullion.language.types import Type
from mullion.lazy import cached_property


class ProbedWindow(NamedTuple):
    """The windows of a query: at each multiple of the slide, past the offset, the rows of the last `range` of the first
    input. Those of the others are longer by what the synopsis says."""

    range: int
    slide: int
    offset: int


@physical
class JoinSynopsis(SameLives):
    """Results of a join in cells by when they expire, for each group. It tells none: aggregates probe it.

    It is no relation of a query and stands in no plan, so it is no kind of the algebra. Operators of aggregates stand
    on it: all of those that group the same results by the same keys and whose windows of input i are longer by
    `longer[i]` than their windows of input 0. So a result is in the windows of a query at t iff it was made
    before t and its `place`, the least of its rows' starts + longer[i], is not before t less the length of window 0.
    """

    keys: tuple[tuple[Expr, Type], ...]
    longer: tuple[int, ...]
    aggregates: tuple[BoundAggregate, ...] = ()
    probes: tuple[ProbedWindow, ...] = ()

    @cached_property
    def grid(self) -> Grid:
        """The widest cells such that no window of a query begins within one."""
        begins = [probe.offset - probe.range for probe in self.probes]
        step = gcd(*(probe.slide for probe in self.probes), *(begin - begins[0] for begin in begins))
        return Grid(step, begins[0] % step)

    @property
    def longest(self) -> int:
        return max(probe.range for probe in self.probes)

    @property
    def cells(self) -> int:
        """How many cells the longest window has."""
        return -(-self.longest // self.grid.step)

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        read = [expr for bound in self.aggregates for expr in bound.expressions()]
        starts = {f"{HIDDEN_START}{i}" for i in range(len(self.longer))}
        return [set(needed) | starts | names_in(*(key for key, _ in self.keys), *read)]

    @property
    def text(self) -> str:
        called = ", ".join(bound.text for bound in self.aggregates)
        probes = ", ".join(map(str, (tuple(probe) for probe in self.probes)))
        keys = list_text(key for key, _ in self.keys)
        return f"synopsis({self.input.text}, by ({keys}), longer {self.longer}, {called}, probed by {probes})"

    @property
    def explained(self) -> str:
        return f"SYNOPSIS OF {self.input.explained}"

    @property
    def pattern(self) -> Pattern:
        return self.input.pattern

    def cost(self, estimates: Estimates) -> OperatorCost:
        """Every result is added to a cell."""
        return OperatorCost(processing=estimates.flow(self.input).rate)
