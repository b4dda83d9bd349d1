"""How many of its instants a relation with SLIDE AT MOST was answered at, and how many were put off."""

from __future__ import annotations

from mullion.algebra.relation import Relation
from mullion.instants import FOREVER
from mullion.operators.ranked_instants import Periodic


def answered_and_put_off(
    relation: Relation, since: int, until: int, stretch: int, *, oldest: int, newest: int
) -> dict[str, int]:
    """Of the instants after `since` up to `until`, going by those at which its windows may hold an event.

    >>> from mullion.algebra.nodes import Scan
    >>> from mullion.language.query import Window
    >>> relation = Relation("q", "", Scan("s", Window(range=10), ()), slide=5, longest=10)
    >>> answered_and_put_off(relation, 0, 40, 2, oldest=7, newest=21)
    {'executions': 3, 'put_off': 2}
    """
    assert relation.slide is not None
    length = relation.longest or 0
    entered = None if relation.start is None else relation.start + length - 1
    low = max(since, oldest, *(time for time in (entered, relation.after) if time is not None))
    high = min(until, newest + length, FOREVER if relation.stop is None else relation.stop)
    every = Periodic(relation.slide, relation.offset)
    due, answered = (max(0, own.due(high) - own.due(low)) for own in (every, every.every(stretch)))
    return {"executions": answered, "put_off": due - answered}
