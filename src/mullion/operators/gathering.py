"""Combinations of rows of the inputs of a join, as rows: their columns and ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Ids
from mullion.operators.join_probe import Combinations
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.sub_windows import SubWindows
from mullion.operators.timed_tables import id_names


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
        inner_names = {name: inner for name, (of, inner) in places.items() if of == part}
        wanted = [*dict.fromkeys(inner_names.values()), *id_names(width)]
        at = combinations.at[part]
        taken = own.table.select(wanted).take(pa.array(at)) if part == i else stored[part].taken(at, wanted)
        columns |= {name: taken.column(inner_name) for name, inner_name in inner_names.items()}
        for k, number in enumerate(id_names(width)):
            ids[:, first + k] = taken.column(number).to_numpy()
        first += width
    return pa.Table.from_arrays([columns[name] for name in places], names=list(places)), ids
