"""A join or selection of which the most promising part is told where there is no time for all of it (ali 5)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import ClassVar

from mullion.algebra.column_names import names_in
from mullion.algebra.costs import Estimates, OperatorCost
from mullion.algebra.nodes.base import Columns, Node, SameLives
from mullion.algebra.nodes.join import Join
from mullion.algebra.nodes.offering import Offering
from mullion.algebra.nodes.registry import kind
from mullion.algebra.nodes.scan import Scan
from mullion.algebra.streams import WEIGHT
from mullion.algebra.texts import expression_text
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Budget, Expr
from mullion.language.render import budget_text, render
from mullion.language.types import BIGINT, DOUBLE, Type
from mullion.lazy import cached_property
from mullion.memory import size_text

ESTIMATE = "#estimate"
"""The column that stands for estimate(x): how many rows of the other input have the key of the row that probes, or of a
selection, how many of its rows have the value `counted`."""
UNIT, KEPT, KEPT_UNIT = "#unit", "#kept", "#kept_unit"
"""Columns beside the weight with which a row was drawn: what was drawn with it, as a number; the weight with which the
row was kept that it was met with, and the number of that."""
OF_A_SAMPLE = {WEIGHT: DOUBLE, UNIT: BIGINT, KEPT: DOUBLE, KEPT_UNIT: BIGINT}


@kind
class Promising(SameLives):
    """Rows of a join of two inputs, or of a selection: all of them unless the budget of a step is short.

    New rows of input i are put in order by `promises[i]`, over its own columns and `ESTIMATE`. The order is DESC, ASC
    or WEIGHTED: by shares. `ages[i]` are the ages at which rows of input i pass into an older granularity; the promise
    of what they meet there, or of a selection that of rows that wait, fades by `fade` each time. The paper loops over
    the granularities of the other stream (5.1). Beyond `memory` bytes, rows of the oldest granularity are let go, the
    least promising first.

    In a join of more than two, an input may be promising too: `budget` is that of all joins together, of which the
    lower ones have a part each, and what these do not take is left to it.

    `aggregated`: groups are made of its rows, so it also tells when some are missing. WEIGHTED rows are then drawn each
    by itself, or each new row with all that it meets where the budget counts events. `OF_A_SAMPLE` are columns that say
    how many each stands for.

    Rows that waited come after others that started later, so they leave in any order. The order is one of all rows:
    it cannot be split by keys.
    """

    is_part: ClassVar[bool] = True

    order: str
    promises: tuple[Expr, ...]
    budget: Budget
    fade: float = 1.0
    ages: tuple[tuple[int, ...], ...] = ((), ())
    memory: int | None = None
    counted: Expr | None = None
    aggregated: bool = False

    @property
    def weighs(self) -> bool:
        return self.aggregated and self.order == "weighted"

    @cached_property
    def salt(self) -> int:
        """What makes the pairs that it draws others than those of other joins."""
        return int(self.name[-15:], 16)

    @property
    def columns(self) -> Columns:
        return (*self.input.columns, *self.of_a_sample.items())

    @property
    def of_a_sample(self) -> dict[str, Type]:
        """The columns that say what its rows stand for."""
        names = [] if not self.weighs else [WEIGHT, UNIT] if self.memory is None else [*OF_A_SAMPLE]
        return {name: OF_A_SAMPLE[name] for name in names}

    @property
    def units(self) -> tuple[tuple[str, str], ...]:
        """Of what was drawn or kept by itself the columns with its weight, and with its number. A row stands for as
        many as the product of these weights."""
        own = [(WEIGHT, UNIT), (KEPT, KEPT_UNIT)][: len(self.of_a_sample) // 2]
        below = [(i, unit) for i, part in enumerate(self.parts) if isinstance(part, Promising) for unit in part.units]
        return (*own, *((f"{i}.{weight}", f"{i}.{unit}") for i, (weight, unit) in below))

    @property
    def draws_pairs(self) -> bool:
        """Whether nothing but single pairs was drawn."""
        return len(self.units) == 1 and self.budget.events is None

    def traced(self, expr: Expr) -> tuple[Scan, Expr] | None:
        return None if names_in(expr) & OF_A_SAMPLE.keys() else super().traced(expr)

    @property
    def parts(self) -> tuple[Node, ...]:
        """Whose new rows are put in order."""
        return self.input.parts if isinstance(self.input, Join) else self.inputs

    @property
    def keys(self) -> tuple[tuple[Expr, ...], ...]:
        """By which rows of each part are counted."""
        if isinstance(self.input, Join):
            return self.input.keys
        return ((),) if self.counted is None else ((self.counted,),)

    @property
    def joins(self) -> int:
        """How many promising joins it is made of: itself, and those whose rows it joins."""
        return 1 + sum(part.joins for part in self.parts if isinstance(part, Promising))

    def fading_ages(self, i: int) -> tuple[int, ...]:
        """The ages at which promises change. What a promising join below found has faded there."""
        return () if self.fade == 1 or isinstance(self.parts[i], Promising) else self.ages[i]

    @property
    def asks_estimates(self) -> bool:
        """Whether what it prefers depends on how many rows meet, or are alike."""
        return any(ESTIMATE in names_in(promise) for promise in self.promises)

    @cached_property
    def operator_inputs(self) -> tuple[Node, ...]:
        """The operator of a join joins by itself, as far as the budget reaches, from what all of its shape share."""
        if not isinstance(self.input, Join):
            return self.inputs
        return (Offering(replace(self.input, residual=None), "" if self.memory is None else self.name),)

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        needed = {*needed} - OF_A_SAMPLE.keys()
        promised = [names_in(promise) - {ESTIMATE} for promise in self.promises]
        if not isinstance(self.input, Join):
            return [needed | names_in(*self.keys[0]) | promised[0]]
        asked = needed | (set() if self.input.residual is None else names_in(self.input.residual))
        return [asked.union(*({f"{i}.{name}" for name in own} for i, own in enumerate(promised)))]

    @property
    def text(self) -> str:
        by = " and ".join(f"({render(promise)})" for promise in self.promises)
        fading = "" if self.fade == 1 else f", fade {self.fade!r} at {self.ages}"
        keeping = "" if self.memory is None else f", {self.memory} bytes by {self.ages}"
        counting = "" if self.counted is None else f", counted by {render(self.counted)}"
        more = f"{fading}{keeping}{counting}{', aggregated' if self.aggregated else ''}"
        return f"promising({self.input.text}, {self.order} {by}, {budget_text(self.budget)}{more})"

    @property
    def explained(self) -> str:
        written = (f"CAST(`{ESTIMATE}` AS DOUBLE)", f"`{ESTIMATE}`")
        estimate = "estimate" if self.counted is None else f"estimate({expression_text(self.counted)})"
        texts = [expression_text(promise) for promise in self.promises]
        by = dict.fromkeys(text.replace(written[0], estimate).replace(written[1], estimate) for text in texts)
        fading = "" if self.fade == 1 else f", fade {self.fade:g}"
        keeping = "" if self.memory is None else f", memory {size_text(self.memory)}"
        budget = f"budget {budget_text(self.budget)} a step"
        weighed = ", pairs with weights" if self.weighs else ""
        return f"PROMISING {self.order.upper()} {' and '.join(by)}{fading}, {budget}{keeping}{weighed}"

    @property
    def pattern(self) -> Pattern:
        pattern = self.input.pattern
        return Pattern.WEAK if pattern is Pattern.WEAKEST else pattern

    def cost(self, estimates: Estimates) -> OperatorCost:
        """Every new row looks up how many it would meet, or are like it."""
        return OperatorCost(processing=sum(estimates.flow(part).rate for part in self.parts))
