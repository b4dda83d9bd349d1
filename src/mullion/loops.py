"""Loops that numba compiles, once on a machine, and keeps on the disk.

numba keeps what it compiled of a loop while the loop's own file stays the same. But a compiled loop has in it the loops
that it calls and the constants that it reads, of other files too: after these have changed, the old ones would still
run. And what was kept of types that have other names by now cannot even be opened. So every file with loops has a
folder of its own, named by a checksum of it and of all files that it imports: what another version has kept is never
looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from inspect import getfile
from pathlib import Path
from typing import Any, TypeVar

from numba import config, njit

_IMPORTED = re.compile(r"^\s*from ([\w.]+) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)
_FOLDER = "loops"
Loop = TypeVar("Loop", bound=Callable[..., Any])


def loop(function: Loop) -> Loop:
    """Compile a function when it is first called. Other threads run meanwhile."""
    return _kept(function)


def inlined_loop(function: Loop) -> Loop:
    """The same, put in at every place where another loop calls it, before the types are known there."""
    return _kept(function, inline="always")


def _kept(function: Loop, **options: Any) -> Loop:
    settings: Any = config
    compiled: Callable[[Loop], Any] = njit(cache=True, nogil=True, **options)
    chosen = settings.CACHE_DIR
    folder = _folder(os.path.abspath(getfile(function)), function.__module__, chosen)
    try:
        settings.CACHE_DIR = folder or chosen  # read now, and not when the function is compiled
        return compiled(function)
    finally:
        settings.CACHE_DIR = chosen


@cache
def _folder(file: str, module: str, chosen: str) -> str | None:
    """Where the loops of a file are kept; None leaves it to numba, as in an archive, whose name follows its content."""
    root = Path(file).parents[module.count(".")]
    try:
        own = sha256(b"".join(map(_content, sorted(_sources(Path(file), root))))).hexdigest()
    except (OSError, IndexError):
        return None
    base = Path(chosen) if chosen else _base(root / module.partition(".")[0])
    if base is None:
        return None
    folder = base / _FOLDER / f"{module}-{own[:16]}"
    if not folder.exists():
        _empty(base / _FOLDER, f"{module}-*")
    return str(folder)


def _base(package: Path) -> Path | None:
    """Beside the package, or where the user may write."""
    if os.access(package, os.W_OK):
        return package / "__pycache__"
    where = sha256(str(package).encode()).hexdigest()[:16]
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mullion" / where


def _empty(base: Path, folders: str) -> None:
    """Remove what other versions have kept. Their folders stay: a process of theirs may still write there."""
    for file in base.glob(f"{folders}/**/*.nb?"):
        file.unlink(missing_ok=True)


@cache
def _content(source: Path) -> bytes:
    return source.read_bytes()


def _sources(file: Path, root: Path) -> set[Path]:
    """A file and all files below the root that it imports, and so on."""
    found, todo = {file}, [file]
    while todo:
        new = {path for path in _imports(todo.pop(), root) if path not in found}
        found |= new
        todo += new
    return found


@cache
def _imports(file: Path, root: Path) -> frozenset[Path]:
    package = root / file.relative_to(root).parts[0]
    return frozenset(path for path in _named(_content(file).decode(), root) if path.is_relative_to(package))


def _named(source: str, root: Path) -> Iterator[Path]:
    for match in _IMPORTED.finditer(source):
        module = root.joinpath(*match[1].split("."))
        for path in (module, *(module / name for name in re.findall(r"\w+", match[2] or match[3]))):
            for candidate in (path.with_suffix(".py"), path / "__init__.py"):
                if candidate.is_file():
                    yield candidate
