"""Views of a shared join: the results that shorter windows would have, perhaps with a predicate.

A result was made when the youngest of its rows came. It is one of shorter windows too if all its rows were still in
theirs by then: the row of input i was younger than ranges[i].

    #s0 = 3, #s1 = 9: made at 9, ages 6 and 0         in [RANGE 7] join [RANGE 2], until 10
                                                      not in [RANGE 5] join [RANGE 9]

A hundred views of a join look at the same ages and columns: these are computed once for all, each view compares whole
arrays with its own constants, and only what is left is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Filter, Join, JoinView, Node
from mullion.algebra.nodes.join_view import HIDDEN_START
from mullion.expressions.arrays import Mask, Times
from mullion.operators.bad_values import BadConditions
from mullion.operators.base import Operator
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.expressions import is_true
from mullion.operators.registry import implements
from mullion.operators.stateless import FilterOperator
from mullion.operators.timed_rows import Delta, TimedRows


@implements(JoinView)
class JoinViewOperator(Operator):
    """A `JoinView`, or a Filter over one. Its input is what the join gives."""

    picks_columns = True

    def __init__(
        self, node: JoinView | Filter, inputs: Sequence[Operator], construction: Construction = DEFAULT
    ) -> None:
        view = node.input if isinstance(node, Filter) else node
        assert isinstance(view, JoinView)
        self.ranges, self.types = view.ranges, node.types
        self.predicate = node.predicate if isinstance(node, Filter) else None
        self._bad = BadConditions(self.predicate, view)
        fields = [field for field in inputs[0].schema if not field.name.startswith(HIDDEN_START)]
        self.schema = pa.schema([field for field in fields if construction.reads(field.name)])
        self.width = inputs[0].width

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        (delta,) = inputs
        fresh = delta.fresh
        if not len(fresh):
            return Delta(TimedRows.empty(self.schema, self.width), delta.retracted, now)
        at = np.flatnonzero(self._is_seen(fresh))
        rows = fresh.rows.select(self.schema.names).take(pa.array(at))
        starts = starts_of(fresh, len(self.ranges))
        end = starts[0].take(at) + self.ranges[0]
        for start, length in zip(starts[1:], self.ranges[1:], strict=True):
            np.minimum(end, start.take(at) + length, out=end)
        return Delta(TimedRows(rows, fresh.ids.take(at, axis=0), fresh.start.take(at), end), delta.retracted, now)

    def _is_seen(self, timed: TimedRows) -> Mask:
        ages = _ages(timed, len(self.ranges))
        seen = ages[0] < self.ranges[0]
        for age, length in zip(ages[1:], self.ranges[1:], strict=True):
            seen &= age < length
        if self.predicate is not None:
            self.bad += self._bad.among(timed, seen)
            seen &= is_true(self.predicate, timed, self.types)
        return seen


@implements(Filter)
def filter_operator(node: Filter, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> Operator:
    """A filter is one with the view of a join that it stands on."""
    return (JoinViewOperator if node.input.takes_filters else FilterOperator)(node, inputs, construction)


def starts_of(timed: TimedRows, count: int) -> list[Times]:
    """When the rows of each input came."""
    if "starts" not in timed.memo:
        timed.memo["starts"] = [timed.rows.column(f"{HIDDEN_START}{i}").to_numpy() for i in range(count)]
    found: list[Times] = timed.memo["starts"]
    return found


def _ages(timed: TimedRows, count: int) -> list[Times]:
    """How old the rows of each input were when the results were made."""
    if "ages" not in timed.memo:
        timed.memo["ages"] = [timed.start - start for start in starts_of(timed, count)]
    found: list[Times] = timed.memo["ages"]
    return found


# How plans look at joins


def views_in(plan: Node) -> Iterator[JoinView]:
    """How a plan looks at joins that may be shared: with windows of which lengths."""
    if isinstance(plan, JoinView):
        yield plan
        return
    if isinstance(plan, Join):
        yield JoinView(plan, _lengths(plan))
    for below in plan.operator_inputs if plan.is_part else plan.inputs:
        yield from views_in(below)


def views_of(plans: Iterable[Node]) -> dict[Join, list[tuple[int, ...]]]:
    """The lengths of the windows with which joins are looked at, where these are several; the longest first."""
    views: dict[Join, dict[tuple[int, ...], None]] = {}
    for plan in plans:
        for view in views_in(plan):
            views.setdefault(view.input, {})[view.ranges] = None
    return {join: sorted(ranges, key=sum, reverse=True) for join, ranges in views.items() if len(ranges) > 1}


def _lengths(join: Join) -> tuple[int, ...]:
    return tuple(scan.window.range or 0 for scan, _ in join.time_windows() or ())
