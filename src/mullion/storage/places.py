"""Directories that a user names: paths, or `file:` URLs, of this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mullion.errors import MullionError

_SCHEME = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/")


def local_path(place: str | Path, what: str) -> Path:
    """The path that a text means; `what` names it in the message when it is none of this machine.

    What is committed here stands on renames, locks and syncs of a local or mounted file system, which object stores
    and HDFS do not have in this form.

    >>> local_path("file:///tmp/the%20answers", "out").as_posix(), local_path("answers", "out").as_posix()
    ('/tmp/the answers', 'answers')
    """
    text = str(place)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(place)
    if scheme["scheme"].lower() != "file":
        hint = "name a directory of this machine or of storage that is mounted on it, and copy from there"
        raise MullionError(f"{what} {place} is not a local path: {scheme['scheme']}: cannot be written to", hint=hint)
    url = urlsplit(text)
    if url.netloc not in ("", "localhost") or url.query or url.fragment:
        raise MullionError(f"{what} {place} is not a path of this machine", hint="write file:///the/path")
    return Path(unquote(url.path))


def check_directory(directory: Path, what: str) -> None:
    """Raise where no files can be written below the directory, which need not be there yet."""
    at = directory.absolute()
    try:
        while not os.path.lexists(at):
            at = at.parent
        if not at.is_dir():
            file = f"{at} is a file" if at.is_file() else f"{at} is no directory"
            it = f"{what} {directory} is a file" if at == directory.absolute() and at.is_file() else file
            raise MullionError(it, hint="name a directory; it is created if it does not exist")
        writable = os.access(at, os.W_OK | os.X_OK) and not _is_of_the_kernel(at)
    except OSError as problem:
        raise cannot_write(directory, what, problem) from None
    if not writable:
        raise cannot_write(directory, what, PermissionError(None, f"{at} cannot be written to"))


def make_directory(directory: Path, what: str) -> None:
    """Make it if it is not there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(directory, what, problem) from None


def cannot_write(directory: Path, what: str, problem: OSError) -> MullionError:
    why = problem.strerror or str(problem)
    return MullionError(f"{what} {directory} cannot be written: {why}", hint="name a directory that you may write to")


def _is_of_the_kernel(path: Path) -> bool:
    """/proc and /sys allow root anything and then refuse it."""
    return any(path.is_relative_to(place) for place in ("/proc", "/sys"))
