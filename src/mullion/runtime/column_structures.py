"""Structures that every event of a stream is added to in its order: synopses and summaries of columns."""

from __future__ import annotations

from mullion.catalog.summaries import StreamStructure, StreamSummary
from mullion.slices.column_synopses import ColumnSynopsis
from mullion.summaries.column_summary import ColumnSummary

ColumnStructure = ColumnSynopsis | ColumnSummary


def new_structure(definition: StreamStructure, newest: int | None) -> ColumnStructure:
    """One that knows nothing yet; events up to `newest` came before it was made."""
    if isinstance(definition, StreamSummary):
        return ColumnSummary(definition, since=newest)
    return ColumnSynopsis(definition, since=newest)
