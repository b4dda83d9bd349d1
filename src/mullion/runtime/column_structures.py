"""Structures that every event of a stream is added to in its order: synopses and summaries of columns."""

from __future__ import annotations

import pyarrow as pa

from mullion.catalog.summaries import StreamStructure, StreamSummary
from mullion.language.types import Type
from mullion.slices.column_synopses import ColumnSynopsis
from mullion.summaries.column_summary import ColumnSummary

ColumnStructure = ColumnSynopsis | ColumnSummary


def feed(structure: ColumnStructure, events: pa.Table, type_: Type, share: int | None) -> None:
    """Let it take events in their order. `share`: the bytes that a summary without MEMORY may have."""
    if isinstance(structure, ColumnSummary):
        structure.add_events(events, type_, share)
    else:
        structure.add_events(events, type_)


def new_structure(definition: StreamStructure, newest: int | None) -> ColumnStructure:
    """One that knows nothing yet; events up to `newest` came before it was made."""
    if isinstance(definition, StreamSummary):
        return ColumnSummary(definition, since=newest)
    return ColumnSynopsis(definition, since=newest)
