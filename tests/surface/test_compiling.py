"""A loop that is compiled is told of while it is, and once where lines are written."""

from __future__ import annotations

import numpy as np
from numba import njit
from rich.console import Console

from mullion.surface.compiling import DOING, telling_of_compiling
from mullion.surface.progress import Progress


def test_compiling_is_told_once_and_the_line_goes_on_as_before() -> None:
    progress, told, seen = Progress(Console(quiet=True)), list[str](), list[str]()
    progress.doing = "reading"

    def tell(text: str) -> None:
        told.append(text)
        seen.append(progress.doing)

    @njit
    def inner(x: int) -> int:
        return x + 1

    @njit
    def outer(x: int) -> int:
        return int(inner(x) * 2)

    with telling_of_compiling(progress, tell):
        assert outer(1) == 4 and progress.doing != DOING
        assert outer(2) == 6 and outer(np.float64(1)) == 4
    assert (told, seen, progress.doing) == ([DOING], [DOING], "reading")

    @njit
    def other(x: int) -> int:
        return x

    other(1)
    assert told == [DOING]


def test_nobody_is_told_where_only_the_line_is_wanted() -> None:
    progress = Progress(Console(quiet=True))
    progress.show("closing")
    with telling_of_compiling(progress, None):
        assert njit(lambda x: x)(1) == 1
    assert progress.doing == "closing"
