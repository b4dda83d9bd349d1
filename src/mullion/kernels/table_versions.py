"""The versions of tables that events were read with, ready to be probed.

    event   read with batch    the table at batch 3: v, and at batch 5: w

      a            3    --.                            a: 0
      b            5       > distinct versions: v, w   b: 1    one table with the rows of both, and the version as a key
      c            4    --'                            c: 0

A table seldom changes. Nearly always all events have the same version, which is then probed as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from mullion.algebra.lookups import READ, Lookup
from mullion.expressions.arrays import Index, Times, Whole
from mullion.expressions.coding.canonical import in_one_piece
from mullion.kernels.lookup import Prepared, prepare

MOST_VERSIONS = 4
"""Versions of a table that stay prepared for a lookup."""

TableVersions: TypeAlias = Sequence[pa.Table]


class PreparedTables:
    """Tables that were prepared, by lookup: the last versions of each."""

    def __init__(self) -> None:
        self._prepared: dict[Lookup, list[tuple[pa.Table, Collection[str] | None, Prepared]]] = {}

    def of(self, lookup: Lookup, rows: pa.Table, needed: Collection[str] | None = None) -> Prepared:
        """With the needed columns at least."""
        known = self._prepared.setdefault(lookup, [])
        for table, columns, prepared in known:
            if table is rows and (columns is None or (needed is not None and set(needed) <= set(columns))):
                return prepared
        prepared = prepare(lookup, rows, needed)
        known[:] = [*(own for own in known if own[0] is not rows), (rows, needed, prepared)][-MOST_VERSIONS:]
        return prepared


def batches_read(events: pa.Table) -> Whole:
    """The batch that each event was read with; -1 where nobody noted it."""
    if READ not in events.column_names:
        return np.full(len(events), -1)
    return np.asarray(in_one_piece(events.column(READ)).fill_null(-1), np.int64)


def oldest_batch(events: pa.Table | None) -> int | None:
    """The oldest batch that any of these events was read with; None where that matters for none."""
    if events is None or not len(events) or READ not in events.column_names:
        return None
    return int(batches_read(events).min())


def versions_read(reads: Whole, tables: Callable[[int], TableVersions]) -> tuple[list[TableVersions], Index | None]:
    """The distinct versions of some tables that events of these batches see, and which of them each does; None where
    all see the same.

    >>> old, new = pa.table({"k": [1]}), pa.table({"k": [2]})
    >>> versions, own = versions_read(np.array([3, 5, 4]), lambda batch: [old if batch < 5 else new])
    >>> len(versions), own.tolist()
    (2, [0, 1, 0])
    """
    starts = np.flatnonzero(np.concatenate([[True], reads[1:] != reads[:-1]]))
    batches, of_run = np.unique(reads[starts], return_inverse=True)
    distinct: dict[tuple[int, ...], int] = {}
    versions: list[TableVersions] = []
    numbers = []
    for batch in batches.tolist():
        own = tables(batch)
        same = tuple(map(id, own))
        if same not in distinct:
            distinct[same] = len(distinct)
            versions.append(own)
        numbers.append(distinct[same])
    if len(versions) == 1:
        return versions, None
    return versions, np.repeat(np.array(numbers)[of_run], np.diff(np.append(starts, len(reads))))


def with_batch(events: pa.Table, batch: int) -> pa.Table:
    """Events with the batch that they were read with."""
    return events.append_column(READ, pa.array(np.full(len(events), batch)))


def read_before(events: pa.Table, times: Times, known: pa.Table, times_known: Times) -> pa.Table:
    """Events that were read once more, in the order of arrival: those that are known already keep their batches. Of all
    events of a time, they are those that came last.

    >>> again = pa.table({"#read": [9, 9, 9]})
    >>> known = pa.table({"#read": [7, 8]})
    >>> read_before(again, np.array([5, 6, 5]), known, np.array([6, 5]))["#read"].to_pylist()
    [9, 7, 8]
    """
    reads, order = batches_read(events).copy(), np.argsort(times, kind="stable")
    order_known = np.argsort(times_known, kind="stable")
    times, times_known = times[order], times_known[order_known]
    from_last = np.searchsorted(times_known, times_known, "right") - np.arange(len(times_known))
    places = np.searchsorted(times, times_known, "right") - from_last
    there = places >= np.searchsorted(times, times_known)
    reads[order[places[there]]] = batches_read(known)[order_known[there]]
    return events.set_column(events.schema.get_field_index(READ), READ, pa.array(reads))
