"""One run at a time in a directory: a lock of the operating system, which ends with the process that holds it."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from mullion.errors import MullionError
from mullion.storage.places import cannot_write, make_directory

log = logging.getLogger("mullion")


class InUse(MullionError):
    """Another run holds the directory."""


class Lock:
    """Holds `file` from `acquire` to `release`, or until the process ends, however it ends.

    The lock belongs to the open file: a second one in the same process is refused as well, and programs that this
    process starts do not get it, since Python's files are closed in them.
    """

    def __init__(self, file: Path, directory: Path, what: str) -> None:
        """`directory` is what the lock stands for; `what` names it in messages."""
        self.file, self.directory, self.what = file, directory, what
        self._handle: int | None = None

    @property
    def is_held(self) -> bool:
        return self._handle is not None

    def acquire(self) -> None:
        if self._handle is not None:
            return
        make_directory(self.file.parent, self.what)
        try:
            handle = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as problem:
            raise cannot_write(self.directory, self.what, problem) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(handle)
            os.close(handle)
            hint = "wait for it or stop it, or name another directory"
            raise InUse(f"{self.what} {self.directory} is in use by {holder}", hint=hint) from None
        except OSError as problem:
            log.warning(
                "%s %s cannot be locked (%s): see to it that no other run uses it",
                self.what,
                self.directory,
                problem.strerror,
            )
        self._handle = handle
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(_myself()).encode(), 0)

    def release(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            os.ftruncate(handle, 0)
            os.close(handle)


def take_all(locks: Sequence[Lock]) -> None:
    """All of them or none."""
    before = [lock for lock in locks if lock.is_held]
    try:
        for lock in locks:
            lock.acquire()
    except BaseException:
        for lock in locks:
            if lock not in before:
                lock.release()
        raise


def _myself() -> dict[str, str | int]:
    return {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "command": " ".join(sys.argv)[:500],
    }


def _holder(handle: int) -> str:
    """The process that holds the lock, from what it wrote into the file."""
    try:
        holder = json.loads(os.pread(handle, 4096, 0))
        command = f" ({holder['command']})" if holder["command"] else ""
        return f"process {holder['process']} on {holder['host']} since {holder['since']}{command}"
    except (ValueError, KeyError, TypeError, OSError):
        return "another run"
