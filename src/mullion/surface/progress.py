"""What a terminal shows while a script runs, and the sentences at its end."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mullion.language.limits import moment
from mullion.planner.schedules.lateness import WORST, put_off_text, seconds_text
from mullion.plural import plural

if TYPE_CHECKING:
    from mullion.engine import Engine
    from mullion.runtime.counts import StreamCounts

RATE_OVER = 10.0
"""Seconds that events per second are taken over."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far an engine is, over all its streams. The watermark is that of the stream furthest behind."""

    events: int = 0
    answers: int = 0
    watermark: int | None = None

    @classmethod
    def of(cls, engine: Engine) -> Position:
        counts = engine.counts.values()
        marks = [run.watermark for run in engine.runs.values() if run.watermark is not None]
        return cls(sum(c.events for c in counts), engine.answers, min(marks, default=None))


class Progress:
    """One line at the foot of a terminal, drawn anew by a timer; nothing where there is no terminal.

    `saw` is made for `Engine(on_batch=...)`: it takes numbers down and leaves drawing to the timer.
    """

    def __init__(self, console: Console, *, wanted: bool = True) -> None:
        self._console = console
        self._wanted = wanted and console.is_terminal
        self._live: Live | None = None
        self.doing = ""
        """What the line begins with."""
        self._began = time.monotonic()
        self._seen: Position | None = None
        self._samples: deque[tuple[float, int]] = deque()

    def show(self, doing: str) -> None:
        """Say what is being done; the line appears if it was not there."""
        self.doing = doing
        if self._wanted and self._live is None:
            self._live = Live(
                get_renderable=self._line,
                console=self._console,
                refresh_per_second=8,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def hide(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def begin(self, engine: Engine) -> None:
        """From here on events count for the rate: a continued run starts with those of the runs before it."""
        self._samples = deque([(time.monotonic(), Position.of(engine).events)])

    def update(self, engine: Engine) -> None:
        self._seen = Position.of(engine)
        self._samples.append((time.monotonic(), self._seen.events))
        while len(self._samples) > 2 and self._samples[-1][0] - self._samples[1][0] > RATE_OVER:
            self._samples.popleft()

    def rate(self) -> float:
        if len(self._samples) < 2:
            return 0.0
        (first, few), (last, many) = self._samples[0], self._samples[-1]
        return (many - few) / max(last - first, 1e-3)

    def text(self) -> str:
        """The words of the line."""
        parts = [self.doing]
        if self._seen is not None:
            parts += [f"{self._seen.events:,} events", f"{self.rate():,.0f} events/s"]
            parts += [f"watermark {instant(self._seen.watermark)}"] if self._seen.watermark is not None else []
            parts += [f"{self._seen.answers:,} answers"]
        return "  ".join(parts)

    def _line(self) -> Table:
        line = Table.grid(padding=(0, 1))
        line.add_column(width=16)
        line.add_column(no_wrap=True, overflow="ellipsis")
        line.add_column()
        elapsed = f"{time.monotonic() - self._began:.0f} s"
        line.add_row(ProgressBar(total=None, width=16, pulse=True), Text(self.text()), Text(elapsed, style="dim"))
        return line


def instant(microseconds: int | None) -> str:
    """An instant of event time as people write it.

    >>> instant(1101902400_000_000)
    '2004-12-01 12:00:00 UTC'
    """
    if microseconds is None:
        return "none"
    return f"{moment(microseconds).replace(tzinfo=None, microsecond=0).isoformat(sep=' ')} UTC"


def warnings(
    counts: Mapping[str, StreamCounts],
    out: Path,
    relations: Mapping[str, int] | None = None,
    stopped: Mapping[str, str] | None = None,
    promising: Mapping[str, Mapping[str, Any]] | None = None,
    evicted: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    scheduled: Mapping[str, Mapping[str, int]] | None = None,
) -> Iterator[str]:
    """What was not answered as one may think, a sentence each, and where the records are. `relations` are the bad
    values that queries over relations met, `stopped` the queries that passed a limit, `promising` what queries with a
    PREFERENCE told of, `evicted` the rows that joins evicted from windows, `scheduled` at how many of their
    instants relations with SLIDE AT MOST were answered."""
    for query, reason in (stopped or {}).items():
        yield f"query {query} is stopped: {reason}"
    for name, counted in counts.items():
        if counted.late:
            hit = ", ".join(f"{query} {number:,}" for query, number in counted.late_by_query.items() if number)
            missed = f" (missed by {hit})" if hit else ""
            yield f"{plural(counted.late, 'event')} of {name} came too late{missed}; kept in {out / '_late'}"
        if counted.shed:
            came = counted.events + counted.shed
            what = f"{plural(counted.shed, 'event')} of {name}, {100 * counted.shed / came:.1f} % of those that came,"
            hit = ", ".join(f"{query} {number:,}" for query, number in counted.shed_by_query.items() if number)
            yield f"{what} were shed because the run was behind (missed by {hit or 'no standing query'})"
        if counted.unprobed:
            what = f"joins did not look for the partners of {plural(counted.unprobed, 'event')} of {name}"
            hit = ", ".join(f"{query} {number:,}" for query, number in counted.unprobed_by_query.items() if number)
            yield f"{what} because the run was behind (pairs missed by {hit or 'no standing query'})"
        yield from _late_answers(name, counted.scheduled)
        if counted.odd_times:
            yield counted.odd_times
        if counted.ahead:
            what = plural(counted.ahead, "event")
            yield f"{what} of {name} lay further past the clock than AHEAD allows; kept in {out / '_ahead'}"
        if counted.broken:
            what = plural(counted.broken, "event")
            yield f"{what} of {name} came after the end of their key (PUNCTUATE); kept in {out / '_broken'}"
        if counted.malformed:
            what = plural(counted.malformed, "record")
            yield f"{what} of {name} did not parse or had no event time; kept in {out / '_malformed'}"
        yield from _bad_values(counted.bad_by_query)
    yield from _bad_values(relations or {})
    yield from _told_in_part(promising or {})
    for query, facts in (evicted or {}).items():
        went = [f"{plural(fact['rows'], 'row')} of {fact['window']}" for fact in facts if fact["rows"]]
        if went:
            yield f"query {query} evicted {' and '.join(went)} (MEMORY), and misses their later pairs"
    for query, counted_of in (scheduled or {}).items():
        if counted_of["put_off"]:
            yield f"query {query} was answered more seldom while the run was behind: {put_off_text(counted_of)}"


def _late_answers(stream: str, scheduled: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    late = {query: counted for query, counted in scheduled.items() if counted["late"]}
    if late:
        hit = ", ".join(f"{query} {_times_late(counted)}" for query, counted in late.items())
        yield f"queries with SLIDE AT MOST over {stream} were answered after their period was over ({hit})"


def _times_late(counted: Mapping[str, int]) -> str:
    worst = seconds_text(counted.get(WORST, 0) / 1e6)
    return f"{counted['late']:,} of {counted['executions']:,} times, by {worst} at worst"


def _told_in_part(promising: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for query, facts in promising.items():
        if facts["told"] < facts["offered"] or facts["rows_shed"]:
            share = f"{100 * facts['told'] / facts['offered']:.0f} %"
            left = [f"{facts[what]:,} {how}" for what, how in _LEFT.items() if facts[what]]
            by_budget = facts["waiting"] + facts["expired"] + facts["shed"] - facts["shed_by_memory"]
            why = [*(["BUDGET"] if by_budget else []), *(["MEMORY"] if facts["rows_shed"] else [])]
            left += [f"{plural(facts['rows_shed'], 'row')} were evicted"] if facts["rows_shed"] else []
            what = (
                f"is made of about {share} of its pairs"
                if facts["aggregated"]
                else f"answered about {share} of its results"
            )
            yield f"query {query} {what} ({', '.join(why)}): {', '.join(left)}"


_LEFT = {"waiting": "wait", "expired": "expired unseen", "shed": "were shed"}


def _bad_values(by_query: Mapping[str, int]) -> Iterator[str]:
    for query, number in by_query.items():
        if number:
            what = plural(number, "bad value")
            yield f"query {query} met {what} (overflow, division by zero or a failed cast), taken as NULL"
