"""What users are told of a summary: numbers for programs, a line for people."""

from __future__ import annotations

from typing import Any

from mullion.language.limits import moment
from mullion.language.render import duration_text
from mullion.memory import size_text
from mullion.summaries.column_summary import ColumnSummary
from mullion.summaries.zones import DRIFT


def stats(summary: ColumnSummary, share: int | None = None) -> dict[str, Any]:
    """Zones of each granularity from the newest on, how many of the newest began by drift, and its memory: MEMORY, or
    else its share of the memory of the run."""
    own, zones = summary.definition, summary.zones
    by_age = [[zone for zone in zones if zone.granularity == age + 1] for age in range(own.depth)]
    return {
        "on": f"{own.stream}({own.column})",
        "kind": own.kind,
        "options": dict(own.options),
        "zones": [len(of_age) for of_age in by_age],
        "by_drift": sum(zone.by == DRIFT for zone in by_age[0]),
        "events": sum(zone.events for zone in zones),
        "bytes": summary.nbytes,
        "memory": share if own.memory is None else own.memory,
        "memory_is_share": own.memory is None,
        "since": summary.complete_after,
    }


def text(summary: ColumnSummary) -> str:
    """
    >>> from mullion.catalog.summaries import StreamSummary
    >>> shape = dict(granularity=10_000_000, rate=4, depth=3, drift=0.2, longest=5_000_000, memory=1 << 28)
    >>> text(ColumnSummary(StreamSummary("s", "store", "item", "counts", (), **shape)))
    'store(item) by counts; G1 10 s (0 zones, 0 by drift), G2 40 s (0), G3 160 s (0); 0 bytes of 256 MB'
    """
    own, facts = summary.definition, stats(summary)
    options = f" ({', '.join(f'{name} {value}' for name, value in own.options)})" if own.options else ""
    parts = []
    for age, zones in enumerate(facts["zones"]):
        length = duration_text(own.granularity * own.rate**age)
        by_drift = "" if age else f" zones, {facts['by_drift']} by drift"
        parts.append(f"G{age + 1} {length} ({zones}{by_drift})")
    limit = "" if own.memory is None else f" of {size_text(own.memory)}"
    since = "" if facts["since"] is None else f"; tells of events after {moment(facts['since']).isoformat()}"
    return f"{facts['on']} by {own.kind}{options}; {', '.join(parts)}; {size_text(facts['bytes'])}{limit}{since}"
