"""SELECT: what a query makes of the rows that FROM and WHERE give.

    SELECT DISTINCT k, v + 1 AS w FROM ...           Distinct over Project(c0 = k, c1 = v + 1)
    SELECT count(*) AS n ... GROUP BY k HAVING n > 1  Project(c0 = #a0) over Filter(#a0 > 1) over Aggregated(k)

Columns of results are called c0, c1, .. so that queries which differ only in names share them; columns that only ORDER
BY needs follow as o0, o1, ..
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS, BoundAggregate
from mullion.algebra.nodes import Aggregated, Distinct, Filter, Node, Project, Scan, scans
from mullion.algebra.nodes.aggregated import COMPLETE
from mullion.algebra.streams import HIDDEN
from mullion.algebra.window_aggregate import type_of_bounds
from mullion.binding.decay import DECAYED_NOW
from mullion.binding.grouping import GroupBinder, item_name, known_functions
from mullion.binding.layouts import Layout, computed_by_spark_alone, predicate, refuse_what_spark_cannot_see, typed
from mullion.binding.scope import qualifier_of
from mullion.binding.windows import Clock
from mullion.errors import CheckError, NotSupported, Place
from mullion.expressions.evaluate import is_event_only
from mullion.expressions.functions import NAMES
from mullion.expressions.shared import shared
from mullion.language.query import AggregateCall, Call, Column, Expr, Item, OrderTerm, Query, rewrite, walk
from mullion.language.types import BOOLEAN, Type

Ordering = tuple[tuple[Expr, bool, bool], ...]
Resolver = Callable[[Expr], tuple[Expr, Type]]


@dataclass(frozen=True)
class Selected:
    """A result: its node, whose first columns have these names, and the order of its rows over the node's columns."""

    node: Node
    names: tuple[str, ...]
    order_by: Ordering = ()


def is_aggregating(query: Query) -> bool:
    """Whether the rows of the result are groups."""
    written = [item.expr for item in query.items] + [order.expr for order in query.order_by]
    if query.group_by or query.having is not None:
        return True
    return any(isinstance(node, AggregateCall) for expr in written for node in walk(expr))


def select(query: Query, layout: Layout, clock: Clock) -> Selected:
    """The result of a query without its set operations."""
    if layout.of_one_window:
        return _grouped_in_one_window(query, layout, clock)
    _refuse_window_columns(query, layout)
    if is_aggregating(query):
        return _grouped(query, layout, clock)
    items = list(_items(query, layout))
    known_functions(*(item.expr for item in items))

    def over_rows(expr: Expr) -> tuple[Expr, Type]:
        return typed(layout.plain(expr), layout.node.types)

    projected = _projected(query, items, layout, over_rows)
    return _selected(query, Project(layout.node, projected.items), projected)


class SelectedGroups(NamedTuple):
    """What SELECT makes of groups, whatever rows they are of."""

    keys: tuple[tuple[Expr, Type], ...]
    aggregates: tuple[BoundAggregate, ...]
    having: Expr | None
    projected: Projected

    def over(self, layout: Layout, clock: Clock) -> Node:
        is_part = layout.node.is_part
        node: Node = Aggregated(layout.node, self.keys, self.aggregates, clock.slide, clock.offset, is_part)
        return Project(node if self.having is None else Filter(node, self.having), self.projected.items)


class Projected(NamedTuple):
    """The items as columns, and what ORDER BY needs besides them."""

    items: tuple[tuple[str, Expr, Type], ...]
    names: tuple[str, ...]
    order_by: Ordering


def _grouped_in_one_window(query: Query, layout: Layout, clock: Clock) -> Selected:
    (scan,) = scans(layout.node)
    if not query.group_by and not any(isinstance(node, AggregateCall) for i in query.items for node in walk(i.expr)):
        known_functions(*(item.expr for item in query.items))
        hint = "use an aggregate such as count(*), or GROUP BY"
        raise NotSupported("a query without aggregates", query.items[0].place or query.place, hint=hint)
    if layout.scope.alone:
        groups = SELECTS.groups(query, scan, layout)
    else:
        groups = _groups_in_one_window(query, scan, layout)
    expressions = (expr for a in groups.aggregates for expr in a.expressions())
    refuse_what_spark_cannot_see([*(key for key, _ in groups.keys), *expressions], layout.node, query.place)
    return _selected(query, groups.over(layout, clock), groups.projected)


