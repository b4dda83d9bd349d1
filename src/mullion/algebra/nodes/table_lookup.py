"""Events joined with the rows of a table."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import ClassVar

from mullion.algebra.column_names import conjunction, conjuncts, names_in
from mullion.algebra.costs import Estimates, OperatorCost
from mullion.algebra.lookups import READ, Lookup
from mullion.algebra.nodes.base import Columns, Node, OperatorReason, RowByRow, nodes
from mullion.algebra.nodes.filter import Filter
from mullion.algebra.nodes.registry import kind
from mullion.algebra.nodes.scan import Scan
from mullion.algebra.splitting import KeyExpressions, ShardKeys
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Expr


@kind
class TableLookup(RowByRow):
    """Events with the columns that a table's row gives them (`lookup.types()`), once for every row that they find.

    Not retroactive: an event sees the table as it was when the event came, and keeps what it saw (golab 3.3.1).
    `retroactive`: the relation follows the table, whose changes bring and end rows. What finds no row stays, with
    NULLs; an inner join has a Filter on `lookup.matched` above it.
    """

    NAME: ClassVar[str] = "LookedUp"

    lookup: Lookup
    retroactive: bool = False

    @property
    def columns(self) -> Columns:
        return (*self.input.columns, *self.lookup.types().items())

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        own = set(needed) & {*self.input.types, READ} | names_in(*(event for event, _ in self.lookup.keys))
        return [own if self.retroactive else own | {READ}]

    @property
    def stream(self) -> str:
        """Whose events are looked up."""
        return next(node.stream for node in nodes(self.input) if isinstance(node, Scan))

    def traced(self, expr: Expr) -> tuple[Scan, Expr] | None:
        return self.input.traced(expr) if names_in(expr) <= self.input.types.keys() else None

    @property
    def text(self) -> str:
        return f"{'retroactive ' if self.retroactive else ''}looked up({self.input.text}, {self.lookup.name})"

    @property
    def explained(self) -> str:
        return f"LOOK UP {self.lookup.name}{' RETROACTIVE' if self.retroactive else ''}"

    @property
    def why_operators(self) -> OperatorReason | None:
        return OperatorReason(7, "a change of its RETROACTIVE table revises answers") if self.retroactive else None

    @property
    def pattern(self) -> Pattern:
        return Pattern.STRICT if self.retroactive else self.input.pattern

    @property
    def kept_as(self) -> Pattern:
        return Pattern.STRICT if self.retroactive else self.input.kept_as

    @property
    def life(self) -> int | None:
        return None if self.retroactive else self.input.life

    @property
    def is_internal(self) -> bool:
        return not self.retroactive and self.input.is_internal

    def cost(self, estimates: Estimates) -> OperatorCost:
        keeping = estimates.keeping(self.input) if self.retroactive else OperatorCost()
        return estimates.passing(self.input) + keeping

    def split_by(self, keys: KeyExpressions) -> ShardKeys | None:
        if self.retroactive or not names_in(*keys) <= self.input.types.keys():
            return None
        return self.input.split_by(keys)

    def split_where_rows_meet(self) -> ShardKeys | None:
        return None if self.retroactive else self.input.split_where_rows_meet()

    def filtered_below(self, predicate: Expr) -> Node | None:
        """Conditions over the events alone are decided before the table is asked."""
        conditions = list(conjuncts(predicate))
        own = [c for c in conditions if names_in(c) <= self.input.types.keys()]
        rest = [c for c in conditions if c not in own]
        if not own:
            return None
        pushed = replace(self, input=Filter(self.input, conjunction(own)))
        return Filter(pushed, conjunction(rest)) if rest else pushed
