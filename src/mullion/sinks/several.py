"""Answers to several places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from mullion.runtime.sink import ShardWriter, Sink
from mullion.slices.finalize import Answers
from mullion.storage.marks import Mark


class SeveralSinks(Sink):
    def __init__(self, sinks: Sequence[Sink]) -> None:
        self.sinks = list(sinks)

    def add(self, sink: Sink) -> None:
        self.sinks.append(sink)

    def write(self, stream: str, mark: Mark, answers: Sequence[Answers], part: int = 0) -> None:
        for sink in self.sinks:
            sink.write(stream, mark, answers, part)

    def aside(self, kind: str, stream: str, mark: Mark, rows: pa.Table) -> None:
        for sink in self.sinks:
            sink.aside(kind, stream, mark, rows)

    def set_queries(self, stream: str, queries: Mapping[str, str]) -> None:
        for sink in self.sinks:
            sink.set_queries(stream, queries)

    def settle(self, stream: str) -> None:
        for sink in self.sinks:
            sink.settle(stream)

    def committed(self, stream: str, mark: Mark) -> None:
        for sink in self.sinks:
            sink.committed(stream, mark)

    def resume(self, stream: str, queries: Sequence[str], committed: Mark | None) -> None:
        for sink in self.sinks:
            sink.resume(stream, queries, committed)

    def shard_writer(self) -> ShardWriter | None:
        """Executors may write by themselves only when there is no other sink."""
        return self.sinks[0].shard_writer() if len(self.sinks) == 1 else None
