"""Which column of which source a name in a query means."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS
from mullion.algebra.streams import Table
from mullion.errors import CheckError, NotSupported, Place, closest
from mullion.language.query import Column, Derived, Exists, Expr, Named, rewrite, walk
from mullion.language.types import Type

OUTER = "^"
"""Before the number of a source of the query around."""
OF_THE_ROWS = "#rows"
"""Qualifies columns of what FROM and WHERE, or GROUP BY, give that are no source's."""


class Columned(Protocol):
    """A stream, a table, or the result of a sub-query."""

    @property
    def name(self) -> str: ...

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]: ...

    @property
    def types(self) -> Mapping[str, Type]: ...

    @property
    def spelling(self) -> Mapping[str, str]: ...


def qualifier_of(source: Named | Derived) -> str:
    """What columns of the source are qualified by; empty for a sub-query without an alias."""
    return source.alias or (source.name if isinstance(source, Named) else "")


class Scope:
    """The sources of a FROM by their names and aliases.

    Expressions are bound in two steps, since what a table's columns are called on events is known only when it is
    known how its rows are found. A qualified column has the number of its source before it, as #1; a plain column is
    called as on events.

    A sub-query of EXISTS also sees the columns of the query around it, `outer`: qualified, these have ^1 before them.
    `alone` is for a FROM of one stream, whose unknown names are refused later, when the expression is resolved.
    """

    def __init__(
        self,
        sources: Sequence[Named | Derived],
        relations: Sequence[Columned],
        *,
        outer: Scope | None = None,
        alone: bool = False,
        merged: Sequence[tuple[str, Collection[int]]] = (),
    ) -> None:
        """`merged`: the columns that USING makes one, in lower case, and the sources that they are of."""
        self.sources, self.relations, self.outer, self.alone = sources, relations, outer, alone
        self.merged = merged
        self.prefixes = [f"#{i}." if isinstance(r, Table) else "" for i, r in enumerate(relations)]
        self.numbers: dict[str, int] = {}
        for i, source in enumerate(sources):
            if qualifier_of(source):
                self._name(i, qualifier_of(source), source.place)
        self.shown = list(self.numbers)
        self.numbers |= {f"#{i}": i for i in range(len(sources))}

    def _name(self, number: int, name: str, place: Place | None) -> None:
        if self.numbers.setdefault(name.lower(), number) != number:
            hint = f"give each a name of its own, written after it, such as {name}{number + 1}"
            raise CheckError(f"two sources are called '{name}'", place, hint=hint)

    def qualified(self, expr: Expr, visible: Sequence[int]) -> Expr:
        """The expression with every column qualified by its source, which is one of the visible ones."""
        return self._columns(expr, visible, lambda i, name, place: Column(name, f"#{i}", place=place))

    def plain(self, expr: Expr) -> Expr:
        """The expression over the columns of events."""
        return self._columns(expr, None, lambda i, name, place: Column(self.prefixes[i] + name, place=place))

    def sources_of(self, qualified: Expr) -> set[int]:
        """The sources that a qualified expression needs, without those of the query around."""
        tables = [node.table for node in walk(qualified) if isinstance(node, Column) and node.table]
        return {self.numbers[table] for table in tables if not table.startswith(OUTER)}

    def has(self, name: str) -> bool:
        """Whether some source has a column of this name."""
        return any(name.lower() in relation.spelling for relation in self.relations)

    def column_names(self) -> list[str]:
        return [name for relation in self.relations for name, _ in relation.columns]

    def _columns(
        self, expr: Expr, visible: Sequence[int] | None, named: Callable[[int, str, Place | None], Column]
    ) -> Expr:
        def change(node: Expr) -> Expr | None:
            if isinstance(node, Exists):
                hint = "write it as a condition of its own in WHERE, joined by AND"
                raise NotSupported("EXISTS within an expression", node.place, hint=hint)
            if not isinstance(node, Column):
                return None
            if node.table == OF_THE_ROWS:
                return Column(node.name, place=node.place)
            if self.outer is not None and self._is_outer(node, self.outer):
                outer = self.outer._find(node, None)
                assert outer is not None
                return Column(outer[1], f"{OUTER}{outer[0]}", place=node.place)
            owner = self._find(node, visible)
            return node if owner is None else named(*owner, node.place)

        return rewrite(expr, change)

    def number(self, column: Column) -> int:
        """The source that qualifies a column, as in a.*"""
        assert column.table is not None
        number = self.numbers.get(column.table.lower())
        if number is None:
            raise self._unknown_source(column, seen=False)
        return number

    def _is_outer(self, column: Column, outer: Scope) -> bool:
        """Whether a name belongs to the query around. A stream with an alias leaves its own name to that."""
        return outer._knows(column) and not self._knows(column)

    def _knows(self, column: Column) -> bool:
        """Whether the name means something here, be it wrong or ambiguous."""
        return self.has(column.name) if column.table is None else column.table.lower() in self.numbers

    def _find(self, column: Column, visible: Sequence[int] | None) -> tuple[int, str] | None:
        """The source and the spelling; None for a name that whoever resolves the expression will know or refuse."""
        name = column.name.lower()
        if column.table is not None:
            number = self.numbers.get(column.table.lower())
            if number is None or (visible is not None and number not in visible):
                raise self._unknown_source(column, seen=number is not None)
            relation = self.relations[number]
            if name not in relation.spelling and not self.alone:
                hint = closest(column.name, relation.types) or _there_are(relation.types)
                raise CheckError(f"unknown column '{column.name}' in {relation.name}", column.place, hint=hint)
            return number, relation.spelling.get(name, column.name)
        numbers = range(len(self.relations)) if visible is None else visible
        owners = [i for i in numbers if name in self.relations[i].spelling]
        if len(owners) == 1 or self._are_one(name, owners):
            return owners[0], self.relations[owners[0]].spelling[name]
        if owners:
            candidates = [
                f"{qualifier_of(self.sources[i])}.{column.name}" for i in owners if qualifier_of(self.sources[i])
            ]
            hint = f"write {' or '.join(candidates)}" if candidates else "give the sub-queries an alias"
            raise CheckError(f"column '{column.name}' is ambiguous", column.place, hint=hint)
        if self.alone or (name in WINDOW_COLUMNS and visible is None):
            return None
        hint = closest(column.name, self._seen(numbers)) or _there_are(dict.fromkeys(self._seen(numbers)))
        raise CheckError(f"unknown column '{column.name}'", column.place, hint=hint)

    def _are_one(self, name: str, owners: Sequence[int]) -> bool:
        """Whether USING makes the columns of these sources one."""
        return bool(owners) and any(column == name and {*owners} <= {*of} for column, of in self.merged)

    def _seen(self, numbers: Sequence[int]) -> list[str]:
        return [name for i in numbers for name in self.relations[i].types]

    def _unknown_source(self, column: Column, *, seen: bool) -> CheckError:
        assert column.table is not None
        what = "stream or alias" if self.alone else "stream, table or alias"
        near = self._written_instead(column) or closest(column.table, self.shown) or _there_are(self.shown)
        hint = "ON sees only the two sides that it joins" if seen else near
        return CheckError(f"unknown {what} '{column.table}'", column.place, hint=hint)

    def _written_instead(self, column: Column) -> str | None:
        """A hint for the name of a source that has an alias, here or in the query around."""
        assert column.table is not None
        sources = [*self.sources, *(() if self.outer is None else self.outer.sources)]
        named = [source for source in sources if isinstance(source, Named) and source.alias]
        hiding = [source.alias for source in named if source.name.lower() == column.table.lower()]
        if not hiding:
            return None
        written = " or ".join(f"{alias}.{column.name}" for alias in hiding)
        return f"its alias hides the name '{column.table}': write {written}"


def check_means_window(term: Expr, has: Callable[[str], bool]) -> None:
    """Refuse a term that may be the window of the answer or a column: `has` tells whether a source has one."""
    named = isinstance(term, Column) and term.table is None and term.name.lower() in ("window", *WINDOW_COLUMNS)
    if isinstance(term, Column) and named and has(term.name):
        hint = f"write its stream before it, as in s.{term.name}, for the column; every answer has its window anyway"
        raise CheckError(f"'{term.name}' is the window, and a column as well", term.place, hint=hint)


def _there_are(names: Collection[str]) -> str | None:
    """A hint for a name that is near none of them, unless there are too many to read."""
    return f"there is {', '.join(names)}" if 0 < len(names) <= 12 else None
