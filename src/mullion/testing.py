"""For tests of Mullion and of programs that use it: replayed batches, crashes at chosen moments.

batches = Replay(tmp_path / "events")
batches.add([{"ts": "2024-01-01 00:00:01", "x": 1}, ...])
engine.execute(f"CREATE STREAM s (ts TIMESTAMP, x INT) USING json OPTIONS ({batches.options}) TIMESTAMP BY ts")
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mullion.storage import fault_points

STEPS = (
    "before partials",
    "before operators",
    "before answers",
    "between answers",
    "after answers",
    "before commit",
    "before head",
    "after commit",
)
"""The moments of a batch at which a crash can be placed, in their order."""

COMPACTION_STEPS = ("before compaction", "before swap", "between swaps", "after swap")
"""The moments at which files of answers become fewer, after some batches and at the end of a run."""


class Replay:
    """A directory that a stream reads one batch after the other, always in the same order."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def options(self) -> str:
        """The OPTIONS of a json stream over the batches."""
        return f"path '{self.directory}', maxFilesPerTrigger '1'"

    def add(self, events: Sequence[dict[str, Any]]) -> None:
        number = len(list(self.directory.glob("*.json")))
        path = self.directory / f"{number:06d}.json"
        temporary = path.with_suffix(".tmp")
        temporary.write_text("".join(json.dumps(event, default=str) + "\n" for event in events))
        # Spark takes files in the order of their modification times.
        os.utime(temporary, (1_000_000_000 + number, 1_000_000_000 + number))
        temporary.rename(path)


class Crash(BaseException):
    """Stands for the end of the process; not an Exception, so that nothing on the way mends it."""


@contextmanager
def crash_at(step: str, occurrence: int = 1, how: Callable[[], None] | None = None) -> Iterator[None]:
    """Crash when the step is reached for the n-th time: by raising, or by `how`, such as `kill_this_process`."""
    left = occurrence

    def reached(name: str) -> None:
        nonlocal left
        if name == step:
            left -= 1
            if left == 0:
                if how is not None:
                    how()
                raise Crash(step)

    fault_points.on_fault_point.append(reached)
    try:
        yield
    finally:
        fault_points.on_fault_point.remove(reached)


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
