"""Which column of which source a name in a query means."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mullion.catalog.streams import Stream, Table
from mullion.errors import CheckError, NotSupported, Place, closest
from mullion.language.query import Column, Exists, Expr, Named, rewrite, walk

WINDOW_COLUMNS = ("window_start", "window_end")


class Scope:
    """The stream and the tables of a FROM by their names and aliases.

    Expressions are settled in two steps, since what a table's columns are called on events is known only when it is
    known how its rows are found. A settled column is qualified by the number of its source, as #1; a plain column is
    called as on events.
    """

    def __init__(self, sources: Sequence[Named], relations: Sequence[Stream | Table]) -> None:
        self.sources, self.relations = sources, relations
        self.prefixes = ["" if isinstance(r, Stream) else f"#{i}." for i, r in enumerate(relations)]
        self.numbers: dict[str, int] = {}
        for i, source in enumerate(sources):
            self._name(i, source.alias or source.name, source.place)
        self.shown = list(self.numbers)
        if len(sources) == 1:
            self.numbers.setdefault(sources[0].name.lower(), 0)
            return
        names = [source.name.lower() for source in sources]
        for i, name in enumerate(names):
            if names.count(name) == 1:
                self.numbers.setdefault(name, i)
            self.numbers[f"#{i}"] = i

    def _name(self, number: int, name: str, place: Place | None) -> None:
        if self.numbers.setdefault(name.lower(), number) != number:
            hint = "give each a name of its own, such as close c"
            raise CheckError(f"two sources are called '{name}'", place, hint=hint)

    def settled(self, expr: Expr, visible: Sequence[int]) -> Expr:
        """The expression with every column qualified by its source, which is one of the visible ones."""
        return self._columns(expr, visible, lambda i, name, place: Column(name, f"#{i}", place=place))

    def plain(self, expr: Expr) -> Expr:
        """The expression over the columns of events."""
        return self._columns(expr, None, lambda i, name, place: Column(self.prefixes[i] + name, place=place))

    def sources_of(self, settled: Expr) -> set[int]:
        return {self.numbers[node.table] for node in walk(settled) if isinstance(node, Column) and node.table}

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
                raise NotSupported("EXISTS", node.place)
            if not isinstance(node, Column):
                return None
            found = self._find(node, visible)
            return node if found is None else named(*found, node.place)

        return rewrite(expr, change)

    def _find(self, column: Column, visible: Sequence[int] | None) -> tuple[int, str] | None:
        """The source and the spelling; None for a name that whoever resolves the expression will know or refuse."""
        name = column.name.lower()
        if column.table is not None:
            number = self.numbers.get(column.table.lower())
            if number is None or (visible is not None and number not in visible):
                raise self._unknown_source(column, seen=number is not None)
            relation = self.relations[number]
            if name not in relation.spelling and len(self.relations) > 1:
                hint = closest(column.name, relation.types)
                raise CheckError(f"unknown column '{column.name}' in {relation.name}", column.place, hint=hint)
            return number, relation.spelling.get(name, column.name)
        numbers = range(len(self.relations)) if visible is None else visible
        found = [i for i in numbers if name in self.relations[i].spelling]
        if len(found) == 1:
            return found[0], self.relations[found[0]].spelling[name]
        if found:
            candidates = [f"{self.sources[i].alias or self.sources[i].name}.{column.name}" for i in found]
            hint = f"write {' or '.join(candidates)}"
            raise CheckError(f"column '{column.name}' is ambiguous", column.place, hint=hint)
        if len(self.relations) == 1 or (name in WINDOW_COLUMNS and visible is None):
            return None
        raise CheckError(
            f"unknown column '{column.name}'", column.place, hint=closest(column.name, self._seen(numbers))
        )

    def _seen(self, numbers: Sequence[int]) -> list[str]:
        return [name for i in numbers for name in self.relations[i].types]

    def _unknown_source(self, column: Column, *, seen: bool) -> CheckError:
        assert column.table is not None
        what = "stream or alias" if len(self.relations) == 1 else "stream, table or alias"
        hint = "ON sees only the two sides that it joins" if seen else closest(column.table, self.shown)
        return CheckError(f"unknown {what} '{column.table}'", column.place, hint=hint)


__all__ = ["WINDOW_COLUMNS", "Scope"]
