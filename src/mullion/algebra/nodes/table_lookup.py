"""Events joined with the rows of a table."""

from __future__ import annotations

from typing import ClassVar

from mullion.algebra.lookups import Lookup
from mullion.algebra.nodes.base import Columns, OverOne
from mullion.algebra.nodes.registry import kind


@kind
class TableLookup(OverOne):
    """Events with the columns that a table's row gives them (`lookup.types()`), once for every row that they find.

    Not retroactive: an event sees the table as it was when the event came, and keeps what it saw (golab 3.3.1).
    `retroactive`: the relation follows the table, whose changes bring and end rows. What finds no row stays, with
    NULLs; an inner join has a Filter on `lookup.matched` above it.
    """

    NAME: ClassVar[str] = "LookedUp"

    lookup: Lookup
    retroactive: bool = False

    @property
    def columns(self) -> Columns:
        return (*self.input.columns, *self.lookup.types().items())


__all__ = ["TableLookup"]
