"""Records that answer nobody, as they are written aside."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mullion.spark.expressions import identifier
from mullion.spark.pipeline import Events
from mullion.spark.sources import CORRUPT, SOURCE


def malformed_records(events: Events) -> pa.Table:
    """The records of a batch that have no event time or do not parse: where from, what, and why."""
    columns = ", ".join(identifier(name) for name, _ in events.stream.columns)
    record = f"to_json(struct({columns}), map('ignoreNullFields', 'false'))"
    reason = "'no event time'"
    if CORRUPT in events.batch.columns:
        record = f"coalesce({CORRUPT}, {record})"
        reason = f"CASE WHEN {CORRUPT} IS NULL THEN {reason} ELSE 'does not parse' END"
    source = SOURCE if SOURCE in events.batch.columns else "CAST(NULL AS STRING)"
    broken = events.malformed().select([f"{source} AS source", f"{record} AS record", f"{reason} AS reason"])
    return broken.toArrow()


def late_records(late: Events, watermark: int) -> pa.Table:
    """Late events with the watermark that they came behind."""
    rows = late.select([identifier(name) for name, _ in late.stream.columns]).toArrow()
    at = pa.array(np.full(len(rows), watermark), pa.int64()).cast(pa.timestamp("us", "UTC"))
    return rows.append_column("watermark", at)
