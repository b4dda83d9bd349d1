"""Projection."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mullion.algebra.column_names import names_in
from mullion.algebra.costs import COLUMN, Estimates, OperatorCost
from mullion.algebra.nodes.base import Columns, Node, RowByRow
from mullion.algebra.nodes.filter import Filter
from mullion.algebra.nodes.registry import kind
from mullion.algebra.nodes.scan import Scan
from mullion.algebra.splitting import KeyExpressions, ShardKeys
from mullion.algebra.texts import expression_text
from mullion.language.query import Column, Expr, rewrite
from mullion.language.render import render
from mullion.language.types import Type


@kind
class Project(RowByRow):
    """Other columns, computed row by row; duplicates stay."""

    items: tuple[tuple[str, Expr, Type], ...]

    @property
    def columns(self) -> Columns:
        return tuple((name, type_) for name, _, type_ in self.items)

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        return [names_in(*(expr for _, expr, _ in self.items))]

    def through(self, expr: Expr) -> Expr:
        """An expression over what the projection gives, over what it reads."""
        given = {name: item for name, item, _ in self.items}

        def computed(part: Expr) -> Expr | None:
            return given[part.name] if isinstance(part, Column) else None

        return rewrite(expr, computed)

    def above(self, expr: Expr) -> Expr | None:
        """An expression over what the projection reads, over what it gives; None if it drops a part of it."""
        names = {item: name for name, item, _ in reversed(self.items)}
        dropped = False

        def named(part: Expr) -> Expr | None:
            nonlocal dropped
            if part in names:
                return Column(names[part])
            dropped = dropped or isinstance(part, Column)
            return None

        renamed = rewrite(expr, named)
        return None if dropped else renamed

    def traced(self, expr: Expr) -> tuple[Scan, Expr] | None:
        return self.input.traced(self.through(expr))

    @property
    def selected_from(self) -> Node:
        return self.input.selected_from

    @property
    def text(self) -> str:
        return f"project({self.input.text}, {', '.join(f'{name} = {render(expr)}' for name, expr, _ in self.items)})"

    @property
    def explained(self) -> str:
        return "PROJECT " + ", ".join(_item_text(name, expr) for name, expr, _ in self.items)

    def cost(self, estimates: Estimates) -> OperatorCost:
        computed = sum(not isinstance(expr, Column) for _, expr, _ in self.items)
        return estimates.passing(self.input, computed * COLUMN)

    def split_by(self, keys: KeyExpressions) -> ShardKeys | None:
        return self.input.split_by(tuple(self.through(key) for key in keys))

    def filtered_below(self, predicate: Expr) -> Node | None:
        return replace(self, input=Filter(self.input, self.through(predicate)))


def _item_text(name: str, expr: Expr) -> str:
    text = expression_text(expr)
    return text if isinstance(expr, Column) and expr.name == name else f"{text} AS {name}"
