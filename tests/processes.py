"""Looking after other processes: a session of processes is a program and all that it started."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

DEATH_SIGNAL = 1
"""Linux's PR_SET_PDEATHSIG."""


def processes_of_session(leader: int) -> list[int]:
    """The living processes of a session: a JVM that leads its own, and its Python workers."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, _group, session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == leader and state != "Z":
            found.append(int(stat.parent.name))
    return found


def wait_until_gone(leader: int, *, seconds: float) -> list[int]:
    deadline = time.monotonic() + seconds
    while (left := processes_of_session(leader)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def kill_session(leader: int) -> None:
    """End a program and all that it started, also what it starts meanwhile."""
    while left := processes_of_session(leader):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def wait_for(condition: Callable[[], object], *, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} has not happened in {seconds} s"
        time.sleep(0.02)


def die_with_parent() -> None:
    """For a child to call: it is killed when the process that started it ends, however that ends."""
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
