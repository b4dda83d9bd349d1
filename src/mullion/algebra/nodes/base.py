"""What all nodes have in common, and the shapes that most of them have: over one input, over two, over several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from mullion.language.types import Type

Columns = tuple[tuple[str, Type], ...]


@dataclass(frozen=True, eq=False)
class Node(ABC):
    """A relation that changes with time, and all that is known of its kind.

    Nodes are values: equal ones are one. Hashes are remembered, since they walk all that is below. They are not
    pickled, since they differ between processes.
    """

    NAME: ClassVar[str] = ""
    """The name of the kind in EXPLAIN and in checkpoints, where it is not that of the class."""

    @classmethod
    def kind_name(cls) -> str:
        return cls.NAME or cls.__name__

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Node) or type(self) is not type(other) or self._hash != other._hash:
            return False
        return all(getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__)

    @cached_property
    def _hash(self) -> int:
        return hash((type(self).__name__, *(getattr(self, name) for name in self.__dataclass_fields__)))

    @cached_property
    def types(self) -> dict[str, Type]:
        return dict(self.columns)

    @property
    @abstractmethod
    def columns(self) -> Columns: ...

    @property
    @abstractmethod
    def inputs(self) -> tuple[Node, ...]: ...

    def with_inputs(self, inputs: tuple[Node, ...]) -> Self:
        """The node over other inputs; itself where these are the same objects as before."""
        if all(new is old for new, old in zip(inputs, self.inputs, strict=True)):
            return self
        return self._over(inputs)

    @abstractmethod
    def _over(self, inputs: tuple[Node, ...]) -> Self: ...


@dataclass(frozen=True, eq=False)
class OverOne(Node):
    """A relation over one other, whose columns it has unless it says otherwise."""

    input: Node

    @property
    def columns(self) -> Columns:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def _over(self, inputs: tuple[Node, ...]) -> Self:
        (below,) = inputs
        return replace(self, input=below)


@dataclass(frozen=True, eq=False)
class OverTwo(Node):
    """A relation over two others, with the columns of the left."""

    left: Node
    right: Node

    @property
    def columns(self) -> Columns:
        return self.left.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def _over(self, inputs: tuple[Node, ...]) -> Self:
        left, right = inputs
        return replace(self, left=left, right=right)


@dataclass(frozen=True, eq=False)
class OverMany(Node):
    """A relation over any number of others."""

    parts: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    def _over(self, inputs: tuple[Node, ...]) -> Self:
        return replace(self, parts=inputs)


def nodes(root: Node) -> Iterator[Node]:
    """The node and everything below it, parents first."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += node.inputs[::-1]


__all__ = ["Columns", "Node", "OverMany", "OverOne", "OverTwo", "nodes"]
