"""Selection."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import ClassVar

from mullion.algebra.column_names import conjuncts, names_in
from mullion.algebra.costs import Estimates, Flow
from mullion.algebra.nodes.base import Node, RowByRow
from mullion.algebra.nodes.registry import kind
from mullion.algebra.texts import expression_text
from mullion.language.query import Call, Expr
from mullion.language.render import render


@kind
class Filter(RowByRow):
    """The rows for which the predicate is true."""

    keeps_some: ClassVar[bool] = True

    predicate: Expr

    @property
    def selected_from(self) -> Node:
        return self.input.selected_from

    @property
    def operator_inputs(self) -> tuple[Node, ...]:
        return self.input.operator_inputs if self.input.takes_filters else self.inputs

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        read = set(needed) | names_in(self.predicate)
        return self.input.needs(read) if self.input.takes_filters else [read]

    @property
    def text(self) -> str:
        return f"filter({self.input.text}, {render(self.predicate)})"

    @property
    def explained(self) -> str:
        return f"WHERE {expression_text(self.predicate)}"

    def flow(self, estimates: Estimates) -> Flow:
        flow = estimates.flow(self.input)
        return replace(flow, rate=flow.rate * estimates.selectivity(self.input, self.predicate))

    def conditions(self) -> Iterator[tuple[Node, Expr]]:
        yield from ((self.input, part) for part in conjuncts(self.predicate))

    def filtered_below(self, predicate: Expr) -> Node | None:
        return replace(self, predicate=Call("and", (self.predicate, predicate)))
