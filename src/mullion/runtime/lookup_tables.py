"""The tables that events are looked up in, as each batch finds them, prepared once for each version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mullion.algebra.lookups import READ, Lookup
from mullion.kernels.lookup import Prepared, prepare_versions
from mullion.kernels.table_versions import PreparedTables, batches_read, versions_read
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
    at_reading: TableAt | None = None
    """As a batch of the past saw them, for its events that wait; by itself as `at`."""
    files: Callable[[int], Sequence[str]] = lambda batch: ()
    """The files that hold their rows, as batches after one find them: its commit names them."""
    forget: Callable[[int], None] = lambda batch: None
    """No batch up to this one is played again."""
    has_changed: Callable[[str], bool] = lambda name: False
    """Whether any run has seen a change of a table."""

    def read_with(self, name: str, batch: int) -> pa.Table:
        return (self.at_reading or self.at)(name, batch)


NO_TABLES = RunTables()


class LookupTables:
    def __init__(self, tables: RunTables) -> None:
        self.tables = tables
        self._prepared = PreparedTables()
        self.rows: dict[str, pa.Table] = {}
        """The rows of the tables that were looked into, as the last batch found them."""

    def at(self, groupings: Sequence[Grouping], batch: int) -> tuple[Prepared, ...]:
        """The tables of all lookups of the groupings, as a batch finds them."""
        return tuple(
            self._prepared.of(lookup, self._looked_into(lookup.table, batch), columns)
            for lookup, columns in _needed(groupings).items()
        )

    def _looked_into(self, name: str, batch: int) -> pa.Table:
        self.rows[name] = self.tables.at(name, batch)
        return self.rows[name]

    def read_with(self, groupings: Sequence[Grouping], events: pa.Table) -> tuple[tuple[Prepared, ...], pa.Table]:
        """The tables of all lookups as these events found them when they were read, each with its batch; the events,
        with the number of the version in its place where they found several."""
        needed = _needed(groupings)
        if not needed or READ not in events.column_names:
            return (), events

        def tables(batch: int) -> list[pa.Table]:
            return [self.tables.read_with(lookup.table, batch) for lookup in needed]

        versions, own = versions_read(batches_read(events), tables)
        by_lookup = zip(needed.items(), zip(*versions, strict=True), strict=True)
        if own is None:
            return tuple(self._prepared.of(lookup, rows, columns) for (lookup, columns), (rows,) in by_lookup), events
        numbered = events.set_column(events.schema.get_field_index(READ), READ, pa.array(own))
        return tuple(prepare_versions(lookup, rows, columns) for (lookup, columns), rows in by_lookup), numbered


def _needed(groupings: Sequence[Grouping]) -> dict[Lookup, set[str]]:
    """The columns that are needed of each lookup's table."""
    needed: dict[Lookup, set[str]] = {}
    for grouping in groupings:
        for lookup in grouping.lookups:
            needed.setdefault(lookup, set()).update(table_columns(grouping))
    return needed
