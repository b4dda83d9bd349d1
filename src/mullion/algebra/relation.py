"""A standing query over relations."""

from __future__ import annotations

from dataclasses import dataclass

from mullion.algebra.nodes import Node, ResultWindow, is_aggregates, scans
from mullion.algebra.nodes.value import Value
from mullion.language.query import Expr, Window
from mullion.lazy import cached_property


@dataclass(frozen=True, eq=False)
class Relation(Value):
    """A standing query over relations: its plan, and what it emits of the plan's result.

    | output | emits |
    |---|---|
    | rstream | the whole result, at every instant |
    | istream | the rows that it has and had not at the instant before (by value; CQL) |
    | dstream | the rows that it had at the instant before and has no more |
    | wstream | as rstream, of the window `output_window` over the new results |
    | changes | what continuous queries emit by default: each row as it comes. When the update pattern is strict,
      its end is not known then, so a row with sign -1 follows when it ends |

    Instants: multiples of `slide` shifted by `offset`; None: every time at which the result changes.
    """

    name: str
    text: str
    root: Node
    output: str = "rstream"
    output_window: Window | None = None
    restore: bool = False
    slide: int | None = None
    offset: int = 0
    at_most: bool = False
    """Whether only some of its instants are answered while the run is behind (SLIDE AT MOST)."""
    longest: int | None = None
    """The longest range of its windows: window_start is the instant less this. None: window_start is NULL."""
    names: tuple[str, ...] = ()
    """The columns of the answer after the window's: the first columns of the root, under these names. The root may
    have more, for ORDER BY alone."""
    order_by: tuple[tuple[Expr, bool, bool], ...] = ()
    """Over the root's columns: (expression, descending, nulls first)."""
    limit: int | None = None
    start: int | None = None
    stop: int | None = None
    materialized: bool = False
    backfill: bool = False
    after: int | None = None
    """With BACKFILL: answers windows with window_end > after."""
    prefers: bool = False
    """Whether it was written with a PREFERENCE."""
    tag: str = ""
    """Not empty for a query whose past was read once more: it must not be answered from what others keep."""
    entered_after: int | None = None
    """The last batch before such a query entered."""

    def __hash__(self) -> int:
        """Of what tells most queries apart: the hash of the whole would walk over its plan."""
        return hash((self.name, self.text))

    @cached_property
    def plan(self) -> Node:
        """The plan that is run: the root, for WSTREAM under the window over its new results."""
        return self.root if self.output_window is None else ResultWindow(self.root, self.output_window)

    @property
    def asks_for_order(self) -> bool:
        """Whether it shows which of its rows came first, also among those of one moment. Groups stand by their keys."""
        return (bool(self.order_by) or self.limit is not None) and not is_aggregates(self.root)

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The streams that it reads, by name."""
        return tuple(sorted({scan.stream for scan in scans(self.root)}))
