"""The watermark where it is not what the events say: held back while the source knows of older ones to come, or moved
on by a heartbeat."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Holding:
    until: int | None = None
    """The watermark stays here at the most; None when nothing holds it."""
    by_offset: dict[int, int] = field(default_factory=dict)
    """The watermark that was in force when the source was at an offset, where events alone do not tell."""

    def bounded(self, watermark: int) -> int:
        return watermark if self.until is None else min(watermark, self.until)

    def advance(self, watermark: int | None, offsets: Iterable[int], to_come: int | None) -> None:
        """A batch of these offsets was taken under a watermark, which never goes back. The oldest event that is
        `to_come` after it holds the next one. Offsets are needed only where the watermark is not what events say."""
        if watermark is not None:
            self.by_offset |= dict.fromkeys(offsets, watermark)
        self.until = to_come if to_come is None or watermark is None else max(to_come, watermark)

    def snapshot(self) -> list[Any]:
        return [self.until, sorted(self.by_offset.items())]

    @staticmethod
    def restored(state: Any) -> Holding:
        until, by_offset = state
        return Holding(until, dict(by_offset))
