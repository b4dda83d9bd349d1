"""Which operator computes which kind of node. An operator enters itself: `@implements(Join)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mullion.algebra.nodes import Node
from mullion.operators.base import Operator
from mullion.operators.construction import Construction

Factory = Callable[[Any, Sequence[Operator], Construction], Operator]
"""Makes the operator of a node over those of its inputs."""
F = TypeVar("F", bound=Factory)

IMPLEMENTATIONS: dict[type[Node], Factory] = {}


def implements(kind: type[Node]) -> Callable[[F], F]:
    """A class of operators, or a function that chooses among some."""

    def enter(factory: F) -> F:
        assert kind not in IMPLEMENTATIONS, f"{kind.__name__} has an operator already"
        IMPLEMENTATIONS[kind] = factory
        return factory

    return enter
