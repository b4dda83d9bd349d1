"""Arrays as compiled loops read them.

What comes from Arrow or from a file may not be written to, what numpy made may: to numba these are different types, and
a loop over four arrays would be compiled for up to sixteen combinations of them, each for a second or so. Arrays that a
loop only reads are given to it as one type.
"""

from __future__ import annotations

import numpy as np

from mullion.expressions.arrays import Array


def frozen(*arrays: Array) -> tuple[Array, ...]:
    """The same arrays, contiguous and read-only; the given ones stay as they are.

    >>> mine = np.arange(4)
    >>> (even,) = frozen(mine[::2])
    >>> even.flags.c_contiguous, even.flags.writeable, mine.flags.writeable
    (True, False, True)
    """
    views = tuple(np.ascontiguousarray(array).view() for array in arrays)
    for view in views:
        view.flags.writeable = False
    return views


__all__ = ["frozen"]
