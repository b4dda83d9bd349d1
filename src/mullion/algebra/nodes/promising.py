"""A join of which the most promising part is told where there is no time for all of it (ali 5)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Self

from mullion.algebra.column_names import names_in
from mullion.algebra.costs import Estimates, Flow, OperatorCost
from mullion.algebra.nodes.base import Node, OverOne
from mullion.algebra.nodes.join import Join
from mullion.algebra.nodes.registry import kind
from mullion.algebra.texts import expression_text
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Budget, Expr
from mullion.language.render import budget_text, render
from mullion.memory import size_text

ESTIMATE = "#estimate"
"""The column that stands for estimate(x): how many rows of the other input have the key of the row that probes."""


@kind
class Promising(OverOne):
    """Rows of a join of two inputs, all of them unless the budget of a step is short.

    New rows of input i are put in order by `promises[i]`, over its own columns and `ESTIMATE`. The order is DESC, ASC
    or WEIGHTED: by shares. `ages[i]` are the ages at which rows of input i pass into an older granularity; the promise
    of what they meet there fades by `fade` each time. The paper loops over the granularities of the other stream (5.1).
    Beyond `memory` bytes, rows of the oldest granularity are let go, the least promising first.
    """

    input: Join
    order: str
    promises: tuple[Expr, Expr]
    budget: Budget
    fade: float = 1.0
    ages: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    memory: int | None = None

    def _over(self, inputs: tuple[Node, ...]) -> Self:
        (join,) = inputs
        assert isinstance(join, Join)
        return replace(self, input=join)

    def fading_ages(self, i: int) -> tuple[int, ...]:
        """The ages at which promises change."""
        return () if self.fade == 1 else self.ages[i]

    @property
    def asks_estimates(self) -> bool:
        """Whether what it prefers depends on how many rows meet."""
        return any(ESTIMATE in names_in(promise) for promise in self.promises)

    @property
    def operator_inputs(self) -> tuple[Node, ...]:
        """Its operator joins by itself, as far as the budget reaches."""
        return self.input.parts

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        read = zip(self.input.needs(needed), self.promises, strict=True)
        return [names | (names_in(promise) - {ESTIMATE}) for names, promise in read]

    @property
    def text(self) -> str:
        by = " and ".join(f"({render(promise)})" for promise in self.promises)
        fading = "" if self.fade == 1 else f", fade {self.fade!r} at {self.ages}"
        keeping = "" if self.memory is None else f", {self.memory} bytes by {self.ages}"
        return f"promising({self.input.text}, {self.order} {by}, {budget_text(self.budget)}{fading}{keeping})"

    @property
    def explained(self) -> str:
        written = f"CAST(`{ESTIMATE}` AS DOUBLE)"
        texts = [expression_text(promise).replace(written, "estimate") for promise in self.promises]
        by = dict.fromkeys(text.replace(f"`{ESTIMATE}`", "estimate") for text in texts)
        fading = "" if self.fade == 1 else f", fade {self.fade:g}"
        keeping = "" if self.memory is None else f", memory {size_text(self.memory)}"
        budget = f"budget {budget_text(self.budget)} a step"
        return f"PROMISING {self.order.upper()} {' and '.join(by)}{fading}, {budget}{keeping}"

    @property
    def pattern(self) -> Pattern:
        return self.input.pattern

    @property
    def kept_as(self) -> Pattern:
        return self.input.kept_as

    @property
    def is_internal(self) -> bool:
        return self.input.is_internal

    @property
    def releases(self) -> bool:
        return self.input.releases

    def flow(self, estimates: Estimates) -> Flow:
        return estimates.flow(self.input)

    def cost(self, estimates: Estimates) -> OperatorCost:
        """Every new row looks up how many it would meet."""
        return OperatorCost(processing=sum(estimates.flow(part).rate for part in self.input.parts))
