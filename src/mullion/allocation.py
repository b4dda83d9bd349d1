"""Memory that a batch frees is used by the next one, and not given back to the system in between.

A batch allocates and frees hundreds of columns of many megabytes. By default each goes back to the system when it is
freed, and its pages are taken from there and cleared again one batch later: on virtual machines this was half of the
time of a run. What malloc holds is bounded by what batches take at most, which `memory` bounds.

Numpy asks for huge pages for all that is large. Where memory has been in use for hours there are few, and the system
moves other pages out of the way first: a page that was taken then cost ten times as much.

The collector of garbage goes through all objects of the process from time to time, and all threads stand still
meanwhile: a tenth of a second where Spark and compilers are loaded. What is there when a run begins is left alone.
"""

from __future__ import annotations

import ctypes
import gc
import os

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


def keep_freed_memory() -> bool:
    """Let malloc keep what is freed, and Arrow use it; returns whether that was done.

    Where the user has chosen an allocator or its settings by the environment, and without glibc, nothing changes.
    """
    if any(name.startswith("MALLOC_") or name in ("LD_PRELOAD", "GLIBC_TUNABLES") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or not all(mallopt(name, value) for name, value in SETTINGS.items()):
        return False
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    if "NUMPY_MADVISE_HUGEPAGE" not in os.environ:
        _take_small_pages()
    return True


def _take_small_pages() -> None:
    """Numpy knows this as a variable of the environment, which it has read by now, and as a function of its own."""
    core = getattr(np, "_core", None) or getattr(np, "core", None)
    advise = getattr(getattr(core, "multiarray", None), "_set_madvise_hugepage", None)
    if advise is not None:
        advise(False)


class LeftAlone:
    """What the collector of garbage leaves alone, from the beginning of a run to its end. Where somebody has told it
    to leave something alone already, that stays."""

    def __init__(self) -> None:
        self._is_ours = False

    def begin(self) -> None:
        if not gc.get_freeze_count():
            gc.freeze()
            self._is_ours = True

    def end(self) -> None:
        if self._is_ours:
            gc.unfreeze()
            self._is_ours = False
