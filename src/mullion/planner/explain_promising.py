"""EXPLAIN of promising joins: what they do and where, and how far they came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mullion.algebra.costs import Estimates
from mullion.algebra.nodes import Node, Promising, nodes
from mullion.language.render import budget_text
from mullion.memory import size_text
from mullion.plural import plural

FIRST = {"desc": "keys with the most pairs come first", "asc": "rare keys come first", "weighted": "a fair sample"}

LEAVING = {
    "desc": "beyond it the least promising rows of the oldest granularity go: those of the rarest keys, by estimates",
    "asc": "beyond it the least promising rows of the oldest granularity go: those of the most frequent keys",
    "weighted": "beyond it rows go by a hash, of all ages alike",
}


def promising_reasons(root: Node, estimates: Estimates, told: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Why the joins of a plan tell what they do; `told` is what became of their pairs so far."""
    for node in nodes(root):
        if isinstance(node, Promising):
            rate = estimates.flow(node.input).rate
            first = FIRST[node.order] if node.asks_estimates else "the order is that of the expression"
            text = f"about {rate:,.0f} pairs a second, {budget_text(node.budget)} a step: the exact join while that "
            text += f"reaches; where it does not, {first}. Counts are exact, from rows sorted by key; on the driver, "
            yield {"rule": "promising_join", "text": text + "since an order is one of all pairs"}
            if node.memory is not None:
                yield {
                    "rule": "memory",
                    "text": f"{size_text(node.memory)} for rows and what waits: {LEAVING[node.order]}",
                }
    if told is not None and told["offered"]:
        yield {"rule": "told_so_far", "text": told_text(told)}


def told_text(told: Mapping[str, Any]) -> str:
    """
    >>> told = {"offered": 131000, "told": 84210, "waiting": 46790, "expired": 0, "shed": 0, "rows_shed": 0}
    >>> told_text({**told, "freshness": 2.5})
    '84,210 of 131,000 pairs (64 %); 46,790 wait, 0 expired unseen, 0 shed; the rows of a pair are 2.5 s apart'
    >>> told_text({**told, "shed": 46790, "waiting": 0, "rows_shed": 900, "bytes": 9 << 20, "freshness": None})
    '84,210 of about 131,000 pairs (64 %); 0 wait, 0 expired unseen, 46,790 shed; 900 rows shed, 9 MB are kept'
    """
    share = 100 * told["told"] / told["offered"]
    about = "about " if told["rows_shed"] else ""
    text = f"{told['told']:,} of {about}{told['offered']:,} pairs ({share:.0f} %); {told['waiting']:,} wait, "
    text += f"{told['expired']:,} expired unseen, {told['shed']:,} shed"
    if told["rows_shed"]:
        text += f"; {plural(told['rows_shed'], 'row')} shed, {size_text(told['bytes'])} are kept"
    fresh = told["freshness"]
    return text if fresh is None else f"{text}; the rows of a pair are {fresh:g} s apart"
