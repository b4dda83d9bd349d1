"""Batches that a user keeps small become larger while a run is behind, within what memory allows.

Each batch costs Spark about as much, however few events it has; so larger ones work off more in the same time. Where
the user did not choose, batches are as large as memory allows from the beginning (`batch_size`).
"""

from __future__ import annotations

from dataclasses import replace

from mullion.algebra.streams import Stream
from mullion.memory import Memory
from mullion.spark.backlog import files_in_order
from mullion.spark.batch_size import batch_size_options

LIMITS = ("maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger")


def larger_batches(stream: Stream, times: int, memory: Memory, partials: float = 0.0) -> dict[str, str]:
    """The user's limits of a batch so many times as large, or as large as memory allows; none where nothing is."""
    chosen = {name: value for name, value in stream.options if name in LIMITS and value.isdigit()}
    if times == 1 or not chosen:
        return {}
    unlimited = replace(stream, options=tuple(item for item in stream.options if item[0] not in LIMITS))
    files = files_in_order(stream) or []
    sizes = [(file.path, file.size) for file in files]
    allowed = batch_size_options(unlimited, sizes, memory, partials)
    if "maxbytespertrigger" in allowed and sizes:
        mean = max(1, sum(size for _, size in sizes) // len(sizes))
        allowed["maxfilespertrigger"] = str(int(allowed["maxbytespertrigger"]) // mean)
    grown = {
        name: max(int(value), min(times * int(value), int(allowed.get(name, value)))) for name, value in chosen.items()
    }
    return {name: str(value) for name, value in grown.items() if str(value) != chosen[name]}
