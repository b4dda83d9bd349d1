"""The answers of a batch or a step on their way to the sink: counted, and written in parts of bounded size under one
mark."""

from __future__ import annotations

from collections.abc import Mapping

from mullion.runtime.counts import add_counts
from mullion.runtime.run_state import RunState
from mullion.slices.finalize import Answers
from mullion.slices.limits import PORTION
from mullion.storage.marks import Mark


class Portions:
    """Most batches have one part. What is not committed is removed by a restart, however many parts it has."""

    def __init__(self, run: RunState, mark: Mark) -> None:
        self._run, self._mark = run, mark
        self._waiting: list[Answers] = []
        self._rows = self._part = 0

    def add(self, answers: Answers) -> None:
        """Count answers and write them."""
        self.count(answers.rows_by_query())
        self.write(answers)

    def count(self, rows: Mapping[str, int]) -> None:
        """Count rows that `add` does not: those that shards have counted or written by themselves. Counts are part of
        every commit, so that a restart notices answers that are gone."""
        self._run.limits.count(rows, self._run.texts)
        add_counts(self._run.counts.answers_by_query, {name: number for name, number in rows.items() if number})
        self._run.counts.answers += sum(rows.values())

    def write(self, answers: Answers) -> None:
        self._waiting.append(answers)
        self._rows += len(answers.table)
        if self._rows >= PORTION:
            self._write_part()

    def finish(self) -> None:
        if self._waiting or not self._part:
            self._write_part()

    def _write_part(self) -> None:
        self._run.sink.write(self._run.name, self._mark, self._waiting, self._part)
        self._part += 1
        self._waiting, self._rows = [], 0
