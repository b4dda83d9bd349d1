"""Queries bound as slices run them."""

from __future__ import annotations

from collections.abc import Mapping

from mullion.algebra.streams import Stream, Table
from mullion.binding import relations
from mullion.language.query import Query
from mullion.planner.physical import sliced
from mullion.planner.sliced import SlicedAggregation


def bind(query: Query, streams: Mapping[str, Stream], tables: Mapping[str, Table] | None = None) -> SlicedAggregation:
    made = sliced(relations.bind(query, streams, tables), streams)
    assert made is not None, "operators run it"
    return made
