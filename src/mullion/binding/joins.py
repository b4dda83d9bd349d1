"""FROM taken apart: its sources, the lookups of tables, and the conditions that are left.

Inner joins are filters over lookups, so their order does not matter and all their conditions stand beside WHERE's. An
equality between a table and what is found before it becomes a key of the table's lookup. Lookups are put in an order
that depends only on what they are, so that queries which name the tables differently share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakValueDictionary

from mullion.algebra.column_names import conjuncts
from mullion.algebra.lookups import Lookup
from mullion.algebra.streams import Stream, Table
from mullion.binding.grouping import no_aggregate
from mullion.binding.scope import Columned, Scope, qualifier_of
from mullion.errors import CheckError, NotSupported, Place, closest
from mullion.expressions.functions import NAMES
from mullion.expressions.typing import resolve, resolve_predicate
from mullion.language.query import Call, Column, Derived, Expr, JoinClause, Named, Source, rewrite, walk
from mullion.language.render import render


def relation_named(name: str, streams: Mapping[str, Stream], tables: Mapping[str, Table]) -> Stream | Table | None:
    """The stream or table of this name, whatever its case. As it is registered it is found at once."""
    relation = streams.get(name) or tables.get(name)
    if relation is not None:
        return relation
    every: tuple[Mapping[str, Stream | Table], ...] = streams, tables
    return next((other for known in every for spelt, other in known.items() if spelt.lower() == name.lower()), None)


def known_relation(
    source: Named, streams: Mapping[str, Stream], tables: Mapping[str, Table], others: Sequence[str] = ()
) -> Stream | Table:
    """The stream or table that a source names. `others` are names that it might have been meant to be."""
    relation = relation_named(source.name, streams, tables)
    if relation is None:
        what = "stream or table" if tables else "stream"
        declare = "declare it first with CREATE STREAM" + (" or CREATE TABLE" if tables else "")
        declare += f", or with CREATE QUERY {source.name} MATERIALIZED if it is a query"
        hint = closest(source.name, [*streams, *tables, *others]) or declare
        raise CheckError(f"unknown {what} '{source.name}'", source.place, hint=hint)
    return relation


def check_no_window(source: Named | Derived, relation: Columned) -> None:
    """Refuses a window over a table."""
    if isinstance(relation, Table) and source.window is not None:
        hint = "windows are for streams: leave it out"
        raise CheckError(f"'{relation.name}' is a table and has no window", source.window.place, hint=hint)


@dataclass
class FromClause:
    """The sources of a FROM from left to right; its joins but LEFT JOINs, each with the numbers of its two sides; LEFT
    JOINs likewise, by their table."""

    sources: list[Named | Derived] = field(default_factory=list)
    inner: list[Sides] = field(default_factory=list)
    left: dict[int, Sides] = field(default_factory=dict)
    merging: list[Sides] = field(default_factory=list)
    """The joins with USING, the innermost first."""

    def add(self, source: Source) -> range:
        """Add a source, and tell which numbers its parts have."""
        start = len(self.sources)
        if not isinstance(source, JoinClause):
            self.sources.append(source)
            return range(start, start + 1)
        if source.kind in ("right", "full"):
            hint = "write LEFT JOIN with the stream on its left"
            raise NotSupported(f"{source.kind.upper()} JOIN", source.place, hint=hint)
        sides = Sides(source, self.add(source.left), self.add(source.right))
        if source.on is not None:
            no_aggregate(source.on, "ON")
        if source.using:
            self.merging.append(sides)
        if source.kind != "left":
            self.inner.append(sides)
        elif len(sides.right) > 1:
            hint = "write one LEFT JOIN for each table"
            raise NotSupported("a LEFT JOIN of several tables at once", source.right.place, hint=hint)
        else:
            self.left[sides.right.start] = sides
        return range(start, sides.right.stop)

    def merged(self, relations: Sequence[Columned]) -> list[tuple[str, set[int]]]:
        """The columns that USING makes one, in lower case, and the sources that they are of: those of the last join
        first. A name that means several columns of a side is left to whoever looks it up there."""
        merged: list[tuple[str, set[int]]] = []
        for sides in self.merging:
            of_join = []
            for name in dict.fromkeys(column.name.lower() for column in sides.join.using):
                both: set[int] = set()
                for side in (sides.left, sides.right):
                    owners = {i for i in side if name in relations[i].spelling}
                    known = [of for column, of in merged if column == name and owners <= of]
                    both |= owners if known or len(owners) == 1 else set()
                merged = [(column, of) for column, of in merged if column != name or not of <= both]
                of_join.append((name, both))
            merged = of_join + merged
        return merged

    def conditions(self, scope: Scope) -> list[Expr]:
        """What inner joins ask, qualified."""
        return [condition for sides in self.inner for condition in sides.conditions(scope)]

    def optional(self, scope: Scope) -> dict[int, list[Expr]]:
        """What LEFT JOINs ask, qualified, by their tables."""
        return {number: sides.conditions(scope) for number, sides in self.left.items()}


class Sides(NamedTuple):
    """A join, and the numbers of the sources on its two sides."""

    join: JoinClause
    left: range
    right: range

    def conditions(self, scope: Scope) -> list[Expr]:
        """ON and USING, qualified: a name after USING means one column of each side."""
        asked = [] if self.join.on is None else list(conjuncts(self.join.on))
        return [scope.qualified(condition, range(self.left.start, self.right.stop)) for condition in asked] + [
            Call("eq", tuple(scope.qualified(column, side) for side in (self.left, self.right)), place=column.place)
            for column in self.join.using
        ]


class Attaching:
    """Attaches tables to a source one by one, each as a lookup; `known` are the source and the tables that it has.

    `conditions` are qualified; those that lookups fulfil are taken out. `found` asks that inner joins find a row.
    """

    def __init__(self, scope: Scope, parts: FromClause, base: int, conditions: list[Expr]) -> None:
        self.scope, self.parts, self.base = scope, parts, base
        if base in parts.left:
            hint = "put the stream on the left, or write JOIN"
            raise NotSupported("a LEFT JOIN with the stream on its right", parts.left[base].join.place, hint=hint)
        self.conditions = list(conditions)
        self.optional = parts.optional(scope)
        self.types = dict(scope.relations[base].types)
        self.known = {base}
        self.attached: list[tuple[int, Lookup]] = []
        self.matched: list[Expr] = []

    def attach_what_it_can(self, tables: list[int]) -> list[int]:
        """The tables that are left over."""
        waiting = list(tables)
        while waiting:
            ready = [(lookup.name, i, lookup, used) for i in waiting for lookup, used in self._lookup(i)]
            if not ready:
                break
            _, number, lookup, used = min(ready, key=lambda candidate: candidate[:2])
            waiting.remove(number)
            self._add(number, lookup, used)
        return waiting

    def _add(self, number: int, lookup: Lookup, used: list[Expr]) -> None:
        source = self.parts.sources[number]
        if any(lookup == other for _, other in self.attached):
            hint = "its columns are the same: use one alias for both"
            raise NotSupported(f"table '{lookup.table}' twice by the same keys", source.place, hint=hint)
        self.attached.append((number, lookup))
        self.known.add(number)
        self.scope.prefixes[number] = f"{lookup.name}."
        self.types.update(lookup.types())
        if number not in self.optional:
            self.matched.append(Column(lookup.matched))
            self.conditions = [c for c in self.conditions if not any(c is u for u in used)]

    def _lookup(self, number: int) -> Iterator[tuple[Lookup, list[Expr]]]:
        """The table's lookup and the conditions that it fulfils; nothing while no key of it is known."""
        optional = number in self.optional
        conditions = self.optional[number] if optional else self.conditions
        keys: list[tuple[Expr, Expr]] = []
        used, rest = [], []
        for condition in conditions:
            sides = self._sides(condition, number)
            if sides is None:
                rest.append(condition)
            elif self.scope.sources_of(sides[0]) <= self.known:
                keys.append(self._key(number, *sides, condition.place))
                used.append(condition)
            elif optional:
                return
        if not keys:
            return
        table = self.scope.relations[number]
        assert isinstance(table, Table)
        where = self._own_condition(number, rest) if optional else None
        ordered = sorted(set(keys), key=lambda pair: (render(pair[0]), render(pair[1])))
        lookup = Lookup(table.name, tuple(ordered), where, table.columns)
        yield _LOOKUPS.setdefault(lookup, lookup), used

    def _sides(self, condition: Expr, number: int) -> tuple[Expr, Expr] | None:
        """An equality as (the side of other sources, the table's own side); None when it is none."""
        if not isinstance(condition, Call) or condition.function != "eq" or len(condition.args) != 2:
            return None
        a, b = condition.args
        of_a, of_b = self.scope.sources_of(a), self.scope.sources_of(b)
        if of_b == {number} and of_a and number not in of_a:
            return a, b
        if of_a == {number} and of_b and number not in of_b:
            return b, a
        return None

    def _key(self, number: int, event: Expr, own: Expr, place: Place | None) -> tuple[Expr, Expr]:
        """Both sides resolved, in the type that they are compared in."""
        prefix = self.scope.prefixes[number]
        types = {**self.types, **{prefix + name: t for name, t in self.scope.relations[number].columns}}
        equal = Call("eq", (self.scope.plain(event), self.scope.plain(own)), place=place)
        resolved, _ = resolve(equal, types)
        assert isinstance(resolved, Call) and resolved.function == "eq"
        return resolved.args[0], self._own(number, resolved.args[1])

    def _own_condition(self, number: int, conditions: list[Expr]) -> Expr | None:
        """What a LEFT JOIN asks of the table's rows."""
        for condition in conditions:
            if not self.scope.sources_of(condition) <= {number}:
                hint = "write equalities with the table's columns, and conditions over the table's columns alone"
                raise NotSupported("this condition of a LEFT JOIN", condition.place, hint=hint)
        if not conditions:
            return None
        ordered = sorted(conditions, key=lambda c: render(self._own(number, self.scope.plain(c))))
        whole = ordered[0] if len(ordered) == 1 else Call("and", tuple(ordered), place=ordered[0].place)
        own = self._own(number, self.scope.plain(whole))
        return self._own(number, resolve_predicate(own, self.scope.relations[number].types))

    def _own(self, number: int, expr: Expr) -> Expr:
        """An expression over the table's own names. It is evaluated where Spark is not."""
        prefix = self.scope.prefixes[number]
        for node in walk(expr):
            if isinstance(node, Call) and (function := NAMES.get(node.function)) is not None and function.event_only:
                raise NotSupported(f"{node.function} over a table's columns in a join", node.place)

        def change(node: Expr) -> Expr | None:
            if isinstance(node, Column):
                return Column(node.name.removeprefix(prefix), place=node.place)
            return None

        return rewrite(expr, change)

    def unlinked(self, number: int) -> CheckError:
        source = self.parts.sources[number]
        table, name = self.scope.relations[number], qualifier_of(source)
        first = qualifier_of(self.parts.sources[self.base])
        common = [name for name in table.types if name.lower() in self.scope.relations[self.base].spelling]
        column = next(iter(common or table.types), "key")
        message = f"no condition joins table '{table.name}' to the stream"
        equality = f"{first}.{column} = {name}.{column}"
        clause = "ON" if number in self.optional else "WHERE"
        return CheckError(message, source.place, hint=f"join it by an equality, such as {clause} {equality}")


_LOOKUPS: WeakValueDictionary[Lookup, Lookup] = WeakValueDictionary()
"""Queries with equal lookups hold the same one, and with it its name and its hash."""
