"""What each batch held, as a commit records it, so that a batch that is played again holds the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mullion.storage.marks import Mark

RECORDED = 32
"""Inputs of so many batches are at hand after a restart, at the least."""


@dataclass(frozen=True)
class BatchInput:
    """What a batch held."""

    batch: int
    offsets: str
    """The source's note of where the batch ends in each part of it."""
    files: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Of sources that are files: by the source's number and the note's name, the lines that name the files."""
    seen: dict[str, int] = field(default_factory=dict)
    """By the source's number, a checksum of all lines up to here."""
    query: str = ""
    """What Spark calls the query; it goes on from no other's notes."""


class Notes(Protocol):
    """Where a source notes how far it has read."""

    @property
    def directory(self) -> Path: ...

    def input_of(self, batch: int, before: BatchInput | None) -> BatchInput | None:
        """What a batch holds, after what the one before it held."""

    def has(self, recorded: BatchInput) -> bool:
        """Whether the note of a batch is the one that was recorded."""

    def put_right(self, inputs: Sequence[BatchInput], committed: Mark | None, commits: Path) -> None:
        """Make the notes up to the newest commit what they were then."""
