"""The contract of a sink: where answers go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from mullion.slices.finalize import Answers
from mullion.storage.marks import Mark


class ShardWriter(Protocol):
    def __call__(self, mark: Mark, shard: int, query: str, rows: pa.Table, part: int = 0) -> Path:
        """Write rows that a shard answers for a query, under a mark. What is too much for one file comes in parts,
        numbered from 0 on."""


ASIDE = ("late", "ahead", "malformed", "broken")
"""Why records answer no query."""


class Sink(ABC):
    """Takes answers under the mark of the batch that they belong to.

    Guarantee asked of a sink: writing a mark again replaces what was written under it before. What is too much to be
    written at once comes in parts, numbered from 0 on, all under one mark.
    """

    @abstractmethod
    def write(self, stream: str, mark: Mark, answers: Sequence[Answers], part: int = 0) -> None: ...

    @abstractmethod
    def aside(self, kind: str, stream: str, mark: Mark, rows: pa.Table) -> None:
        """Keep records of a stream that answer no query: kind is one of ASIDE."""

    def set_queries(self, stream: str, queries: Mapping[str, str]) -> None:  # noqa: B027
        """The queries that are answered from now on under the marks of a stream, or of relations: names and texts."""

    def settle(self, stream: str) -> None:  # noqa: B027
        """Before a commit: until what was written under the marks of a stream survives a power cut."""

    def committed(self, stream: str, mark: Mark) -> None:  # noqa: B027
        """What was written up to a mark stands: it will not be written again."""

    def resume(self, stream: str, queries: Sequence[str], committed: Mark | None) -> None:  # noqa: B027
        """Forget what was written of a stream and its queries after the last commit; everything when there is none.
        A sink that keeps nothing across runs has nothing to do."""

    def shard_writer(self) -> ShardWriter | None:
        """A function that executors write with by themselves, if the sink has one."""
        return None
