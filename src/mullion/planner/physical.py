"""Which of the two physical ways runs a relation: the one place where that is decided.

    slices     aggregates over the window of one stream (`algebra.window_aggregate`): partials of slices, no rows
    operators  everything else: joins, duplicates, negation, rows

Where both could, slices do: their partials never move rows, and all queries over a stream share them. They cost less,
but for a query that is alone and has few events (decision 53); and nobody knows beforehand that it stays alone.
EXPLAIN says which it was, why, and what both cost (`way_costs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS
from mullion.algebra.nodes import Aggregated, Scan, nodes
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream
from mullion.algebra.window_aggregate import WindowAggregate, type_of_bounds, window_aggregate
from mullion.expressions.shared import shared
from mullion.expressions.typing import resolve_predicate
from mullion.instants import EVERYTHING
from mullion.language.query import TIME_AXIS, Axis, Call, Column, Expr, Literal, OrderTerm, Period, Window, walk
from mullion.planner.sliced import TEMPLATES, AnswerTemplate, SlicedAggregation


def sliced(relation: Relation, streams: Mapping[str, Stream]) -> SlicedAggregation | None:
    """The relation as slices run it; None where operators must."""
    made = relation.memoized(_by_time)
    return None if made is None else _sliced_over(streams[made.stream], made, relation)


def _sliced_over(stream: Stream, made: _ByTime, relation: Relation) -> SlicedAggregation:
    plan = made.plans.get(stream.time_column)
    if plan is None:
        plan = made.plans[stream.time_column] = _sliced(relation, made.parts, stream)
    return plan


class _ByTime(NamedTuple):
    """A relation as slices run it, by the column that is the time: a relation does not say which that is, and streams
    may differ in nothing else."""

    stream: str
    plans: dict[str, SlicedAggregation]
    parts: WindowAggregate


def _by_time(relation: Relation) -> _ByTime | None:
    parts = window_aggregate(relation.root) if why_operators(relation) is None else None
    return None if parts is None else _ByTime(parts.scan.stream, {}, parts)


class ByWay(NamedTuple):
    """Relations by the way that runs them, in their order."""

    by_stream: dict[str, list[SlicedAggregation]]
    """What slices run."""
    operators: list[Relation]
    tables: set[str]
    """Those that slices look rows up in."""

    @property
    def slices(self) -> list[SlicedAggregation]:
        return list(chain.from_iterable(self.by_stream.values()))


def by_way(relations: Iterable[Relation], streams: Mapping[str, Stream]) -> ByWay:
    """Of thousands, looking at each takes longer than what is made of it: they are gone through once."""
    by_stream: dict[str, list[SlicedAggregation]] = {}
    operators, lookups = [], {}
    times = {name: stream.time_column for name, stream in streams.items()}
    for relation in relations:
        made = relation.memoized(_by_time)
        if made is None:
            operators.append(relation)
            continue
        name = made.stream
        plan = made.plans.get(times[name]) or _sliced_over(streams[name], made, relation)
        if plan.lookups:
            lookups[id(plan.lookups)] = plan.lookups
        if name in by_stream:
            by_stream[name].append(plan)
        else:
            by_stream[name] = [plan]
    return ByWay(by_stream, operators, {lookup.table for own in lookups.values() for lookup in own})


def why_slices(axis: Axis) -> str:
    """Why slices run the queries whose windows lie over the axis."""
    if axis == TIME_AXIS:
        return "aggregates over windows of one stream, by partials, which never move rows"
    return "aggregates over windows of one stream that follow its events; operators follow a clock, or changes"


def why_only_slices(query: SlicedAggregation) -> str | None:
    """Why operators cannot answer a query over time as slices do; None where both can."""
    if query.at_most is not None:
        return "they answer SLIDE AT MOST at multiples of its period alone"
    if query.frame.since is not None:
        return "they know no start of a window since a time"
    above = [expr for expr, _ in query.template.items] + [order.expr for order in query.template.order_by]
    above += [] if query.template.having is None else [query.template.having]
    named = {node.name for expr in above for node in walk(expr) if isinstance(node, Column)}
    return "they compute nothing from window_start or window_end" if named & set(WINDOW_COLUMNS) else None


def why_operators(relation: Relation) -> str | None:
    """Why slices cannot run it; None where they can."""
    below = list(nodes(relation.plan))
    reasons = [node.why_operators for node in below if node.why_operators is not None]
    if reasons:
        return min(reasons).text
    if not any(isinstance(node, Aggregated) for node in below):
        return "its answers are rows, not groups"
    if relation.materialized:
        return "its result is kept as rows, for others to read"
    if relation.output != "rstream" or relation.restore:
        return "it tells how its result changes, row by row"
    return None if window_aggregate(relation.root) is not None else "it groups the result of another query"


def _sliced(relation: Relation, parts: WindowAggregate, stream: Stream) -> SlicedAggregation:
    scan = parts.scan
    window, axis = laid_out(scan.window, scan.partition)
    frame = scan.window
    if frame.unbounded and scan.since is not None:
        frame = replace(frame, since=scan.since)
    return SlicedAggregation(
        name=relation.name,
        text=relation.text,
        stream=stream.name,
        window=window,
        predicate=_since(frame, scan, parts.where, stream),
        keys=tuple(key for key, _ in parts.aggregated.keys),
        template=_template(relation, parts),
        start=relation.start,
        stop=relation.stop,
        backfill=relation.backfill,
        after=relation.after,
        prefers=relation.prefers,
        tag=relation.tag,
        entered_after=relation.entered_after,
        lookups=parts.lookups,
        axis=axis,
        frame=frame,
        at_most=window.slide if frame.at_most else None,
    )


def _since(frame: Window, scan: Scan, where: Expr | None, stream: Stream) -> Expr | None:
    """What events are selected by: WHERE, and of a window with a landmark that they are not before it."""
    if frame.since is None:
        return where
    column = Column(frame.attribute or stream.time_column)
    since = resolve_predicate(Call("ge", (column, Literal(frame.since, type_of_bounds(scan)))), dict(stream.types))
    return shared(since if where is None else Call("and", (since, where)))


def _template(relation: Relation, parts: WindowAggregate) -> AnswerTemplate:
    items = parts.project.items
    columns = {name: expr for name, expr, _ in items}
    ordered = []
    for expr, descending, nulls_first in relation.order_by:
        assert isinstance(expr, Column)
        ordered.append(OrderTerm(columns[expr.name], descending, nulls_first))
    template = AnswerTemplate(
        keys=tuple(type_ for _, type_ in parts.aggregated.keys),
        aggregates=parts.aggregated.aggregates,
        names=relation.names,
        items=tuple((expr, type_) for _, expr, type_ in items[: len(relation.names)]),
        having=parts.having,
        order_by=tuple(ordered),
        limit=relation.limit,
        bounds=type_of_bounds(parts.scan),
    )
    return TEMPLATES.intern(template)


def laid_out(window: Window, partition: tuple[Expr, ...]) -> tuple[Period, Axis]:
    """The axis of a window, and its bounds on it."""
    order = window.attribute or ""
    if partition:
        return Period(1, 1), Axis("partitions", partition=partition)
    if window.rows is not None and window.slide is None:
        return Period(window.rows, window.slide_rows or 1), Axis("rows")
    if window.slide is None or window.rows is not None:
        return Period(1, 1), Axis("events", order)
    kind = "column" if order else "time"
    return Period(EVERYTHING if window.range is None else window.range, window.slide, window.offset), Axis(kind, order)
