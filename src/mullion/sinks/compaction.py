"""Which files of answers become one, and when.

Files are merged from the newest back to the oldest that is not larger than all after it together. Before the merged
file each is then larger than all that follow, so n bytes lie in about log2 n files, and a row is written again about
log2 n times in all (the tiers of log-structured stores). Large files are left as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from mullion.sinks.files import AnswerFile, write_merged
from mullion.sinks.folder import Folder
from mullion.storage.marks import Mark

log = logging.getLogger("mullion")

MANY = 16
"""The files of a folder while a run goes on: from so many on they are merged."""
FEW = 4
"""The files of a folder when a run has ended."""
LARGE = 64 << 20
"""Bytes from which a file is never merged again."""
SMALL = 256 << 10
"""Bytes up to which a file is merged with others at the end of a run, whatever they are. Where few are that small,
nothing is merged then: a reader gains little by it, and it takes as long as writing all of them."""


def first_to_merge(sizes: Sequence[int], small: int = 0) -> int:
    """The oldest of the files, given by their sizes from the oldest to the newest, from which on they become one.

    >>> first_to_merge([100, 30, 8, 1, 1, 1]), first_to_merge([100, 30, 8, 4]), first_to_merge([LARGE, 3, 3])
    (3, 4, 1)
    """
    after = list(sizes)
    for i in range(len(sizes) - 2, -1, -1):
        after[i] += after[i + 1]
    sealed = max((i + 1 for i, size in enumerate(sizes) if size >= LARGE), default=0)
    for i in range(sealed, len(sizes) - 1):
        if sizes[i] <= max(after[i + 1], small):
            return i
    return len(sizes)


def compact(folder: Folder, committed: Mark, stream: str | None = None, *, ended: bool = False) -> bool:
    """Merge what stands behind commits, where there is much; of the records put aside, those of one stream."""
    with folder.lock:
        done = [file for file in folder.files(stream) if file.last <= committed]
        if len(done) <= (FEW if ended else MANY) or folder.left_alone:
            return False
        _remove_stragglers(done)
        commits = [list(files) for _, files in groupby(done, key=lambda file: file.first)]
        try:
            of_files = [[file.path.stat().st_size for file in files] for files in commits]
            if ended and sum(size < SMALL for own in of_files for size in own) <= FEW:
                return False
            sizes = [sum(own) for own in of_files]
            merged = [file for files in commits[first_to_merge(sizes, SMALL if ended else 0) :] for file in files]
            if len(merged) > 1:
                folder.change(lambda place: _merge(merged, place))
                return True
        except FileNotFoundError:
            log.info("files of %s were removed while they were merged; they are left as they are", folder.link)
        except pa.ArrowException as problem:
            log.warning("files of %s are left as they are: %s", folder.link, problem)
            folder.left_alone = True
        return False


def _merge(files: list[AnswerFile], place: Path) -> list[AnswerFile]:
    write_merged(files, place)
    return files


def _remove_stragglers(files: list[AnswerFile]) -> None:
    """Remove what a shard that was given up wrote again after its commit was merged."""
    for merged in [file for file in files if file.first < file.last]:
        for file in [f for f in files if f is not merged and merged.first <= f.first and f.last <= merged.last]:
            file.path.unlink(missing_ok=True)
            files.remove(file)
