"""The memory of a process and of all that it started, watched while it runs."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

EVERY = 0.1
"""Seconds between two looks."""


@dataclass(frozen=True)
class Finished:
    """How a command ended: its code, what it printed, how long it took, and the most memory that it had (bytes)."""

    code: int
    output: str
    seconds: float
    peak: int


def run_watched(command: Sequence[str], environment: dict[str, str] | None = None) -> Finished:
    """Run a command to its end, and look at its memory meanwhile."""
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **(environment or {})}
    ) as process:
        watch = Watch(process.pid)
        watch.start()
        try:
            output, _ = process.communicate()
        finally:
            watch.end()
    return Finished(process.returncode, output, time.perf_counter() - began, watch.peak)


class Watch(threading.Thread):
    """Looks at the memory of a process and its descendants until told to end."""

    def __init__(self, pid: int) -> None:
        super().__init__(name="memory watch", daemon=True)
        self._pid, self._over = pid, threading.Event()
        self.peak = 0

    def run(self) -> None:
        while not self._over.wait(EVERY):
            self.peak = max(self.peak, memory_of_tree(self._pid))

    def end(self) -> None:
        self._over.set()
        self.join()


def memory_of_tree(pid: int) -> int:
    """Bytes of a process and its descendants; what they share is counted once."""
    return sum(_memory(each) for each in (pid, *descendants(pid)))


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that these started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parent = _parent(entry)
            if parent is not None:
                parents[int(entry.name)] = parent
    found, open_ = [], [pid]
    while open_:
        at = open_.pop()
        children = [child for child, parent in parents.items() if parent == at]
        found += children
        open_ += children
    return found


def _parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _memory(pid: int) -> int:
    """The proportional share of a process, where the system tells it; else all that it has in memory."""
    for name, field in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        try:
            lines = Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0
