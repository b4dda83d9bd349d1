"""Event time goes on without events: when somebody says so, and on streams that are idle.

    engine.advance(stream, time)      at once, between two batches
    mullion advance CHECKPOINT ...    a request in the checkpoint, which the run finds between two batches or at its end
    IDLE AFTER '10 s'                 nothing came for so long: from then on with the clock

All of them are heartbeats (golab 2.2.1): nothing before a time comes any more. The watermark is at least there, what it
passes is answered, and events behind it that come all the same are late. In the same two ways somebody may say that
nothing of a key comes any more (PUNCTUATE).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from mullion.catalog.closing import instant_text
from mullion.errors import MullionError
from mullion.language.limits import LAST_TIME
from mullion.runtime.stream_run import StreamRun
from mullion.service.batches import Batches
from mullion.service.directories import Directories
from mullion.service.ended_keys import ended_key
from mullion.service.runs import Runs
from mullion.spark.feed import Feed
from mullion.storage.requests import Requests, ended_keys_requested

log = logging.getLogger("mullion")

T = TypeVar("T")

SECOND = 1_000_000
LOOKS_EVERY = 1.0
"""Seconds between two looks at what was requested, and at the least between two heartbeats of an idle stream."""
BEATS_IN_IDLE = 10
"""An idle stream has a heartbeat at most so often in the time after which it is idle."""


@dataclass
class LastHeard:
    """What was last heard of a stream."""

    at: float
    """By the clock, in seconds."""
    records: int
    watermark: int | None
    beat: float
    """When the last heartbeat was."""


class Heartbeats:
    """`feeds` are the streams that are being read, by their names. `clock` only goes on."""

    def __init__(
        self,
        runs: Runs,
        batches: Batches,
        directories: Directories,
        feeds: Mapping[str, Feed],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs, self._batches, self._directories, self._feeds = runs, batches, directories, feeds
        self.clock = clock
        self._heard: dict[str, LastHeard] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    # What somebody says

    def advance(self, name: str, time: int) -> None:
        """Let the event time of a stream be at least `time`. Returns when what that makes due is committed."""
        self._between_batches(name, lambda run: check(run, time), lambda _: self._batches.advance(name, time))

    def punctuate(self, name: str, key: Sequence[Any]) -> None:
        """A key of a stream is over. Returns when this is committed."""
        self._between_batches(name, lambda run: ended_key(run, key), partial(self._batches.punctuate, name))

    def _between_batches(self, name: str, checked: Callable[[StreamRun], T], act: Callable[[T], None]) -> None:
        """Do something with what a check gives, unless it raises."""
        run = self._runs.streams.get(name)
        if run is None:
            raise MullionError(f"stream '{name}' is not being read", hint="start the engine first")
        feed = self._feeds.get(name)
        refused: list[MullionError] = []

        def check_and_act() -> None:
            try:
                found = checked(run)
            except MullionError as problem:
                refused.append(problem)
            else:
                act(found)

        if feed is None:
            check_and_act()
        elif not feed.between_batches(check_and_act):
            raise MullionError(f"stream '{name}' has stopped", hint="engine.stop() raises why, if it failed")
        if refused:
            raise refused[0]

    def take_requests(self, name: str) -> None:
        """Do what was requested of a stream in the checkpoint. To be called between two batches."""
        directory, run = self._directories.directory(name), self._runs.of(name)
        if directory is None or run.closed:
            return
        for path, key in ended_keys_requested(directory):
            with _dropped_if_refused("punctuate"):
                self._batches.punctuate(name, ended_key(run, key))
            path.unlink(missing_ok=True)
        requests = Requests.in_(directory)
        if requests.times:
            time = max(requests.times)
            with _dropped_if_refused("advance"):
                check(run, time)
                self._batches.advance(name, time)
            requests.remove()

    # Idle streams

    def start(self) -> None:
        """Look from time to time, in the background, at streams that are followed."""
        live = [feed for feed in self._feeds.values() if feed.follow]
        if not live or (self._directories.checkpoint is None and all(feed.stream.idle is None for feed in live)):
            return
        every = min((_pace(feed) / 2 for feed in live if feed.stream.idle is not None), default=LOOKS_EVERY)
        self._over.clear()
        self._thread = threading.Thread(target=self._look, args=(every,), name="mullion-heartbeats", daemon=True)
        self._thread.start()

    def _look(self, every: float) -> None:
        while not self._over.wait(every):
            self.look()

    def look(self) -> None:
        """Give every stream that is idle its heartbeat."""
        for feed in list(self._feeds.values()):
            if feed.follow:
                with suppress(Exception):  # the feed keeps it, and whoever waits for the feed hears of it
                    feed.between_batches(partial(self._beat, feed))

    def stop(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._heard.clear()

    def _beat(self, feed: Feed) -> None:
        name = feed.stream.name
        self.take_requests(name)
        run, idle, now = self._runs.of(name), feed.stream.idle, self.clock()
        if idle is None or run.closed:
            return
        counts = run.counts
        records = counts.events + counts.late + counts.ahead + counts.malformed + counts.broken
        heard = self._heard.get(name)
        if heard is None or heard.records != records or feed.has_news:
            self._heard[name] = LastHeard(now, records, run.watermark, now)
            return
        silent = now - heard.at
        if silent * SECOND < idle + feed.every or (heard.beat > heard.at and now - heard.beat < _pace(feed)):
            return
        heard.beat = now
        goes_on_to = self._goes_on_to(run, heard.watermark, int(silent * SECOND))
        if goes_on_to is not None and (run.watermark is None or goes_on_to > run.watermark):
            self._batches.advance(name, min(goes_on_to, LAST_TIME))

    def _goes_on_to(self, run: StreamRun, watermark: int | None, silent: int) -> int | None:
        """With the clock from where it was; a stream without any event goes with those that it is joined to."""
        if watermark is not None:
            return watermark + silent
        newest = self._runs.newest_beside(run.stream.name)
        return None if newest is None else newest - run.stream.lateness


@contextmanager
def _dropped_if_refused(what: str) -> Iterator[None]:
    try:
        yield
    except MullionError as refused:
        log.warning("a request to %s is dropped: %s", what, refused.message)


def check(run: StreamRun, time: int) -> None:
    """Refuse a heartbeat that is behind, or further ahead of the clock than events may be."""
    name, watermark, ahead = run.stream.name, run.watermark, run.stream.ahead
    if run.closed:
        raise MullionError(f"stream '{name}' has ended")
    refuse_time(name, time, watermark, None if ahead is None else run.ahead.now() + ahead)


def refuse_time(name: str, time: int, watermark: int | None, furthest: int | None) -> None:
    message = f"event time of stream '{name}' cannot go on to {instant_text(time)}"
    if watermark is not None and time <= watermark:
        hint = "event time never goes back; name a later time"
        raise MullionError(f"{message}: it is at {instant_text(watermark)}", hint=hint)
    if furthest is not None and time > furthest:
        hint = f"name a time up to {instant_text(furthest)}, or give the stream a longer AHEAD"
        raise MullionError(f"{message}: this is further ahead than AHEAD allows", hint=hint)


def _pace(feed: Feed) -> float:
    """Seconds from one heartbeat of an idle stream to the next: more would be commits that answer nothing."""
    assert feed.stream.idle is not None
    return max(LOOKS_EVERY, feed.stream.idle / SECOND / BEATS_IN_IDLE)
