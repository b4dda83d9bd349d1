"""The join of windows."""

from __future__ import annotations

from mullion.algebra.nodes.base import Columns, OverMany
from mullion.algebra.nodes.registry import kind
from mullion.language.query import Expr


@kind
class Join(OverMany):
    """All combinations of rows whose keys are equal. Input i has the keys `keys[i]`, over its own columns; all have as
    many, of the same types. A NULL equals nothing, NaN equals NaN. `residual` is over the columns of the join."""

    keys: tuple[tuple[Expr, ...], ...]
    residual: Expr | None = None

    @property
    def columns(self) -> Columns:
        return tuple((f"{i}.{name}", type_) for i, part in enumerate(self.parts) for name, type_ in part.columns)


__all__ = ["Join"]
