"""What operators at work show of the streams below them: the source of the planner's statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mullion.algebra.nodes import AntiJoin, Join, Node
from mullion.language.query import Expr
from mullion.language.render import render
from mullion.operators.row_store import RowStore
from mullion.planner.relation_stats import predicate_name, streams_of


@dataclass
class Observations:
    """Shares are None where too little was seen."""

    distinct: dict[tuple[str, str], float] = field(default_factory=dict)
    """Different values of keys in windows."""
    shares: dict[tuple[str, str], float | None] = field(default_factory=dict)
    """The rows for which predicates were true."""
    premature: dict[str, float | None] = field(default_factory=dict)
    """The results that streams ended before their time."""
    meetings: list[tuple[Join | AntiJoin, float | None]] = field(default_factory=list)
    """The combinations that met in a join; the new rows that NOT EXISTS found free."""

    def see_keys(self, node: Join, stores: Sequence[RowStore]) -> None:
        """How many different keys the windows hold that stand on streams."""
        for part, keys, store in zip(node.parts, node.keys, stores, strict=True):
            origin = part.traced(keys[0]) if len(keys) == 1 else None
            if origin is not None and store.rows_held:
                name = origin[0].stream, render(origin[1])
                self.distinct[name] = max(self.distinct.get(name, 0.0), _different(store))

    def see_passing(self, node: Node, predicate: Expr | None, share: float | None) -> None:
        """How many rows of a node a predicate let pass."""
        if predicate is not None:
            self.shares[predicate_name(node, predicate)] = share

    def see_ended(self, node: Node, share: float | None) -> None:
        """How many results a node ended that stands on the right of NOT EXISTS."""
        self.premature |= dict.fromkeys(streams_of(node), share)


def _different(store: RowStore) -> float:
    """Different keys of a store, judged by its largest sub-window, whose keys are in order."""
    codes = max((window.keys.codes for window in store.windows), key=len)
    share = store.rows_held / len(codes)
    seen = 1 + int(np.count_nonzero(codes[1:] != codes[:-1]))
    return seen * share if seen == len(codes) else float(seen)
