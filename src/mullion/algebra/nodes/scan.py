"""A window over a stream: the leaves of all plans."""

from __future__ import annotations

from typing import Self

from mullion.algebra.nodes.base import Columns, Node
from mullion.algebra.nodes.registry import kind
from mullion.language.query import Expr, Window


@kind
class Scan(Node):
    """The events of a stream that are in a window. `stream_columns` are all columns of the stream."""

    stream: str
    window: Window
    stream_columns: Columns
    partition: tuple[Expr, ...] = ()
    """The resolved keys of [PARTITION BY k ROWS n]."""
    since: int | None = None
    """Only events from this time on: for windows that would otherwise hold what came before a query did."""

    @property
    def columns(self) -> Columns:
        return self.stream_columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def _over(self, inputs: tuple[Node, ...]) -> Self:
        return self


__all__ = ["Scan"]
