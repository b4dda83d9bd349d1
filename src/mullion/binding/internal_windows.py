"""Where INTERNAL windows may stand. Their results don't expire, which neither duplicate elimination nor negation can
bear: it would keep duplicates, and rows that are no longer without a match, for ever (golab 3.3.2)."""

from __future__ import annotations

from collections.abc import Iterator

from mullion.algebra.nodes import AntiJoin, Difference, Distinct, Node, ResultWindow, nodes
from mullion.errors import CheckError, Place
from mullion.language.query import Derived, Exists, Query, Window, walk
from mullion.language.sources import leaves

RULED_OUT: dict[type, str] = {
    Distinct: "DISTINCT or EXISTS",
    AntiJoin: "NOT EXISTS",
    Difference: "EXCEPT ALL",
}


def check_internal(query: Query, root: Node) -> None:
    """Refuse INTERNAL where what never expires is wrong."""
    for node in nodes(root):
        where = RULED_OUT.get(type(node))
        if where is not None and any(window.internal for window in _windows(node)):
            message = f"what {where} returns must expire, so its windows cannot be INTERNAL"
            hint = "leave INTERNAL out: duplicates and rows with a match would stay in the result for ever"
            raise CheckError(message, next(_written(query), query.place), hint=hint)


def _written(query: Query) -> Iterator[Place | None]:
    """Where INTERNAL stands in the text."""
    for source in leaves(query.source):
        if source.window is not None and source.window.internal:
            yield source.window.place
        if isinstance(source, Derived):
            yield from _written(source.query)
    for node in () if query.where is None else walk(query.where):
        if isinstance(node, Exists):
            yield from _written(node.query)
    for part in (*query.union, *query.excepted):
        yield from _written(part)


def _windows(node: Node) -> Iterator[Window]:
    """The windows that decide how long rows of the inputs stay: a window over results decides for its own."""
    for below in node.inputs:
        if below.own_window is not None:
            yield below.own_window
        if not isinstance(below, ResultWindow):
            yield from _windows(below)
