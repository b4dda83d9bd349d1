"""Arrays as compiled loops read them.

Arrays from Arrow or from a file are read-only, those that numpy made are not. To numba these are different types: a
loop over four arrays would be compiled for up to sixteen combinations of them, each for a second or so. So a loop
gets all arrays that it only reads as one type.
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
