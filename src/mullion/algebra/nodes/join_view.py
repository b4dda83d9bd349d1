"""What one query sees of a join that queries with different windows share."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Self

from mullion.algebra.nodes.base import Columns, Node
from mullion.algebra.nodes.filter import Filter
from mullion.algebra.nodes.join import Join
from mullion.algebra.nodes.registry import kind
from mullion.algebra.nodes.scan import Scan


@kind
class JoinView(Node):
    """What a join of windows of time would be if its windows were shorter: that of input i [RANGE ranges[i]].

    So queries with different windows share the join of the longest. The inputs are Scans, perhaps with Filters.
    """

    NAME: ClassVar[str] = "Restricted"

    input: Join
    ranges: tuple[int, ...]

    @property
    def columns(self) -> Columns:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def _over(self, inputs: tuple[Node, ...]) -> Self:
        (join,) = inputs
        assert isinstance(join, Join)
        return replace(self, input=join)

    @cached_property
    def meaning(self) -> Join:
        """The join with these windows."""
        parts = tuple(_with_range(part, length) for part, length in zip(self.input.parts, self.ranges, strict=True))
        return replace(self.input, parts=parts)


def _with_range(node: Node, length: int) -> Node:
    if isinstance(node, Filter):
        return replace(node, input=_with_range(node.input, length))
    assert isinstance(node, Scan)
    return replace(node, window=replace(node.window, range=length))


__all__ = ["JoinView"]
