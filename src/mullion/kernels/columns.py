"""The columns of a batch of events, decoded when they are needed, and the expressions over them, each computed once."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.column_names import names_read
from mullion.expressions.arrays import Codes, Mask
from mullion.expressions.coding.canonical import in_one_piece
from mullion.expressions.evaluate import Evaluation
from mullion.expressions.vector import Vector, dictionary_of, dtype_of
from mullion.kernels.lookup import Attached
from mullion.language.query import Column, Expr
from mullion.language.types import Type


class BatchColumns(Mapping[str, Vector]):
    """Columns by name. An expression that reads one column of texts is computed once for each different text.

    `named` tells which columns hold the values of expressions that were computed before.
    """

    def __init__(self, length: int, named: Mapping[Expr, str] | None = None) -> None:
        self.length = length
        self._named = named or {}
        self._arrays: dict[str, tuple[pa.Array | pa.ChunkedArray, Type]] = {}
        self._attached: dict[str, Attached] = {}
        self._vectors: dict[str, Vector] = {}
        self._dictionaries: dict[str, tuple[Codes, Vector]] = {}
        self._values: dict[Expr, Vector] = {}
        self._extremes: dict[str, tuple[int, int] | None] = {}
        # Held by what it holds, a portion would stay until cycles are sought.
        self._evaluation = _OverEvents(weakref.proxy(self))
        self._different: dict[str, Evaluation] = {}
        """Over the different texts of a column."""

    @staticmethod
    def of(
        batch: pa.RecordBatch | pa.Table, types: Mapping[str, Type], named: Mapping[Expr, str] | None = None
    ) -> BatchColumns:
        columns = BatchColumns(len(batch), named)
        for name, type_ in types.items():
            columns.add(name, batch.column(name), type_)
        return columns

    def add(self, name: str, array: pa.Array | pa.ChunkedArray, type_: Type) -> None:
        self._arrays[name] = array, type_

    def _array(self, name: str) -> tuple[pa.Array, Type]:
        """A column in one piece, when it is needed."""
        array, type_ = self._arrays[name]
        if isinstance(array, pa.ChunkedArray):
            self._arrays[name] = array, type_ = in_one_piece(array), type_
        return array, type_

    def attach(self, attached: Attached) -> None:
        """Columns that a lookup adds."""
        for name in attached:
            self._attached[name] = attached

    def attached(self, name: str) -> Attached:
        return self._attached[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays or name in self._attached

    def __getitem__(self, name: str) -> Vector:
        vector = self._vectors.get(name)
        if vector is None:
            vector = self._vectors[name] = self._decode(name)
        return vector

    def __iter__(self) -> Iterator[str]:
        return iter({**self._arrays, **self._attached})

    def __len__(self) -> int:
        return len(self._arrays) + len(self._attached)

    def _decode(self, name: str) -> Vector:
        if name in self._attached:
            return self._attached[name][name]
        array, type_ = self._array(name)
        if dtype_of(type_) is np.object_ or pa.types.is_dictionary(array.type):
            codes, different = self.dictionary(name)
            return replace(different.take(codes), coded=(codes, different))
        return Vector.from_arrow(array, type_)

    def dictionary(self, name: str) -> tuple[Codes, Vector]:
        """The column as numbers into its different values, of which the last is NULL."""
        if name not in self._dictionaries:
            array, type_ = self._array(name)
            self._dictionaries[name] = dictionary_of(array, type_)
        return self._dictionaries[name]

    def type_of(self, name: str) -> Type | None:
        """The type of a column that events came with."""
        return self._arrays[name][1] if name in self._arrays else None

    def extremes(self, name: str) -> tuple[int, int] | None:
        """The least and the largest number of a column, whatever it holds where it is NULL; None without rows."""
        if name not in self._extremes:
            values = self[name].values
            self._extremes[name] = (int(values.min()), int(values.max())) if len(values) else None
        return self._extremes[name]

    def is_text(self, name: str) -> bool:
        return name in self._arrays and dtype_of(self._arrays[name][1]) is np.object_

    def value(self, expr: Expr) -> Vector:
        """The expression's values, computed once however often it is asked for, in whole or in part."""
        expr = self._known(expr)
        if isinstance(expr, Column):
            return self[expr.name]
        if expr not in self._values:
            found = self.by_dictionary(expr)
            self._values[expr] = self._evaluation.full(expr) if found is None else found[1].take(found[0])
        return self._values[expr]

    def by_dictionary(self, expr: Expr) -> tuple[Codes, Vector] | None:
        """An expression that reads one column of texts, or columns of one table: its value for each different text or
        row of the table, and which of them each event has."""
        expr = self._known(expr)
        found = self.over_different(expr)
        if found is None:
            return None
        codes, evaluation = found
        return codes, evaluation.columns[expr.name] if isinstance(expr, Column) else evaluation.full(expr)

    def over_different(self, expr: Expr) -> tuple[Codes, Evaluation] | None:
        """Which of the different texts, or rows of a table, each event has, and what evaluates over these."""
        read = names_read(expr)
        tables = {id(self._attached[name]): self._attached[name] for name in read if name in self._attached}
        if len(tables) == 1 and all(name in self._attached for name in read):
            (table,) = tables.values()
            rows = {name: table.of_rows(name) for name in read}
            return table.codes, Evaluation(rows, table.prepared.length + 1)
        if len(read) != 1:
            return None
        name = next(iter(read))
        if not self.is_text(name):
            return None
        codes, values = self.dictionary(name)
        return codes, self._different.setdefault(name, Evaluation({name: values}, len(values)))

    def forget_steps(self) -> None:
        """Let go of what was computed on the way to values; they themselves are kept. A step that is needed again is
        computed again: hundreds of expressions have more steps than memory should hold."""
        self._evaluation.values.clear()
        self._different.clear()

    def bad(self, expr: Expr) -> npt.NDArray[np.bool_] | None:
        """Where the expression met a bad value; None where it met none."""
        return self._evaluation.some_bad(expr)

    def array(self, expr: Expr) -> pa.Array:
        """The expression's values for Arrow, texts as a dictionary."""
        found = self.by_dictionary(expr)
        if found is not None:
            codes, values = found
            return pa.DictionaryArray.from_arrays(pa.array(codes), values.to_arrow())
        expr = self._known(expr)
        if isinstance(expr, Column) and expr.name in self._arrays:
            return self._array(expr.name)[0]
        return self.value(expr).to_arrow()

    def _known(self, expr: Expr) -> Expr:
        name = self._named.get(expr)
        return expr if name is None else Column(name)


class _OverEvents(Evaluation):
    """Evaluates over events. A part that reads texts of one column alone is evaluated over its different texts."""

    def __init__(self, columns: BatchColumns) -> None:
        super().__init__(columns, columns.length)
        self._columns = columns

    def compute(self, expr: Expr) -> Vector:
        found = None if isinstance(expr, Column) else self._columns.by_dictionary(expr)
        return super().compute(expr) if found is None else found[1].take(found[0])

    def bad(self, expr: Expr) -> Mask | None:
        found = None if isinstance(expr, Column) else self._columns.over_different(expr)
        if found is None:
            return super().bad(expr)
        codes, evaluation = found
        bad = evaluation.some_bad(expr)
        return None if bad is None else bad[codes]
