"""Memory that a batch frees is kept for the next batch, instead of going back to the system in between.

A batch allocates and frees hundreds of columns of many megabytes. By default each goes back to the system when it is
freed, and its pages are taken from there and cleared again one batch later: on virtual machines this was half of the
time of a run. What lies free in pieces that are too small for what comes, as between texts of different lengths, is
given back when it becomes much.

Numpy asks for huge pages for all that is large. Where memory has been in use for hours there are few, and the system
moves other pages out of the way first: a page that was taken then cost ten times as much.

The collector of garbage goes through all objects of the process from time to time, and all threads stand still
meanwhile: a tenth of a second where Spark and compilers are loaded. What is there when a run begins is left alone.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource

import numpy as np
import pyarrow as pa

TRIM_THRESHOLD, TOP_PAD, MMAP_MAX, ARENA_MAX = -1, -2, -4, -8
"""The parameters of mallopt, as malloc.h of glibc names them."""

SETTINGS = {
    ARENA_MAX: 1,  # arenas of other threads hold no more than 64 MB, and map the rest
    MMAP_MAX: 0,
    TRIM_THRESHOLD: 2**31 - 1,
    TOP_PAD: 64 << 20,
}


class _Mallinfo(ctypes.Structure):
    """What malloc tells of itself: struct mallinfo2 of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
        )
    )  # fmt: skip


_most_free: int | None = None
_resident = 0
"""Bytes that the process had when something was last given back."""
_for_good = False


def keep_freed_memory(most: int | None = None) -> bool:
    """Let malloc keep what is freed, up to so many bytes, and Arrow use it; returns whether that was done.

    Where the user has chosen an allocator or its settings by the environment, and without glibc, nothing changes.
    """
    if any(name.startswith("MALLOC_") or name in ("LD_PRELOAD", "GLIBC_TUNABLES") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or not all(mallopt(name, value) for name, value in SETTINGS.items()):
        return False
    global _most_free, _resident
    _most_free, _resident = most, resident_bytes()
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    if "NUMPY_MADVISE_HUGEPAGE" not in os.environ:
        _take_small_pages()
    return True


def give_back() -> None:
    """Between two portions of a batch: what lies free goes back to the system when the process has grown by more than
    may lie free."""
    global _resident
    if _most_free is not None and resident_bytes() - _resident > _most_free < free_bytes():
        ctypes.CDLL(None).malloc_trim(0)
        _resident = resident_bytes()


def release() -> None:
    """What lies free goes back to the system: for processes that do nothing until they get another task."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def resident_bytes() -> int:
    """What the process has in memory; 0 where that is not told."""
    try:
        with open("/proc/self/statm", encoding="ascii") as told:
            return int(told.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def free_bytes() -> int:
    """What malloc holds that nobody uses; 0 where it does not tell."""
    tell = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if tell is None:
        return 0
    tell.restype = _Mallinfo
    return int(tell().fordblks)


def _take_small_pages() -> None:
    """Numpy knows this as a variable of the environment, which it has read by now, and as a function of its own."""
    core = getattr(np, "_core", None) or getattr(np, "core", None)
    advise = getattr(getattr(core, "multiarray", None), "_set_madvise_hugepage", None)
    if advise is not None:
        advise(False)


def leave_alone_for_good() -> None:
    """What is there now and what is there when runs begin is left alone to the end of the process."""
    global _for_good
    _for_good = True
    gc.freeze()


class LeftAlone:
    """What the collector of garbage leaves alone, from the beginning of a run to its end. Where somebody has told it
    to leave something alone already, that stays."""

    def __init__(self) -> None:
        self._is_ours = False

    def begin(self) -> None:
        if _for_good or not gc.get_freeze_count():
            gc.freeze()
            self._is_ours = not _for_good

    def end(self) -> None:
        if self._is_ours:
            gc.unfreeze()
            self._is_ours = False
