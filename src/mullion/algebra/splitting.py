"""Splitting the events of a plan by keys, so that its result is the union of the results of the parts.

Keys are asked for from above and carried down to the windows. Whoever is not sure says None: the plan then stays in one
piece. Equal keys are in one shard, also NaNs, zeros of either sign, and NULLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mullion.algebra.column_names import names_in
from mullion.language.query import Column, Expr, rewrite
from mullion.language.types import DOUBLE, FLOAT

if TYPE_CHECKING:
    from mullion.algebra.nodes.base import Node
    from mullion.algebra.nodes.scan import Scan

KeyExpressions = tuple[Expr, ...]
ShardKeys = dict["Scan", KeyExpressions]
"""For every window the expressions over its events by which these are split."""


def by_any(node: Node, wanted: Sequence[Expr]) -> ShardKeys | None:
    """By as many of the wanted keys as possible: many spread the rows best."""
    alone = [key for key in dict.fromkeys(wanted) if node.split_by((key,)) is not None]
    choices = [tuple(alone), *((key,) for key in alone)] if alone else []
    return next((split for keys in choices if (split := node.split_by(keys)) is not None), None)


def merged_keys(parts: Iterable[ShardKeys | None]) -> ShardKeys | None:
    """The keys of several inputs, if all can be split and each stream in one way."""
    by_scan: ShardKeys = {}
    by_stream: dict[str, KeyExpressions] = {}
    for part in parts:
        if part is None:
            return None
        for scan, keys in part.items():
            if by_stream.setdefault(scan.stream, keys) != keys:
                return None
            by_scan[scan] = keys
    return by_scan


def by_own_keys(
    keys: KeyExpressions, called: Sequence[Sequence[Expr]], inputs: Sequence[tuple[Node, Sequence[Expr]]]
) -> ShardKeys | None:
    """Split each input by those of its keys that are asked for, by any of the names that the node has for them."""
    places = [next((list(names).index(key) for names in called if key in names), None) for key in keys]
    known = [place for place in places if place is not None]
    if not known or len(known) < len(places):
        return None
    return merged_keys(node.split_by(tuple(own[place] for place in known)) for node, own in inputs)


def are_common(keys: KeyExpressions, node: Node) -> bool:
    """Whether equal rows have equal keys. What is computed of a float may tell zeros apart that are equal."""
    computed = [key for key in keys if not isinstance(key, Column)]
    return not any(node.types[name] in (FLOAT, DOUBLE) for key in computed for name in names_in(key))


def renamed(keys: KeyExpressions, node: Node, part: Node) -> KeyExpressions:
    """Keys over a node's columns, over the columns of another at the same positions."""
    names = {own: other for (own, _), (other, _) in zip(node.columns, part.columns, strict=True)}

    def other(inner: Expr) -> Expr | None:
        return Column(names[inner.name]) if isinstance(inner, Column) else None

    return tuple(rewrite(key, other) for key in keys)
