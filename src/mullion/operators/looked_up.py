"""Rows with what they find in a table (golab 3.3.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.catalog.algebra import LookedUp
from mullion.kernels.lookup import Prepared, attach, probe
from mullion.language.vector import arrow_type
from mullion.operators.base import Operator, Parts
from mullion.operators.expressions import computed
from mullion.operators.lives import Delta, Gone, Ids, Index, Lives


def looked_up_operator(node: LookedUp, inputs: Sequence[Operator], strategy: str) -> Operator:
    return LookedUpOperator(node, inputs, strategy)


class LookedUpOperator(Operator):
    """Not retroactive: a row keeps what the table had when it came.

    A row that finds several rows of the table becomes several, numbered from 0 in the last part of their ids. When it
    is gone, all of them are; as many are told to be gone as any row ever found, since who never saw one passes it over.
    """

    def __init__(self, node: LookedUp, inputs: Sequence[Operator], strategy: str) -> None:
        self.node = node
        self.width = inputs[0].width + 1
        self.added = node.lookup.types()
        fields = [(name, arrow_type(type_)) for name, type_ in self.added.items()]
        self.schema = pa.schema([*inputs[0].schema, *map(pa.field, *zip(*fields, strict=True))])
        self.prepared: Prepared | None = None
        self.most = 1
        """How many rows of the table a row found at most."""

    def table_changed(self, prepared: Prepared, at: int) -> None:
        """From now on the table is this one. `at` is the time from which on it is."""
        self.prepared = prepared

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        (delta,) = inputs
        fresh = self._found(delta.fresh)
        let_go = None if delta.let_go is None else self._all(delta.let_go)
        return Delta(fresh, self._all(delta.gone), now, let_go)

    def _all(self, gone: Gone) -> Gone:
        """Every row that a row may have become."""
        numbers = np.tile(np.arange(self.most), len(gone))
        ids = np.column_stack([np.repeat(gone.ids, self.most, axis=0), numbers])
        return Gone(ids, np.repeat(gone.at, self.most))

    def _found(self, lives: Lives) -> Lives:
        if not len(lives):
            return Lives.empty(self.schema, self.width)
        assert self.prepared is not None, f"nobody has given the table {self.node.lookup.table}"
        own, numbers, rows = joined(self.node, self.prepared, lives, self.schema)
        self.most = max(self.most, int(numbers.max()) + 1)
        held = None if lives.held is None else lives.held[own]
        return Lives(rows, np.column_stack([lives.ids[own], numbers]), lives.start[own], lives.end[own], held)

    def parts(self) -> Parts:
        return {"most": [pa.table({"most": [self.most]})]}

    def restore(self, parts: Parts) -> None:
        for table in parts.get("most", ()):
            self.most = table["most"][0].as_py()


def joined(node: LookedUp, prepared: Prepared, lives: Lives, schema: pa.Schema) -> tuple[Index, Ids, pa.Table]:
    """Rows with what they find: which row each is, its number among the row's, and all its columns."""
    keys = [computed(event, lives, node.input.types) for event, _ in node.lookup.keys]
    events, found = probe(prepared, keys, len(lives))
    own = np.arange(len(lives)) if events is None else events
    first = np.flatnonzero(np.concatenate([[True], own[1:] != own[:-1]])) if len(own) else own
    numbers = np.arange(len(own)) - np.repeat(first, np.diff(np.append(first, len(own))))
    attached = attach(prepared, found)
    names = [name for name in schema.names if name in lives.rows.column_names]
    rows = lives.rows.select(names)
    rows = rows if events is None else rows.take(pa.array(own))
    columns = [
        rows.column(field.name) if field.name in names else attached[field.name].to_arrow().cast(field.type)
        for field in schema
    ]
    return own, numbers, pa.Table.from_arrays(columns, schema=schema)


__all__ = ["LookedUpOperator", "looked_up_operator"]
