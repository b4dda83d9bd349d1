"""Every kind of summary that Mullion brings along: importing this registers them."""

from __future__ import annotations

from mullion.summaries import counts
from mullion.summaries.base import KINDS, Summary, register

DEFAULT = counts.ExactCounts.kind
"""What CREATE SUMMARY makes without USING."""

__all__ = ["DEFAULT", "KINDS", "Summary", "register"]
