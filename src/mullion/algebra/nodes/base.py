"""What all kinds of nodes say of themselves, and base classes for nodes over one, two and several inputs."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from mullion.algebra.costs import Estimates, Flow, OperatorCost
from mullion.algebra.nodes.leaving import Leaving
from mullion.algebra.nodes.value import Value
from mullion.algebra.splitting import KeyExpressions, ShardKeys, by_any
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Column, Expr
from mullion.language.types import Type
from mullion.lazy import cached_property

if TYPE_CHECKING:
    from mullion.algebra.nodes.scan import Scan

Columns = tuple[tuple[str, Type], ...]


class OperatorReason(NamedTuple):
    """Why operators must run a plan. Of several reasons, EXPLAIN shows the one with the lowest number."""

    precedence: int
    text: str


@dataclass(frozen=True, eq=False)
class Node(Value, Leaving):
    """A relation that changes with time, and all that is known of its kind."""

    NAME: ClassVar[str] = ""
    """The name of the kind in EXPLAIN and in checkpoints, where it is not that of the class."""
    takes_filters: ClassVar[bool] = False
    """Whether its operator also does the work of a Filter above it."""
    is_part: ClassVar[bool] = False
    """Whether it may tell a part of the rows of its input. Its operator computes these too, for itself alone."""
    keeps_some: ClassVar[bool] = False
    """Whether its rows are some of those of its origin, each as it is there."""

    @classmethod
    def kind_name(cls) -> str:
        return cls.NAME or cls.__name__

    # Columns and inputs

    @property
    @abstractmethod
    def columns(self) -> Columns: ...

    @cached_property
    def types(self) -> dict[str, Type]:
        return dict(self.columns)

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

    @property
    def operator_inputs(self) -> tuple[Node, ...]:
        """What its operator stands on."""
        return self.inputs

    @property
    def origins(self) -> tuple[Node, ...]:
        """The inputs whose rows are in its rows, without those that only keep rows away."""
        return self.inputs

    @property
    def selected_from(self) -> Node:
        """The node whose rows it selects, or columns of these: below Filters and Projects, or itself."""
        return self

    def needs(self, needed: Collection[str]) -> list[set[str]]:
        """The columns that it reads of each input of its operator in order to deliver some of its own."""
        return [set(below.types) for below in self.operator_inputs]

    def traced(self, expr: Expr) -> tuple[Scan, Expr] | None:
        """The expression over the columns of the one window that it comes from; None if it comes from elsewhere."""
        return None

    # Texts

    @property
    @abstractmethod
    def text(self) -> str:
        """The relation in one line, different for different relations, and the same in every process."""

    @property
    @abstractmethod
    def explained(self) -> str:
        """What the node does, in a line for people."""

    @cached_property
    def name(self) -> str:
        """The kind and a hash of the text: the same for equal nodes in every process. State is saved by it."""
        digest = hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.kind_name().lower()}-{digest[:20]}"

    @property
    def asks_for_order(self) -> bool:
        """Whether it asks which of its input's rows came first, also among those of one moment."""
        return False

    @property
    def looks_back(self) -> bool:
        """Whether its rows depend on some that have left: on which of equal ones came first, or on how many came."""
        return False

    def windows(self) -> Iterator[tuple[Node, int | None]]:
        """The windows that it stands on, and how long rows stay in them; None: as the window itself says."""
        for below in self.inputs:
            yield from below.windows()

    @property
    def why_operators(self) -> OperatorReason | None:
        """Why slices cannot run a plan with this node; None where they can."""
        return None

    # Costs (golab 3.5.3)

    @abstractmethod
    def flow(self, estimates: Estimates) -> Flow:
        """What the edge above the node carries."""

    @abstractmethod
    def cost(self, estimates: Estimates) -> OperatorCost:
        """Of its operator, without the inputs."""

    # What rules may do with it

    def split_by(self, keys: KeyExpressions) -> ShardKeys | None:
        """How events are split so that its rows are split by some keys over its columns."""
        return None

    def split_where_rows_meet(self) -> ShardKeys | None:
        """How events are split by the keys of the topmost nodes in which rows meet others."""
        return by_any(self, [Column(name) for name in self.types])

    def conditions(self) -> Iterator[tuple[Node, Expr]]:
        """The conditions and keys that decide which rows there are, with the nodes whose columns they read."""
        yield from ()

    def filtered_below(self, predicate: Expr) -> Node | None:
        """The same rows as those of a Filter above the node, with the selection below it; None if it must stay."""
        return None


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

    def traced(self, expr: Expr) -> tuple[Scan, Expr] | None:
        return self.input.traced(expr)


@dataclass(frozen=True, eq=False)
class SameLives(OverOne):
    """A relation of which each row comes from one row of its input, and lives as long, whenever it is told."""

    @property
    def is_internal(self) -> bool:
        return self.input.is_internal

    @property
    def releases(self) -> bool:
        return self.input.releases

    def flow(self, estimates: Estimates) -> Flow:
        return estimates.flow(self.input)


@dataclass(frozen=True, eq=False)
class RowByRow(SameLives):
    """Such a relation whose rows come when those of its input do, each for itself."""

    @property
    def pattern(self) -> Pattern:
        return self.input.pattern

    @property
    def kept_as(self) -> Pattern:
        return self.input.kept_as

    @property
    def life(self) -> int | None:
        return self.input.life

    def cost(self, estimates: Estimates) -> OperatorCost:
        return estimates.passing(self.input)

    def split_by(self, keys: KeyExpressions) -> ShardKeys | None:
        return self.input.split_by(keys)

    def split_where_rows_meet(self) -> ShardKeys | None:
        return self.input.split_where_rows_meet()


@dataclass(frozen=True, eq=False)
class OverTwo(Node):
    """The rows of the left, without some that the right keeps away."""

    left: Node
    right: Node

    @property
    def columns(self) -> Columns:
        return self.left.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def origins(self) -> tuple[Node, ...]:
        return (self.left,)

    @property
    def pattern(self) -> Pattern:
        return Pattern.STRICT

    def _over(self, inputs: tuple[Node, ...]) -> Self:
        left, right = inputs
        return replace(self, left=left, right=right)

    def traced(self, expr: Expr) -> tuple[Scan, Expr] | None:
        return self.left.traced(expr)


@dataclass(frozen=True, eq=False)
class OverMany(Node):
    """A relation over any number of others."""

    parts: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    @property
    def is_internal(self) -> bool:
        return all(part.is_internal for part in self.parts)

    @property
    def releases(self) -> bool:
        return any(part.releases for part in self.parts)

    def _over(self, inputs: tuple[Node, ...]) -> Self:
        return replace(self, parts=inputs)


def nodes(root: Node) -> Iterator[Node]:
    """The node and everything below it, parents first."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += node.inputs[::-1]
