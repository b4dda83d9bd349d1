"""A join whose rows say how many pairs each of them stands for: itself, unless a part of the join is told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Join, Promising
from mullion.algebra.nodes.promising import OF_A_SAMPLE
from mullion.expressions.arrays import Array, Ids
from mullion.language.types import DOUBLE
from mullion.operators.base import Operator
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.join import JoinOperator
from mullion.operators.join_probe import Partial
from mullion.operators.keyed_sub_window import KeyedSubWindow


class WeighedJoin(JoinOperator):
    def __init__(self, node: Promising, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        assert isinstance(node.input, Join)
        super().__init__(node.input, inputs, construction)
        for name, type_ in node.of_a_sample.items():
            if construction.reads(name):
                self.schema = self.schema.append(pa.field(name, pa.float64() if type_ == DOUBLE else pa.int64()))

    def _gathered(self, i: int, own: KeyedSubWindow, partial: Partial, names: Sequence[str]) -> tuple[pa.Table, Ids]:
        rows, ids = super()._gathered(i, own, partial, [name for name in names if name not in OF_A_SAMPLE])
        for name in names:
            if name in OF_A_SAMPLE:
                rows = rows.append_column(name, pa.array(self._of_a_sample(name, i, own, partial)))
        return rows, ids

    def _of_a_sample(self, name: str, i: int, own: KeyedSubWindow, partial: Partial) -> Array:
        """Combinations that stand for themselves alone."""
        return np.ones(len(partial)) if OF_A_SAMPLE[name] == DOUBLE else np.zeros(len(partial), np.int64)
