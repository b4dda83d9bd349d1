"""Questions that are asked once: what they are answered from, and what streams must keep for them.

| question | from |
|---|---|
| SELECT APPROX | a timegram |
| aggregates over one stream | a synopsis, sub-windows or kept events (`spark.asking`) |
| FROM materialised queries alone | their kept results (`operators.once`) |
| other relations | the events that their streams keep (`operators.once`) |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from mullion.catalog.algebra import Relation, scans
from mullion.catalog.catalog import Catalog
from mullion.catalog.queries import StandingQuery, bind
from mullion.catalog.relations import bind_relation, is_relational
from mullion.catalog.streams import Stream
from mullion.errors import CheckError, MullionError, NotSupported, closest
from mullion.language.query import EVERYTHING, Named, Query, Window
from mullion.operators.once import answer_from_kept, answer_now, reading_kept
from mullion.operators.runs import RelationRuns
from mullion.planner.relations import answer_schema
from mullion.spark.stream import StreamRun

if TYPE_CHECKING:
    from mullion.spark.types import SparkSession

Found = tuple[pa.Table, str, int | None]
"""Rows, what they are from, and up to which event time."""


class Question:
    """A question checked against what there is when it is asked. Batches may go on while it is answered."""

    def __init__(self, query: Query, catalog: Catalog, runs: Mapping[str, StreamRun], relations: RelationRuns) -> None:
        self._query, self._catalog, self._runs, self._relations = query, catalog, runs, relations
        self._bound = None if query.approximate else bound(query, catalog)
        self._stream = stream_asked(query, catalog) if query.approximate else None

    def answer(self, session: Callable[[], SparkSession]) -> Found:
        if self._stream is not None:
            return self._run(self._stream.name).ask_bounds(self._query)
        if isinstance(self._bound, Relation):
            return self._from_relations(self._bound)
        assert self._bound is not None
        return self._run(self._bound.stream).ask(self._bound, session())

    def _run(self, stream: str) -> StreamRun:
        if stream not in self._runs:
            raise MullionError(f"no event of stream '{stream}' was read yet", hint="start the engine first")
        return self._runs[stream]

    def _from_relations(self, relation: Relation) -> Found:
        from_kept = reading_kept(relation, self._catalog.materialized)
        if from_kept is not None:
            kept = {name: result for name in from_kept.reads if (result := self._relations.materialized(name))}
            return answer_from_kept(from_kept, kept)
        runs = {stream: self._run(stream) for stream in relation.streams}
        newest = max((run.newest for run in runs.values() if run.newest is not None), default=None)
        if newest is None:
            return answer_schema(relation).empty_table(), "no events", None
        windows = {stream: [s.window for s in scans(relation.root) if s.stream == stream] for stream in runs}
        held = {stream: run.kept_events(windows[stream], newest) for stream, run in runs.items()}
        tables = self._relations.run_of(relation.streams).table_now
        return answer_now(relation, held, newest, tables), "kept events", newest


def bound(query: Query, catalog: Catalog) -> StandingQuery | Relation:
    """The question checked, as an aggregate over a stream or a relation."""
    known = catalog.streams, catalog.tables, catalog.materialized
    if not is_relational(query, *known):
        return bind(query, *known[:2])
    _check_once(query)
    return bind_relation(query, *known)


def _check_once(query: Query) -> None:
    """A question tells what is there now: nothing is new or gone without an answer before it."""
    output = query.output
    if output is not None and (output.kind != "rstream" or output.restore):
        written = f"{output.kind.upper()}{' RESTORE' if output.restore else ''}"
        hint = f"leave it out, or let it stand: CREATE QUERY name AS {written}(...)"
        raise NotSupported(f"{written} in a question that is asked once", output.place, hint=hint)


def stream_asked(query: Query, catalog: Catalog) -> Stream:
    name = query.source.name if isinstance(query.source, Named) else ""
    stream = {known.lower(): s for known, s in catalog.streams.items()}.get(name.lower())
    if stream is None:
        raise CheckError(f"unknown stream '{name}'", query.place, hint=closest(name, catalog.streams))
    return stream


def prepare(query: Query, catalog: Catalog) -> None:
    """Check a question, and let its streams keep what it needs."""
    if query.approximate:
        stream_asked(query, catalog)
        return
    asked = bound(query, catalog)
    if not isinstance(asked, Relation):
        _keep_for(asked.frame, asked.stream, catalog)
    elif reading_kept(asked, catalog.materialized) is None:
        for scan in scans(asked.root):
            _keep_for(scan.window, scan.stream, catalog, asked.slide)


def _keep_for(frame: Window, name: str, catalog: Catalog, slide: int | None = None) -> None:
    """Let a stream keep the events that a window over it needs."""
    stream = catalog.streams[name]
    keep, rows = stream.keep, stream.keep_rows
    if frame.range is not None and frame.attribute is None and frame.slide_rows is None:
        keep = max(keep or 0, frame.range + (frame.slide or slide or 0))
    elif frame.rows is not None and not frame.partition_by:
        rows = max(rows or 0, frame.rows + (frame.slide_rows or 1))
    else:
        rows = EVERYTHING
    catalog.streams[name] = replace(stream, keep=keep, keep_rows=rows)


__all__ = ["Question", "prepare"]
