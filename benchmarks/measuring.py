"""Times that can be compared: warm, the best of several, and interleaved so that a machine's drift hits all alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

LONG = 45.0
"""Seconds above which a run is not repeated: it is its own average."""


@dataclass(frozen=True)
class Task:
    """Something to be timed. `prepare` comes before it and is not timed; its result is handed to `run`.

    `warm` warms the path up where the whole of it would take too long.
    """

    name: str
    run: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None
    warm: Callable[[], object] | None = None

    def warm_up(self) -> None:
        if self.warm is not None:
            self.warm()
        else:
            self.run(self.prepare())


@dataclass(frozen=True)
class TimedElsewhere:
    """What a task may return that took its time in another process: that is the time that counts."""

    seconds: float
    result: Any


@dataclass
class Timing:
    """All times of a task, and what its last run returned."""

    name: str
    seconds: list[float] = field(default_factory=list)
    result: Any = None

    @property
    def best(self) -> float:
        return min(self.seconds)

    def times(self, factor: float, name: str) -> Timing:
        """What so many times the work would take."""
        return Timing(name, [seconds * factor for seconds in self.seconds])


@dataclass
class Stopwatch:
    console: Console
    repeat: int = 3
    timings: dict[str, Timing] = field(default_factory=dict)

    def measure(self, tasks: Sequence[Task], *, warm: int = 1, repeat: int | None = None) -> list[Timing]:
        """Warm all tasks up, then run them in turn, `repeat` times."""
        found = [Timing(task.name) for task in tasks]
        for _ in range(warm):
            for task in tasks:
                task.warm_up()
        for _ in range(self.repeat if repeat is None else repeat):
            for task, timing in zip(tasks, found, strict=True):
                if not timing.seconds or timing.best < LONG:
                    _time(task, timing)
        for timing in found:
            self.add(timing)
        return found

    def add(self, timing: Timing) -> None:
        """Keep and tell times, also those that were taken elsewhere."""
        self.timings[timing.name] = timing
        raw = " ".join(f"{s:.3f}" for s in timing.seconds)
        self.console.print(f"  {timing.name:<58} {timing.best:>9.3f} s   [dim]({raw})[/dim]", highlight=False)

    def __getitem__(self, name: str) -> Timing:
        return self.timings[name]


def _time(task: Task, timing: Timing) -> None:
    timing.result = None
    prepared = task.prepare()
    gc.collect()
    began = time.perf_counter()
    found = task.run(prepared)
    seconds = time.perf_counter() - began
    if isinstance(found, TimedElsewhere):
        seconds, found = found.seconds, found.result
    timing.result = found
    timing.seconds.append(seconds)
