"""Batches of a stream, one after the other, from a static or a streaming DataFrame."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from mullion.algebra.streams import Stream
from mullion.errors import MullionError
from mullion.spark.failures import ended_streams, raised_in_worker, source_error, spark_failures
from mullion.spark.own_files import FilesInBatches, OwnQuery
from mullion.spark.sources import located

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass
class Feed:
    """Calls `process(batch, number)` for every batch, and `finish()` when a source that ends has ended."""

    stream: Stream
    frame: DataFrame | None
    open: Callable[[], DataFrame]
    directory: Path
    """Where Spark notes how far it has read."""
    process: Callable[[DataFrame | None, int], None]
    """Without a DataFrame the batch is what was noted here."""
    finish: Callable[[], None]
    follow: bool
    every: int = 0
    """Microseconds from the beginning of a batch to that of the next, at least."""
    larger: Callable[[], int] = lambda: 1
    """How many times larger batches should be than the user chose."""
    listed: Callable[[], FilesInBatches | None] = lambda: None
    """The files of a source that needs no query of Spark's, where the source ends."""
    ended: bool = False
    _query: StreamingQuery | OwnQuery | None = None
    _busy: threading.Lock = field(default_factory=threading.Lock)
    _worker: int | None = None
    """The thread of what is at work."""
    _stopped: bool = False
    _opened_with: int = 1
    _reopening: bool = False
    _failure: BaseException | None = None

    def start(self) -> None:
        self._opened_with = self.larger()
        files = self.listed() if self.frame is None and not self.follow else None
        if files is not None:
            self._query = OwnQuery(partial(self._play, files))
            return
        frame = self.frame if self.frame is not None else self.open()
        if not frame.isStreaming:
            with suppress(RuntimeError):
                self._batch(frame, 0)
            self._end()
            return
        writer = frame.writeStream.foreachBatch(self._batch).option("checkpointLocation", located(str(self.directory)))
        pause = f"{self.every // 1_000} milliseconds"
        writer = writer.trigger(processingTime=pause) if self.follow else writer.trigger(availableNow=True)
        try:
            self._query = writer.start()
        except spark_failures() as problem:
            raise source_error(f"stream '{self.stream.name}'", problem) from problem

    def _play(self, files: FilesInBatches) -> None:
        """One batch after the other, until one fails or the stream is stopped."""
        try:
            for number in files.batches():
                self._batch(None, number)
        except BaseException as failure:
            self._failure = self._failure if self._failure is not None or self._stopped else failure

    def _batch(self, batch: DataFrame | None, number: int) -> None:
        """A failure is kept for the caller's thread. Spark only learns that there was one, and starts no other batch.

        Spark gets an Exception in any case: after any other BaseException it would wait forever.
        """
        with self.at_work():
            if self._stopped or self._reopening or self._failure is not None:
                raise RuntimeError("the stream has stopped")
            try:
                self.process(batch, number)
            except BaseException as failure:
                self._failure = failure
                raise RuntimeError("the batch failed") from None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """While a batch, or what goes on between two, is at work in this thread. Refused within itself."""
        if self._worker == threading.get_ident():
            hint = "call it from another thread, or after the batch"
            raise MullionError(f"stream '{self.stream.name}' is running a batch in this thread", hint=hint)
        with self._busy:
            self._worker = threading.get_ident()
            try:
                yield
            finally:
                self._worker = None

    def between_batches(self, act: Callable[[], None]) -> bool:
        """Do something while no batch is at work; whether it was done. A failure ends the stream as one in a batch
        does."""
        with self.at_work():
            if self._stopped or self._failure is not None:
                return False
            try:
                act()
            except BaseException as failure:
                self._failure = failure
                raise
        return True

    @property
    def has_news(self) -> bool:
        """Whether the source has something that no batch has taken yet, as far as it is known."""
        query = self._query
        try:
            return query is not None and bool(query.status["isDataAvailable"])
        except (*spark_failures(), Py4JError, OSError):
            return False

    def progress(self) -> Mapping[str, Any] | None:
        """What Spark told of the last batch that it was through with; None where it told nothing."""
        query = self._query
        try:
            return None if query is None else query.lastProgress
        except (*spark_failures(), Py4JError, OSError):
            return None

    def _end(self) -> None:
        if self._failure is None and not self._stopped:
            self.finish()
            self.ended = True

    def wait(self, seconds: float) -> bool:
        """Wait for the source's end, at most so long; whether it is over, well or not."""
        if self._query is None:
            return True
        if self.follow and self.frame is None and self.larger() != self._opened_with:
            self._reopen(self._query)
        try:
            over = bool(self._query.awaitTermination(seconds))  # type: ignore[arg-type]
        except ended_streams() as problem:
            self._failure = self._failure or problem
            return True
        if over and not self.follow and not self.ended:
            self._end()
        return over

    def _reopen(self, query: StreamingQuery | OwnQuery) -> None:
        """Go on with batches of another size. Spark knows a limit only from the start; what it has planned and not
        done, it plans again."""
        with self.at_work():
            self._reopening = True
        try:
            query.stop()
        except (*spark_failures(), Py4JError, OSError) as problem:
            self._failure = self._failure or problem
            return
        finally:
            self._reopening = False
        if not self._stopped and self._failure is None:
            self.start()

    @property
    def failed(self) -> bool:
        return self._failure is not None

    def stop(self) -> None:
        """After the current batch: the lock is free only between batches.

        The lock is released before Spark is stopped: Spark waits for a batch that is beginning, and that for the lock.
        """
        if self._query is not None:
            with self._busy:
                self._stopped = True
            try:
                self._query.stop()
            except (*spark_failures(), Py4JError, OSError) as problem:
                self._failure = self._failure or problem
            self._query = None
            self._release_callbacks()

    def _release_callbacks(self) -> None:
        """Java may know the callback for long after the last batch. It must not hold what the batches held."""
        self.process, self.finish, self.open = _process_nothing, _finish_nothing, _open_nothing
        self.listed = _list_nothing

    def raise_failure(self) -> None:
        failure = self._failure
        if failure is None:
            return
        if not isinstance(failure, spark_failures()):
            raise failure
        ours = raised_in_worker(failure)
        if ours is not None:
            raise ours from None
        # What a kernel raises in Spark's Python workers is no fault of the source.
        if "PythonException" in str(failure):
            raise failure
        raise source_error(f"stream '{self.stream.name}'", failure) from failure


def _process_nothing(batch: DataFrame | None, number: int) -> None:
    raise RuntimeError("the stream has stopped")


def _finish_nothing() -> None:
    return None


def _list_nothing() -> None:
    return None


def _open_nothing() -> DataFrame:
    raise RuntimeError("the stream has stopped")
