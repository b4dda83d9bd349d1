"""What a partial join or selection cannot be combined with: from a part it would make wrong rows, not fewer."""

from __future__ import annotations

from mullion.algebra.nodes import AntiJoin, Difference, Distinct, Join, Node, Scan, TableLookup, nodes
from mullion.algebra.update_pattern import Pattern
from mullion.errors import CheckError, NotSupported, Place
from mullion.language.query import Query

PREFERENCE = "a PREFERENCE"


def refuse_around(query: Query, place: Place | None, beside: str = PREFERENCE) -> None:
    """What stands around a join of which a part is told."""
    output = query.output
    for there, what in [
        (query.distinct, "DISTINCT"),
        (bool(query.excepted), "EXCEPT ALL"),
        (query.limit is not None, "LIMIT"),
        (query.materialized, "MATERIALIZED"),
        (output is not None and output.kind != "rstream", "" if output is None else output.kind.upper()),
        (output is not None and output.restore, "RESTORE"),
    ]:
        if there:
            hint = "a part of the rows would make rows that the whole answer does not have: leave one of the two out"
            raise CheckError(f"{what} cannot be combined with {beside}", place, hint=hint)
    if query.union:
        raise NotSupported(f"UNION ALL with {beside}", place, hint="write a query for each part")


def refuse_below(node: Node, place: Place | None, beside: str = PREFERENCE) -> None:
    """What stands below it."""
    reasons = {AntiJoin: "NOT EXISTS", Difference: "EXCEPT ALL", Distinct: "DISTINCT or EXISTS"}
    hint = "it depends on which rows are absent, which a part of the rows does not show: leave one of the two out"
    for below in nodes(node):
        if type(below) in reasons:
            raise CheckError(f"{reasons[type(below)]} cannot be combined with {beside}", place, hint=hint)
        if isinstance(below, Scan) and (below.window.rows is not None or below.window.internal):
            what = "ROWS" if below.window.rows is not None else "INTERNAL"
            how = "use [RANGE ...]: results that wait need the time at which their rows leave"
            raise CheckError(f"a window with {what} cannot be combined with {beside}", place, hint=how)
        if isinstance(below, TableLookup) and below.retroactive:
            how = "leave RETROACTIVE out: answers would have to be taken back"
            raise CheckError(f"a RETROACTIVE table cannot be combined with {beside}", place, hint=how)
    if node.pattern is Pattern.STRICT:
        where, how = "in FROM", "use the stream itself: answers would have to be taken back"
        if isinstance(node, Join):
            where, how = "below the join", "join the streams themselves"
        raise CheckError(f"an aggregate {where} cannot be combined with {beside}", place, hint=how)
