"""What a query's output emits of its rows: which rows, at which instants, in which order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from mullion.algebra.relation import Relation
from mullion.expressions.arrays import Array, Codes, Index
from mullion.expressions.coding.dictionary import row_codes
from mullion.kernels.columns import BatchColumns
from mullion.operators.emission import (
    Emission,
    Visibility,
    are_deleted,
    are_inserted,
    changed_rows,
    deleted_rows,
    inserted_rows,
    missed_rows,
    stretches,
    turns,
    visible_rows,
)
from mullion.operators.timed_rows import TimedRows
from mullion.slices.arrange import ranked


class Emitter:
    """RSTREAM, ISTREAM, DSTREAM or every change, as far as LIMIT lets rows through, in the order of ORDER BY.

    `signed`: whether changes include the rows that leave.
    """

    def __init__(self, relation: Relation, *, signed: bool) -> None:
        self.relation, self._signed = relation, signed

    def emissions(self, timed: TimedRows, seen: Visibility, low: int, high: int, before: int) -> Iterator[Emission]:
        """What is emitted from low to high, when the result is looked at from `before` on."""
        if self.relation.limit is None or self.relation.output == "changes":
            row, shown = np.arange(len(timed)), seen
        else:
            row, shown = self._limited(timed, seen, before, high)
        for emission in self._chosen(timed, row, shown, seen, low, high):
            yield self._arranged(timed, seen.arrival, emission)

    def _limited(self, timed: TimedRows, seen: Visibility, before: int, high: int) -> tuple[Index, Visibility]:
        """The rows that LIMIT lets through, as often as they come back, and when they are seen."""
        emissions = []
        for begin, end in turns(seen, before, high):
            emission = self._arranged(timed, seen.arrival, visible_rows(seen, begin, end))
            number = np.arange(len(emission.rank)) - np.searchsorted(emission.rank, emission.rank)
            emissions.append(emission.take(np.flatnonzero(number < (self.relation.limit or 0))))
        row, first, last = stretches(Emission.concat(*emissions))
        return row, seen.take(row)._replace(first=first, last=last)

    def _chosen(
        self, timed: TimedRows, row: Index, shown: Visibility, seen: Visibility, low: int, high: int
    ) -> Iterator[Emission]:
        def restored(begin: int, end: int) -> Emission:
            return missed_rows(seen, begin, end) if self.relation.restore else Emission.of(row[:0], seen.first[:0])

        match self.relation.output:
            case "rstream" | "wstream":
                for begin, end in turns(shown, low, high):
                    emission = visible_rows(shown, begin, end)
                    yield Emission.concat(emission._replace(row=row[emission.row]), restored(begin, end))
            case "istream":
                emission = inserted_rows(shown, self._values(timed, row, shown, low, high), low, high)
                yield Emission.concat(emission._replace(row=row[emission.row]), restored(low, high))
            case "dstream":
                emission = deleted_rows(shown, self._values(timed, row, shown, low, high), low, high)
                yield emission._replace(row=row[emission.row])
            case "changes":
                yield changed_rows(seen, low, high, signed=self._signed)
            case other:
                raise AssertionError(f"no output is called {other}")

    def _values(self, timed: TimedRows, row: Index, seen: Visibility, low: int, high: int) -> Codes:
        """Numbers by value for the rows that come or leave; all others are as if they were equal."""
        changing = np.flatnonzero(are_inserted(seen, low, high) | are_deleted(seen, low, high))
        codes = np.zeros(len(row), np.int64)
        items = timed.rows.select(range(len(self.relation.names)))
        codes[changing] = row_codes(items.take(pa.array(row[changing])))
        return codes

    def _arranged(self, timed: TimedRows, place: Index, emission: Emission) -> Emission:
        """By instant, then ORDER BY, then by place."""
        terms: list[Codes] = []
        if self.relation.order_by:
            columns = BatchColumns.of(timed.rows.take(pa.array(emission.row)), self.relation.root.types)
            for expr, descending, nulls_first in self.relation.order_by:
                column = columns.value(expr).to_arrow()
                terms.append(ranked(column, descending=descending, nulls_first=nulls_first))
        keys: list[Array] = [emission.sign, place[emission.row], *terms[::-1], emission.rank]
        return emission.take(np.lexsort(keys))
