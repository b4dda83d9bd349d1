"""The places of commits, in their order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Mark:
    """The place of a commit: a batch, and whether it is the end of the input after it."""

    batch: int
    end: bool = False

    @property
    def text(self) -> str:
        return f"{self.batch:012d}.{int(self.end)}"

    @staticmethod
    def parse(text: str) -> Mark:
        batch, end = text.split(".")
        return Mark(int(batch), end == "1")


__all__ = ["Mark"]
