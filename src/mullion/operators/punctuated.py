"""Which keys of a node are over when those of a stream are.

    Join on (o.id = p.order)        orders PUNCTUATE ON id: once an id is over, no row of orders comes that a payment of
    |         |                     it could meet, so payments of the id need not be kept
    orders    Filter(payments)

New rows of a join may be made of old rows of one input and new ones of another, so only what comes from a window by
filters and projections says that nothing of a key comes any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mullion.algebra.nodes import Node, Scan
from mullion.expressions.arrays import Times
from mullion.expressions.coding.hashes import Keys
from mullion.instants import EVER_BEFORE
from mullion.language.query import Column, Expr
from mullion.operators.join_probe import Combinations, probe
from mullion.operators.row_store import RowStore

T = TypeVar("T")


@dataclass(frozen=True)
class Punctuated:
    """Keys of a node that are the punctuated columns of a stream: `places[i]` is the key that is column i of them."""

    stream: str
    places: tuple[int, ...]
    columns: tuple[str, ...]

    @staticmethod
    def of(node: Node, keys: Sequence[Expr]) -> Punctuated | None:
        """Of keys over the columns of a node, if the stream's punctuated columns are among them."""
        below = node.selected_from
        if not isinstance(below, Scan) or below.punctuation is None:
            return None
        if below.window.rows is not None or below.window.attribute is not None:
            return None
        traced = [node.traced(key) for key in keys]
        over = [None if found is None else found[1] for found in traced]
        columns = below.punctuation.columns
        if not all(Column(name) in over for name in columns):
            return None
        return Punctuated(below.stream, tuple(over.index(Column(name)) for name in columns), columns)

    def chosen(self, keys: Sequence[T]) -> list[T]:
        """Those of some keys that are the punctuated columns, in their order."""
        return [keys[place] for place in self.places]

    def in_order_of(self, keys: Sequence[Expr]) -> list[str] | None:
        """The punctuated columns in the order of the keys; None where there are other keys besides."""
        names = dict(zip(self.places, self.columns, strict=True))
        return [names[place] for place in range(len(keys))] if len(names) == len(keys) else None


def purge(store: RowStore, keys: Keys, until: Times) -> None:
    """Drop the rows of some keys that would leave a store before their keys are used again."""
    order = np.argsort(keys.codes, kind="stable")
    until = until[order]
    sought = Combinations(keys.take(order), False, np.full(len(order), EVER_BEFORE), until, {})
    gone = np.zeros(store.rows_held, np.bool_)
    for pairs in probe(sought, store, before_cuts=False):
        gone[pairs.stored[pairs.end == store.meets()[pairs.stored]]] = True
    store.drop(gone)
