"""What share of some rows came through, of late."""

from __future__ import annotations

REMEMBERED = 0.9
"""How much of what was observed counts a step later."""


class Share:
    """Rows that were looked at and rows that came through, where those of earlier steps count less and less.

    >>> share = Share()
    >>> share.value is None
    True
    >>> share.see(8, 2)
    >>> share.value
    0.25
    """

    def __init__(self) -> None:
        self._of, self._through = 0.0, 0.0

    def step(self) -> None:
        """A step goes by."""
        self._of *= REMEMBERED
        self._through *= REMEMBERED

    def see(self, of: float, through: float) -> None:
        self._of += of
        self._through += through

    @property
    def value(self) -> float | None:
        """None before anything was seen."""
        return min(1.0, self._through / self._of) if self._of > 0 else None
