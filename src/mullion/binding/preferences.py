"""WITH PREFERENCE: the join or selection of a query becomes one that tells its most promising part first (ali 3, 5).

    ... FROM s1 [RANGE '1 min'], s2 [RANGE '1 min'] WHERE s1.item = s2.item
    WITH PREFERENCE DESC estimate(s1.item) * s1.price, estimate(s2.item) FADE FACTOR 0.8 BUDGET '200 ms'

    Promising(Join(s1, s2), desc, (#estimate * price, #estimate), 200 ms, fade 0.8)

Joins are in `preferred_joins`, selections in `preferred_selections`. What would make wrong rows of a part of the rows,
not fewer, is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mullion.algebra.nodes import Join, nodes
from mullion.algebra.streams import Stream
from mullion.binding.layouts import Layout
from mullion.binding.parts_of_joins import refuse_around, refuse_below
from mullion.binding.preferred_joins import Stack
from mullion.binding.preferred_selections import preferred_rows
from mullion.binding.promises import SummaryOn
from mullion.binding.selecting import is_aggregating
from mullion.errors import NotSupported
from mullion.language.query import JoinClause, Named, Query, Source, Window


def with_windows(query: Query, streams: Mapping[str, Stream]) -> Query:
    """The query with the window at its end, if there is one, on every stream that has none."""
    if query.preference is None or query.preference.window is None:
        return query
    window = Window(range=query.preference.window, place=query.preference.place)
    names = {name.lower() for name in streams}

    def windowed(source: Source) -> Source:
        match source:
            case JoinClause(left=left, right=right):
                return replace(source, left=windowed(left), right=windowed(right))
            case Named(window=None, name=name) if name.lower() in names:
                return replace(source, window=window)
            case _:
                return source

    return replace(query, source=windowed(query.source))


def preferred(query: Query, layout: Layout, summaries: Iterable[SummaryOn]) -> Layout:
    """The rows of FROM and WHERE, the most promising first where there is no time for all."""
    preference = query.preference
    if preference is None:
        return layout
    if layout.of_one_window:
        for expr in preference.exprs:
            layout.plain(expr)
        return layout
    refuse_around(query, preference.place)
    refuse_below(layout.node, preference.place)
    if not isinstance(layout.node, Join):
        if any(isinstance(below, Join) for below in nodes(layout.node)):
            hint = "write it in a query that joins streams and does nothing else in FROM"
            raise NotSupported("WITH PREFERENCE over the result of a join", preference.place, hint=hint)
        if is_aggregating(query):
            hint = "leave the PREFERENCE out: an aggregate over one stream is answered exactly"
            raise NotSupported("an aggregate over a selection with a PREFERENCE", preference.place, hint=hint)
        return replace(layout, node=preferred_rows(layout, preference, list(summaries)))
    node, names = Stack(layout, preference, list(summaries), aggregated=is_aggregating(query)).promising_join()
    return replace(layout, node=node, columns={source: names[name] for source, name in layout.columns.items()})
