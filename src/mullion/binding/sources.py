"""FROM and WHERE of a relational query: windows, tables, sub-queries, and the conditions that join and select rows.

    FROM a [RANGE 10 min], b [RANGE 5 min], t WHERE a.k = b.k AND b.j = t.j AND b.v > 1 AND NOT EXISTS (...)

    each stream with its tables    Filter(v > 1 AND t found) over TableLookup(t) over Scan(b)
    the streams together           Join(Scan(a), Filter(...))
    [NOT] EXISTS last              AntiJoin(Join(...), ...)

A condition over one stream and its tables selects below the join, all others are part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from mullion.algebra.column_names import conjuncts
from mullion.algebra.nodes import Node, ResultWindow, Scan, TableLookup, is_aggregates
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.binding.equijoins import equi_join
from mullion.binding.grouping import no_aggregate
from mullion.binding.joins import Attaching, FromClause, check_no_window, known_relation
from mullion.binding.layouts import Layout, refuse_what_spark_cannot_see, typed
from mullion.binding.scope import OUTER, Columned, Scope, check_means_window
from mullion.binding.windows import CONTINUOUS, Clock, grouped_window, result_window, stream_window
from mullion.errors import CheckError, NotSupported, Place
from mullion.expressions.shared import shared
from mullion.language.query import Call, Column, Derived, Exists, Expr, JoinClause, Named, Query, Source, Window, walk
from mullion.language.sources import leaves
from mullion.language.types import Type


@dataclass(frozen=True)
class ResultSource:
    """The result of a query as a source of another: the first columns of the node, under these names."""

    name: str
    node: Node
    names: tuple[str, ...]

    @cached_property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        return tuple((name, type_) for name, (_, type_) in zip(self.names, self.node.columns, strict=False))

    @cached_property
    def types(self) -> Mapping[str, Type]:
        return dict(self.columns)

    @cached_property
    def spelling(self) -> Mapping[str, str]:
        return {name.lower(): name for name in self.names}


@dataclass(frozen=True)
class BindingContext:
    """What queries may read, by name, and how a query within a query is bound."""

    streams: Mapping[str, Stream]
    tables: Mapping[str, Table]
    materialized: Mapping[str, Relation]
    """By the lower case of their names."""
    sub_query: Callable[[Derived, Clock], ResultSource]

    def relation(self, source: Named | Derived, clock: Clock) -> Columned:
        if isinstance(source, Derived):
            return self.sub_query(source, clock)
        read = self.materialized.get(source.name.lower())
        if read is None:
            return known_relation(source, self.streams, self.tables, [r.name for r in self.materialized.values()])
        node: Node = read.root
        if source.window is not None:
            node = over_results(node, source.window, Clock(read.slide, read.offset), source.place)
        return ResultSource(source.alias or source.name, node, read.names)

    def is_table(self, source: Named | Derived) -> bool:
        return isinstance(source, Named) and any(source.name.lower() == name.lower() for name in self.tables)


def over_results(node: Node, window: Window, clock: Clock, place: Place | None) -> ResultWindow:
    """A window over the new results of a query that is answered at these instants."""
    if clock != CONTINUOUS and not is_aggregates(node):
        hint = "leave out the inner SLIDE: its results are events from the time at which they come"
        raise NotSupported("a window over the rows of a query with SLIDE", place, hint=hint)
    return ResultWindow(node, result_window(window))


@dataclass(frozen=True)
class Read:
    """What FROM and WHERE give. `correlated`: equalities with the query around, each as (its side, the side here)."""

    layout: Layout
    correlated: tuple[tuple[Expr, Expr], ...] = ()


Existing = Callable[[Layout, Exists, bool, Clock], Layout]
"""Keeps the rows for which a sub-query finds something, or, negated, nothing."""


def read_sources(
    query: Query,
    context: BindingContext,
    clock: Clock,
    existing: Existing,
    outer: Scope | None = None,
    *,
    one_window: bool = False,
) -> Read:
    """FROM and WHERE of a query without its SELECT. `outer` is the scope of the query around EXISTS; `one_window`: it
    groups the events of one window."""
    _refuse_outer_joins(query.source, context)
    parts = FromClause()
    parts.add(query.source)
    relations = [context.relation(source, clock) for source in parts.sources]
    alone = one_window and len(relations) == 1
    scope = Scope(parts.sources, relations, outer=outer, alone=alone, merged=parts.merged(relations))
    for term in (*query.window_terms, *(order.expr for order in query.order_by)):
        check_means_window(term, scope.has)
    for source, relation in zip(parts.sources, relations, strict=True):
        check_no_window(source, relation)
    if alone and isinstance(relations[0], Stream):
        return Read(_of_one_stream(query, scope, relations[0]))
    written = [] if query.where is None else list(conjuncts(query.where))
    for condition in written:
        no_aggregate(condition, "WHERE")
    everything = range(len(relations))
    conditions = parts.conditions(scope)
    conditions += [scope.qualified(condition, everything) for condition in written if _existence(condition) is None]
    correlated = [condition for condition in conditions if _looks_out(condition)]
    conditions = [condition for condition in conditions if not _looks_out(condition)]
    layouts, conditions = _Bases(scope, parts, conditions, one_window=one_window).layouts()
    layout = equi_join(layouts, conditions, scope)
    for existence in filter(None, map(_existence, written)):
        layout = existing(layout, *existence, clock)
    return Read(layout, tuple(_sides(condition, scope) for condition in correlated))


def _of_one_stream(query: Query, scope: Scope, stream: Stream) -> Layout:
    """The events of one stream: nothing is joined or looked up, so that WHERE is taken as it is written."""
    (source,) = scope.sources
    assert isinstance(source, Named)
    conditions = []
    if query.where is not None:
        no_aggregate(query.where, "WHERE")
        conditions.append(scope.plain(query.where))
    window, partition = grouped_window(source, stream)
    scan = Scan(stream.name, window, stream.columns, partition)
    columns = {(0, name): name for name, _ in stream.columns}
    return Layout(scan, scope, columns, of_one_window=True).filtered_as_written(conditions)


def _refuse_outer_joins(source: Source, context: BindingContext) -> None:
    if not isinstance(source, JoinClause):
        return
    _refuse_outer_joins(source.left, context)
    _refuse_outer_joins(source.right, context)
    has_rows = [any(not context.is_table(leaf) for leaf in leaves(side)) for side in (source.left, source.right)]
    if source.kind in ("left", "right", "full") and all(has_rows):
        hint = "write NOT EXISTS for the rows that find none, or UNION ALL of the join and of NOT EXISTS"
        raise NotSupported(f"a {source.kind.upper()} JOIN of two streams", source.place, hint=hint)


def _existence(condition: Expr) -> tuple[Exists, bool] | None:
    """EXISTS and whether it is negated, where the condition is nothing else."""
    if isinstance(condition, Exists):
        return condition, False
    if isinstance(condition, Call) and condition.function == "not" and isinstance(condition.args[0], Exists):
        return condition.args[0], True
    return None


def _looks_out(qualified: Expr) -> bool:
    return any(isinstance(n, Column) and n.table is not None and n.table.startswith(OUTER) for n in walk(qualified))


def _sides(condition: Expr, scope: Scope) -> tuple[Expr, Expr]:
    """A correlation as (the side of the query around, the side of the sub-query)."""
    if isinstance(condition, Call) and condition.function == "eq" and len(condition.args) == 2:
        a, b = condition.args
        for outer, inner in ((a, b), (b, a)):
            alone = _looks_out(outer) and not scope.sources_of(outer)
            if alone and scope.sources_of(inner) and not _looks_out(inner):
                return outer, inner
    hint = "compare with the outer query by equalities alone, such as inner.k = outer.k"
    raise NotSupported("this condition of EXISTS", condition.place, hint=hint)


class _Bases:
    """Streams and sub-queries, each with the tables that its columns find and the conditions over these alone."""

    def __init__(self, scope: Scope, parts: FromClause, conditions: list[Expr], *, one_window: bool) -> None:
        self.scope, self.parts, self.conditions, self.one_window = scope, parts, conditions, one_window
        self.tables = [i for i, relation in enumerate(scope.relations) if isinstance(relation, Table)]
        bases = [i for i in range(len(scope.relations)) if i not in self.tables]
        if not bases:
            hint = "join it to a stream with a window"
            if scope.outer is not None:
                hint = (
                    "JOIN it to the stream instead; for NOT EXISTS, LEFT JOIN it and keep the rows whose column IS NULL"
                )
            message = f"'{scope.relations[0].name}' is a table, and a query needs a stream"
            raise CheckError(message, scope.sources[0].place, hint=hint)
        self.bases = sorted(bases, key=lambda i: (not isinstance(scope.relations[i], Stream), i))

    def layouts(self) -> tuple[list[Layout], list[Expr]]:
        """One layout for each, in the order of FROM, and the conditions that are over several of them."""
        layouts = {}
        attached = {base: self._attached(base) for base in self.bases}
        if self.tables:
            raise attached[self.bases[0]].unlinked(self.tables[0])
        for base, attaching in attached.items():
            own = [c for c in self.conditions if self.scope.sources_of(c) <= attaching.known]
            self.conditions = [c for c in self.conditions if not any(c is used for used in own)]
            layouts[base] = self._layout(base, attaching, own)
        return [layouts[base] for base in sorted(layouts)], self.conditions

    def _attached(self, base: int) -> Attaching:
        attaching = Attaching(self.scope, self.parts, base, self.conditions)
        rest = attaching.attach_what_it_can(self.tables)
        if len(rest) < len(self.tables) and not isinstance(self.scope.relations[base], Stream):
            table = next(i for i in self.tables if i not in rest)
            hint = "join the table to the stream within the sub-query"
            raise NotSupported("a table joined to the result of a query", self.scope.sources[table].place, hint=hint)
        self.tables, self.conditions = rest, attaching.conditions
        return attaching

    def _layout(self, base: int, attaching: Attaching, conditions: list[Expr]) -> Layout:
        node, columns = self._source(base)
        for number, lookup in attaching.attached:
            table = self.scope.relations[number]
            assert isinstance(table, Table)
            for key, _ in () if self.one_window else lookup.keys:
                typed(key, node.types)
            node = TableLookup(node, lookup, table.retroactive)
            columns |= {(number, name): lookup.column(name) for name, _ in table.columns}
        layout = Layout(node, self.scope, columns, self.one_window)
        if self.one_window:
            keys = [key for _, lookup in attaching.attached for key, _ in lookup.keys]
            refuse_what_spark_cannot_see(keys, node, self.scope.sources[base].place)
            return layout.filtered_as_written([*attaching.matched, *map(layout.placed, conditions)])
        return layout.filtered([*map(shared, attaching.matched), *map(layout.predicate, conditions)])

    def _source(self, base: int) -> tuple[Node, dict[tuple[int, str], str]]:
        relation, source = self.scope.relations[base], self.scope.sources[base]
        if isinstance(relation, Stream):
            assert isinstance(source, Named)
            window, partition = (grouped_window if self.one_window else stream_window)(source, relation)
            scan = Scan(relation.name, window, relation.columns, partition, punctuation=relation.punctuation)
            return scan, {(base, name): name for name, _ in relation.columns}
        assert isinstance(relation, ResultSource)
        pairs = zip(relation.names, relation.node.columns, strict=False)
        return relation.node, {(base, name): column for name, (column, _) in pairs}