def _groups_in_one_window(query: Query, scan: Scan, layout: Layout) -> SelectedGroups:
    return _groups(query, GroupBinder(query, layout, layout.node.types, scan.stream, type_of_bounds(scan)), layout)


class Selects:
    """What SELECTs over one stream were made before. Thousands of queries differ in their windows and in WHERE alone.

    Nothing that is made says where it is written, so that whoever writes the same gets the same object. What is wrong
    with a query is found each time.
    """

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, SelectedGroups]] = {}

    def groups(self, query: Query, scan: Scan, layout: Layout) -> SelectedGroups:
        (source,) = layout.scope.sources
        written = query.items, query.group_by, query.having, query.order_by
        key = id(scan.columns), qualifier_of(source), scan.stream, type_of_bounds(scan), written
        columns, groups = self._known.get(key, (None, None))
        if groups is None or columns is not scan.columns:
            groups = _groups_in_one_window(query, scan, layout)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = scan.columns, groups
        return groups


MOST_KNOWN = 4096
"""SELECTs that are remembered."""
SELECTS = Selects()


def _grouped(query: Query, layout: Layout, clock: Clock) -> Selected:
    grouping = GroupBinder(query, layout, layout.node.types, "the sources", bounds=None)
    if layout.node.is_part:
        grouping.types[COMPLETE] = BOOLEAN
    _refuse_event_only(query)
    groups = _groups(query, grouping, layout)
    if clock.slide is None and any(bound.function == DECAYED_NOW for bound in grouping.aggregates):
        hint = "give its windows a SLIDE: without one, its value would change at every moment"
        raise NotSupported("decay in a query that is answered at every change", query.place, hint=hint)
    for expr in (*grouping.keys, *(e for a in grouping.aggregates for e in a.expressions())):
        if is_event_only(expr):
            raise NotSupported("a function that Spark alone computes", query.place)
    return _selected(query, groups.over(layout, clock), groups.projected)


def _groups(query: Query, grouping: GroupBinder, layout: Layout) -> SelectedGroups:
    for key in query.group_by:
        grouping.add_key(key)
    items = [item for item in query.items if not _is_window(item, layout)]
    for item in items:
        if isinstance(item.expr, Column) and item.expr.name == "*":
            feature = "SELECT *" if layout.of_one_window else "SELECT * beside aggregates"
            raise NotSupported(feature, item.place or item.expr.place, hint="name the columns and aggregates")

    resolved: dict[int, tuple[Expr, tuple[Expr, Type]]] = {}

    def above(expr: Expr) -> tuple[Expr, Type]:
        """By the written object, which is looked at twice: for its aggregates, and for the items."""
        if id(expr) not in resolved:
            resolved[id(expr)] = expr, typed(grouping.above(expr), grouping.types)
        return resolved[id(expr)][1]

    ordered = [grouping.with_aliases(order.expr) for order in query.order_by]
    for expr in [item.expr for item in items] + ([] if layout.of_one_window else ordered):
        above(expr)
    having = None
    if query.having is not None:
        over = grouping.above(grouping.with_aliases(query.having))
        having = predicate(over, grouping.types)
    for expr in ordered:
        above(expr)
    keys = tuple(zip(map(shared, grouping.keys), grouping.key_types, strict=True))
    return SelectedGroups(keys, tuple(grouping.aggregates), having, _projected(query, items, layout, above))


def _projected(query: Query, items: Sequence[Item], layout: Layout, resolved: Resolver) -> Projected:
    names = checked_names(items, query.place, at_least=0 if layout.of_one_window else 1)
    columns = [resolved(item.expr) for item in items]
    projected_items = [(f"c{i}", expr, type_) for i, (expr, type_) in enumerate(columns)]
    order_by = []
    for term in _terms(query):
        expr, type_ = resolved(term.expr)
        known = next((name for name, column, _ in projected_items if column == expr), None)
        if known is None and query.distinct:
            hint = "select the columns of ORDER BY too"
            raise CheckError("with DISTINCT, ORDER BY takes columns of the answer", term.place, hint=hint)
        if known is None:
            known = f"o{len(projected_items) - len(columns)}"
            projected_items.append((known, expr, type_))
        order_by.append((shared(Column(known)), term.descending, term.nulls_first))
    return Projected(tuple(projected_items), names, tuple(order_by))


