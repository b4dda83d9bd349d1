"""A window over the results of a query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from mullion.algebra.costs import Estimates, Flow, OperatorCost, window_flow
from mullion.algebra.nodes.base import Node, OperatorReason, OverOne
from mullion.algebra.nodes.filter import Filter
from mullion.algebra.nodes.registry import kind
from mullion.algebra.splitting import KeyExpressions, ShardKeys
from mullion.algebra.update_pattern import Pattern, length_of, life_in, pattern_in
from mullion.language.query import Expr, Window
from mullion.language.render import render_window


@kind
class ResultWindow(OverOne):
    """A window over the results of a query: its new results are the events of a stream (golab 3.3.3)."""

    NAME: ClassVar[str] = "Rewindowed"

    window: Window

    @property
    def own_window(self) -> Window:
        return self.window

    @property
    def text(self) -> str:
        return f"rewindowed({self.input.text} {render_window(self.window, quoted=False)})"

    @property
    def explained(self) -> str:
        return f"WINDOW {render_window(self.window, quoted=False)} over the results"

    @property
    def why_operators(self) -> OperatorReason:
        return OperatorReason(6, "it has a window over results")

    @property
    def looks_back(self) -> bool:
        return True

    @property
    def pattern(self) -> Pattern:
        return Pattern.MONOTONIC if self.window.internal else pattern_in(self.window)

    @property
    def life(self) -> int | None:
        return life_in(self.window)

    @property
    def asks_for_order(self) -> bool:
        return True

    def windows(self) -> Iterator[tuple[Node, int | None]]:
        yield self, length_of(self.window)
        yield from self.input.windows()

    def flow(self, estimates: Estimates) -> Flow:
        return window_flow(self.window, estimates.flow(self.input).rate)

    def cost(self, estimates: Estimates) -> OperatorCost:
        return estimates.passing(self.input) + estimates.keeping(self)

    def split_by(self, keys: KeyExpressions) -> ShardKeys | None:
        return self.input.split_by(keys) if self.window.rows is None else None

    def filtered_below(self, predicate: Expr) -> Node | None:
        return None if self.window.rows is not None else replace(self, input=Filter(self.input, predicate))
