"""NOT EXISTS."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import exp, log
from typing import ClassVar

from mullion.algebra.column_names import names_in
from mullion.algebra.costs import HASH, Estimates, Flow, OperatorCost, total, uncovered_flow
from mullion.algebra.nodes.base import Node, OperatorReason, OverTwo
from mullion.algebra.nodes.filter import Filter
from mullion.algebra.nodes.registry import kind
from mullion.algebra.splitting import KeyExpressions, ShardKeys, by_any, by_own_keys
from mullion.algebra.texts import expression_text, list_text
from mullion.algebra.update_pattern import Pattern
from mullion.expressions.evaluate import is_fallible
from mullion.language.query import Expr
from mullion.options import Expiry


@kind
class AntiJoin(OverTwo):
    """The rows of the left with no row of the right that has equal keys: NOT EXISTS. A NULL equals nothing.

    EXISTS needs no node of its own: it joins the left with the distinct keys of the right.
    """

    NAME: ClassVar[str] = "Negation"
    keeps_some: ClassVar[bool] = True

    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]

    @property
    def _sides(self) -> list[tuple[Node, tuple[Expr, ...]]]:
        return [(self.left, self.left_keys), (self.right, self.right_keys)]

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        return [set(needed) | names_in(*self.left_keys), names_in(*self.right_keys)]

    @property
    def text(self) -> str:
        on = f"({list_text(self.left_keys)}) = ({list_text(self.right_keys)})"
        return f"negation({self.left.text}, {self.right.text}, on {on})"

    @property
    def explained(self) -> str:
        pairs = zip(self.left_keys, self.right_keys, strict=True)
        on = (f"{expression_text(left)} = {expression_text(right)}" for left, right in pairs)
        return f"NOT EXISTS {' AND '.join(on)}".rstrip()

    @property
    def why_operators(self) -> OperatorReason:
        return OperatorReason(2, "it asks which rows have no match")

    def _values(self, estimates: Estimates) -> float:
        """Over how many different keys both sides are spread."""
        return max(estimates.different(side, keys, estimates.flow(side).size) for side, keys in self._sides)

    def overlap(self, estimates: Estimates, free: float | None) -> float | None:
        """How often the sides must meet, compared to evenly spread keys, for such a share of new rows to be free."""
        size = estimates.flow(self.right).size
        if free is None or size <= 0:
            return None
        return max(0.0, -log(max(free, 1e-9))) * self._values(estimates) / size

    def flow(self, estimates: Estimates) -> Flow:
        return uncovered_flow(estimates, self.left, self.right, self._values(estimates))

    def cost(self, estimates: Estimates) -> OperatorCost:
        """The left is kept, and of the right until when each value is covered, or all of it where that is not known; a
        value that the right meets or loses touches all its rows on the left."""
        own, other, values = estimates.flow(self.left), estimates.flow(self.right), self._values(estimates)
        touched = 2 * other.rate * exp(-other.size / values) * own.size / values
        known = estimates.expiry is Expiry.PATTERN_AWARE and self.right.pattern is not Pattern.STRICT
        covered = OperatorCost(state=HASH * min(other.rate, values / max(other.life, 1e-9)))
        keeping = [estimates.keeping(self.left), covered if known else estimates.keeping(self.right)]
        passing = [estimates.passing(self.left), estimates.passing(self.right, 2)]
        return total([*passing, *keeping, OperatorCost(processing=touched)])

    def split_by(self, keys: KeyExpressions) -> ShardKeys | None:
        return by_own_keys(keys, [self.left_keys], self._sides)

    def split_where_rows_meet(self) -> ShardKeys | None:
        return by_any(self, self.left_keys)

    def conditions(self) -> Iterator[tuple[Node, Expr]]:
        for side, own in self._sides:
            yield from ((side, key) for key in own if is_fallible(key, side.types))

    def filtered_below(self, predicate: Expr) -> Node | None:
        return replace(self, left=Filter(self.left, predicate))
