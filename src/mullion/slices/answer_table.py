"""From what windows hold to the table of their answers: HAVING, ORDER BY, LIMIT and the items of a template.

    found: (window, group) pairs --bad values counted--> --HAVING--> --ORDER BY, LIMIT--> items, keys, bounds

Each step sees only the pairs that the one before left, and a column is made when a step first needs it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.bound_aggregate import SHED, WINDOW_COLUMNS, BoundAggregate
from mullion.expressions.arrays import Index, Times
from mullion.expressions.coding.dictionary import coded
from mullion.expressions.evaluate import count_bad, evaluate
from mullion.expressions.vector import Vector
from mullion.instants import NO_START
from mullion.language.query import Column, Expr, walk
from mullion.language.types import BIGINT
from mullion.planner.sliced import AnswerTemplate
from mullion.questions_first import give_way
from mullion.slices.arrange import Ranks, bounds_of_runs, order_within, ranks_of
from mullion.slices.pairs import WindowPairs
from mullion.slices.window_runs import NOT_KNOWN

FEW_PAIRS = 4
"""With so many pairs of a window its bounds are codes."""


class Windows(NamedTuple):
    """Windows by query and then by the end that is shown."""

    query: Index
    opens: Times
    closes: Times
    number: Index | None
    """Where windows are not told apart by their ends."""
    shed: Times | None = None
    """How many of their events were shed, or `NOT_KNOWN`; None: none."""


class WindowGroups(Protocol):
    """Pairs of a window and a group that has something in it, by window; or windows, where nothing is grouped by."""

    pairs: WindowPairs

    def keep(self, index: Index) -> None:
        """Go on with these pairs, in this order."""

    def key(self, at: int) -> pa.Array:
        """A key of each pair."""

    def key_vector(self, at: int) -> Vector: ...

    def key_ranks(self, at: int, *, descending: bool, nulls_first: bool) -> npt.NDArray[np.int64]: ...

    def group_ranks(self) -> npt.NDArray[np.int64]:
        """The rank of each pair's group by its keys."""

    def aggregate(self, aggregate: BoundAggregate) -> Vector: ...


class AnswerTable:
    """The answers of one template in the making."""

    def __init__(self, template: AnswerTemplate, keys: int, windows: Windows, found: WindowGroups) -> None:
        self._template, self._keys, self._windows, self._found = template, keys, windows, found
        self._columns: dict[str, Vector] = {}

    def bad(self) -> Index:
        """The query of each bad value that the expressions above aggregates met."""
        fallible = self._template.fallible
        met = [count_bad(expr, self._needed(expr), len(self._found.pairs)) for expr in fallible]
        query = self._found.pairs.spread(self._windows.query) if met else self._windows.query
        return np.concatenate([query[bad] for bad in met]) if met else np.empty(0, np.intp)

    def choose(self) -> None:
        """Go on with what HAVING leaves, in the order of ORDER BY, ties by key, up to LIMIT."""
        template = self._template
        if template.having is not None:
            having = evaluate(template.having, self._needed(template.having), len(self._found.pairs))
            self._keep(np.flatnonzero(having.values.astype(np.bool_) & having.valid))
        if template.is_plain:
            return
        ranks: list[npt.NDArray[np.int64]] = []
        for order in template.deciding_order:
            ranks += self._ranks(order.expr, descending=order.descending, nulls_first=order.nulls_first)
        if self._keys:
            ranks.append(self._found.group_ranks())
        self._keep(order_within(ranks, bounds_of_runs(self._found.pairs.which), template.limit))

    def finished(self, *, arranged: bool) -> tuple[Index, Index, pa.Table]:
        """The queries, where the answers of each begin, the last one's end, and the answers. Without `arranged`, the
        columns that ORDER BY needs stay."""
        query = self._windows.query
        first = bounds_of_runs(query)
        return query[first[:-1]], self._found.pairs.before(first), self.answers(arranged=arranged)

    def answers(self, *, arranged: bool = True) -> pa.Table:
        template = self._template
        arrays = dict(zip(WINDOW_COLUMNS, self._bounds(), strict=True))
        for name, (expr, _) in zip(template.names, template.items, strict=True):
            arrays[name] = self._array(expr)
        if not arranged and not template.is_plain:
            arrays |= {f"#o{i}": self._array(order.expr) for i, order in enumerate(template.order_by)}
            arrays |= {f"#t{i}": self._found.key(i) for i in range(self._keys)}
            if self._windows.number is not None:
                arrays["#w"] = pa.array(self._found.pairs.spread(self._windows.number))
        return pa.table(arrays)

    def _bounds(self) -> tuple[pa.Array, pa.Array]:
        """The bounds of the window of each pair."""
        opens, closes, pairs = self._windows.opens, self._windows.closes, self._found.pairs
        if len(pairs) < FEW_PAIRS * len(opens) or len(opens) == 1:
            return self._vector("window_start").to_arrow(), self._vector("window_end").to_arrow()
        which = pairs.which
        shown = (opens, opens != NO_START), (closes, _all(len(closes)))
        start, end = (coded(Vector(self._template.bounds, *own).to_arrow(), which) for own in shown)
        return start, end

    def _keep(self, index: Index) -> None:
        if len(index) == len(self._found.pairs) and (index[1:] > index[:-1]).all():
            return
        self._found.keep(index)
        self._columns = {name: vector.take(index) for name, vector in self._columns.items()}

    def _ranks(self, expr: Expr, *, descending: bool, nulls_first: bool) -> Ranks:
        if isinstance(expr, Column) and expr.name.startswith("#k"):
            return [self._found.key_ranks(int(expr.name[2:]), descending=descending, nulls_first=nulls_first)]
        vector = evaluate(expr, self._needed(expr), len(self._found.pairs))
        return ranks_of(vector, descending=descending, nulls_first=nulls_first)

    def _array(self, expr: Expr) -> pa.Array:
        give_way()
        if isinstance(expr, Column):
            if expr.name.startswith("#k"):
                return self._found.key(int(expr.name[2:]))
            return self._vector(expr.name).to_arrow()
        return evaluate(expr, self._needed(expr), len(self._found.pairs)).to_arrow()

    def _needed(self, expr: Expr) -> dict[str, Vector]:
        return {node.name: self._vector(node.name) for node in walk(expr) if isinstance(node, Column)}

    def _vector(self, name: str) -> Vector:
        if name not in self._columns:
            self._columns[name] = self._make(name)
        return self._columns[name]

    def _make(self, name: str) -> Vector:
        pairs, type_ = self._found.pairs, self._template.bounds
        if name == "window_start":
            opens = self._windows.opens
            valid = opens != NO_START
            return Vector(type_, pairs.spread(opens), _all(len(pairs)) if valid.all() else pairs.spread(valid))
        if name == "window_end":
            return Vector(type_, pairs.spread(self._windows.closes), _all(len(pairs)))
        if name == SHED:
            shed = self._windows.shed
            lost = np.zeros(len(pairs), np.int64) if shed is None else pairs.spread(shed)
            return Vector(BIGINT, lost, lost != NOT_KNOWN)
        at = int(name[2:])
        return self._found.key_vector(at) if name[1] == "k" else self._found.aggregate(self._template.aggregates[at])


def _all(length: int) -> npt.NDArray[np.bool_]:
    return np.ones(length, np.bool_)
