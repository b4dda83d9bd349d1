"""The answers of an engine: the sinks that take them, and what is read back from these."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mullion.algebra.relation import Relation
from mullion.arguments import require
from mullion.catalog.catalog import Catalog
from mullion.expressions.coding.canonical import in_one_piece
from mullion.options import Options
from mullion.planner.answer_schema import answer_schema
from mullion.plural import plural
from mullion.runtime.relation_state import run_name
from mullion.service.directories import Directories
from mullion.sinks.callback import CallbackSink, OnAnswer
from mullion.sinks.memory import MemorySink
from mullion.sinks.parquet import ParquetSink
from mullion.sinks.several import SeveralSinks
from mullion.spark.results import Results
from mullion.storage.marks import Mark

if TYPE_CHECKING:
    from mullion.spark.types import SparkSession

log = logging.getLogger("mullion")


class AnswerStore:
    """Answers are files where the user names a directory, and in memory otherwise. Callbacks get them besides."""

    def __init__(self, catalog: Catalog, directories: Directories, options: Options) -> None:
        self._catalog, self._directories, self._options = catalog, directories, options
        self._memory = MemorySink(options.keep_answers)
        out = directories.out
        self._files = None if out is None else ParquetSink(out.absolute(), compacting=options.compact)
        self.callbacks = CallbackSink()
        self.sink = SeveralSinks([self._files or self._memory])
        self.missing: dict[str, int] = {}
        """How many rows of answers, by query, were gone when a checkpoint was gone on from."""
        self._dropped: dict[str, tuple[str, pa.Schema]] = {}
        """The columns of queries that were dropped, and how they were spelt: their answers stay."""

    def claim(self) -> None:
        """Make the directory of answers that of this run."""
        if self._files is not None:
            self._files.claim(self._directories.owner, overwrite=self._options.overwrite)

    def note_missing(self, answered: dict[str, int], committed: Mark | None) -> None:
        """Warn once of answers that were written and are not there any more: they may have been taken away or lost."""
        if self._files is None or committed is None:
            return
        known = {name: rows for name, rows in answered.items() if self._catalog.has_query(name)}
        for name, rows in self._files.missing(known, committed).items():
            what = plural(rows, "row")
            log.warning(
                "%s that query %s had answered before are not in %s any more", what, name, self._directories.out
            )
            self.missing[name] = rows
            answered[name] -= rows

    def note(self, changed: Iterable[Relation]) -> None:
        """Remember the queries that were dropped, whose answers stay until another query takes the name; let go the
        answers of those whose name was taken."""
        for query in changed:
            if self._catalog.queries.get(query.name) is not query:
                self.callbacks.forget(query.name)
                self._dropped[query.name.lower()] = query.name, answer_schema(query)
            elif query.name.lower() in self._dropped:
                self._memory.forget(self._dropped.pop(query.name.lower())[0])

    def finish(self) -> None:
        """All input was read: every query has a file, also one without answers."""
        if self._files is not None:
            self._files.finish({query.name: answer_schema(query) for query in self._catalog.queries.values()})

    def call(self, on_answer: OnAnswer, query: str | None = None) -> None:
        """Hand answers to a callback: those of one query, or of all."""
        if self.callbacks not in self.sink.sinks:
            self.sink.add(self.callbacks)
        self.callbacks.add(on_answer, query)

    def results(self, name: str, session: Callable[[], SparkSession]) -> Results:
        """The answers of a query so far, also of one that was dropped."""
        require("the name of a query", name, str, "text")
        gone = None if self._catalog.has_query(name) else self._dropped.get(name.lower())
        if gone is None:
            query = self._catalog.query_named(name)
            spelt, schema, tables = query.name, answer_schema(query), self._tables_of(query)
        else:
            spelt, schema = gone
            tables = (self._files or self._memory).tables(spelt)
        whole = pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])
        return Results(_by_window(whole), session, spelt, self._memory.dropped.get(spelt, 0))

    def _tables_of(self, query: Relation) -> list[pa.Table]:
        """What is there under its name; nothing when it is of another query that had the name until now."""
        if self._files is None:
            return self._memory.tables(query.name)
        runs = (query.streams[0], run_name(query.streams), run_name(query.streams, query.name))
        is_there = any(self._files.are_of(query.name, run, query.text) for run in runs)
        return self._files.tables(query.name) if is_there else []

    def aside(self, kind: str) -> list[pa.Table]:
        """Records that answered no query."""
        return (self._files or self._memory).aside_tables(kind)


def _by_window(answers: pa.Table) -> pa.Table:
    """The windows in their order: each shard writes those of a commit by itself, one file after the other."""
    ends = np.asarray(in_one_piece(answers["window_end"]).cast(pa.int64()))
    if (ends[1:] >= ends[:-1]).all():
        return answers
    return answers.take(pa.array(np.argsort(ends, kind="stable")))
