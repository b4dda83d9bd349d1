"""The runs of an engine: one for each stream, and one for all relations over the same streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mullion.catalog.catalog import Catalog
from mullion.catalog.closing import query_after_the_end
from mullion.options import Options
from mullion.runtime.batch import reading_failures
from mullion.runtime.past_read import PastRead
from mullion.runtime.published import Published
from mullion.runtime.relation_run import RelationRun
from mullion.runtime.relation_runs import RelationRuns
from mullion.runtime.relation_shards import Sharding
from mullion.runtime.run_state import RunState
from mullion.runtime.sink import Sink
from mullion.runtime.stream_run import StreamRun
from mullion.service.directories import Directories
from mullion.service.tables import Tables
from mullion.spark.backend import SparkBackend
from mullion.storage.journal import Journal


class Runs:
    def __init__(
        self,
        catalog: Catalog,
        directories: Directories,
        options: Options,
        sink: Sink,
        tables: Tables,
        backend: SparkBackend,
        clock: Callable[[], float],
    ) -> None:
        self._catalog, self._directories, self._options, self._sink = catalog, directories, options, sink
        self._tables, self._backend, self._clock = tables, backend, clock
        self.streams: dict[str, StreamRun] = {}
        self.published = Published()
        """What commits have left for questions."""
        sharding = Sharding(tasks=backend.run_step, above=backend.relations_stay_up_to, writer=sink.shard_writer)
        self.relations = RelationRuns(
            sink,
            options,
            checkpoint=None if directories.checkpoint is None else directories.checkpoint.absolute(),
            tables=tables.of_run,
            sharding=sharding,
            published=self.published,
        )

    def of(self, name: str) -> StreamRun:
        """The run of a stream, which goes on from the last commit."""
        if name not in self.streams:
            directory = self._directories.directory(name)
            run = self.streams[name] = StreamRun(
                self._catalog.streams[name],
                self._sink,
                self._options,
                self._backend.source_of(self._catalog.streams[name], self._directories.notes_of_spark(name)),
                journal=None if directory is None else Journal(directory),
                static=self._backend.is_static(name),
                tables=self._tables.of_run(name),
                relations_stand=lambda: self.relations.stand(name),
                clock=self._clock,
                memory=lambda: self._backend.memory,
                summary_share=self.summary_share,
                published=self.published,
                relations_read=lambda: self.relations.oldest_read(name),
            )
            run.restore()
        return self.streams[name]

    def summary_share(self) -> int:
        """The bytes that each summary without MEMORY of its own may have."""
        return self._backend.memory.summary_share(sum(summary.memory is None for summary in self._catalog.summaries))

    def read_pasts(self, run: StreamRun) -> None:
        """Let relations with BACKFILL take what the stream had read before they hear of it, in the stream's thread and
        before its next batch."""
        for relations in self.relations.over(run.stream.name):
            seen = None
            if run.committed is not None and run.newest is not None:
                seen = PastRead(run.committed.batch, run.newest)
            try:
                handed = () if run.intake is None else run.intake.batches
                relations.take_past(run.stream.name, seen, run.admission.past(), handed)
            except reading_failures(run.source) as problem:
                relations.stop(f"its past could not be read: {problem}")

    def hand_over(self, run: StreamRun) -> None:
        """Let relations take what a stream has handed on, and release what all of them have taken."""
        name, batches, events = run.stream.name, [] if run.intake is None else run.intake.batches, run.counts.events
        for relations in self.relations.over(name):
            self._tell_pace(relations)
            relations.receive(name, batches, run.watermark, events=events, ended=run.closed)
        taken = self.relations.taken(name)
        if run.intake is not None and taken is not None:
            run.intake.forget_before(taken)
        run.take_stock()

    def _tell_pace(self, relations: RelationRun) -> None:
        """Relations over several streams are as far behind as the one that is furthest."""
        streams = [self.streams[name] for name in relations.incoming if name in self.streams]
        relations.pace.tell(every=0.0, bounded=all(stream.bounded for stream in streams))
        relations.pace.behind(max(stream.overload.monitor.stretch for stream in streams))

    def newest_beside(self, name: str) -> int | None:
        """The newest event time of the streams that relations read together with one."""
        beside = {other for run in self.relations.over(name) for other in run.incoming} - {name}
        times = (self.streams[other].newest for other in beside if other in self.streams)
        return max((time for time in times if time is not None), default=None)

    def check_not_ended(self, query: str, streams: Sequence[str]) -> None:
        """Refuse a query over a stream that has ended."""
        for name in streams:
            if name in self.streams and self.streams[name].closed:
                raise query_after_the_end(query, name, has_checkpoint=self._directories.checkpoint is not None)

    @property
    def all(self) -> list[RunState]:
        """Those of streams, and those of relations, which are of no one stream."""
        return [*self.streams.values(), *self.relations.runs.values()]

    @property
    def answers(self) -> int:
        """How many rows all queries have answered."""
        return sum(run.counts.answers for run in self.all)

    @property
    def stopped(self) -> dict[str, str]:
        """The queries that passed a limit and are answered no more, with the reason."""
        texts = {query.name: query.text for query in self._catalog.queries.values()}
        stops = {name: stop for run in self.all for name, stop in run.limits.stopped.items()}
        return {name: stop.reason for name, stop in stops.items() if texts.get(name) == stop.text}

    def close(self) -> None:
        for run in self.streams.values():
            run.close()

    def discard(self) -> None:
        """Remove what was for this run alone."""
        for run in self.all:
            run.discard()
