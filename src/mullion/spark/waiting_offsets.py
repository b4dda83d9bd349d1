"""How far a stream over Kafka is behind its topics: what the monitor of its run wants to know.

    offsets/k, Spark's note of batch k      {"trades":{"0":120,"1":80}}       up to where the batch goes
    the progress of a batch before it       latestOffset, in the same form    up to where topics went then

Progress is told after a batch, so what is known of the topics is older than the batch at work. Where batches are
limited (`maxOffsetsPerTrigger`) what it left is a backlog; where each took all there was, it says nothing of what came
since.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mullion.runtime.monitor import SourceLag

Offsets = Mapping[tuple[str, str], int]
"""By topic and partition."""


@dataclass
class WaitingOffsets:
    """`directory` is where Spark notes how far it has read."""

    directory: Path
    progress: Callable[[], Mapping[str, Any] | None] = lambda: None
    """What Spark last told of the stream."""
    _looked: int | None = field(default=None, init=False)

    def after(self, batch: int) -> SourceLag | None:
        """What waits after a batch, in records, as far as it is known, and what batches took since this was asked."""
        end = self._end_of(batch)
        begin = self._end_of(batch - 1 if self._looked is None else self._looked)
        self._looked = batch
        if end is None or begin is None:
            return None
        latest = self._latest()
        waiting = 0 if latest is None else _distance(end, latest)
        return SourceLag(waiting or None, _distance(begin, end))

    def held_by(self, batch: int) -> float | None:
        """The records of a batch."""
        begin, end = self._end_of(batch - 1), self._end_of(batch)
        return None if begin is None or end is None else _distance(begin, end)

    def _end_of(self, batch: int) -> Offsets | None:
        """None where there is no note: of the first batch nobody knows where it began."""
        with suppress(OSError, ValueError, IndexError):
            return offsets_in((self.directory / "offsets" / str(batch)).read_text().splitlines()[-1])
        return None

    def _latest(self) -> Offsets | None:
        sources = (self.progress() or {}).get("sources") or ()
        told = sources[0].get("latestOffset") if sources else None
        with suppress(ValueError):
            return None if told is None else offsets_in(told)
        return None


def offsets_in(told: str | Mapping[str, Any]) -> Offsets:
    """Offsets as Spark writes them, or as it tells them. Raises ValueError where they are none.

    >>> offsets_in('{"trades":{"0":120,"1":80}}')
    {('trades', '0'): 120, ('trades', '1'): 80}
    """
    topics = json.loads(told) if isinstance(told, str) else told
    if not isinstance(topics, Mapping) or not all(isinstance(own, Mapping) for own in topics.values()):
        raise ValueError("not the offsets of topics")
    return {(topic, partition): int(at) for topic, own in topics.items() for partition, at in own.items()}


def _distance(begin: Offsets, end: Offsets) -> float:
    """Records from one place to another. A partition that was not there before has all of its own."""
    return float(sum(max(0, at - begin.get(partition, 0)) for partition, at in end.items()))
