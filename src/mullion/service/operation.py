"""An engine from start to stop: what the checkpoint and the directory of answers hold is taken up, then streams are
read."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from mullion.algebra.streams import Stream, Table
from mullion.allocation import LeftAlone
from mullion.arguments import require
from mullion.catalog.catalog import Catalog
from mullion.catalog.closing import check_close, following_after_the_end
from mullion.errors import MullionError
from mullion.language.parse import parse_duration
from mullion.runtime.counts import StreamCounts
from mullion.runtime.run_state import RunState
from mullion.runtime.stream_run import StreamRun
from mullion.service.answers import AnswerStore
from mullion.service.batches import Batches
from mullion.service.directories import Directories
from mullion.service.entering import Entering
from mullion.service.heartbeats import Heartbeats
from mullion.service.runs import Runs
from mullion.service.ways import asked_tables, queried_streams, sliced_over
from mullion.spark.backend import SparkBackend
from mullion.spark.feed import Feed
from mullion.spark.progress import SparkCheckpoint
from mullion.spark.sources import never_ends


@dataclass
class AtStart:
    """What runs before this one had counted for each stream, and answered in all."""

    counts: dict[str, StreamCounts] = field(default_factory=dict)
    answers: int = 0


class Operation:
    def __init__(
        self,
        catalog: Catalog,
        lock: threading.RLock,
        directories: Directories,
        answers: AnswerStore,
        runs: Runs,
        entering: Entering,
        batches: Batches,
        backend: SparkBackend,
    ) -> None:
        self._catalog, self._lock, self._directories, self._answers = catalog, lock, directories, answers
        self._runs, self._entering, self._batches, self._backend = runs, entering, batches, backend
        self._feeds: dict[str, Feed] = {}
        self.heartbeats = Heartbeats(runs, batches, directories, self._feeds)
        self.stopping = threading.Event()
        self.at_start = AtStart()
        self._left_alone = LeftAlone()

    def start(self, *, follow: bool, close: bool, every: str | None, reading: Callable[[], None]) -> None:
        """Begin to read the streams that queries or questions need. `reading` is called when Spark is there."""
        pause = self._pause(every, follow=follow)
        self.stopping.clear()
        self._backend.check_there(asked_sources(self._catalog), self._catalog.path_places)
        streams = asked_streams(self._catalog)
        if close:
            check_close([(stream.name, not never_ends(stream)) for stream in streams], follow=follow)
        self._take_up()
        runs = [self._runs.of(stream.name) for stream in streams]
        self.at_start.counts = {run.stream.name: replace(run.counts) for run in runs}
        self.at_start.answers = self._runs.answers
        for run in runs:
            self._bound(run, follow=follow)
            self._resume(run, sliced_over(run.name, self._catalog).texts)
        for run in runs:
            if run.is_behind:
                self._batches.advance(run.stream.name, None)
            self._runs.read_pasts(run)
            self._runs.hand_over(run)
        self._left_alone.begin()
        for run in runs:
            self._start_feed(run, reading, close=close or self._directories.checkpoint is None, every=pause)
        self.heartbeats.start()

    def _take_up(self) -> None:
        """Take the locks, and go on from the checkpoint; queries that are new to it enter now."""
        self._directories.take_locks()
        manifest = self._directories.manifest()
        self._answers.claim()
        with self._lock:
            if manifest is not None and self._directories.checkpoint is not None:
                manifest.write(self._directories.checkpoint)
                self._entering.take_up(self._directories.checkpoint)
            self._entering.relations.enter()
            for run in self._runs.streams.values():
                self._runs.relations.check_standings(run.relations_stood)
        for relations in self._runs.relations.runs.values():
            self._resume(relations, relations.texts)

    def _bound(self, run: StreamRun, *, follow: bool) -> None:
        """Say whether a stream is read to an end, and refuse to follow one that has ended."""
        run.bounded = run.static or not (follow or never_ends(run.stream))
        if run.closed and not run.bounded:
            raise following_after_the_end(run.stream.name, has_checkpoint=self._directories.checkpoint is not None)

    def _resume(self, run: RunState, texts: Mapping[str, str]) -> None:
        """Let the answers of a run's queries go on after its last commit."""
        self._answers.sink.set_queries(run.name, texts)
        self._answers.sink.resume(run.name, list(texts), run.committed)
        self._answers.note_missing(run.counts.answers_by_query, run.committed)

    def _start_feed(self, run: StreamRun, reading: Callable[[], None], *, close: bool, every: int) -> None:
        """Begin to read a stream."""
        name = run.stream.name
        notes = self._directories.notes_of_spark(name)
        finish = partial(self._finish, name, close=close or run.static)
        run.scheduling.pace.tell(every=every / 1e6, bounded=run.bounded)
        feed = self._backend.feed(run, notes, partial(self._batches.process, name), finish, every)
        self._feeds[name] = feed
        reading()
        if self._directories.checkpoint is not None:
            run.go_on_from(SparkCheckpoint(notes))
        feed.start()

    def _finish(self, name: str, *, close: bool) -> None:
        """A source has been read to its end."""
        self.heartbeats.take_requests(name)
        self._batches.finish(name, close=close)

    def _pause(self, every: str | None, *, follow: bool) -> int:
        """The time from one batch to the next, in microseconds."""
        require("every", every, str, "a duration such as '10 s'", none=True)
        if every is None:
            return 0
        if not follow and not any(map(never_ends, self._catalog.streams.values())):
            hint = "follow the sources, or leave it out: a bounded run reads everything at once"
            raise MullionError("'every' is for runs that follow their sources", hint=hint)
        pause = parse_duration(every)
        if pause < 1_000:
            raise MullionError(f"a batch every '{every}' is too often", hint="use at least '1 ms'")
        return pause

    @property
    def failed(self) -> bool:
        """Whether a stream has failed in the background."""
        return any(feed.failed for feed in self._feeds.values())

    def wait(self, seconds: float | None) -> None:
        """Until the sources end, one of them fails, a stop is asked for or the time is over."""
        until = math.inf if seconds is None else time.monotonic() + seconds
        waiting = list(self._feeds.values())
        while waiting and not self.stopping.is_set() and not self.failed:
            left = until - time.monotonic()
            if left <= 0:
                return
            waiting = [feed for feed in waiting if not feed.wait(min(0.1, max(0.01, left)))]

    def stop(self) -> None:
        """Stop after the current batch, and raise what went wrong in the background, if anything did."""
        self.heartbeats.stop()
        self._left_alone.end()
        feeds = list(self._feeds.values())
        self._feeds.clear()
        for feed in feeds:
            feed.stop()
        self._runs.close()
        for feed in feeds:
            feed.raise_failure()
        if feeds:
            self._answers.finish()


def asked_streams(catalog: Catalog) -> list[Stream]:
    """The streams that are read: those of queries and synopses, and those that keep events."""
    asked = queried_streams(catalog) | {synopsis.stream for synopsis in catalog.synopses.values()}
    asked |= {s.name for s in catalog.streams.values() if s.keep is not None or s.keep_rows is not None}
    if not asked:
        raise MullionError("there is no standing query", hint="add one with CREATE QUERY name AS SELECT ...")
    return [stream for name, stream in catalog.streams.items() if name in asked]


def asked_sources(catalog: Catalog) -> list[Stream | Table]:
    """The streams that are read, and the tables that queries look their rows up in."""
    asked = asked_tables(catalog) if catalog.tables else set()
    return [*asked_streams(catalog), *(table for name, table in catalog.tables.items() if name in asked)]
