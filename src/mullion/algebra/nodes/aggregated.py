"""GROUP BY."""

from __future__ import annotations

import re
from collections.abc import Collection

from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.column_names import names_in
from mullion.algebra.costs import SECOND, Estimates, Flow, OperatorCost
from mullion.algebra.nodes.base import Columns, Node, OverOne
from mullion.algebra.nodes.join_synopsis import JoinSynopsis, ProbedWindow
from mullion.algebra.nodes.registry import kind
from mullion.algebra.nodes.scan import Scan
from mullion.algebra.splitting import KeyExpressions, ShardKeys, by_own_keys
from mullion.algebra.texts import expression_text, list_text, unquoted
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Column, Expr
from mullion.language.render import duration_text, render
from mullion.language.types import BOOLEAN, Type

COMPLETE = "#complete"
"""The column that says whether all rows of the input are there that a row is about."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Where a user's function lies in memory is no part of a name."""
_UNORDERED = frozenset(("avg", "count", "max", "min", "sum"))


@kind
class Aggregated(OverOne):
    """GROUP BY: one row for each group, `#k0..` and `#a0..`. Without keys there is always one row.

    `slide` and `offset`: the relation changes only at these instants, as its windows do; None: at every change.
    `is_marked`: its input may tell a part of its rows, and `COMPLETE` says where it told all.
    `synopsis`: what it is answered from instead of the rows of its input, where others over the same join are too.
    """

    keys: tuple[tuple[Expr, Type], ...]
    aggregates: tuple[BoundAggregate, ...]
    slide: int | None = None
    offset: int = 0
    is_marked: bool = False
    synopsis: JoinSynopsis | None = None

    @property
    def operator_inputs(self) -> tuple[Node, ...]:
        return self.inputs if self.synopsis is None else (self.synopsis,)

    @property
    def probe(self) -> ProbedWindow:
        """What it asks of the synopsis."""
        window, length = next(self.windows())
        assert isinstance(window, Scan) and self.slide is not None
        return ProbedWindow(length or window.window.range or 0, self.slide, self.offset)

    @property
    def columns(self) -> Columns:
        keys = tuple((f"#k{i}", type_) for i, (_, type_) in enumerate(self.keys))
        marked = ((COMPLETE, BOOLEAN),) if self.is_marked else ()
        return (*keys, *((f"#a{i}", bound.result) for i, bound in enumerate(self.aggregates)), *marked)

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        if self.synopsis is not None:
            return [set()]
        read = [expr for bound in self.aggregates for expr in bound.expressions()]
        return [names_in(*(key for key, _ in self.keys), *read)]

    def traced(self, expr: Expr) -> tuple[Scan, Expr] | None:
        return None

    @property
    def text(self) -> str:
        bound = ", ".join(map(_aggregate, self.aggregates))
        keys = list_text(key for key, _ in self.keys)
        marked = ", marked" if self.is_marked else ""
        probed = "" if self.synopsis is None else f", from {self.synopsis.text}"
        return f"aggregated({self.input.text}, by ({keys}), {bound}, {self.slide}, {self.offset}{marked}{probed})"

    @property
    def explained(self) -> str:
        by = f" BY {', '.join(expression_text(key) for key, _ in self.keys)}" if self.keys else ""
        every = "" if self.slide is None else f" every {duration_text(self.slide)}"
        called = ", ".join(unquoted(bound.text) for bound in self.aggregates)
        return f"GROUP{by}{f': {called}' if called else ''}{every}"

    @property
    def pattern(self) -> Pattern:
        return Pattern.STRICT

    @property
    def asks_for_order(self) -> bool:
        return any(bound.function not in _UNORDERED for bound in self.aggregates)

    def flow(self, estimates: Estimates) -> Flow:
        flow = estimates.flow(self.input)
        keys = [key for key, _ in self.keys]
        groups = estimates.different(self.input, keys, flow.size) if keys else 1.0
        if self.slide is None:
            return Flow(2 * flow.rate, groups / max(2 * flow.rate, 1e-9), 1.0)
        return Flow(groups * SECOND / self.slide, self.slide / SECOND, 0.0)

    def cost(self, estimates: Estimates) -> OperatorCost:
        arrivals = OperatorCost(processing=estimates.flow(self.input).rate)
        return estimates.passing(self.input) + estimates.keeping(self.input) + arrivals

    def split_by(self, keys: KeyExpressions) -> ShardKeys | None:
        called = [[Column(f"#k{i}") for i in range(len(self.keys))]]
        return by_own_keys(keys, called, [(self.input, [key for key, _ in self.keys])])


def _aggregate(bound: BoundAggregate) -> str:
    parts = [bound.function, "distinct" if bound.distinct else "", str(bound.result)]
    parts += [render(expr) for expr in bound.expressions()]
    parts.append(_ADDRESS.sub("", repr(bound.aggregate)))
    return " ".join(parts)
