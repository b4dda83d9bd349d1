"""Combinations of rows of the inputs of a join, as rows: their columns and ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Ids
from mullion.operators.join_probe import Combinations
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.sub_windows import SubWindows


def gathered(
    i: int,
    own: KeyedSubWindow,
    combinations: Combinations,
    stored: Mapping[int, SubWindows],
    widths: Sequence[int],
    places: Mapping[str, tuple[int, str]],
) -> tuple[pa.Table, Ids]:
    """Columns of the join, and ids, of combinations that rows of input i found, which stand in a sub-window of their
    own. `places`: of each column that is wanted the input that it is of, and its name there."""
    columns: dict[str, pa.ChunkedArray] = {}
    ids = np.empty((len(combinations), sum(widths)), np.int64)
    first = 0
    for part, width in enumerate(widths):
        windows = SubWindows([own]) if part == i else stored[part]
        at = combinations.at[part]
        ids[:, first : first + width] = windows.ids_of(at)
        first += width
        inner_names = {name: inner for name, (of, inner) in places.items() if of == part}
        if inner_names:
            taken = windows.taken(at, list(dict.fromkeys(inner_names.values())))
            columns |= {name: taken.column(inner_name) for name, inner_name in inner_names.items()}
    return pa.Table.from_arrays([columns[name] for name in places], names=list(places)), ids
