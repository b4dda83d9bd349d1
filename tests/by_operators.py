"""Queries bound as operators run them, also those that slices would run: both ways must give the same answers."""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import patch

from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.binding import relations
from mullion.language.query import Query


def bind_relation(
    query: Query,
    streams: Mapping[str, Stream],
    tables: Mapping[str, Table],
    materialized: Mapping[str, Relation] | None = None,
) -> Relation:
    """The relation, without what slices alone can do."""
    with patch.object(relations, "groups_one_window", return_value=False):
        return relations.bind(query, streams, tables, materialized)
