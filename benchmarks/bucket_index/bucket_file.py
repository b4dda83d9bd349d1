"""A file of pieces of one size, read and written by their numbers in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Whole

Buckets = npt.NDArray[np.void]

AT_ONCE = 1_000
"""Buckets of one call to the system, which takes 1,024 at most."""


@dataclass(frozen=True)
class BucketFile:
    """An open file. Buckets that lie side by side are read or written by one call."""

    handle: int
    bucket_bytes: int

    @staticmethod
    @contextmanager
    def open(path: Path, flags: int, bucket_bytes: int) -> Iterator[BucketFile]:
        handle = os.open(path, flags, 0o644)
        try:
            yield BucketFile(handle, bucket_bytes)
        finally:
            os.close(handle)

    def read(self, into: Buckets, places: Whole) -> None:
        """Bucket `places[i]` into line i. The system hears of all first: it reads many at once, and no others."""
        order = np.argsort(places, kind="stable")
        runs = list(_runs(places[order]))
        size = self.bucket_bytes
        self._announce([(int(places[order[first]]) * size, (last - first) * size) for first, last in runs])
        for first, last in runs:
            views = [into[i : i + 1].view(np.uint8).data for i in order[first:last].tolist()]
            self._whole(os.preadv, views, int(places[order[first]]) * size)

    def write(self, buckets: Buckets, places: Whole) -> None:
        """Line i to bucket `places[i]`; places ascend."""
        for first, last in _runs(places):
            views = [buckets[first:last].view(np.uint8).data]
            self._whole(os.pwritev, views, int(places[first]) * self.bucket_bytes)

    def add(self, records: Buckets, offsets: Whole) -> None:
        """Records one after the other from an offset on: those of one offset lie together. The system has to read the
        page in which each begins, and hears of all of them first."""
        cuts = (np.flatnonzero(np.diff(offsets)) + 1).tolist()
        runs = list(pairwise([0, *cuts, len(offsets)]))
        self._announce([(int(offsets[first]), 1) for first, _ in runs])
        for first, last in runs:
            self._whole(os.pwritev, [records[first:last].view(np.uint8).data], int(offsets[first]))

    def _announce(self, extents: list[tuple[int, int]]) -> None:
        if not hasattr(os, "posix_fadvise"):
            return
        os.posix_fadvise(self.handle, 0, 0, os.POSIX_FADV_RANDOM)
        for offset, size in extents:
            os.posix_fadvise(self.handle, offset, size, os.POSIX_FADV_WILLNEED)

    def _whole(self, call: Callable[[int, list[memoryview], int], int], views: list[memoryview], offset: int) -> None:
        """Until all is done: calls may do a part."""
        while views:
            done = call(self.handle, views, offset)
            if not done:
                raise OSError(f"the file of buckets ends at {offset}")
            offset += done
            while views and done >= len(views[0]):
                done -= len(views.pop(0))
            if done:
                views[0] = views[0][done:]


def _runs(places: Whole) -> Iterator[tuple[int, int]]:
    """Ranges of buckets that lie one after the other in the file."""
    cuts = set((np.flatnonzero(np.diff(places) != 1) + 1).tolist()) | set(range(AT_ONCE, len(places), AT_ONCE))
    bounds = [0, *sorted(cuts), len(places)]
    return pairwise(bounds)
