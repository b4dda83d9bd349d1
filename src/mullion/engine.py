"""From text to answers: read this first.

    text --language--> statements --service.statements, entering--> catalog: streams and standing queries
    batch of events --service.batches--> runtime.stream_run: partials, answers --sinks--> the user

`Engine` is the public API. Its parts are in `service/`: one idea a file.

| part | does |
|---|---|
| `Directories` | where it writes, and the locks there |
| `Tables`, `AnswerStore` | rows that are joined; answers, and where they go |
| `Statements`, `Explainer` | scripts; EXPLAIN |
| `Runs`, `Entering` | one run for each stream, shared by all its queries; queries that come and go |
| `Batches`, `Operation` | the course of a batch; from start to stop |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mullion.allocation import keep_freed_memory
from mullion.arguments import require, require_callable
from mullion.catalog.catalog import Catalog
from mullion.closing import close_at_exit
from mullion.errors import ArgumentError
from mullion.language.parse import parse_query
from mullion.language.query import Query
from mullion.memory import Memory
from mullion.options import (
    DEFAULTS,
    Expiry,
    Isolation,
    Method,
    Options,
    Relief,
    Schedule,
    Sharing,
    Slicing,
    Way,
    chosen,
)
from mullion.planner.explain import Explanation
from mullion.questions_first import asking
from mullion.runtime.asking import Question, Questions, prepare
from mullion.service.answers import AnswerStore
from mullion.service.batches import Batches
from mullion.service.directories import Directories
from mullion.service.entering import Entering
from mullion.service.explaining import Explainer
from mullion.service.frames import StreamClauses, stream_of_frame
from mullion.service.operation import Operation
from mullion.service.runs import Runs
from mullion.service.statements import Statements
from mullion.service.status import Status
from mullion.service.steering import Steering
from mullion.service.tables import Tables
from mullion.sinks.callback import OnAnswer
from mullion.spark.backend import SparkBackend
from mullion.spark.jvm import needs_spark
from mullion.spark.processes import Peaks
from mullion.spark.results import OneAnswer, Results

if TYPE_CHECKING:
    from mullion.spark.types import DataFrame, SparkSession


class Engine(Steering, Status):
    """Answers many standing queries over streams in one shared pass over each.

        with Engine() as engine:
            engine.stream("trades", dataframe, time="ts", lateness="5 seconds")
            engine.query("SELECT sum(price) AS total FROM trades [RANGE '10 min' SLIDE '1 min']", name="total")
            engine.run()
            engine.results("total").to_pandas()

    `spark` is a session of yours. Without it, the engine starts a tuned session when it needs one, on this machine
    unless `config`, the settings of Spark, names a "spark.master". Answers stay in memory, the newest `keep_answers`
    rows of all queries together, or are written below `out`. With `checkpoint`, a run goes on where the last one was,
    after a crash or when the input has grown. One run at a time uses `out` and `checkpoint`, from its start until
    `close`. Answers of another checkpoint or run are refused, unless `overwrite` allows their removal. `on_batch` is
    called with the engine after each batch. `clock` returns seconds since 1970, and decides which events are too far
    ahead. The other arguments are the `Options`.
    """

    _backend_type: type[SparkBackend] = SparkBackend

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
        isolation: str | Isolation = DEFAULTS.isolation,
        schedule: str | Schedule = DEFAULTS.schedule,
        shard_above: int = DEFAULTS.shard_above,
        keep_answers: int | None = DEFAULTS.keep_answers,
        most_answers: int = DEFAULTS.most_answers,
        most_held: int = DEFAULTS.most_held,
        memory: int | str | None = DEFAULTS.memory,
        behind_after: float = DEFAULTS.behind_after,
        relief: str | Sequence[Relief] = DEFAULTS.relief,
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
            isolation=isolation,
            schedule=schedule,
            shard_above=shard_above,
            keep_answers=keep_answers,
            most_answers=most_answers,
            most_held=most_held,
            memory=memory,
            behind_after=behind_after,
            relief=relief,
            strict=strict,
            compact=compact,
            overwrite=overwrite,
        )
        require_callable("on_batch", on_batch, "the engine")
        keep_freed_memory(Memory.divided(self.options.memory_limit).free)
        self.on_batch = on_batch
        self.catalog = Catalog()
        self._questions = Questions(self.catalog)
        self.questions: list[Query] = []
        """Questions of scripts that wait for the input."""
        self._lock = threading.RLock()
        self._peaks = Peaks()
        self._backend = self._backend_type(spark, config or {}, self.options)
        self._directories = Directories(out, checkpoint, self.catalog, self.options)
        self.out, self.checkpoint = self._directories.out, self._directories.checkpoint
        self._make_parts(clock)

    def _make_parts(self, clock: Callable[[], float]) -> None:
        catalog, lock, options, backend = self.catalog, self._lock, self.options, self._backend
        directories = self._directories
        self._answers = answers = AnswerStore(catalog, directories, options)
        self.sink = sink = answers.sink
        self._tables = Tables(catalog, directories, lambda: backend.session, strict=options.strict)
        self._runs = runs = Runs(catalog, directories, options, sink, self._tables, backend, clock)
        self.runs, self.relations = runs.streams, runs.relations
        self._entering = entering = Entering(catalog, runs, sink)
        self._batches = Batches(catalog, lock, runs, entering, sink, self._after_batch)
        self._operation = Operation(catalog, lock, directories, answers, runs, entering, self._batches, backend)
        self._explainer = Explainer(
            catalog, options, runs.streams, runs.relations, entering.pasts, backend.statistics_now
        )
        backend.partials_of = self._explainer.partials_an_event
        self._statements = Statements(
            catalog,
            self.questions,
            columns_of=backend.columns_of,
            add=entering.add,
            explain=self.explain,
            answer=self.answer,
            can_answer=lambda: any(run.view is not None for run in runs.streams.values()),
        )

    def _after_batch(self) -> None:
        if self._backend.session_in_use is not None:  # without one, nothing ends before its peak is asked for
            self._peaks.look()
        if self.on_batch is not None:
            self._answers.callbacks.call("on_batch", self.on_batch, self)

    # Setting up

    @property
    def session(self) -> SparkSession:
        """The Spark session with the settings that answers depend on."""
        return self._backend.session

    @needs_spark
    def execute(self, script: str) -> list[Explanation | OneAnswer]:
        """Carry out a script's statements, all or none, and return what its EXPLAINs and questions say. All that is
        wrong with it is told at once.

        A SELECT without CREATE QUERY is asked once. Before the first batch it waits in `questions`, and the stream
        keeps the events that it needs.
        """
        self._backend.check_open()
        require("a script", script, str, "text")
        with self._lock:
            said, changed = self._statements.execute(script)
            self._answers.note(changed)
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
        idle: str | None = None,
        when_behind: str = "WAIT",
        punctuate: str | None = None,
        memory: str | None = None,
    ) -> None:
        """Name a DataFrame, streaming or static, as a stream of events.

        `time` is the column of event time. `lateness` is how far behind the newest event an event may arrive, `ahead`
        how far past the clock its time may lie, None for any distance. `keep` says which events stay for questions:
        those of so long ("1 hour"), or so many of the newest (1_000_000). When nothing comes for as long as `idle`,
        event time goes on with the clock. `when_behind` is WHEN BEHIND of SQL, such as "SHED RANDOM AT MOST 50
        PERCENT", `punctuate` is PUNCTUATE, such as "ON order_id WHEN status = 'closed'", and `memory` is MEMORY, such
        as "100000 ROWS SHED OLDEST".
        """
        self._backend.check_open()
        said = StreamClauses(time, lateness, ahead, keep, idle, when_behind, punctuate, memory)
        stream = stream_of_frame(name, dataframe, said)
        with self._lock:
            self.catalog.add_stream(stream.check())
            self._backend.add_frame(name, dataframe)

    @needs_spark
    def table(self, name: str, rows: Any) -> None:
        """Name rows to join to streams: a static DataFrame, or a pyarrow or pandas table.

        They are read when a query first needs them, and do not change after that.
        """
        self._backend.check_open()
        require("the name of a table", name, str, "text")
        with self._lock:
            self._tables.add(name, rows)

    @needs_spark
    def query(self, sql: str, *, name: str | None = None, on_answer: OnAnswer | None = None) -> str:
        """Add a standing query, also while the engine runs; returns its name.

        The text is a SELECT or a CREATE QUERY. A query that enters a running stream answers the windows that start
        at the newest event seen or later.
        """
        self._backend.check_open()
        require("a query", sql, str, "text")
        require("the name of a query", name, str, "text", none=True)
        require_callable("on_answer", on_answer, "the query's name and its rows")
        parsed = parse_query(sql, name=name)
        with self._lock:
            if parsed.name is None:
                parsed = replace(parsed, name=self.catalog.free_name())
            bound = self._entering.add(parsed)
            self._answers.note([bound])
            if on_answer is not None:
                self._answers.call(on_answer, bound.name)
        return bound.name

    def drop(self, name: str) -> None:
        """Remove a standing query, also while the engine runs. Its answers so far stay."""
        self._backend.check_open()
        require("the name of a query", name, str, "text")
        with self._lock:
            dropped = self.catalog.query_named(name)
            self.catalog.drop_query(name)
            self._answers.note([dropped])

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
        """Begin to read in the background. With `follow` the sources are read on and on, otherwise to their end.

        `every` is a duration such as "10 s": a batch begins at most this often, with all events that came meanwhile.
        Without it, the next batch begins as soon as there is something to read.
        """
        self._backend.check_open()
        self._operation.start(follow=follow, close=close, every=every, reading=lambda: close_at_exit(self))

    @needs_spark
    def wait(self, seconds: float | None = None) -> None:
        """Wait until the sources end, one of them fails, `request_stop` is called or the time is over."""
        self._operation.wait(seconds)

    def request_stop(self) -> None:
        """Stop after the current batch. May be called from a signal handler."""
        self._operation.stopping.set()

    @needs_spark
    def stop(self) -> None:
        """Stop after the current batch, and raise the error of the background run, if it failed."""
        self._operation.stop()

    @needs_spark
    def close(self) -> None:
        """Stop, and release the locks, the files of this run alone, and a session that the engine started."""
        try:
            self.stop()
        finally:
            self._directories.release_locks()
            self._runs.discard()
            self._directories.discard()
            self._backend.close()

    def __enter__(self) -> Engine:
        self._backend.check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # Questions asked once

    def ask(self, sql: str, *, isolation: str | Isolation | None = None) -> OneAnswer:
        """Answer a question now: over the last events, from synopses, sub-windows or kept events.

            engine.ask("SELECT max(price) FROM trades [RANGE '4 min']").to_pandas()

        Batches go on meanwhile. The answer says what it was made from, and up to which event time it holds. It reflects
        the moment when it was asked, or with `isolation="latest"` the moment when it is answered.
        """
        require("a question", sql, str, "text")
        return self.answer(sql, isolation=isolation)

    @needs_spark
    def prepare(self, sql: str) -> None:
        """Let the stream keep the events that a later question will need."""
        self._backend.check_open()
        require("a question", sql, str, "text")
        with self._lock:
            prepare(parse_query(sql), self.catalog)

    @needs_spark
    def answer(self, asked: str | Query, *, isolation: str | Isolation | None = None) -> OneAnswer:
        """Answer a question, also a parsed one."""
        self._backend.check_open()
        level = self.options.isolation if isolation is None else chosen("isolation", Isolation, isolation)
        with asking():
            with self._lock:
                answer = self._questions.at_once(asked, self.runs) if level is Isolation.SNAPSHOT else None
            if answer is None:
                query = self._questions.parsed(asked) if isinstance(asked, str) else asked
                with self._lock:
                    question = Question(self._questions.checked(query), self.runs, self.relations, self._runs.published)
                    stores = {name: self._tables.store_of(name) for name in question.readers if self.catalog.tables}
                answer = question.answer(self._backend.evaluate, lambda by, name: stores[by].seen(name), level)
        rows, answered_from, up_to, newest = answer
        return OneAnswer(rows, self._backend.session_of_answers, answered_from, up_to, newest)

    # Answers

    def results(self, name: str) -> Results:
        """The answers of a query so far, also of one that was dropped."""
        return self._answers.results(name, self._backend.session_of_answers)

    def aside(self, kind: str) -> list[pa.Table]:
        """Records that count in no answer: kind is 'late', 'ahead', 'malformed' or 'broken'."""
        return self._answers.aside(kind)

    def on_answer(self, call: OnAnswer) -> None:
        """Call `call` with (query, rows) for all answers. An exception in it is logged, and the run goes on."""
        self._backend.check_open()
        if call is None:
            raise ArgumentError("on_answer needs a function that is called with the query's name and its rows")
        require_callable("on_answer", call, "the query's name and its rows")
        with self._lock:
            self._answers.call(call)
