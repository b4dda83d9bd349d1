"""What relations that entered have read of a stream before they heard of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class PastRead(NamedTuple):
    """How much of a stream was there when a query began to hear of it."""

    batch: int
    newest: int
    files: Sequence[str] = ()
    """Where its events are, if they may not be there to be read again."""
    since: int | None = None
    """The events from this time on were read; None for all."""
