"""The kinds of nodes that there are, by their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from mullion.algebra.nodes.base import Node

N = TypeVar("N", bound="Node")

KINDS: dict[str, type[Node]] = {}
"""Filled by `kind`. The names are those of EXPLAIN and of checkpoints."""


@dataclass_transform(frozen_default=True, eq_default=False)
def kind(cls: type[N]) -> type[N]:
    """Make a class a frozen dataclass and a kind of node."""
    finished = dataclass(frozen=True, eq=False)(cls)
    name = finished.kind_name()
    assert name not in KINDS, f"there are two kinds {name}"
    KINDS[name] = finished
    return finished
