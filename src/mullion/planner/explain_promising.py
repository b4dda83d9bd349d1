"""EXPLAIN of promising joins: what they do and where, and how far they came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mullion.algebra.costs import Estimates
from mullion.algebra.nodes import Node, Promising, nodes
from mullion.language.render import budget_text

FIRST = {"desc": "keys with the most pairs come first", "asc": "rare keys come first", "weighted": "a fair sample"}


def promising_reasons(root: Node, estimates: Estimates, told: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Why the joins of a plan tell what they do; `told` is what became of their pairs so far."""
    for node in nodes(root):
        if isinstance(node, Promising):
            rate = estimates.flow(node.input).rate
            first = FIRST[node.order] if node.asks_estimates else "the order is that of the expression"
            text = f"about {rate:,.0f} pairs a second, {budget_text(node.budget)} a step: the exact join while that "
            text += f"reaches; where it does not, {first}. Counts are exact, from rows sorted by key; on the driver, "
            yield {"rule": "promising_join", "text": text + "since an order is one of all pairs"}
    if told is not None and told["offered"]:
        yield {"rule": "told_so_far", "text": told_text(told)}


def told_text(told: Mapping[str, Any]) -> str:
    """
    >>> told_text({"offered": 131000, "told": 84210, "waiting": 46790, "expired": 0, "shed": 0, "freshness": 2.5})
    '84,210 of 131,000 pairs (64 %); 46,790 wait, 0 expired unseen, 0 shed; the rows of a pair are 2.5 s apart'
    """
    share = 100 * told["told"] / told["offered"]
    text = f"{told['told']:,} of {told['offered']:,} pairs ({share:.0f} %); {told['waiting']:,} wait, "
    text += f"{told['expired']:,} expired unseen, {told['shed']:,} shed"
    fresh = told["freshness"]
    return text if fresh is None else f"{text}; the rows of a pair are {fresh:g} s apart"


__all__ = ["promising_reasons", "told_text"]
