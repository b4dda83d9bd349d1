"""Which state each operator of a relational plan keeps, by the update patterns of its inputs (golab 3.5.2).

| input | upa | nt | direct |
|---|---|---|---|
| monotonic, weakest | FIFO queue | hash by id | list |
| weak | calendar queue | hash by id | list |
| strict | hash by id | hash by id | list |

DISTINCT keeps results and the youngest row of each (delta*) unless its input is strict: then it counts. NOT EXISTS
keeps of its right side until when each key is covered, or counts; its left side waits in a calendar queue or a hash by
key, whichever is cheaper for what is observed (3.6.4).
"""

from __future__ import annotations

from collections.abc import Iterator

from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Difference,
    Distinct,
    Join,
    Node,
    ResultWindow,
    Scan,
    TableLookup,
)
from mullion.algebra.update_pattern import Pattern

FIFO, CALENDAR, HASH, LIST = "FIFO queue", "calendar queue", "hash by id", "list"


def store_of(node: Node, strategy: str) -> str:
    """What keeps the rows of a node."""
    if strategy != "upa":
        return HASH if strategy == "nt" else LIST
    return {Pattern.STRICT: HASH, Pattern.WEAK: CALENDAR}.get(node.kept_as, FIFO)


def state_of(node: Node, strategy: str = "upa") -> dict[str, str]:
    """What an operator keeps, and in which structure; nothing for those that let rows pass."""
    return dict(_state_of(node, strategy))


def _state_of(node: Node, strategy: str) -> Iterator[tuple[str, str]]:
    match node:
        case Scan(window=window):
            if window.rows is not None:
                yield "window", "the last of each partition" if window.partition_by else "the last rows"
            elif strategy == "nt":
                yield "window", FIFO
        case TableLookup(input=below, retroactive=True):
            yield "input", store_of(below, strategy)
        case Join(parts=parts):
            yield from ((f"{i}", store_of(part, strategy)) for i, part in enumerate(parts))
        case Distinct(input=below):
            if below.pattern is Pattern.STRICT:
                yield "values", "counting"
            elif strategy == "upa":
                yield "results", "delta*"
            else:
                yield from (("input", store_of(below, strategy)), ("results", store_of(node, strategy)))
        case AntiJoin(left=left, right=right):
            yield "left", _left_of_negation(left, strategy)
            known = strategy == "upa" and right.pattern is not Pattern.STRICT
            yield "right", "coverage of keys" if known else "counting"
        case Difference(left=left, right=right):
            for name, side in (("left", left), ("right", right)):
                kept = store_of(side, strategy)
                yield name, CALENDAR if kept == FIFO else kept
            yield "values", "counting"
        case Aggregated():
            yield "input", "rows that can still be seen"
        case ResultWindow(window=window):
            if window.rows is not None and (window.slide_rows or 1) > 1:
                yield "window", "rows that wait for the slide"
        case _:
            return


def _left_of_negation(left: Node, strategy: str) -> str:
    if strategy == "upa" and left.pattern is not Pattern.STRICT:
        return f"{CALENDAR} or hash by key"
    return LIST if strategy == "direct" else "hash by key and id"


def hears_negatives(node: Node, strategy: str = "upa") -> bool:
    """Whether negative tuples reach an operator."""
    return any(strategy == "nt" or below.pattern is Pattern.STRICT for below in node.inputs)


__all__ = ["hears_negatives", "state_of", "store_of"]
