"""A query bound to the algebra: a `Relation` with its plan as written, before any rewriting.

Query --FROM, WHERE--> Layout --SELECT--> Selected --UNION, EXCEPT--> Selected --output, instants--> Relation
        sources                 selecting            set_operations              here
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mullion.algebra.nodes import Node, Promising, ResultWindow, is_aggregates, nodes, scans
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.algebra.window_aggregate import type_of_bounds
from mullion.binding.bounded_joins import bounded, limited, over_found
from mullion.binding.entering import entering_at, no_past
from mullion.binding.internal_windows import check_internal
from mullion.binding.one_window import groups_one_window
from mullion.binding.preferences import preferred, with_windows
from mullion.binding.promised_aggregates import over_preferred
from mullion.binding.promises import SummaryOn
from mullion.binding.scheduled import check_scheduled, check_scheduled_within
from mullion.binding.scope import Scope
from mullion.binding.selecting import Selected, is_aggregating, select
from mullion.binding.set_operations import combined_parts
from mullion.binding.shed_streams import answered_from_kept
from mullion.binding.sources import BindingContext, Read, ResultSource, over_results, read_sources
from mullion.binding.subqueries import existing
from mullion.binding.windows import CONTINUOUS, Clock, Timing, clock_of, reach, result_window
from mullion.errors import CheckError, NotSupported, Place
from mullion.language.limits import DEEPEST
from mullion.language.query import Derived, Output, Query, Window
from mullion.language.render import render
from mullion.language.types import TIMESTAMP

RESERVED_NAMES = ("inserted_at", "expires_at", "sign")
"""Columns that answers may have besides window_start and window_end."""


def bind(
    query: Query,
    streams: Mapping[str, Stream],
    tables: Mapping[str, Table] | None = None,
    materialized: Mapping[str, Relation] | None = None,
    summaries: Iterable[SummaryOn] = (),
) -> Relation:
    """Check the query and make its plan. Raises CheckError or NotSupported with the place."""
    text = render(query)
    query = with_windows(query, streams)
    short = limited(query, streams)
    tables = tables or {}
    known = {name.lower() for name in (*streams, *tables)} if materialized else set()
    read_by = {name.lower(): r for name, r in (materialized or {}).items() if name.lower() not in known}
    one_window = groups_one_window(query, streams, tables, read_by)
    if short:
        query = over_found(query, short, streams)
    else:
        query = answered_from_kept(query, streams, by_slices=one_window and query.name is not None)
    binder = _Binder(streams, tables, read_by, tuple(summaries))
    clock = binder.timing.clock(query)
    selected = binder.result(query, clock, one_window=one_window)
    if one_window:
        _check_start(query, selected.node)
    else:
        _check_names(selected, query.place)
    check_internal(query, selected.node)
    _check_backfill(query, selected.node, read_by.values())
    output, output_window, clock = _output(query, selected.node, clock)
    bound = Relation(
        name=query.name or "query",
        text=text,
        root=selected.node,
        output=output,
        output_window=output_window,
        restore=query.output is not None and query.output.restore,
        slide=clock.slide,
        offset=clock.offset,
        at_most=clock.at_most,
        longest=_longest(selected.node, output_window, query.place),
        names=selected.names,
        order_by=selected.order_by,
        limit=query.limit,
        stop=query.stop_at,
        materialized=query.materialized,
        backfill=query.backfill,
        prefers=query.preference is not None,
        after=query.start_at if query.backfill else None,
    )
    start = None if query.backfill else query.start_at
    return entering_at(bound, start, {relation.root for relation in read_by.values()})


def _check_backfill(query: Query, root: Node, materialized: Iterable[Relation]) -> None:
    """A query with a past cannot read a result that has none."""
    parts = set(nodes(root))
    read = [relation for relation in materialized if relation.root in parts and not relation.backfill]
    if query.backfill and read:
        why = f"it reads '{read[0].name}', which holds nothing from before it entered"
        hint = f"leave BACKFILL out, or give it to '{read[0].name}' too"
        raise no_past(query.name or "query", why, query.place, hint=hint)


class _Binder:
    """Binds queries and the queries within them."""

    def __init__(
        self,
        streams: Mapping[str, Stream],
        tables: Mapping[str, Table],
        materialized: Mapping[str, Relation],
        summaries: Sequence[SummaryOn],
    ) -> None:
        self._known = streams, tables, materialized
        self.summaries = summaries
        self.timing = Timing(materialized)

    def result(self, query: Query, clock: Clock, *, one_window: bool = False) -> Selected:
        layout = bounded(query, self._read(query, clock, one_window=one_window).layout, self._known[0])
        layout = preferred(query, layout, self.summaries)
        if isinstance(layout.node, Promising) and is_aggregating(query):
            query = over_preferred(query, layout.node)
        _refuse(query)
        head = select(query, layout, clock)
        if not query.union and not query.excepted:
            return head
        united = [self._part(part, clock) for part in query.union]
        excepted = [self._part(part, clock) for part in query.excepted]
        return combined_parts(query, head, united, excepted)

    def _read(self, query: Query, clock: Clock, outer: Scope | None = None, *, one_window: bool = False) -> Read:
        return read_sources(
            query,
            BindingContext(*self._known, self._sub_query),
            clock,
            lambda layout, exists, negated, clock: existing(layout, exists, negated, clock, self._read),
            outer,
            one_window=one_window,
        )

    def _part(self, query: Query, clock: Clock) -> Selected:
        """A part of a union or difference."""
        self._refuse_around(query, "a part of a union")
        return self.result(query, clock)

    @staticmethod
    def _refuse_around(query: Query, where: str) -> None:
        if query.output is not None:
            hint = "leave it out: it stands around the whole query, or in FROM under a window over its results"
            raise NotSupported(f"{query.output.kind.upper()} in {where}", query.output.place, hint=hint)
        if query.limit is not None:
            raise NotSupported(f"LIMIT in {where}", query.place, hint="write it after the whole query")
        if query.order_by:
            raise NotSupported(f"ORDER BY in {where}", query.order_by[0].place, hint="write it after the whole query")
        if query.preference is not None:
            hint = "write it after the whole query"
            raise NotSupported(f"WITH PREFERENCE in {where}", query.preference.place, hint=hint)

    def _sub_query(self, source: Derived, clock: Clock) -> ResultSource:
        """A sub-query in FROM: as it is, or a window over its new results."""
        query, window, around = source.query, source.window, source.query.output
        if around is not None and window is None and around.kind == "wstream":
            window = around.window
        elif around is not None and (window is None or around.kind != "istream" or around.restore):
            hint = "write (ISTREAM (SELECT ...)) [RANGE r], a window over the new results"
            raise NotSupported(f"{around.kind.upper()} in FROM", around.place, hint=hint)
        query = replace(query, output=None)
        self._refuse_around(query, "a sub-query")
        name = source.alias or "the sub-query"
        if window is None:
            inner = self.result(query, clock)
            return ResultSource(name, inner.node, inner.names)
        own = self.timing.clock(query)
        check_scheduled_within(own, clock, source.place)
        inner = self.result(query, own)
        return ResultSource(name, over_results(inner.node, window, own, source.place), inner.names)


def _refuse(query: Query) -> None:
    if query.approximate:
        raise NotSupported("SELECT APPROX in this query", query.place, hint="it is for one-time questions")


def _output(query: Query, root: Node, clock: Clock) -> tuple[str, Window | None, Clock]:
    """What is emitted of the result, a window over its new rows, and the instants at which it is emitted."""
    around = query.output
    kind = _default_output(root, clock) if around is None else around.kind
    if around is not None:
        _check_output(around, root, clock)
    if query.materialized and around is not None and kind != "rstream":
        hint = "materialise the query within it"
        raise NotSupported(f"MATERIALIZED with {kind.upper()}", around.place, hint=hint)
    if query.limit is not None and (query.materialized or kind not in ("rstream", "wstream")):
        what = "MATERIALIZED" if query.materialized else "a result that is answered by its changes"
        hint = "write RSTREAM (SELECT ... LIMIT n)" + ("" if clock.slide else ", or give the windows a SLIDE")
        raise NotSupported(f"LIMIT with {what}", query.place, hint=None if query.materialized else hint)
    window = None if around is None else around.window
    own = CONTINUOUS if window is None else clock_of(window)
    if own != CONTINUOUS:
        check_scheduled_within(clock, own, query.place)
        clock = own
    check_scheduled(query, kind, clock)
    return kind, None if window is None else result_window(window), clock


def _default_output(root: Node, clock: Clock) -> str:
    if all(scan.window.internal for scan in scans(root)):
        return "istream"
    return "changes" if clock == CONTINUOUS and not is_aggregates(root) else "rstream"


def _check_output(output: Output, root: Node, clock: Clock) -> None:
    if output.restore and clock == CONTINUOUS:
        hint = "it adds rows that came and left between two answers: give the windows a SLIDE, or leave RESTORE out"
        raise CheckError("RESTORE needs windows with a SLIDE", output.place, hint=hint)
    if output.restore and is_aggregates(root):
        message = "RESTORE is for rows: no group comes and goes between two answers"
        raise CheckError(message, output.place, hint="leave RESTORE out")


def _longest(root: Node, output_window: Window | None, place: Place | None) -> int | None:
    longest = reach(root if output_window is None else ResultWindow(root, output_window))
    if longest is not None and longest > DEEPEST:
        raise CheckError("the windows over each other reach back more than 100,000 years", place)
    return longest


def _check_start(query: Query, root: Node) -> None:
    (scan,) = scans(root)
    if type_of_bounds(scan) != TIMESTAMP and (query.start_at is not None or query.stop_at is not None):
        message = f"START AT and STOP AT are times, and the window goes over '{scan.window.attribute}'"
        raise CheckError(message, scan.window.place, hint="leave them out")


def _check_names(selected: Selected, place: Place | None) -> None:
    for name in selected.names:
        if name.lower() in RESERVED_NAMES:
            hint = f"it is one of {', '.join(RESERVED_NAMES)}: give it an AS"
            raise CheckError(f"a column of the answer cannot be called '{name}'", place, hint=hint)
