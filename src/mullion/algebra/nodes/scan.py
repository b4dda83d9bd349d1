"""A window over a stream: the leaves of all plans."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Self

from mullion.algebra.column_names import names_in
from mullion.algebra.costs import FIFO, Estimates, Flow, OperatorCost, window_flow
from mullion.algebra.lookups import READ
from mullion.algebra.nodes.base import Columns, Node
from mullion.algebra.nodes.registry import kind
from mullion.algebra.splitting import KeyExpressions, ShardKeys
from mullion.algebra.texts import list_text
from mullion.algebra.update_pattern import Pattern, length_of, life_in, pattern_in
from mullion.language.punctuating import Punctuation
from mullion.language.query import Expr, Window
from mullion.language.render import render_punctuation, render_window
from mullion.language.types import BIGINT, Type
from mullion.options import Expiry


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
    punctuation: Punctuation | None = None
    """Which events of the stream are the last ones of their keys."""

    @property
    def columns(self) -> Columns:
        return self.stream_columns

    @property
    def event_types(self) -> dict[str, Type]:
        """What may be read of an event: also the batch that it came with."""
        return {**self.types, READ: BIGINT}

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def _over(self, inputs: tuple[Node, ...]) -> Self:
        return self

    def reads(self, needed: Collection[str]) -> set[str]:
        """The columns of the stream that it reads in order to deliver some."""
        ending = () if self.punctuation is None else {*self.punctuation.columns, *names_in(self.punctuation.when)}
        return {*needed, *names_in(*self.partition), *ending}

    def traced(self, expr: Expr) -> tuple[Scan, Expr] | None:
        return self, expr

    @property
    def own_window(self) -> Window:
        return self.window

    @property
    def text(self) -> str:
        typed = ", ".join(f"{name} {type_}" for name, type_ in self.stream_columns)
        keys = f" by {list_text(self.partition)}" if self.partition else ""
        since = "" if self.since is None else f" since {self.since}"
        over = "" if self.punctuation is None else f" over {render_punctuation(self.punctuation)}"
        return f"scan({self.stream}({typed}) {render_window(self.window, quoted=False)}{keys}{since}{over})"

    @property
    def explained(self) -> str:
        return f"{self.stream} {render_window(self.window, quoted=False)}"

    @property
    def pattern(self) -> Pattern:
        return Pattern.MONOTONIC if self.window.internal else pattern_in(self.window)

    @property
    def kept_as(self) -> Pattern:
        return pattern_in(self.window)

    @property
    def life(self) -> int | None:
        return life_in(self.window)

    @property
    def is_internal(self) -> bool:
        return self.window.internal

    @property
    def releases(self) -> bool:
        return self.window.internal

    def windows(self) -> Iterator[tuple[Node, int | None]]:
        yield self, length_of(self.window)

    def flow(self, estimates: Estimates) -> Flow:
        return window_flow(self.window, estimates.rate(self.stream))

    def cost(self, estimates: Estimates) -> OperatorCost:
        rate = estimates.flow(self).rate
        return OperatorCost(rate, FIFO * rate if estimates.expiry is Expiry.NEGATIVE_TUPLES else 0.0)

    def split_by(self, keys: KeyExpressions) -> ShardKeys | None:
        can = all(names_in(key) for key in keys) and (self.window.rows is None or set(keys) <= set(self.partition))
        return {self: keys} if can else None

    def split_where_rows_meet(self) -> ShardKeys | None:
        return {self: self.partition} if self.partition else None