def _selected(query: Query, node: Node, projected: Projected) -> Selected:
    return Selected(Distinct(node) if query.distinct else node, projected.names, projected.order_by)


def _terms(query: Query) -> Iterator[OrderTerm]:
    """ORDER BY with the answer's names replaced; within one answer the window is the same."""
    if query.union or query.excepted:
        return
    aliases = {item.name.lower(): item.expr for item in query.items if item.name}

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Column) and node.table is None:
            return aliases.get(node.name.lower())
        return node if isinstance(node, AggregateCall) else None

    for term in query.order_by:
        if isinstance(term.expr, Column) and term.expr.table is None and term.expr.name.lower() in WINDOW_COLUMNS:
            continue
        yield OrderTerm(rewrite(term.expr, change), term.descending, term.nulls_first, place=term.place)


def checked_names(items: Sequence[Item], place: Place | None, *, at_least: int = 1) -> tuple[str, ...]:
    """The names of the columns, no two of which are equal."""
    if len(items) < at_least:
        raise CheckError("SELECT needs a column besides the window", place)
    names = [item_name(item) for item in items]
    taken = set[str]()
    for item, name in zip(items, names, strict=True):
        where = item.place or item.expr.place or place
        if name.startswith("#") or name.lower() in WINDOW_COLUMNS:
            raise CheckError(f"a column of the answer cannot be called '{name}'", where, hint="give it another AS")
        if name.lower() in taken:
            raise CheckError(f"two columns of the answer are called '{name}'", where, hint="give one an AS")
        taken.add(name.lower())
    return tuple(names)


def _items(query: Query, layout: Layout) -> Iterator[Item]:
    """The items, with * written out.

    Of columns of the same name, the first keeps it and later ones get their source's name before it: k, b_k.
    """
    taken = {item_name(item).lower() for item in query.items if not _is_star(item)}
    for item in query.items:
        if _is_window(item, layout):
            continue
        if not _is_star(item):
            yield item
            continue
        assert isinstance(item.expr, Column)
        for number, name in _columns(item.expr, layout):
            called_by = qualifier_of(layout.scope.sources[number])
            shown = f"{called_by}_{name}" if name.lower() in taken and called_by else name
            taken.add(shown.lower())
            place = item.place or item.expr.place
            yield Item(Column(name, f"#{number}", place=place), shown, place=place)


def _is_star(item: Item) -> bool:
    return isinstance(item.expr, Column) and item.expr.name == "*"


def _is_window(item: Item, layout: Layout) -> bool:
    """Every answer has its window anyway."""
    return item.name is None and _names_window(item.expr, layout)


def _names_window(expr: Expr, layout: Layout) -> bool:
    return (
        isinstance(expr, Column)
        and expr.table is None
        and expr.name.lower() in WINDOW_COLUMNS
        and not layout.has(expr.name)
    )


def _columns(star: Column, layout: Layout) -> Iterator[tuple[int, str]]:
    """Those that USING makes one stand before the others, once."""
    scope, is_all = layout.scope, star.table is None
    merged = [(min(of), name) for name, of in scope.merged if of] if is_all else []
    yield from ((number, scope.relations[number].spelling[name]) for number, name in merged)
    known = {(number, name) for name, of in scope.merged for number in of} if is_all else set()
    for number in range(len(scope.sources)) if is_all else [scope.number(star)]:
        for name, _ in scope.relations[number].columns:
            if name not in HIDDEN and (number, name.lower()) not in known:
                yield number, name


def _refuse_window_columns(query: Query, layout: Layout) -> None:
    """What is computed of rows does not know at which instant it is looked at."""
    written = [item.expr for item in query.items if not _is_window(item, layout)]
    written += [*query.group_by, *([] if query.having is None else [query.having])]
    for node in (node for expr in written for node in walk(expr)):
        if _names_window(node, layout):
            assert isinstance(node, Column)
            hint = "every answer has window_start and window_end: leave it out"
            raise NotSupported(f"{node.name} in an expression of this query", node.place, hint=hint)


def _refuse_event_only(query: Query) -> None:
    written = [*(item.expr for item in query.items), *query.group_by, *([] if query.having is None else [query.having])]
    for node in (node for expr in written for node in walk(expr)):
        if isinstance(node, Call) and (function := NAMES.get(node.function)) is not None and function.event_only:
            raise computed_by_spark_alone(node.function, node.place)
