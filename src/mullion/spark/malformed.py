"""Records of a batch that have no event time, as they are written aside."""

from __future__ import annotations

import pyarrow as pa

from mullion.spark.events import Events
from mullion.spark.expressions import identifier
from mullion.spark.sources import CORRUPT, SOURCE


def malformed_records(events: Events) -> pa.Table:
    """The records of a batch that have no event time or do not parse: where from, what, and why."""
    columns = ", ".join(identifier(name) for name, _ in events.stream.shown)
    record = f"to_json(struct({columns}), map('ignoreNullFields', 'false'))"
    time = f"CAST({identifier(events.stream.time_column)} AS TIMESTAMP)"
    reason = f"CASE WHEN {time} IS NULL THEN 'no event time' ELSE 'an event time outside the years 1 to 9999' END"
    if CORRUPT in events.batch.columns:
        record = f"coalesce({CORRUPT}, {record})"
        reason = f"CASE WHEN {CORRUPT} IS NULL THEN {reason} ELSE 'does not parse' END"
    source = SOURCE if SOURCE in events.batch.columns else "CAST(NULL AS STRING)"
    broken = events.malformed().select([f"{source} AS source", f"{record} AS record", f"{reason} AS reason"])
    return broken.toArrow()
