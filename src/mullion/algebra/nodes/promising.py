"""A join or selection of which the most promising part is told where there is no time for all of it (ali 5)."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import ClassVar

from mullion.algebra.column_names import names_in
from mullion.algebra.costs import Estimates, OperatorCost
from mullion.algebra.nodes.base import Columns, Node, SameLives
from mullion.algebra.nodes.join import Join
from mullion.algebra.nodes.registry import kind
from mullion.algebra.nodes.scan import Scan
from mullion.algebra.streams import WEIGHT
from mullion.algebra.texts import expression_text
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Budget, Expr
from mullion.language.render import budget_text, render
from mullion.language.types import DOUBLE
from mullion.memory import size_text

ESTIMATE = "#estimate"
"""The column that stands for estimate(x): how many rows of the other input have the key of the row that probes, or of a
selection, how many of its rows have the value `counted`."""


@kind
class Promising(SameLives):
    """Rows of a join of two inputs, or of a selection: all of them unless the budget of a step is short.

    New rows of input i are put in order by `promises[i]`, over its own columns and `ESTIMATE`. The order is DESC, ASC
    or WEIGHTED: by shares. `ages[i]` are the ages at which rows of input i pass into an older granularity; the promise
    of what they meet there, or of a selection that of rows that wait, fades by `fade` each time. The paper loops over
    the granularities of the other stream (5.1). Beyond `memory` bytes, rows of the oldest granularity are let go, the
    least promising first.

    `aggregated`: groups are made of its rows, so it also tells when some are missing. WEIGHTED rows are then drawn each
    by itself, and `WEIGHT` says how many pairs each stands for.

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
        return (*self.input.columns, (WEIGHT, DOUBLE)) if self.weighs else self.input.columns

    def traced(self, expr: Expr) -> tuple[Scan, Expr] | None:
        return None if WEIGHT in names_in(expr) else super().traced(expr)

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

    def fading_ages(self, i: int) -> tuple[int, ...]:
        """The ages at which promises change."""
        return () if self.fade == 1 else self.ages[i]

    @property
    def asks_estimates(self) -> bool:
        """Whether what it prefers depends on how many rows meet, or are alike."""
        return any(ESTIMATE in names_in(promise) for promise in self.promises)

    @property
    def operator_inputs(self) -> tuple[Node, ...]:
        """The operator of a join joins by itself, as far as the budget reaches."""
        return self.parts

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        needed = {*needed} - {WEIGHT}
        whole = self.input.needs(needed) if isinstance(self.input, Join) else [needed | names_in(*self.keys[0])]
        return [names | (names_in(promise) - {ESTIMATE}) for names, promise in zip(whole, self.promises, strict=True)]

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
