"""The tables that events are looked up in, as each batch finds them, prepared once for each version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mullion.algebra.lookups import Lookup
from mullion.kernels.lookup import Prepared, prepare
from mullion.planner.plan import Grouping
from mullion.slices.inputs import table_columns

TableAt = Callable[[str, int], pa.Table]
"""The rows of a table as a batch sees them: its name, and the number of the batch."""


def no_table(name: str, batch: int) -> pa.Table:
    raise AssertionError(f"no table '{name}'")


@dataclass(frozen=True)
class RunTables:
    """The tables as the batches of a stream, or the steps of relations, see them."""

    at: TableAt = no_table
    files: Callable[[int], Sequence[str]] = lambda batch: ()
    """The files that hold their rows, as batches after one find them: its commit names them."""
    forget: Callable[[int], None] = lambda batch: None
    """No batch up to this one is played again."""
    has_changed: Callable[[str], bool] = lambda name: False
    """Whether any run has seen a change of a table."""


NO_TABLES = RunTables()


class LookupTables:
    def __init__(self, table: TableAt) -> None:
        self.table = table
        self._prepared: dict[Lookup, tuple[pa.Table, frozenset[str], Prepared]] = {}

    def at(self, groupings: Sequence[Grouping], batch: int) -> tuple[Prepared, ...]:
        """The tables of all lookups of the groupings."""
        needed: dict[Lookup, set[str]] = {}
        for grouping in groupings:
            for lookup in grouping.lookups:
                needed.setdefault(lookup, set()).update(table_columns(grouping))
        return tuple(self._at(lookup, columns, batch) for lookup, columns in needed.items())

    def _at(self, lookup: Lookup, columns: set[str], batch: int) -> Prepared:
        rows = self.table(lookup.table, batch)
        known = self._prepared.get(lookup)
        if known is None or known[0] is not rows or not columns <= known[1]:
            known = self._prepared[lookup] = rows, frozenset(columns), prepare(lookup, rows, columns)
        return known[2]

    @property
    def rows(self) -> Mapping[str, pa.Table]:
        """The rows of the tables that were looked into, as the last batch found them."""
        return {lookup.table: rows for lookup, (rows, _, _) in self._prepared.items()}
