"""The rows of a question to a summary: one count, or one for each value, with HAVING, ORDER BY and LIMIT.

Events that have no place in the order yet are in no zone; they are counted by themselves, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes, Counts, Index, Mask, Whole
from mullion.expressions.evaluate import evaluate
from mullion.expressions.vector import Vector
from mullion.language.query import Column, Expr, walk
from mullion.language.types import BIGINT, Type
from mullion.planner.sliced import AnswerTemplate
from mullion.runtime.summary_conditions import Condition, is_decoded, values_with_codes
from mullion.slices.arrange import order_within, ranks_of
from mullion.slices.order import times_of
from mullion.summaries.column_summary import ColumnSummary, codes_of_column
from mullion.summaries.zone_counts import ValueCondition

if TYPE_CHECKING:
    from mullion.runtime.view import View

NO_CODES = np.zeros(0, np.int64)


class BoundedRows(NamedTuple):
    """Rows with their bounds."""

    keys: Vector
    """Of groups; NULLs without GROUP BY."""
    low: Counts
    value: Counts
    high: Counts

    @property
    def width(self) -> int:
        """How uncertain they are, all together."""
        return int((self.high - self.low).sum())

    def take(self, index: Index | Mask) -> BoundedRows:
        return BoundedRows(self.keys.take(index), self.low[index], self.value[index], self.high[index])


class ValuesNotKnown(Exception):
    """A summary has counted values that it knows as hashes alone."""


class WaitingEvents(NamedTuple):
    """Events of the window that have no place in the order yet."""

    events: int
    codes: Codes
    known: Mask
    column: pa.ChunkedArray
    """The values that the codes are of."""


@dataclass(frozen=True)
class SummaryRows:
    """What is counted, and what becomes of it."""

    template: AnswerTemplate
    condition: Condition
    column: str | None
    type_: Type

    def of_nothing(self) -> BoundedRows:
        """What is answered before any event."""
        rows = 0 if self.template.keys else 1
        zeros = np.zeros(rows, np.int64)
        return self._chosen(BoundedRows(Vector.of(self.type_, [None] * rows), zeros, zeros, zeros))

    def of(self, summary: ColumnSummary, view: View, after: int) -> BoundedRows:
        """What a summary that holds all events after a time tells, and what waits."""
        waiting = self._waiting(view, after)
        known = NO_CODES
        if summary.knows_codes and (self.template.keys or self.condition.values is None):
            known = np.unique(np.concatenate([summary.counts.codes(after), waiting.codes[waiting.known]]))
        values = self.condition.among(known, self.type_)
        if self.template.keys:
            return self._chosen(self._groups(summary, values, known, waiting, after))
        low, value, high, _ = summary.counts.count(values, after)
        if self.column is None:
            more = waiting.events if values.others else 0
        else:
            more = int(values.hold(waiting.codes, waiting.known).sum())
        bounds = (np.array([bound + more], np.int64) for bound in (low, value, high))
        return self._chosen(BoundedRows(Vector.of(self.type_, [None]), *bounds))

    def _groups(
        self, summary: ColumnSummary, values: ValueCondition, known: Codes, waiting: WaitingEvents, after: int
    ) -> BoundedRows:
        """Each value that may have come, in ascending order; NULL is a group as well."""
        codes = np.setdiff1d(known, values.codes) if values.others else np.unique(values.codes)
        each = summary.counts.each(codes, after)
        came, times = np.unique(waiting.codes[waiting.known], return_counts=True)
        at = np.searchsorted(came, codes).clip(max=max(len(came) - 1, 0))
        more = np.where(came[at] == codes, times[at], 0) if len(came) else np.zeros(len(codes), np.int64)
        groups = BoundedRows(self._keys(codes, summary, waiting), each.low + more, each.value + more, each.high + more)
        if values.nulls:
            low, value, high, _ = summary.counts.count(ValueCondition(NO_CODES, False, True), after)
            missing = int((~waiting.known).sum())
            null = (np.array([bound + missing], np.int64) for bound in (low, value, high))
            own = BoundedRows(Vector.of(self.type_, [None]), *null)
            groups = BoundedRows(
                Vector.of(self.type_, [*groups.keys.to_list(), None]),
                *(np.concatenate(both) for both in zip(groups[1:], own[1:], strict=True)),
            )
        return groups.take(np.flatnonzero(groups.high > 0))

    def _keys(self, codes: Codes, summary: ColumnSummary, waiting: WaitingEvents) -> Vector:
        if is_decoded(self.type_):
            return values_with_codes(codes, self.type_)
        if all(code in self.condition.named for code in codes.tolist()):
            return Vector.of(self.type_, [self.condition.named[code] for code in codes.tolist()])
        values = summary.values.plus(waiting.codes, waiting.known, waiting.column).of(codes)
        if values is None:
            raise ValuesNotKnown
        return Vector.from_arrow(values, self.type_)

    def _waiting(self, view: View, after: int) -> WaitingEvents:
        rows = view.waiting
        nobody = WaitingEvents(0, NO_CODES, np.zeros(0, np.bool_), pa.chunked_array([pa.nulls(0)]))
        if rows is None or not len(rows):
            return nobody
        later = times_of(rows) > after
        if self.column is None or self.column not in rows.schema.names:  # They came before the summary was made.
            return nobody._replace(events=int(later.sum()) if self.column is None else 0)
        codes, known = codes_of_column(rows, self.column)
        valid = np.ones(len(codes), np.bool_) if known is None else known
        column = rows.column(self.column).filter(pa.array(later))
        return WaitingEvents(int(later.sum()), codes[later], valid[later], column)

    # Above the counts

    def _chosen(self, counted: BoundedRows) -> BoundedRows:
        """What HAVING leaves, in the order of ORDER BY, up to LIMIT: all of these go by the values, not the bounds."""
        template = self.template
        if template.having is not None:
            holds = self._evaluated(template.having, counted)
            counted = counted.take(np.flatnonzero(holds.values.astype(np.bool_) & holds.valid))
        ranks: list[Whole] = []
        for order in template.order_by:
            vector = self._evaluated(order.expr, counted)
            ranks += ranks_of(vector, descending=order.descending, nulls_first=order.nulls_first)
        ranks += ranks_of(counted.keys, descending=False, nulls_first=True)
        return counted.take(order_within(ranks, np.array([0, len(counted.value)]), template.limit))

    def _evaluated(self, expr: Expr, counted: BoundedRows) -> Vector:
        counts = Vector(BIGINT, counted.value, np.ones(len(counted.value), np.bool_))
        needed = {node.name for node in walk(expr) if isinstance(node, Column)}
        columns = {name: counted.keys if name.startswith("#k") else counts for name in needed}
        return evaluate(expr, columns, len(counted.value))
