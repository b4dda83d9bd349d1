"""What all operators have in common: deltas in, a delta out, and state that survives a restart.

    inputs up to `now` --advance--> output up to `now`

State that holds rows is made of immutable tables, its sub-windows. A sub-window that is kept from one step to the next
is the same object, so a save writes each of them once. Small state that changes, such as counters,
is a table made anew when it is asked for.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from mullion.operators.timed_rows import Delta
from mullion.storage.state_files import Parts as Parts

if TYPE_CHECKING:
    from mullion.operators.closed_keys import ClosedKeys
    from mullion.operators.observations import Observations


class TooManyRows(Exception):
    """An operator would give more rows in one step than it may. Its state is of no use any more."""

    def __init__(self, rows: int) -> None:
        super().__init__(f"{rows:,} rows")
        self.rows = rows


class Operator(ABC):
    """A node of a plan at work."""

    schema: pa.Schema
    """The columns of its rows."""
    width: int
    """How many numbers tell one of its rows from another: the second dimension of ids."""

    @abstractmethod
    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        """What becomes known of the output when this became known of the inputs. `now` never goes back."""

    picks_columns: ClassVar[bool] = False
    """Whether it picks what it reads among the columns of its inputs. Others get those that they asked for alone."""
    most_rows: int = sys.maxsize
    """How many rows it may give in one step; only joins can give many more than they take."""
    bad: int = 0
    """How many bad values its expressions met, which became NULL: overflows, divisions by zero, failed casts."""

    closed: Mapping[str, ClosedKeys] = {}
    """The keys of streams that were over when the step began: the network sets it."""

    def purge(self, ended: Mapping[str, pa.Table]) -> None:  # noqa: B027
        """Keys of streams have become over: let go of what only rows of these keys could have met or changed."""

    def end_step(self, now: int) -> None:  # noqa: B027
        """All operators have gone on to `now`: let go of what those above needed for that."""

    def show(self, observed: Observations) -> None:  # noqa: B027
        """What it has seen of the streams below it."""

    oldest_read: int | None = None
    """Of a window in which events wait to be looked up in tables, the oldest batch that any of them was read with."""

    @property
    def rows_held(self) -> int:
        """How many rows its state holds, duplicates and all; operators without state hold none."""
        return 0

    def structures(self) -> dict[str, str]:
        """What its state holds, and in which structure, in words for people."""
        return {}

    def parts(self) -> Parts:
        """The state, for a restart."""
        return {}

    def restore(self, parts: Parts) -> None:
        """Go on with a state that `parts` gave. Called once, before the first `advance`."""
        assert not any(parts.values()), f"{type(self).__name__} has no state to restore"
