"""The answers of a batch on their way to a sink: in parts of bounded size, under one mark."""

from __future__ import annotations

from typing import Protocol

from mullion.slices.finalize import Answers
from mullion.slices.limits import PORTION
from mullion.storage.marks import Mark


class Taker(Protocol):
    def write(self, stream: str, mark: Mark, answers: list[Answers], part: int = 0) -> None: ...


class Portions:
    """Most batches have one part. What is not committed is removed by a restart, however many parts it has."""

    def __init__(self, sink: Taker, stream: str, mark: Mark) -> None:
        self._sink, self._stream, self._mark = sink, stream, mark
        self._waiting: list[Answers] = []
        self._part = 0
        self.rows = 0

    def add(self, answers: Answers) -> None:
        self._waiting.append(answers)
        self.rows += len(answers.table)
        if sum(len(some.table) for some in self._waiting) >= PORTION:
            self._write()

    def finish(self) -> None:
        if self._waiting or not self._part:
            self._write()

    def _write(self) -> None:
        self._sink.write(self._stream, self._mark, self._waiting, self._part)
        self._part += 1
        self._waiting = []
