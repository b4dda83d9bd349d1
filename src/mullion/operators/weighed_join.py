"""A join whose rows say how many pairs each of them stands for: itself, unless a part of the join is told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Join, Promising
from mullion.algebra.streams import WEIGHT
from mullion.expressions.arrays import Ids, Real
from mullion.operators.base import Operator
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.join import JoinOperator
from mullion.operators.join_probe import Partial
from mullion.operators.keyed_sub_window import KeyedSubWindow


class WeighedJoin(JoinOperator):
    def __init__(self, node: Promising, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        assert isinstance(node.input, Join)
        super().__init__(node.input, inputs, construction)
        if node.weighs and construction.reads(WEIGHT):
            self.schema = self.schema.append(pa.field(WEIGHT, pa.float64()))

    def _gathered(self, i: int, own: KeyedSubWindow, partial: Partial, names: Sequence[str]) -> tuple[pa.Table, Ids]:
        rows, ids = super()._gathered(i, own, partial, [name for name in names if name != WEIGHT])
        if WEIGHT in names:
            rows = rows.append_column(WEIGHT, pa.array(self._stands_for(partial)))
        return rows, ids

    def _stands_for(self, partial: Partial) -> Real:
        return np.ones(len(partial))
