"""Operators that need no memory: each row in, at most one row out, with the life that it had."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Filter, Project, Union
from mullion.expressions.arrays import Ids
from mullion.operators.bad_values import BadConditions, BadValues
from mullion.operators.base import Operator
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.expressions import computed, is_true, schema_of
from mullion.operators.observations import Observations
from mullion.operators.registry import implements
from mullion.operators.share import Share
from mullion.operators.timed_rows import Delta, Retractions, TimedRows


class FilterOperator(Operator):
    """The rows for which a predicate is true. `needed`: the columns that an operator above reads."""

    picks_columns = True

    def __init__(self, node: Filter, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        self.node = node
        fields = [field for field in inputs[0].schema if construction.reads(field.name)]
        self.schema, self.width = pa.schema(fields), inputs[0].width
        self._bad = BadConditions(node.predicate, node.input)
        self.passed = Share()
        """Of the rows that came, those for which the predicate was true."""

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        fresh = inputs[0].fresh
        passing = fresh.with_rows(fresh.rows.select(self.schema.names))
        self.bad += self._bad.among(fresh)
        self.passed.step()
        if len(fresh):
            holds = is_true(self.node.predicate, fresh, self.node.types)
            passing = passing if holds.all() else passing.take(holds)
            self.passed.see(len(fresh), len(passing))
        return Delta(passing, inputs[0].retracted, now, inputs[0].released)

    def show(self, observed: Observations) -> None:
        observed.see_passing(self.node.input, self.node.predicate, self.passed.value)


@implements(Project)
class ProjectOperator(Operator):
    """Other columns, row by row."""

    picks_columns = True

    def __init__(self, node: Project, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        self.node = node
        self.schema, self.width = schema_of(node.columns), inputs[0].width
        self._bad = BadValues([expr for _, expr, _ in node.items], node.input.types)

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        fresh = inputs[0].fresh
        self.bad += self._bad.among(fresh.rows)
        columns = [computed(expr, fresh, self.node.input.types) for _, expr, _ in self.node.items]
        rows = pa.Table.from_arrays(columns, schema=self.schema) if len(fresh) else self.schema.empty_table()
        return Delta(fresh.with_rows(rows), inputs[0].retracted, now, inputs[0].released)


@implements(Union)
class UnionOperator(Operator):
    """All rows of all inputs. The number of the input is part of an id, so that ids stay apart."""

    picks_columns = True

    def __init__(self, node: Union, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        self.schema = inputs[0].schema
        self.width = max(source.width for source in inputs) + 1

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        fresh, retracted, released = [], [], []
        for i, delta in enumerate(inputs):
            own = delta.fresh
            rows = own.rows.select(self.schema.names)
            fresh.append(TimedRows(rows, self._ids(own.ids, i), own.start, own.end, own.held_until))
            retracted.append(Retractions(self._ids(delta.retracted.ids, i), delta.retracted.at))
            if delta.released is not None:
                released.append(Retractions(self._ids(delta.released.ids, i), delta.released.at))
        return Delta(
            TimedRows.concat(fresh),
            Retractions.concat(retracted),
            now,
            Retractions.concat(released) if released else None,
        )

    def _ids(self, ids: Ids, branch: int) -> Ids:
        wide = np.zeros((len(ids), self.width), np.int64)
        wide[:, 0] = branch
        wide[:, 1 : ids.shape[1] + 1] = ids
        return wide


class Narrowed(Operator):
    """Only the columns that are asked for."""

    def __init__(self, source: Operator, names: Sequence[str]) -> None:
        self.source = source
        self.schema = pa.schema([source.schema.field(name) for name in names])
        self.width = source.width

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        fresh = inputs[0].fresh
        rows = fresh.rows.select(self.schema.names)
        return Delta(fresh.with_rows(rows), inputs[0].retracted, now, inputs[0].released)
