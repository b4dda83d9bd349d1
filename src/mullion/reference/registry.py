"""What each kind of node means: functions that enter themselves by `@meaning_of(Join)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from mullion.algebra.nodes import Node
from mullion.reference.rows import Row

if TYPE_CHECKING:
    from mullion.reference.world import World


@dataclass(frozen=True)
class Meaning:
    """What the rows of a node are, and whether these end at times that depend on what comes later (golab 3.2.1)."""

    rows: Callable[[World, Any], list[Row]]
    is_strict: Callable[[Any], bool]


MEANINGS: dict[type[Node], Meaning] = {}
F = TypeVar("F", bound=Callable[["World", Any], list[Row]])


def is_strict(node: Node) -> bool:
    """Whether rows end at times that depend on what comes later."""
    return MEANINGS[type(node)].is_strict(node)


def as_inputs(node: Node) -> bool:
    """Strict if an input is: for what is made row by row of rows whose ends are known."""
    return any(map(is_strict, node.inputs))


def always(node: Node) -> bool:
    return True


def meaning_of(kind: type[Node], *, strict: Callable[[Any], bool] = always) -> Callable[[F], F]:
    """The meaning of a kind of node is a function from all that happened to the rows of such a node."""

    def enter(rows: F) -> F:
        assert kind not in MEANINGS, f"{kind.__name__} has a meaning already"
        MEANINGS[kind] = Meaning(rows, strict)
        return rows

    return enter
