"""Values by their codes, for value counts: of one column its ranks, of several the rank of each
combination, by the first column and then by the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes
from mullion.expressions.coding.dictionary import combine, ordered_codes
from mullion.expressions.vector import Vector, constant
from mullion.language.types import Type


def coded_values(columns: Sequence[tuple[pa.Array | pa.ChunkedArray, Type]]) -> tuple[Codes, tuple[Vector, ...]]:
    """The code of each row, and for each column its value by code. Rows with a NULL have any code, or none (-1).

    >>> from mullion.language.types import DOUBLE, STRING
    >>> code, (name, number) = coded_values([(pa.array(["b", "a", "b"]), STRING), (pa.array([1.0, 2.0, 1.0]), DOUBLE)])
    >>> code.tolist(), name.to_list(), number.to_list()
    ([1, 0, 1], ['a', 'b'], [2.0, 1.0])
    """
    coded = [ordered_codes(column, type_) for column, type_ in columns]
    if len(coded) == 1:
        code, values = coded[0]
        return code, (values,)
    known = [(np.maximum(code, 0), values) for code, values in coded]
    together, size = combine([(code, max(1, len(values))) for code, values in known], len(columns[0][0]))
    row = np.zeros(size, np.intp)
    row[together] = np.arange(len(together))
    return together, tuple(v.take(c[row]) if len(v) else constant(v.type, None, size) for c, v in known)
