"""WITH PREFERENCE: the join or selection of a query becomes one that tells its most promising part first (ali 3, 5).

    ... FROM s1 [RANGE '1 min'], s2 [RANGE '1 min'] WHERE s1.item = s2.item
    WITH PREFERENCE DESC estimate(s1.item) * s1.price, estimate(s2.item) FADE FACTOR 0.8 BUDGET '200 ms'

    Promising(Join(s1, s2), desc, (#estimate * price, #estimate), 200 ms, fade 0.8)

Each input has an expression, for its new rows; estimate(x) is how many rows of the other input have the key x. Joins of
more than two are exact but for the last. Selections have one (`preferred_selections`). What would make wrong rows of a
part of the rows, not fewer, is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mullion.algebra.column_names import inside, names_in, outside, parts_in
from mullion.algebra.nodes import Join, Promising, Scan, nodes
from mullion.algebra.streams import Stream
from mullion.binding.layouts import Layout
from mullion.binding.parts_of_joins import refuse_around, refuse_below
from mullion.binding.preferred_selections import preferred_rows
from mullion.binding.promises import SummaryOn, ages_of, create_hint, promised
from mullion.binding.selecting import is_aggregating
from mullion.errors import CheckError, NotSupported, Place
from mullion.expressions.shared import shared
from mullion.language.query import (
    Budget,
    Call,
    Column,
    Expr,
    Named,
    Preference,
    Query,
    Source,
    Window,
    rewrite,
)
from mullion.language.query import Join as JoinedSources


def with_windows(query: Query, streams: Mapping[str, Stream]) -> Query:
    """The query with the window at its end, if there is one, on every stream that has none."""
    if query.preference is None or query.preference.window is None:
        return query
    window = Window(range=query.preference.window, place=query.preference.place)
    names = {name.lower() for name in streams}

    def windowed(source: Source) -> Source:
        match source:
            case JoinedSources(left=left, right=right):
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
            raise NotSupported("WITH PREFERENCE over what is made of a join", preference.place, hint=hint)
        if is_aggregating(query):
            hint = "leave the PREFERENCE out: an aggregate over one stream is answered exactly"
            raise NotSupported("an aggregate over a selection with a PREFERENCE", preference.place, hint=hint)
        return replace(layout, node=preferred_rows(layout, preference, list(summaries)))
    layout = _of_two(layout)
    join = layout.node
    assert isinstance(join, Join)
    sides = _Sides(join, layout, preference, list(summaries))
    promises = sides.promises()
    fade = 1.0 if preference.fade is None else preference.fade
    memory = sides.memory()
    ages = ((), ()) if fade == 1 and memory is None else (sides.ages(0), sides.ages(1))
    budget = replace(preference.budget or Budget(), place=None)
    node = Promising(join, preference.kind, promises, budget, fade, ages, memory, aggregated=is_aggregating(query))
    if node.weighs and memory is not None:
        hint = "leave MEMORY out of the summary, or take DESC: how likely a pair was to be there would not be known"
        raise NotSupported("an aggregate over a WEIGHTED join within MEMORY", preference.place, hint=hint)
    return replace(layout, node=node)


def _of_two(layout: Layout) -> Layout:
    """A join of many as one of the last with the exact join of the others."""
    join = layout.node
    assert isinstance(join, Join)
    last = len(join.parts) - 1
    if last == 1:
        return layout

    def renamed(name: str) -> str:
        part, _, own = name.partition(".")
        return f"1.{own}" if int(part) == last else f"0.{name}"

    def change(node: Expr) -> Expr | None:
        return Column(renamed(node.name), place=node.place) if isinstance(node, Column) else None

    others = Join(join.parts[:-1], join.keys[:-1])
    keys = tuple(shared(outside(key, 0)) for key in join.keys[0]), join.keys[-1]
    residual = None if join.residual is None else shared(rewrite(join.residual, change))
    columns = {source: renamed(name) for source, name in layout.columns.items()}
    return replace(layout, node=Join((others, join.parts[-1]), keys, residual), columns=columns)


class _Sides:
    """What the two inputs of a join are asked by."""

    def __init__(self, join: Join, layout: Layout, preference: Preference, summaries: list[SummaryOn]) -> None:
        self.join, self.layout, self.preference, self.summaries = join, layout, preference, summaries

    def promises(self) -> tuple[Expr, Expr]:
        """The expression of each input, over its own columns and the estimate."""
        found: dict[int, dict[Expr, Place | None]] = {0: {}, 1: {}}
        for written in self.preference.exprs:
            placed = self.layout.plain(written)
            read = parts_in(placed)
            if len(read) > 1:
                hint = "write one expression for each stream, over its own columns"
                raise NotSupported("a PREFERENCE over the columns of several streams", written.place, hint=hint)
            for side in read or {0, 1}:
                found[side][self._promise(placed, side, written.place)] = written.place
        for side, exprs in found.items():
            if len(exprs) != 1:
                which = self._stream(side)
                message = f"WITH PREFERENCE has {len(exprs)} expressions for the new rows of {which}"
                key = render_key(self.join, side)
                hint = f"write one for each stream, such as estimate({key})"
                raise CheckError(message, next(iter(exprs.values()), self.preference.place), hint=hint)
        first, second = (next(iter(found[side])) for side in (0, 1))
        return first, second

    def _promise(self, placed: Expr, side: int, place: Place | None) -> Expr:
        types = self.join.parts[side].types
        return promised(inside(placed), types, lambda call: self._check_estimate(call, side), place)

    def _check_estimate(self, call: Call, side: int) -> None:
        """It is asked about the key of the join, and a summary is there that counts it."""
        (own,) = call.args
        if not isinstance(own, Column) or own not in self._key_columns(side):
            hint = f"take the column that joins the streams: estimate({render_key(self.join, side)})"
            raise CheckError("estimate is about a key of the join", call.place, hint=hint)
        if not any(map(self._summary, (0, 1))):
            hint = create_hint(*(self._key(side) or ("stream", "column")))
            raise CheckError("no summary counts the key of the join", call.place, hint=hint)

    def _key_columns(self, side: int) -> list[Column]:
        """The columns of an input that the join compares: of a join below, those of all its parts."""
        part, names = self.join.parts[side], names_in(*self.join.keys[side])
        if isinstance(part, Join):
            names |= names_in(*(outside(key, i) for i, keys in enumerate(part.keys) for key in keys))
        return [Column(name) for name in sorted(names)]

    def _origins(self, side: int) -> list[tuple[str, str]]:
        """The streams and their columns that the keys of an input come from."""
        traced = [self.join.parts[side].traced(column) for column in self._key_columns(side)]
        return [(scan.stream, own.name) for scan, own in filter(None, traced) if isinstance(own, Column)]

    def _key(self, side: int) -> tuple[str, str] | None:
        return next(iter(self._origins(side)), None)

    def _summary(self, side: int) -> SummaryOn | None:
        origins = self._origins(side)
        return next((summary for summary in self.summaries if (summary.stream, summary.column) in origins), None)

    def memory(self) -> int | None:
        """What the summaries of both inputs allow together; None where no summary says it."""
        known = {self._summary(0), self._summary(1)}
        sizes = [summary.memory for summary in known if summary is not None and summary.memory is not None]
        return sum(sizes) if sizes else None

    def _stream(self, side: int) -> str:
        key = self._key(side)
        return "the sub-query" if key is None else f"'{key[0]}'"

    def ages(self, side: int) -> tuple[int, ...]:
        """The ages at which rows of an input pass into an older granularity, by its summary or that of the other."""
        summary = self._summary(side) or self._summary(1 - side)
        if summary is None:
            hint = create_hint(*(self._key(side) or ("stream", "column")))
            message = "FADE goes by the granularities of a summary, and none is on the key of the join"
            raise CheckError(message, self.preference.place, hint=hint)
        return ages_of(summary)


def render_key(join: Join, side: int) -> str:
    """The first key of an input as a user may write it."""
    names = sorted(names_in(join.keys[side][0]))
    streams = [node.stream for node in nodes(join.parts[side]) if isinstance(node, Scan)]
    return f"{streams[0]}.{names[0].rpartition('.')[2]}" if names else "key"
