"""Every kind of summary that Mullion brings along: importing this registers them."""

from __future__ import annotations

from mullion.summaries import count_sketch, counts
from mullion.summaries.base import KINDS, Summary, register

DEFAULT = counts.ExactCounts.kind
"""What CREATE SUMMARY makes without USING."""

SKETCH = count_sketch.CountSketch.kind

__all__ = ["DEFAULT", "KINDS", "SKETCH", "Summary", "register"]
