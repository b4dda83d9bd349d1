"""Questions that summaries answer: how often values came, however long ago.

    SELECT APPROX count(*) FROM store [RANGE '1 day'] WHERE item = 7
    SELECT APPROX item, count(*) AS n FROM store [RANGE '1 day'] GROUP BY item ORDER BY n DESC LIMIT 10

Zones that lie within the window count whole. One that the window's edge cuts counts from nothing up to all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS
from mullion.algebra.streams import Stream
from mullion.binding.grouping import item_name
from mullion.catalog.summaries import StreamSummary
from mullion.errors import CheckError, NotSupported
from mullion.expressions.vector import arrow_type
from mullion.language.query import AggregateCall, Column, Expr, Item, Named, Query, Window, walk
from mullion.language.render import duration_text
from mullion.language.types import BIGINT, TIMESTAMP, Type
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.summary_conditions import condition_of
from mullion.runtime.summary_rows import BoundedRows, SummaryRows, ValuesNotKnown
from mullion.summaries.base import SURE
from mullion.summaries.column_summary import ColumnSummary
from mullion.summaries.kinds import KINDS

if TYPE_CHECKING:
    from mullion.runtime.view import SourcedRows, View

INSTANT, NUMBER = arrow_type(TIMESTAMP), arrow_type(BIGINT)


def counts_events(query: Query) -> bool:
    """Whether a SELECT APPROX asks for count(*), perhaps of groups."""
    counts = [_is_count(item.expr) for item in query.items]
    grouped = (isinstance(item.expr, Column) and bool(query.group_by) for item in query.items)
    return any(counts) and all(counted or key for counted, key in zip(counts, grouped, strict=True))


def _is_count(expr: Expr) -> bool:
    return isinstance(expr, AggregateCall) and expr.function == "count" and not expr.args and expr.where is None


class CountQuestion:
    """A question for count(*), checked: of all events, of those with some values in a column, or of each value."""

    def __init__(
        self, query: Query, plan: SlicedAggregation | None, stream: Stream, summaries: Sequence[StreamSummary]
    ) -> None:
        """`plan`: what would answer it exactly."""
        source = query.source
        if plan is None or not isinstance(source, Named) or source.window is None or not _is_plain(query, plan):
            hint = "write SELECT APPROX count(*) FROM stream [RANGE r] WHERE column = constant"
            raise NotSupported("this form of SELECT APPROX", query.place, hint=hint)
        self._query, self._stream = query, stream
        self._length = _length(source.window, query)
        condition = condition_of(plan.predicate, stream.types, query.place)
        self._column = _grouped(query, plan, condition.column)
        self._summaries = [s for s in summaries if s.stream == stream.name and self._serves(s)]
        type_ = TIMESTAMP if self._column is None else stream.types[self._column]
        if not self._summaries:
            raise self._no_summary()
        enumerates = condition.values is None or (bool(query.group_by) and condition.values.others)
        if enumerates:
            self._summaries = self._knowing_values()
        self._rows = SummaryRows(plan.template, condition, self._column, type_)
        self._schema = _schema(query.items, type_)

    def _serves(self, summary: StreamSummary) -> bool:
        return self._column in (None, summary.column)

    def _knowing_values(self) -> list[StreamSummary]:
        """The summaries that tell which values came."""
        knowing = [summary for summary in self._summaries if KINDS[summary.kind].knows_codes]
        if knowing:
            return knowing
        asked = "GROUP BY" if self._query.group_by else "this condition"
        kind = self._summaries[0].kind
        hint = f"{kind} does not know which values came: name them, WHERE {self._column} IN (...), or use counts"
        raise NotSupported(
            f"{asked} of SELECT APPROX over {self._stream.name}({self._column})", self._query.place, hint=hint
        )

    def answer(self, view: View | None) -> SourcedRows:
        """The rows of what holds the window best: exactly rather than probably, then with the nearest bounds."""
        if view is None:
            rows = self._table(None, None, self._rows.of_nothing())
            return rows, f"the summary {self._summaries[0].name}, which has seen nothing yet", None
        after = view.newest - self._length
        named = [view.synopses.get(definition.name) for definition in self._summaries]
        summaries = [s for s in named if isinstance(s, ColumnSummary) and s.definition in self._summaries]
        holding = [summary for summary in summaries if summary.holds(after)]
        if not holding:
            raise self._reaches_less(summaries)
        try:
            answers = [(self._rows.of(summary, view, after), summary) for summary in holding]
        except ValuesNotKnown as unknown:
            raise self._not_all_known() from unknown
        counted, summary = min(answers, key=lambda answer: (not answer[1].is_exact, answer[0].width))
        return self._table(after, view.newest, counted), _source(summary, after), view.newest

    def _table(self, opens: int | None, closes: int | None, counted: BoundedRows) -> pa.Table:
        length = len(counted.value)
        arrays = [pa.array([at] * length, INSTANT) for at in (opens, closes)]
        for item in self._query.items:
            if _is_count(item.expr):
                arrays += [pa.array(bound, NUMBER) for bound in (counted.low, counted.value, counted.high)]
            else:
                arrays.append(counted.keys.to_arrow())
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def _no_summary(self) -> CheckError:
        on = f"{self._stream.name}({self._column or 'column'})"
        hint = f"CREATE SUMMARY name ON {on} WITH GRANULARITY '10 s' AND COLLAPSE (4, 8)"
        return CheckError(f"there is no summary on {on}", self._query.place, hint=hint)

    def _not_all_known(self) -> CheckError:
        on = f"{self._stream.name}({self._column})"
        hint = f"name them, WHERE {self._column} IN (...); a larger MEMORY keeps more of the values to come"
        message = f"the summary on {on} has counted values of this window that it does not know by name"
        return CheckError(message, self._query.place, hint=hint)

    def _reaches_less(self, summaries: Sequence[ColumnSummary]) -> CheckError:
        on = f"{self._stream.name}({self._column or self._summaries[0].column})"
        if not summaries:
            return CheckError(f"the summary on {on} has seen no event yet", self._query.place)
        hint = "ask for a shorter window; a larger depth, rate, granularity or MEMORY makes it reach further"
        message = f"the summary on {on} does not hold all events of this window"
        return CheckError(message, self._query.place, hint=hint)


def _is_plain(query: Query, plan: SlicedAggregation) -> bool:
    """Whether nothing but count(*) of events and, of groups, their value is asked for, chosen and ordered by."""
    template = plan.template
    above = [*([] if template.having is None else [template.having]), *(order.expr for order in template.order_by)]
    chosen = {node.name for expr in above for node in walk(expr) if isinstance(node, Column)}
    if query.distinct or query.union or plan.lookups or (above and not query.group_by):
        return False
    counts = all(aggregate.function == "count" and not [*aggregate.expressions()] for aggregate in template.aggregates)
    return counts and not chosen & {*WINDOW_COLUMNS}


def _grouped(query: Query, plan: SlicedAggregation, asked: str | None) -> str | None:
    """The column that the question is about: that of GROUP BY, which the condition must be about too."""
    if not query.group_by:
        return asked
    (key, *more) = plan.keys
    if more or not isinstance(key, Column) or asked not in (None, key.name):
        hint = "group by the column of the summary, and use only this column in WHERE"
        raise NotSupported("this GROUP BY of SELECT APPROX", query.place, hint=hint)
    return key.name


def _length(window: Window, query: Query) -> int:
    """How far back a window goes that ends now: [RANGE r] and [NOW]."""
    plain = window.attribute is None and not window.partition_by and window.slide is None and not window.internal
    if not plain or window.slide_rows is not None or (window.range is None and not window.now):
        hint = "write [RANGE r], such as [RANGE '1 day']"
        raise NotSupported("SELECT APPROX count(*) over such a window", window.place or query.place, hint=hint)
    return 1 if window.now else window.range or 0


def _source(summary: ColumnSummary, after: int) -> str:
    definition = summary.definition
    length = duration_text(summary.zone_length(summary.counts.oldest(after)))
    sure = "" if summary.is_exact else f"; each bound holds with a probability of {SURE:.0%}"
    return f"the summary {definition.name} ({definition.kind}, zones of up to {length}{sure})"


@lru_cache(maxsize=1024)
def _schema(items: tuple[Item, ...], key: Type) -> pa.Schema:
    """Three columns for each count, one for a key; names must differ."""
    fields = [(name, INSTANT) for name in WINDOW_COLUMNS]
    for item in items:
        counted = _is_count(item.expr)
        name = "count" if counted and item.name is None else item_name(item)
        for column in (f"{name}_low", name, f"{name}_high") if counted else (name,):
            if any(column.lower() == other.lower() for other, _ in fields):
                raise CheckError(f"two columns of the answer are called '{column}'", item.place, hint="give one an AS")
            fields.append((column, NUMBER if counted else arrow_type(key)))
    return pa.schema(fields)
