"""Answers kept in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from mullion.options import DEFAULTS
from mullion.runtime.sink import Sink
from mullion.slices.finalize import Answers
from mullion.storage.marks import Mark


class MemorySink(Sink):
    """Keeps answers as they came; a query's own are cut out when they are asked for.

    With more than `most` rows of all queries together the oldest batches leave, whole; the newest stays in any case.
    The same holds for records that were put aside.
    """

    def __init__(self, most: int | None = DEFAULTS.keep_answers) -> None:
        self.most = most
        self.answers: dict[tuple[Mark, str, int], Sequence[Answers]] = {}
        self.asides: dict[tuple[str, str, Mark], pa.Table] = {}
        self.dropped: dict[str, int] = {}
        """How many rows of a query are here no more."""
        self._rows = 0

    def write(self, stream: str, mark: Mark, answers: Sequence[Answers], part: int = 0) -> None:
        self._rows -= _rows(self.answers.pop((mark, stream, part), ()))
        self.answers[mark, stream, part] = answers
        self._rows += _rows(answers)
        while self.most is not None and self._rows > self.most and len(self.answers) > 1:
            oldest = self.answers.pop(next(iter(self.answers)))
            self._rows -= _rows(oldest)
            for name, rows in _numbers(oldest):
                self.dropped[name] = self.dropped.get(name, 0) + rows

    def aside(self, kind: str, stream: str, mark: Mark, rows: pa.Table) -> None:
        """Bounded as answers are; how many there were is counted elsewhere."""
        self.asides.pop((kind, stream, mark), None)
        self.asides[kind, stream, mark] = rows
        rows_held = sum(map(len, self.asides.values()))
        while self.most is not None and rows_held > self.most and len(self.asides) > 1:
            rows_held -= len(self.asides.pop(next(iter(self.asides))))

    def tables(self, query: str) -> list[pa.Table]:
        """The query's answers, oldest first."""
        return [
            table
            for _, answers in sorted(self.answers.items(), key=lambda item: item[0])
            for group in answers
            if query in group.queries
            for name, table in group
            if name == query
        ]

    def forget(self, query: str) -> None:
        """Another query has taken the name: what is here is not its own."""
        self.dropped.pop(query, None)
        for at, answers in list(self.answers.items()):
            self.answers[at] = [_without(group, query) for group in answers]

    def aside_tables(self, kind: str) -> list[pa.Table]:
        return [table for (of, _, _), table in list(self.asides.items()) if of == kind]


def _rows(answers: Sequence[Answers]) -> int:
    return sum(len(group.table) for group in answers)


def _numbers(answers: Sequence[Answers]) -> list[tuple[str, int]]:
    return [
        (name, high - low)
        for group in answers
        for name, low, high in zip(group.queries, group.bounds, group.bounds[1:], strict=False)
        if high > low
    ]


def _without(answers: Answers, query: str) -> Answers:
    """The same rows, of which none is called the query's."""
    if query not in answers.queries:
        return answers
    return Answers(tuple("" if name == query else name for name in answers.queries), answers.bounds, answers.table)
