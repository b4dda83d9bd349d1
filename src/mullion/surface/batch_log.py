"""What a run says without a terminal: a line for each batch, and a summary at the end.

    2026-01-02 03:04:05 UTC batch 3 of trades: 1,000 events, 12 answers, watermark 2004-12-01 12:02:54 UTC, 0.4 s
    {"time": "2026-01-02T03:04:05Z", "event": "batch", "stream": "trades", "batch": 3, "events": 1000, ...}

Lines go to stderr, each whole and at once.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mullion.plural import plural
from mullion.surface.progress import instant
from mullion.surface.warned import Warned

if TYPE_CHECKING:
    from mullion.engine import Engine
    from mullion.runtime.counts import StreamCounts

WallClock = Callable[[], float]

COUNTED = ("late", "ahead", "malformed", "shed", "broken", "unprobed")
"""Records that no query uses, or not every join: shown only where there were some."""


@dataclass(frozen=True)
class _Counted:
    """How far a stream was when its last line was written."""

    batches: int = 0
    events: int = 0
    late: int = 0
    ahead: int = 0
    malformed: int = 0
    shed: int = 0
    broken: int = 0
    unprobed: int = 0


class BatchLog:
    """`saw` is made for `Engine(on_batch=...)`. `warned` says what Mullion warns of."""

    def __init__(self, write: Callable[[str], None], form: str = "text", clock: WallClock = time.time) -> None:
        self._write, self._json, self._clock = write, form == "json", clock
        self._streams: dict[str, _Counted] = {}
        self._answers: int | None = None
        self._at = time.monotonic()
        self._telling = threading.Lock()
        self.warned = Warned(self._warn)

    def begin(self, spark_log: Path | None) -> None:
        """Batches are about to be read. There is no log of Spark's where it was not started."""
        self._at = time.monotonic()
        text = "reading" if spark_log is None else f"reading; Spark's log is {spark_log}"
        self.say("start", text, spark_log=None if spark_log is None else str(spark_log))

    def update(self, engine: Engine) -> None:
        """A batch has ended, or an input."""
        with self._telling:
            for name in list(engine.runs):
                before = self._streams.get(name) or _counted(engine.at_start.counts.get(name))
                now = _counted(engine.runs[name].counts)
                if now.batches > before.batches:
                    self._streams[name] = now
                    self._write_batch(engine, name, before, now)

    def _write_batch(self, engine: Engine, name: str, before: _Counted, now: _Counted) -> None:
        answered_before = engine.at_start.answers if self._answers is None else self._answers
        events, answers = now.events - before.events, engine.answers - answered_before
        seconds, self._at = time.monotonic() - self._at, time.monotonic()
        self._answers = engine.answers
        watermark = engine.runs[name].watermark
        aside = {kind: getattr(now, kind) - getattr(before, kind) for kind in COUNTED}
        parts = [plural(events, "event"), plural(answers, "answer"), *(f"{n:,} {k}" for k, n in aside.items() if n)]
        parts += [] if watermark is None else [f"watermark {instant(watermark)}"]
        monitor = engine.runs[name].overload.monitor
        parts += [f"behind by {monitor.rates.lag:.1f} s"] if monitor.is_behind else []
        text = f"batch {now.batches} of {name}: {', '.join(parts)}, {seconds:.1f} s"
        facts = {"stream": name, "batch": now.batches, "events": events, "answers": answers, **aside}
        facts |= {"behind": monitor.is_behind, "lag": round(monitor.rates.lag, 3)}
        self.say("batch", text, **facts, watermark=iso(watermark), seconds=round(seconds, 3))

    def end(self, text: str, **facts: Any) -> None:
        """The summary."""
        self.say("end", text, **facts)

    def say(self, event: str, text: str, **facts: Any) -> None:
        now = datetime.fromtimestamp(self._clock(), UTC)
        if self._json:
            line = json.dumps({"time": f"{now:%Y-%m-%dT%H:%M:%SZ}", "event": event, **facts})
        else:
            line = f"{now:%Y-%m-%d %H:%M:%S} UTC {text}"
        self._write(line + "\n")

    def _warn(self, sentence: str) -> None:
        """A warning on a line by itself, without a time."""
        if self._json:
            self.say("warning", sentence, message=sentence)
        else:
            self._write(f"warning: {sentence}\n")

    def note(self, sentence: str) -> None:
        """How the run ended."""
        if self._json:
            self.say("note", sentence, message=sentence)
        else:
            self._write(f"{sentence}\n")


def iso(microseconds: int | None) -> str | None:
    """An instant for programs.

    >>> iso(1101902400_000_000)
    '2004-12-01T12:00:00.000000Z'
    """
    if microseconds is None:
        return None
    try:
        seconds, rest = divmod(microseconds, 1_000_000)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"
    except (OverflowError, ValueError, OSError):
        return f"{microseconds} us"


def _counted(counts: StreamCounts | None) -> _Counted:
    if counts is None:
        return _Counted()
    return _Counted(counts.batches, counts.events, *(getattr(counts, name) for name in COUNTED))
