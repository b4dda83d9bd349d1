"""The columns of a query's answers.

    window_start, window_end, the items [, inserted_at, expires_at [, sign]]

Rows say when they came and when they will leave, NULL where that is never or not known in advance. `sign` is 1 for a
row that comes and -1 for one that ends, where its end was not known when it came.
"""

from __future__ import annotations

import pyarrow as pa

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS
from mullion.algebra.nodes import comes_at_instants, is_aggregates
from mullion.algebra.relation import Relation
from mullion.algebra.update_pattern import Pattern
from mullion.algebra.window_aggregate import type_of_bounds, window_aggregate
from mullion.expressions.vector import arrow_type
from mullion.language.types import INT, TIMESTAMP, Type


def answer_schema(relation: Relation) -> pa.Schema:
    """The columns of the answers, with their types."""
    return relation.memoized(_schema)


def _schema(relation: Relation) -> pa.Schema:
    types = [type_ for _, type_ in relation.root.columns]
    bounds = arrow_type(_bounds(relation))
    fields = [(name, bounds) for name in WINDOW_COLUMNS]
    fields += [(name, arrow_type(type_)) for name, type_ in zip(relation.names, types, strict=False)]
    if has_lives(relation):
        fields += [(name, arrow_type(TIMESTAMP)) for name in ("inserted_at", "expires_at")]
        if has_sign(relation):
            fields.append(("sign", arrow_type(INT)))
    return pa.schema(fields)


def _bounds(relation: Relation) -> Type:
    parts = window_aggregate(relation.root)
    return TIMESTAMP if parts is None else type_of_bounds(parts.scan)


def has_lives(relation: Relation) -> bool:
    """Whether answers say when their rows came and will leave: those of aggregates stand for an instant."""
    return relation.output == "wstream" or not is_aggregates(relation.root)


def came_after(relation: Relation) -> int:
    """How long after the start of their lives rows have come and leave, as answers say it."""
    return 1 if comes_at_instants(relation.root) else 0


def has_sign(relation: Relation) -> bool:
    """Whether answers take back rows that were emitted."""
    return relation.output == "changes" and has_lives(relation) and relation.root.pattern is Pattern.STRICT
