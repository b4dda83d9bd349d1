"""GROUP BY."""

from __future__ import annotations

from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.nodes.base import Columns, OverOne
from mullion.algebra.nodes.registry import kind
from mullion.language.query import Expr
from mullion.language.types import Type


@kind
class Aggregated(OverOne):
    """GROUP BY: one row for each group, `#k0..` and `#a0..`. Without keys there is always one row.

    `slide` and `offset`: the relation changes only at these instants, as its windows do; None: at every change.
    """

    keys: tuple[tuple[Expr, Type], ...]
    aggregates: tuple[BoundAggregate, ...]
    slide: int | None = None
    offset: int = 0

    @property
    def columns(self) -> Columns:
        keys = tuple((f"#k{i}", type_) for i, (_, type_) in enumerate(self.keys))
        return (*keys, *((f"#a{i}", bound.result) for i, bound in enumerate(self.aggregates)))


__all__ = ["Aggregated"]
