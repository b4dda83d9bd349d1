"""Summaries that users create, checked against their stream."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StreamSummary:
    """How often each value of a column came, zone by zone of time."""

    name: str
    stream: str
    column: str
    kind: str
    options: tuple[tuple[str, int], ...]
    """Those of its kind."""
    granularity: int
    rate: int
    depth: int
    drift: float
    longest: int
    memory: int | None = None
