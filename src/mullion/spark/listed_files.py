"""The files at a path of this machine, as Spark lists them.

Names that start with a dot or an underscore are no data. Folders are looked into where their names are partitions, such
as day=2024-01-01, or all of them with recursiveFileLookup.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

_SIMPLE = re.compile(r"[^\[\]{}\\]*")
"""Patterns of names that mean the same to Python and to Spark."""


def path_here(options: Mapping[str, str]) -> str | None:
    """The path that the options name; None where it does not lie on this machine.

    >>> path_here({"path": "file:///data/a b"}), path_here({"path": "data/*"}), path_here({"path": "s3://data/x"})
    ('/data/a b', 'data/*', None)
    """
    path = options.get("path", "")
    if path.startswith("file:///"):
        path = path[len("file://") :]
    return None if not path or "://" in path else path


def is_recursive(options: Mapping[str, str]) -> bool:
    return options.get("recursivefilelookup", "false").strip().lower() == "true"


def is_data(name: str) -> bool:
    return not name.startswith(".") and (not name.startswith("_") or "=" in name)


def listed_files(options: Mapping[str, str]) -> list[str] | None:
    """All files at the path. Patterns that only Spark understands leave none out. None where this cannot be known."""
    path = path_here(options)
    if path is None:
        return None
    recursive = is_recursive(options)
    paths: list[str] = []
    for root in _roots(path):
        paths += [root] if os.path.isfile(root) else _files_below(root, recursive=recursive)
    return list(_filtered(paths, options.get("pathglobfilter")))


def is_certain(options: Mapping[str, str]) -> bool:
    """Whether Spark reads all the listed files, and no others."""
    path = path_here(options)
    if path is None or any(option in options for option in ("modifiedbefore", "modifiedafter", "basepath")):
        return False
    roots = _roots(path)
    known = _SIMPLE.fullmatch(options.get("pathglobfilter", "")) is not None
    return known and bool(roots) and (is_recursive(options) or not any(map(_has_other_folders, roots)))


def _roots(path: str) -> list[str]:
    return [path] if os.path.exists(path) else sorted(glob.glob(path))


def _filtered(paths: Iterable[str], pattern: str | None) -> Iterable[str]:
    if pattern is None or not _SIMPLE.fullmatch(pattern):
        return paths
    return (path for path in paths if fnmatchcase(os.path.basename(path), pattern))


def _files_below(folder: str, *, recursive: bool) -> list[str]:
    """The files of a folder and of its partitions, or of all folders in it."""
    paths: list[str] = []
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if is_data(f) and (recursive or "=" in f))
        paths += [os.path.join(where, file) for file in sorted(files) if is_data(file)]
    return paths


def _has_other_folders(folder: str) -> bool:
    """Whether there are folders that are no partitions, which Spark may see otherwise."""
    for _, folders, _ in os.walk(folder):
        folders[:] = filter(is_data, folders)
        if any("=" not in name for name in folders):
            return True
    return False
