"""What one query sees of a join that queries with different windows share."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import ClassVar, Self

from mullion.algebra.costs import Estimates, Flow, OperatorCost
from mullion.algebra.nodes.base import Node, OverOne
from mullion.algebra.nodes.filter import Filter
from mullion.algebra.nodes.join import Join
from mullion.algebra.nodes.registry import kind
from mullion.algebra.nodes.scan import Scan
from mullion.algebra.update_pattern import Pattern
from mullion.language.render import duration_text
from mullion.lazy import cached_property

HIDDEN_START = "#s"
"""#s0, #s1, ...: the starts of the rows of a join's result, for views with windows of their own."""


@kind
class JoinView(OverOne):
    """What a join of windows of time would be if its windows were shorter: that of input i [RANGE ranges[i]].

    So queries with different windows share the join of the longest. The inputs are Scans, perhaps with Filters.
    """

    NAME: ClassVar[str] = "Restricted"
    takes_filters: ClassVar[bool] = True

    input: Join
    ranges: tuple[int, ...]

    def _over(self, inputs: tuple[Node, ...]) -> Self:
        (join,) = inputs
        assert isinstance(join, Join)
        return replace(self, input=join)

    @cached_property
    def meaning(self) -> Join:
        """The join with these windows."""
        parts = tuple(_with_range(part, length) for part, length in zip(self.input.parts, self.ranges, strict=True))
        return replace(self.input, parts=parts)

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        return [set(needed) | {f"{HIDDEN_START}{i}" for i in range(len(self.input.parts))}]

    @property
    def text(self) -> str:
        return f"restricted({self.input.text}, {', '.join(map(str, self.ranges))})"

    @property
    def explained(self) -> str:
        return f"WITHIN {', '.join(map(duration_text, self.ranges))}"

    @property
    def pattern(self) -> Pattern:
        return Pattern.WEAK

    def windows(self) -> Iterator[tuple[Node, int | None]]:
        for part, length in zip(self.input.parts, self.ranges, strict=True):
            yield _scan(part), length

    def flow(self, estimates: Estimates) -> Flow:
        return self.meaning.flow(estimates)

    def cost(self, estimates: Estimates) -> OperatorCost:
        return estimates.passing(self.input)


def _with_range(node: Node, length: int) -> Node:
    if isinstance(node, Filter):
        return replace(node, input=_with_range(node.input, length))
    assert isinstance(node, Scan)
    return replace(node, window=replace(node.window, range=length))


def _scan(node: Node) -> Node:
    return _scan(node.input) if isinstance(node, Filter) else node
