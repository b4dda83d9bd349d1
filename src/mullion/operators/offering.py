"""What promising joins of one shape share: the rows of both inputs, and the possible matches of new rows (ali 5.1).

    new rows --numbered, sorted by key--> kept --StepOffers--> promising join, with an agenda and a budget
                                                          '--> promising join, with others

The paper has one summary of a stream for all queries and a promising set for each (ali 2). Here the rows themselves are
what all have in common, and the counting of what new ones meet: this is found out once in a step, whoever asks first.

Requires: two inputs whose rows end when they promised to.
Time: sorting and merging of new rows, and counting what they meet, once for all joins.
Space: the windows of the inputs, with the columns that any of the joins reads.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes.offering import Offering
from mullion.instants import EVER_BEFORE
from mullion.operators.bad_values import bad_keys
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.expressions import key_function
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.missing import Missing
from mullion.operators.observations import Observations
from mullion.operators.promise_offers import NUMBER, numbered
from mullion.operators.registry import implements
from mullion.operators.row_store import RowStore, restore_stores, saved_stores
from mullion.operators.share import Share
from mullion.operators.step_offers import StepOffers
from mullion.operators.sub_windows import SubWindows
from mullion.operators.timed_rows import Delta, Retractions, TimedRows


@implements(Offering)
class OfferingOperator(Operator):
    picks_columns = True

    def __init__(self, node: Offering, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        self.node = node
        join, number = node.input, pa.field(NUMBER, pa.int64())
        self.width = sum(source.width for source in inputs)
        fields = [(f"{i}.{field.name}", field.type) for i, source in enumerate(inputs) for field in source.schema]
        self.schema = pa.schema([field for field in fields if construction.reads(field[0])] or fields[:1])
        self.stores: list[RowStore] = [
            construction.store(part.kept_as, source.schema.append(number), source.width, key_function(keys, part.types))
            for part, keys, source in zip(join.parts, join.keys, inputs, strict=True)
        ]
        self._bad_keys = [bad_keys(keys, part) for part, keys in zip(join.parts, join.keys, strict=True)]
        self.came = [0, 0]
        """How many rows of each input have come."""
        self.before = EVER_BEFORE
        """The `now` of the last step."""
        self.met = Share()
        """Of all combinations with new rows those with equal keys."""
        self._step: StepOffers | None = None

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        began = time.perf_counter()
        assert not any(len(delta.retracted) for delta in inputs), "rows end when they promised to"
        fresh, first = [self._sorted(i, delta) for i, delta in enumerate(inputs)], self.stores[0]
        before = SubWindows(self.stores[1].windows)
        for store, own in zip(self.stores, fresh, strict=True):
            if own is not None:
                store.add(own)
        came, new = (self.came[0], self.came[1]), (len(inputs[0].fresh), len(inputs[1].fresh))
        met = before, SubWindows(first.windows)
        step = self._step = StepOffers(self.schema, self.stores, fresh, met, came, new, self.before)
        self.came = [came[0] + new[0], came[1] + new[1]]
        step.seconds = time.perf_counter() - began
        missing = [delta.missing.overall for delta in inputs if delta.missing is not None]
        return Delta(
            TimedRows.empty(self.schema, self.width),
            Retractions.none(self.width),
            now,
            missing=Missing.union(missing) if missing else None,
            spent=sum(delta.spent for delta in inputs),
            offers=step,
        )

    def _sorted(self, i: int, delta: Delta) -> KeyedSubWindow | None:
        self.bad += self._bad_keys[i].among(delta.fresh.rows)
        return self.stores[i].sorted(numbered(delta.fresh, self.came[i]))

    def end_step(self, now: int) -> None:
        """Rows leave when all joins have told what they tell: pairs may have ended within the step."""
        step, self._step = self._step, None
        if step is not None:
            self.met.step()
            if step.pairs is not None:
                self.met.see(step.at_most, step.pairs)
        self.before = now
        for store in self.stores:
            store.expire(now)

    def show(self, observed: Observations) -> None:
        observed.see_keys(self.node.input, self.stores)
        observed.meetings.append((self.node.input, self.met.value))

    # State

    @property
    def rows_held(self) -> int:
        return sum(store.rows_held for store in self.stores)

    def structures(self) -> dict[str, str]:
        return {str(i): store.kept_in for i, store in enumerate(self.stores)}

    def _stores(self) -> dict[str, RowStore]:
        return {str(i): store for i, store in enumerate(self.stores)}

    def parts(self) -> Parts:
        at = pa.table({"#came": self.came, "#before": np.full(2, self.before)})
        return {**saved_stores(self._stores()), "at": [at]}

    def restore(self, parts: Parts) -> None:
        restore_stores(self._stores(), parts)
        for table in parts.get("at", ()):
            self.came, self.before = table["#came"].to_pylist(), table["#before"][0].as_py()
        for store in self.stores:
            store.expire(self.before)  # so that it merges, and takes memory, as without a restart
