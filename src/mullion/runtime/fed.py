"""Structures that are fed with every event of a stream in its order: synopses and summaries of columns."""

from __future__ import annotations

from mullion.catalog.summaries import Fed, StreamSummary
from mullion.slices.column_synopses import ColumnSynopsis
from mullion.summaries.column_summary import ColumnSummary

FedStructure = ColumnSynopsis | ColumnSummary


def new_structure(definition: Fed, newest: int | None) -> FedStructure:
    """One that knows nothing yet; events up to `newest` came before it was made."""
    if isinstance(definition, StreamSummary):
        return ColumnSummary(definition, since=newest)
    return ColumnSynopsis(definition, since=newest)
