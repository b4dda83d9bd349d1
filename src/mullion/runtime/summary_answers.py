"""Questions that summaries answer: how often a value came, however long ago.

    SELECT APPROX count(*) FROM store [RANGE '1 day'] WHERE item = 7

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
from mullion.expressions.coding.hashes import keys_of
from mullion.expressions.evaluate import evaluate
from mullion.expressions.vector import arrow_type
from mullion.language.query import Aggregate, Call, Cast, Column, Expr, Item, Named, Query, Window
from mullion.language.render import duration_text
from mullion.language.types import BIGINT, TIMESTAMP
from mullion.planner.sliced import SlicedAggregation
from mullion.slices.order import times_of
from mullion.summaries.base import SURE
from mullion.summaries.column_summary import Bounds, ColumnSummary, codes_of

if TYPE_CHECKING:
    from mullion.runtime.view import SourcedRows, View

INSTANT, NUMBER = arrow_type(TIMESTAMP), arrow_type(BIGINT)


def counts_events(query: Query) -> bool:
    """Whether each item of a SELECT APPROX is count(*)."""
    return all(_is_count(item.expr) for item in query.items)


def _is_count(expr: Expr) -> bool:
    return isinstance(expr, Aggregate) and expr.function == "count" and not expr.args and expr.where is None


class CountedValue:
    """A question for count(*), checked: of all events, or of those with one value in a column."""

    def __init__(
        self, query: Query, plan: SlicedAggregation | None, stream: Stream, summaries: Sequence[StreamSummary]
    ) -> None:
        """`plan`: what would answer it exactly."""
        source = query.source
        plain = not (query.group_by or query.having or query.order_by or query.distinct or query.union)
        if plan is None or not isinstance(source, Named) or source.window is None or not plain:
            hint = "write SELECT APPROX count(*) FROM stream [RANGE r] WHERE column = constant"
            raise NotSupported("this form of SELECT APPROX", query.place, hint=hint)
        self._query, self._stream = query, stream
        self._length = _length(source.window, query)
        self._column: str | None = None
        self._code: int | None = None
        """None where no value is equal to the constant."""
        if plan.predicate is not None:
            self._column, self._code = self._equality(plan.predicate)
        on_stream = [summary for summary in summaries if summary.stream == stream.name]
        self._summaries = [summary for summary in on_stream if self._column in (None, summary.column)]
        self._schema = _schema(query.items)
        if not self._summaries:
            on = f"{stream.name}({self._column or 'column'})"
            hint = f"CREATE SUMMARY name ON {on} WITH GRANULARITY '10 s' AND COLLAPSE (4, 8)"
            raise CheckError(f"there is no summary on {on}", query.place, hint=hint)

    def _equality(self, predicate: Expr) -> tuple[str, int | None]:
        """The column and the code of its value, of `column = constant`."""
        if isinstance(predicate, Call) and predicate.function == "eq":
            for one, other in (predicate.args, predicate.args[::-1]):
                column = self._plain_column(one)
                if column is not None and not _has_columns(other):
                    keys = keys_of([evaluate(other, {}, 1).to_arrow()], 1)
                    known = keys.known is None or bool(keys.known[0])
                    return column, int(keys.codes[0]) if known else None
        hint = "write WHERE column = constant, with a constant of the column's type"
        raise NotSupported("this condition of SELECT APPROX", self._query.place, hint=hint)

    def _plain_column(self, expr: Expr) -> str | None:
        """The column, also where it is a whole number that is only made wider: its code is the same."""
        if isinstance(expr, Cast) and isinstance(expr.arg, Column):
            widens = expr.type.is_integer and self._stream.types[expr.arg.name].is_integer
            return expr.arg.name if widens else None
        return expr.name if isinstance(expr, Column) else None

    def answer(self, view: View | None) -> SourcedRows:
        """The bounds of what holds the window best: exactly rather than probably, then those that are nearest."""
        if view is None:
            empty = [None, None, *([0, 0, 0] * len(self._query.items))]
            return self._table(empty), f"the summary {self._summaries[0].name}, which has seen nothing yet", None
        after = view.newest - self._length
        known = [view.synopses.get(definition.name) for definition in self._summaries]
        fed = [one for one in known if isinstance(one, ColumnSummary) and one.definition in self._summaries]
        holding = [summary for summary in fed if summary.holds(after)]
        if not holding:
            raise self._reaches_less(fed)
        found = [(self._bounds(summary, view, after), summary) for summary in holding]
        bounds, summary = min(found, key=lambda one: (not one[1].is_exact, one[0].high - one[0].low))
        row = [after, view.newest, *(list(bounds[:3]) * len(self._query.items))]
        return self._table(row), _source(summary, bounds), view.newest

    def _bounds(self, summary: ColumnSummary, view: View, after: int) -> Bounds:
        if self._column is None:
            bounds = summary.events_after(after)
        elif self._code is None:
            bounds = Bounds(0, 0, 0, 0)
        else:
            bounds = summary.count_after(self._code, after)
        more = self._waiting(view, after)
        return Bounds(bounds.low + more, bounds.value + more, bounds.high + more, bounds.granularity)

    def _waiting(self, view: View, after: int) -> int:
        """How many events that have no place yet are in the window, exactly."""
        waiting = view.waiting
        if waiting is None or not len(waiting) or (self._column is not None and self._code is None):
            return 0
        later = times_of(waiting) > after
        if self._column is None or self._code is None:
            return int(later.sum())
        if self._column not in waiting.schema.names:  # They came before the summary was made.
            return 0
        codes, known = codes_of(waiting, self._column)
        same = later & (codes == self._code)
        return int((same if known is None else same & known).sum())

    def _table(self, row: Sequence[int | None]) -> pa.Table:
        arrays = [pa.array([value], type_) for value, type_ in zip(row, self._schema.types, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def _reaches_less(self, fed: Sequence[ColumnSummary]) -> CheckError:
        on = f"{self._stream.name}({self._column or self._summaries[0].column})"
        if not fed:
            return CheckError(f"the summary on {on} has seen no event yet", self._query.place)
        hint = "ask for a shorter window; a larger depth, rate, granularity or MEMORY makes it reach further"
        message = f"the summary on {on} does not hold all events of this window"
        return CheckError(message, self._query.place, hint=hint)


def _length(window: Window, query: Query) -> int:
    """How far back a window goes that ends now: [RANGE r] and [NOW]."""
    plain = window.attribute is None and not window.partition_by and window.slide is None and not window.internal
    if not plain or window.slide_rows is not None or (window.range is None and not window.now):
        hint = "write [RANGE r], such as [RANGE '1 day']"
        raise NotSupported("SELECT APPROX count(*) over such a window", window.place or query.place, hint=hint)
    return 1 if window.now else window.range or 0


def _has_columns(expr: Expr) -> bool:
    match expr:
        case Column():
            return True
        case Call(args=args):
            return any(map(_has_columns, args))
        case Cast(arg=arg):
            return _has_columns(arg)
    return False


def _source(summary: ColumnSummary, bounds: Bounds) -> str:
    definition = summary.definition
    length = duration_text(summary.zone_length(bounds.granularity))
    sure = "" if summary.is_exact else f"; each bound holds with a probability of {SURE:.0%}"
    return f"the summary {definition.name} ({definition.kind}, zones of up to {length}{sure})"


@lru_cache(maxsize=1024)
def _schema(items: tuple[Item, ...]) -> pa.Schema:
    """Three columns for each item; names must differ."""
    fields = [(name, INSTANT) for name in WINDOW_COLUMNS]
    for item in items:
        name = "count" if item.name is None else item_name(item)
        for column in (f"{name}_low", name, f"{name}_high"):
            if any(column.lower() == other.lower() for other, _ in fields):
                raise CheckError(f"two columns of the answer are called '{column}'", item.place, hint="give one an AS")
            fields.append((column, NUMBER))
    return pa.schema(fields)
