"""Every kind of summary that Mullion brings along: importing this registers them."""

from __future__ import annotations

from mullion.summaries import count_sketch, counts  # noqa: F401
from mullion.summaries.base import KINDS

DEFAULT = counts.ExactCounts.kind
"""What CREATE SUMMARY makes without USING."""

__all__ = ["DEFAULT", "KINDS"]
