"""Limits that hold unless the user says otherwise."""

MOST_ANSWERS = 10_000_000
"""Rows that one batch may answer for one query."""
MOST_HELD = 50_000_000
"""Rows that one query over relations may hold, or a join of it give in one step."""
PORTION = 500_000
"""Windows that are answered at once, and about how many rows are written at once."""

__all__ = ["MOST_ANSWERS", "MOST_HELD", "PORTION"]
