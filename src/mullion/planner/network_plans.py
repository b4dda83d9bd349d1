"""What a network computes for the plans of its queries. The network asks here, and so does EXPLAIN."""

from __future__ import annotations

from collections.abc import Iterable

from mullion.algebra.nodes import Node
from mullion.options import Expiry
from mullion.planner.promising import complete
from mullion.planner.shared_joins import SharedJoins, share_joins


def network_plans(roots: Iterable[Node], expiry: Expiry) -> SharedJoins:
    """The plans of queries that are computed together, over joins that they share.

    Windows that announce their ends remember when, so joins over them are not made longer or shorter. They are told as
    a whole: to take back what was told of a row, one must know which part that was.
    """
    roots = tuple(roots)
    if expiry is Expiry.NEGATIVE_TUPLES:
        return SharedJoins({root: complete(root) for root in roots}, {}, {})
    return share_joins(roots)
