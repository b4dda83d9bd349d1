"""How much memory the processes of a run took at most, as Linux tells it in /proc: this one, the JVM, its workers.

    this process ── java ── pyspark.daemon ── worker, worker, ...

The peak of a process is that of its resident memory (VmHWM), and pages that processes share count for each of them. A
worker that has ended before anybody looked is not counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
EVERY = 0.5
"""Seconds between two looks, at the least: one takes some milliseconds."""


@dataclass
class Peaks:
    """The largest memory seen of each process."""

    python: int = 0
    java: int = 0
    workers: dict[int, int] = field(default_factory=dict)
    _looked: float = float("-inf")

    def look(self, *, now: bool = False) -> None:
        """Look at all processes, unless somebody has just done so."""
        if not now and time.monotonic() - self._looked < EVERY:
            return
        self._looked = time.monotonic()
        own, parents = os.getpid(), _parents()
        self.python = max(self.python, peak_of(own))
        java = [pid for pid in _below(own, parents) if _name_of(pid) == "java"]
        self.java = max(self.java, sum(map(peak_of, java)))
        for pid in (worker for jvm in java for worker in _below(jvm, parents)):
            self.workers[pid] = max(self.workers.get(pid, 0), peak_of(pid))

    def by_kind(self) -> dict[str, int]:
        """Bytes by kind of process, and all together."""
        workers = sum(self.workers.values())
        kinds = {"python": self.python, "java": self.java, "workers": workers}
        return {**kinds, "all": sum(kinds.values())}


def peak_of(pid: int) -> int:
    """The largest resident memory of a process, in bytes; 0 when it is gone, or there is no /proc."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _below(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """The processes that a process has started, and those that they have."""
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
        yield from sorted(more)


def _parents() -> dict[int, int]:
    """The parent of each process."""
    parents = {}
    for entry in PROC.iterdir() if PROC.is_dir() else ():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return parents


def _name_of(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""
