"""The kinds of nodes that there are, by their names: those of the algebra, and those that operators alone stand on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from mullion.algebra.nodes.base import Node

N = TypeVar("N", bound="Node")

KINDS: dict[str, type[Node]] = {}
"""Filled by `kind`. The names are those of EXPLAIN and of checkpoints."""
PHYSICAL: dict[str, type[Node]] = {}
"""Filled by `physical`. No query has such a node and none stands in a plan, but operators stand on it."""


@dataclass_transform(frozen_default=True, eq_default=False)
def kind(cls: type[N]) -> type[N]:
    """Make a class a frozen dataclass and a kind of node."""
    return _entered(cls, KINDS)


@dataclass_transform(frozen_default=True, eq_default=False)
def physical(cls: type[N]) -> type[N]:
    """Make a class a frozen dataclass and a physical node."""
    return _entered(cls, PHYSICAL)


def _entered(cls: type[N], kinds: dict[str, type[Node]]) -> type[N]:
    finished = dataclass(frozen=True, eq=False)(cls)
    name = finished.kind_name()
    assert name not in KINDS | PHYSICAL, f"there are two kinds {name}"
    kinds[name] = finished
    return finished
