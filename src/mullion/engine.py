"""From text to answers: read this first.

    text --language.parse--> statements --catalog--> streams and standing queries
    batch of events --runtime.stream_run--> partials --windows--> answers --sinks--> the user

An `Engine` holds the catalog and, for each stream that is asked something, one `StreamRun` that all its queries share.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mullion.algebra.sliced import SlicedAggregation
from mullion.algebra.streams import Stream
from mullion.arguments import require, require_callable
from mullion.binding.one_window import groups_one_window
from mullion.binding.queries import bind
from mullion.binding.relations import bind as bind_relation
from mullion.binding.relations import entering_at as joining_at
from mullion.catalog.catalog import Catalog
from mullion.catalog.closing import check_close, following_after_the_end, query_after_the_end
from mullion.catalog.restart import as_journaled, check_text, from_journal, to_journal
from mullion.closing import close_at_exit
from mullion.errors import ArgumentError, CheckError, MullionError, NotSupported, Place
from mullion.language.parse import parse_duration, parse_event_time, parse_query
from mullion.language.query import (
    Query,
)
from mullion.options import DEFAULTS, Expiry, Method, Options, Sharing, Slicing, Way
from mullion.planner.explain import Explanation
from mullion.planner.plan import Grouping
from mullion.questions import Question, prepare
from mullion.runtime.batch import Batch, Source
from mullion.runtime.counts import Counts
from mullion.runtime.relation_runs import RelationRuns
from mullion.runtime.relation_shards import SHARDS, Sharding
from mullion.runtime.shard_step import Done, ShardedStep
from mullion.runtime.sink import ShardWriter
from mullion.runtime.stream_run import StreamRun
from mullion.service.answers import AnswerStore, Standing
from mullion.service.explaining import Explainer
from mullion.service.places import Places
from mullion.service.statements import Statements
from mullion.service.tables import Tables
from mullion.sinks.callback import OnAnswer
from mullion.slices.kernels.partial import Input
from mullion.spark.batch import SparkSource, evaluated_by_spark
from mullion.spark.feed import Feed
from mullion.spark.jvm import needs_spark
from mullion.spark.own_session import OwnSession
from mullion.spark.progress import Progress
from mullion.spark.results import OneAnswer, Results
from mullion.spark.session import adopt
from mullion.spark.shard_tasks import run_step
from mullion.spark.source_log import SourceLog
from mullion.spark.sources import (
    is_endless,
    is_files,
    open_stream,
    tells_files,
    with_places,
)
from mullion.spark.tables import TableStore
from mullion.spark.types import columns_from_spark
from mullion.storage.journal import Journal
from mullion.storage.manifest import Manifest

if TYPE_CHECKING:
    from mullion.spark.types import DataFrame, SparkSession

log = logging.getLogger("mullion")

TIMES_ON_FEW_CORES = 25
"""How many times more events relations take on the driver before they go to shards, where cores are few."""


class Engine:
    """Answers many standing queries over streams in one shared pass over each.

        with Engine() as engine:
            engine.stream("trades", dataframe, time="ts", lateness="5 seconds")
            engine.query("SELECT sum(price) AS total FROM trades [RANGE '10 min' SLIDE '1 min']", name="total")
            engine.run()
            engine.results("total").to_pandas()

    `spark` is a session of yours; without one a tuned session is made when it is needed, local unless `config`, which
    holds settings of Spark, names a "spark.master". Answers are kept in memory, the newest `keep_answers` rows of all
    queries together, or written below `out`. With `checkpoint`, a killed run goes on where it was, and a run over input
    that has grown goes on where the last one was. Both are of one run at a time, from its start until `close`. Answers
    of another checkpoint or run are not touched, unless `overwrite` says that they may be removed. `on_batch` is called
    with the engine after each batch. `clock` gives seconds since 1970, to tell which events are too far ahead. The
    other arguments are the `Options`.
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        out: str | Path | None = None,
        checkpoint: str | Path | None = None,
        config: Mapping[str, str] | None = None,
        on_batch: Callable[[Engine], None] | None = None,
        clock: Callable[[], float] = time.time,
        sharing: str | Sharing = DEFAULTS.sharing,
        slicing: str | Slicing = DEFAULTS.slicing,
        way: str | Way = DEFAULTS.way,
        method: str | Method = DEFAULTS.method,
        expiry: str | Expiry = DEFAULTS.expiry,
        shard_above: int = DEFAULTS.shard_above,
        keep_answers: int | None = DEFAULTS.keep_answers,
        most_answers: int = DEFAULTS.most_answers,
        most_held: int = DEFAULTS.most_held,
        strict: bool = DEFAULTS.strict,
        compact: bool = DEFAULTS.compact,
        overwrite: bool = DEFAULTS.overwrite,
    ) -> None:
        self.options = Options.of(
            sharing=sharing,
            slicing=slicing,
            way=way,
            method=method,
            expiry=expiry,
            shard_above=shard_above,
            keep_answers=keep_answers,
            most_answers=most_answers,
            most_held=most_held,
            strict=strict,
            compact=compact,
            overwrite=overwrite,
        )
        require_callable("on_batch", on_batch, "the engine")
        self._own_session = OwnSession(spark, config or {})
        self.on_batch, self.clock = on_batch, clock
        self.catalog = Catalog()
        self._places = Places(out, checkpoint, self.catalog)
        self.out, self.checkpoint = self._places.out, self._places.checkpoint
        self._answers = AnswerStore(self.catalog, self._places, self.options)
        self.sink = self._answers.sink
        self._tables = Tables(self.catalog, self._places, lambda: self.session, strict=self.options.strict)
        self.runs: dict[str, StreamRun] = {}
        self._frames: dict[str, DataFrame] = {}
        self._feeds: list[Feed] = []
        self.questions: list[Query] = []
        """Questions of scripts that wait for the input."""
        self._fresh: dict[str, None] = {}
        """Queries that came after the first batch and join with the next."""
        self._pasts: dict[str, str] = {}
        """How queries that joined came by their past."""
        self._lock = threading.RLock()
        self.relations = RelationRuns(
            self.sink,
            self.options,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint).absolute(),
            table=lambda reader, name, step: self.tables_of(reader).current(name, step),
            table_files=lambda reader: self.tables_of(reader).files,
            sharding=Sharding(
                tasks=self._run_step,
                above=self._relations_stay_up_to,
                writer=self.sink.shard_writer,
            ),
        )
        self._stopping = threading.Event()
        self.counts_at_start: dict[str, Counts] = {}
        """What runs before this one had counted for each stream."""
        self.answers_at_start = 0
        self._closed = False
        self._explainer = Explainer(self.catalog, self.options, self.runs, self.relations, self._pasts)
        self._statements = Statements(
            self.catalog,
            self.questions,
            session=lambda: self.session,
            add=self._add,
            explain=self.explain,
            answer=self.answer,
            can_answer=lambda: any(run.view is not None for run in self.runs.values()),
        )

    def _check_open(self) -> None:
        if self._closed:
            raise MullionError("the engine is closed", hint="make a new Engine; results() and counts stay readable")

    # Setting up

    @property
    def session(self) -> SparkSession:
        """The Spark session with the settings that answers depend on."""
        self._check_open()
        return self._own_session.get()

    @needs_spark
    def execute(self, script: str) -> list[Explanation | OneAnswer]:
        """Carry out a script's statements, all or none, and return what its EXPLAINs and questions say. All that is
        wrong with it is told at once.

        A SELECT without CREATE QUERY is asked once. Before the first batch it waits in `questions`, and the stream
        keeps the events that it needs.
        """
        self._check_open()
        require("a script", script, str, "text")
        with self._lock:
            said, dropped = self._statements.execute(script)
            self._answers.note_dropped(dropped)
            return said

    @needs_spark
    def stream(
        self,
        name: str,
        dataframe: DataFrame,
        *,
        time: str,
        lateness: str = "0 s",
        ahead: str | None = "1 day",
        keep: str | int | None = None,
    ) -> None:
        """Name a DataFrame, streaming or static, as a stream of events.

        `lateness` is how far behind the newest event one may arrive, `ahead` how far past the clock its time may lie,
        None for any distance. `keep` is for how long ("1 hour") or how many of its newest events (1_000_000) stay to be
        asked about.
        """
        self._check_open()
        require("the name of a stream", name, str, "text")
        require("time", time, str, "the name of a column")
        require("lateness", lateness, str, "a duration such as '5 seconds'")
        require("ahead", ahead, str, "a duration such as '1 day'", none=True)
        require("keep", keep, (str, int), "a duration such as '1 hour' or a number of events", none=True)
        if not hasattr(dataframe, "isStreaming"):
            hint = "read it with Spark, such as spark.readStream, or name its files with CREATE STREAM"
            raise ArgumentError(f"stream '{name}' is a Spark DataFrame, not a {type(dataframe).__name__}", hint=hint)
        columns = columns_from_spark(dataframe.schema)
        kept = parse_duration(keep) if isinstance(keep, str) else None
        rows = keep if isinstance(keep, int) else None
        furthest = None if ahead is None else parse_duration(ahead)
        is_column = time.lower() in (column.lower() for column, _ in columns)
        named, computed = (time, None) if is_column else parse_event_time(time)
        made = Stream(name, columns, named, parse_duration(lateness), "", (), kept, rows, furthest, computed)
        with self._lock:
            self.catalog.add_stream(made.check())
            self._frames[name] = with_places(adopt(self.session, dataframe))

    @needs_spark
    def table(self, name: str, rows: Any) -> None:
        """Name rows to join to streams: a static DataFrame, or a pyarrow or pandas table.

        They are read when a query first needs them and stay as they are then.
        """
        self._check_open()
        require("the name of a table", name, str, "text")
        with self._lock:
            self._tables.add(name, rows)

    def tables_of(self, stream: str) -> TableStore:
        """The rows of tables as the batches of a stream see them."""
        return self._tables.store_of(stream)

    @needs_spark
    def query(self, sql: str, *, name: str | None = None, on_answer: OnAnswer | None = None) -> str:
        """Add a standing query, also while the engine runs; returns its name.

        The text is a SELECT or a CREATE QUERY. A query that joins a running stream answers the windows that start
        after the newest event seen.
        """
        self._check_open()
        require("a query", sql, str, "text")
        require("the name of a query", name, str, "text", none=True)
        require_callable("on_answer", on_answer, "the query's name and its rows")
        parsed = parse_query(sql, name=name)
        with self._lock:
            if parsed.name is None:
                parsed = replace(parsed, name=self.catalog.free_name())
            bound = self._add(parsed)
            self._answers.note_dropped(())
            if on_answer is not None:
                self._answers.call(on_answer, bound.name)
        return bound.name

    def _add(self, query: Query) -> Standing:
        known = self.catalog.streams, self.catalog.tables, self.catalog.materialized
        if not groups_one_window(query, *known):
            relation = bind_relation(query, *known)
            self._check_not_ended(relation.name, relation.streams)
            self.catalog.add_relation(relation, query.place)
            return relation
        bound = bind(query, self.catalog.streams, self.catalog.tables)
        run = self.runs.get(bound.stream)
        self._check_not_ended(bound.name, [bound.stream])
        if run is not None and run.begun:
            self._check_joins(run, bound, query.place)
            self._fresh[bound.name] = None
        self.catalog.add_query(bound, query.place)
        return bound

    def _check_not_ended(self, query: str, streams: Sequence[str]) -> None:
        for name in streams:
            if name in self.runs and self.runs[name].closed:
                raise query_after_the_end(query, name, kept=self.checkpoint is not None)

    @staticmethod
    def _check_joins(run: StreamRun, query: SlicedAggregation, place: Place | None = None) -> None:
        reason = run.can_backfill(query)
        if reason is not None:
            raise NotSupported(f"BACKFILL of this query ({reason})", place)
        refused = run.refuses(query)
        if refused is not None:
            raise CheckError(refused[0], place, hint=refused[1])

    def drop(self, name: str) -> None:
        """Remove a standing query, also while the engine runs; its answers so far stay."""
        self._check_open()
        require("the name of a query", name, str, "text")
        with self._lock:
            dropped = self.catalog.known(name)
            self.catalog.drop_query(name)
            self._answers.note_dropped([dropped])

    def explain(self, name: str | None = None) -> Explanation:
        """The shared plan of all queries, or the part of it that serves one."""
        with self._lock:
            return self._explainer.explain(name)

    # Running

    @needs_spark
    def run(
        self, *, follow: bool = False, seconds: float | None = None, close: bool = False, every: str | None = None
    ) -> None:
        """Read what the sources hold, answer, and return; with `follow`, go on until stopped or for `seconds`, and
        begin a batch at most `every` so often.

        With a checkpoint, windows that the watermark has not passed stay open for the next run. With `close`, and
        without a checkpoint, the end of the input is the end of the stream: they are answered, and nothing may follow.
        """
        require("seconds", seconds, (int, float), "a number", none=True)
        self.start(follow=follow or seconds is not None, close=close, every=every)
        self.wait(seconds)
        self.stop()

    @needs_spark
    def start(self, *, follow: bool = True, close: bool = False, every: str | None = None) -> None:
        """Begin to read. With `follow` the sources are read on and on in the background, otherwise to their end.

        `every` is a duration such as "10 s": a batch begins at most so often, with all that came meanwhile. Without it
        the next batch begins as soon as there is something to read.
        """
        self._check_open()
        pause = self._pause(every, follow=follow)
        self._stopping.clear()
        asked = {query.stream for query in self.catalog.queries.values()}
        asked |= {stream for relation in self.catalog.relations.values() for stream in relation.streams}
        asked |= {synopsis.stream for synopsis in self.catalog.synopses.values()}
        asked |= {s.name for s in self.catalog.streams.values() if s.keep is not None or s.keep_rows is not None}
        if not asked:
            raise MullionError("there is no standing query", hint="add one with CREATE QUERY name AS SELECT ...")
        streams = [stream for name, stream in self.catalog.streams.items() if name in asked]
        if close:
            check_close([(stream.name, not is_endless(stream)) for stream in streams], follow=follow)
        self._places.take_locks()
        manifest = self._places.manifest()
        self._answers.claim()
        if manifest is not None:
            self._open_checkpoint(manifest)
        with self._lock:
            self._use_relations()
            for stream_run in self.runs.values():
                self.relations.check_standings(stream_run.relations_stood)
        for relations in self.relations.runs.values():
            self.sink.resume(relations.name, list(relations.relations), relations.committed)
            self._answers.note_missing(relations.answered, relations.committed)
        runs = [self._run_of(stream.name) for stream in streams]
        self.counts_at_start = {run.stream.name: replace(run.counts) for run in runs}
        self.answers_at_start = self.answers
        for run in runs:
            run.bounded = run.static or not (follow or is_endless(run.stream))
            if run.closed and not run.bounded:
                raise following_after_the_end(run.stream.name, kept=self.checkpoint is not None)
            texts = {query.name: query.text for query in self.catalog.queries_over(run.stream.name)}
            self.sink.use(run.stream.name, texts)
            self.sink.resume(run.stream.name, list(texts), run.committed)
            self._answers.note_missing(run.counts.answers_by_query, run.committed)
        for run in runs:
            self._hand_over(run)
        for run in runs:
            self._start_feed(run, close=close or self.checkpoint is None, every=pause)

    def _pause(self, every: str | None, *, follow: bool) -> int:
        """The time from one batch to the next, in microseconds."""
        require("every", every, str, "a duration such as '10 s'", none=True)
        if every is None:
            return 0
        if not follow and not any(map(is_endless, self.catalog.streams.values())):
            hint = "follow the sources, or leave it out: what they hold is read at once"
            raise MullionError("a batch every so often is for runs that follow their sources", hint=hint)
        pause = parse_duration(every)
        if pause < 1_000:
            raise MullionError(f"a batch every '{every}' is too often", hint="take at least '1 ms'")
        return pause

    def _start_feed(self, run: StreamRun, *, close: bool, every: int) -> None:
        """Begin to read a stream."""
        name = run.stream.name
        feed = Feed(
            stream=run.stream,
            frame=self._frames.get(name),
            open=partial(open_stream, self.session, run.stream.stored),
            session=self.session,
            directory=self._places.notes_of_spark(name),
            process=partial(self._process_frame, name),
            finish=partial(self._finish, name, close=close or run.static),
            follow=not run.bounded,
            every=every,
        )
        self._feeds.append(feed)
        close_at_exit(self)
        if self.checkpoint is not None:
            run.go_on_from(Progress(feed.directory))
        feed.start()

    @needs_spark
    def wait(self, seconds: float | None = None) -> None:
        """Until the sources end, one of them fails, `request_stop` is called or the time is over."""
        until = math.inf if seconds is None else time.monotonic() + seconds
        waiting = self._feeds
        while waiting and not self._stopping.is_set() and not self.failed:
            left = until - time.monotonic()
            if left <= 0:
                return
            waiting = [feed for feed in waiting if not feed.wait(min(0.1, max(0.01, left)))]

    def request_stop(self) -> None:
        """Stop after the current batch. May be called from a signal handler."""
        self._stopping.set()

    @property
    def was_stopped(self) -> bool:
        return self._stopping.is_set()

    @property
    def failed(self) -> bool:
        """Whether a stream has failed in the background; `stop` raises why."""
        return any(feed.failed for feed in self._feeds)

    @needs_spark
    def stop(self) -> None:
        """Stop after the current batch, and raise what went wrong in the background, if anything did."""
        feeds, self._feeds = self._feeds, []
        for feed in feeds:
            feed.stop()
        for run in self.runs.values():
            run.close()
        for feed in feeds:
            feed.raise_failure()
        if feeds:
            self._answers.finish()

    @needs_spark
    def close(self) -> None:
        """Stop, and let go what is held: the locks, files that were for this run alone, and a session of its own."""
        try:
            self.stop()
        finally:
            self._closed = True
            self._places.release_locks()
            self._discard()

    def _discard(self) -> None:
        for run in self.runs.values():
            run.discard()
        self.relations.discard()
        self._places.discard()
        self._own_session.close()

    def __enter__(self) -> Engine:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _run_of(self, name: str) -> StreamRun:
        if name not in self.runs:
            directory = self._places.directory(name)
            journal = None if directory is None else Journal(directory)
            frame = self._frames.get(name)
            self.runs[name] = StreamRun(
                self.catalog.streams[name],
                self.sink,
                self.options,
                self._source_of(name),
                journal=journal,
                static=frame is not None and not frame.isStreaming,
                table=lambda table, batch: self.tables_of(name).current(table, batch),
                table_files=lambda: self.tables_of(name).files,
                relations_stand=lambda: self.relations.stand(name),
                has_changed=lambda table: table in self.tables_of(name).changed,
                clock=self.clock,
            )
            self.runs[name].restore()
        return self.runs[name]

    def _source_of(self, name: str) -> Source:
        """Where the batches of a stream come from."""
        stream, frame = self.catalog.streams[name], self._frames.get(name)
        noted = is_files(stream) or (frame is not None and frame.isStreaming and tells_files(frame))
        log = SourceLog(self._places.notes_of_spark(name)) if noted else None
        return SparkSource(stream, lambda: self.session, log, plain=frame is None, options=self.options)

    def _process_frame(self, name: str, frame: DataFrame, number: int) -> None:
        source = self._run_of(name).source
        assert isinstance(source, SparkSource)
        self._process(name, source.batch(frame, number))

    def _process(self, name: str, batch: Batch) -> None:
        run = self._run_of(name)
        with self._lock:
            queries = self._queries_of_batch(run, batch.number)
            synopses = self.catalog.synopses_on(name)
            self._use_relations()
            run.set_relations(self.relations.columns_needed(name), self.relations.names_over(name))
        self.sink.use(name, {query.name: query.text for query in queries})
        run.set_queries(queries, synopses)
        run.process(batch)
        self._hand_over(run)
        self._tell_batch()

    def _finish(self, name: str, *, close: bool) -> None:
        """A source has been read to its end, which may be the end of the stream."""
        run = self._run_of(name)
        with self._lock:
            self._join_fresh(run)
            queries = self.catalog.queries_over(name)
            run.set_queries(queries, self.catalog.synopses_on(name))
            self._use_relations()
            if close and not run.closed and run.journal is not None:
                number = 0 if run.committed is None else run.committed.batch + 1
                run.journal.begin(number, [to_journal(query) for query in run.queries])
        self.sink.use(name, {query.name: query.text for query in queries})
        if close:
            run.finish()
        self._hand_over(run)
        self._tell_batch()

    def _tell_batch(self) -> None:
        if self.on_batch is not None:
            self._answers.callbacks.call("on_batch", self.on_batch, self)

    # Relations

    def _relations_stay_up_to(self) -> int:
        """How many events of a first step keep relations on the driver. With fewer cores than shards it is faster than
        they are, and shards are for what would not fit."""
        enough = self.session.sparkContext.defaultParallelism >= SHARDS
        return self.options.shard_above * (1 if enough else TIMES_ON_FEW_CORES)

    def _run_step(self, step: ShardedStep, write: ShardWriter | None) -> Sequence[Done]:
        return run_step(self.session, step, write)

    def _use_relations(self) -> None:
        """Let the relations of now take part. Who is new to running streams answers what starts after their newest
        event."""
        kept = {relation.root for relation in self.catalog.materialized.values()}
        for relation in list(self.catalog.relations.values()):
            run = self.relations.run_of(relation.streams)
            if relation.name in run.relations:
                continue
            entry = run.known.get(relation.name)
            if entry is None:
                self._check_not_ended(relation.name, relation.streams)
                newest = [r.newest for s in relation.streams if (r := self.runs.get(s)) and r.newest is not None]
                start = max([t for t in (relation.start, *(t + 1 for t in newest)) if t is not None], default=None)
            else:
                check_text(relation.name, relation.text, entry["text"])
                start = entry["start"]
            self.catalog.replace_relation(joining_at(relation, start, kept))
        self.relations.use(self.catalog.relations.values())
        for run in self.relations.runs.values():
            self.sink.use(run.name, {name: relation.text for name, relation in run.relations.items()})

    def _hand_over(self, run: StreamRun) -> None:
        """Let relations take what a stream has handed on, and let go what all of them have taken."""
        name, intake = run.stream.name, run.intake
        for relations in self.relations.over(name):
            relations.take(name, [] if intake is None else intake.batches, run.watermark, ended=run.closed)
        taken = self.relations.taken(name)
        if intake is not None and taken is not None:
            intake.forget_before(taken)

    # What a restart needs

    def _queries_of_batch(self, run: StreamRun, number: int) -> Sequence[SlicedAggregation]:
        """The queries that the batch sees: as journaled if it was begun before, otherwise the present ones."""
        journal = run.journal
        run.begun = True
        if journal is None or not journal.was_begun(number):
            self._join_fresh(run)
        queries = self.catalog.queries_over(run.stream.name)
        if journal is None:
            return queries
        if journal.was_begun(number):
            return [from_journal(entry, self.catalog) for entry in journal.queries_of(number) or []]
        journal.begin(number, [to_journal(q) for q in queries])
        return queries

    def _join_fresh(self, run: StreamRun) -> None:
        """Let queries join that came while the last batch was at work: they have missed all events up to its end."""
        for name in list(self._fresh):
            query = self.catalog.queries.get(name)
            if query is None:
                del self._fresh[name]
            elif query.stream == run.stream.name:
                del self._fresh[name]
                self._join(run, query)

    def _join(self, run: StreamRun, query: SlicedAggregation) -> None:
        joined, how = run.enter(query)
        self.catalog.replace_query(joined)
        if query.backfill:
            self._pasts[query.name] = how

    def _open_checkpoint(self, manifest: Manifest) -> None:
        """Make the checkpoint that of this run, and let queries that are new to it join now."""
        assert self.checkpoint is not None
        manifest.write(Path(self.checkpoint))
        with self._lock:
            for name in self.catalog.streams:
                run = self._run_of(name)
                self._rejoin(run)
                run.show_restored(self.catalog.synopses_on(name))

    def _rejoin(self, run: StreamRun) -> None:
        assert run.journal is not None
        known = {entry["name"]: entry for entry in run.journal.last_queries()}
        for query in self.catalog.queries_over(run.stream.name):
            entry = known.get(query.name)
            if entry is None:
                self._check_not_ended(query.name, [query.stream])
            if run.newest is None:
                continue
            if entry is None:
                self._check_joins(run, query)
                self._join(run, query)
            else:
                check_text(query.name, query.text, entry["text"])
                self.catalog.replace_query(as_journaled(query, entry, self.catalog))

    # Questions asked once

    def ask(self, sql: str) -> OneAnswer:
        """Answer a question now: over the last events, from synopses, sub-windows or kept events.

            engine.ask("SELECT max(price) FROM trades [RANGE '4 min']").to_pandas()

        Batches go on meanwhile. The answer says what it was made from and up to which event time.
        """
        require("a question", sql, str, "text")
        return self.answer(parse_query(sql))

    @needs_spark
    def prepare(self, sql: str) -> None:
        """Let the stream keep the events that a later question will need."""
        self._check_open()
        require("a question", sql, str, "text")
        with self._lock:
            prepare(parse_query(sql), self.catalog)

    @needs_spark
    def answer(self, query: Query) -> OneAnswer:
        """Answer a question that was parsed before."""
        self._check_open()
        with self._lock:
            question = Question(query, self.catalog, self.runs, self.relations)
            stores = {name: self.tables_of(name) for name in question.readers} if self.catalog.tables else {}
        found = question.answer(self._evaluated, lambda by, name: stores[by].seen(name))
        return OneAnswer(found.rows, self._own_session.current, found.answered_from, found.up_to, found.newest)

    def _evaluated(self, stream: Stream, events: pa.Table, groupings: Sequence[Grouping]) -> tuple[pa.Table, Input]:
        return evaluated_by_spark(self.session, stream, events, groupings)

    # Answers

    def results(self, name: str) -> Results:
        """The answers of a query so far, also of one that was dropped."""
        return self._answers.results(name, self._own_session.current)

    def aside(self, kind: str) -> list[pa.Table]:
        """Records that answered no query: kind is 'late', 'ahead' or 'malformed'."""
        return self._answers.aside(kind)

    def on_answer(self, call: OnAnswer) -> None:
        """Call with (query, rows) whenever answers are made. One that raises is logged, and the run goes on."""
        self._check_open()
        if call is None:
            raise ArgumentError("on_answer needs a function that is called with the query's name and its rows")
        require_callable("on_answer", call, "the query's name and its rows")
        with self._lock:
            self._answers.call(call)

    @property
    def failed_callbacks(self) -> dict[str, int]:
        """How many calls of callbacks raised, by the query that they were for or 'on_batch'. The log tells why."""
        return dict(self._answers.callbacks.failed)

    @property
    def missing_answers(self) -> dict[str, int]:
        """How many rows of answers, by query, were gone when a checkpoint was gone on from."""
        return self._answers.missing

    @property
    def stopped(self) -> dict[str, str]:
        """The queries that passed a limit and are answered no more, with the reason."""
        known = [run.limits for run in self.runs.values()] + [run.limits for run in self.relations.runs.values()]
        texts = {query.name: query.text for query in self.catalog.queries.values()}
        texts |= {relation.name: relation.text for relation in self.catalog.relations.values()}
        found = {name: stop for limits in known for name, stop in limits.stopped.items()}
        return {name: stop.reason for name, stop in found.items() if texts.get(name) == stop.text}

    @property
    def counts(self) -> dict[str, Counts]:
        """What was counted for each stream."""
        return {name: run.counts for name, run in self.runs.items()}

    @property
    def answers(self) -> int:
        """How many rows all queries have answered, those of relations too, which are of no one stream."""
        return sum(run.counts.answers for run in self.runs.values()) + self.relations.answers


__all__ = ["Engine"]
