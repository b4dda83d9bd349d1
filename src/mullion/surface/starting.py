"""The engine is imported by commands that have a process for themselves, in two thirds of the time.

What is imported stays, so the garbage collector need not look at it, neither meanwhile nor later. And pyarrow imports
pandas when the first list becomes a column, to see whether it is one of pandas; no command has any of those. What needs
pandas still finds it: Spark imports it, and pyarrow looks for it again when a table becomes a DataFrame.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mullion.engine import Engine

_alone = False


def begin_alone() -> None:
    """This process is the command's: nobody else has objects of pandas, or a wish for the garbage collector."""
    global _alone
    _alone = True


def imported_engine() -> type[Engine]:
    if not _alone or not gc.isenabled():
        from mullion.engine import Engine

        return Engine
    gc.disable()
    try:
        with _pandas_out_of_sight():
            import pyarrow as pa

            pa.array([])
        from mullion.allocation import leave_alone_for_good
        from mullion.engine import Engine

        leave_alone_for_good()
    finally:
        gc.enable()
    return Engine


class _WithoutPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not now", name=fullname)
        return None


@contextmanager
def _pandas_out_of_sight() -> Iterator[None]:
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
