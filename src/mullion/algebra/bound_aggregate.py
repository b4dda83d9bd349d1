"""An aggregate as relations compute it, and the columns that stand above aggregates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from mullion.aggregates import Aggregate
from mullion.language.query import Expr
from mullion.language.render import render
from mullion.language.types import BIGINT, TIMESTAMP, Type

WINDOW_COLUMNS = ("window_start", "window_end")
"""The columns that every answer begins with."""
SHED = "#shed"
"""How many events of its stream a window has lost, where a standing query is answered by slices of time."""


@dataclass(frozen=True)
class BoundAggregate:
    """An aggregate over a resolved argument; FILTER is already part of the argument. count(*) has none."""

    function: str
    argument: Expr | None
    argument_type: Type | None
    result: Type
    aggregate: Aggregate
    """The function itself, with its constants."""
    distinct: bool = False
    values: tuple[tuple[Expr, Type], ...] = ()
    """What is counted, for aggregates over values: the argument, or several of count(DISTINCT a, b)."""
    where: Expr | None = None
    """FILTER of an aggregate for which a NULL is a value like any other: first and last."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Remembered: it walks all expressions."""
        return hash((self.function, self.argument, self.aggregate, self.distinct, self.values, self.where))

    @property
    def text(self) -> str:
        """The call, as far as it says what is kept for it."""
        arguments = [expr for expr, _ in self.values] or [e for e in (self.argument,) if e is not None]
        distinct = "DISTINCT " if self.distinct else ""
        text = f"{self.function}({distinct}{', '.join(map(render, arguments)) or '*'})"
        return text if self.where is None else f"{text} FILTER (WHERE {render(self.where)})"

    @property
    def counts_events(self) -> bool:
        """Whether it is count(*)."""
        return self.function == "count" and self.argument is None and not self.values and self.where is None

    def expressions(self) -> Iterator[Expr]:
        """What is evaluated on events."""
        if self.argument is not None and not self.values:
            yield self.argument
        yield from (expr for expr, _ in self.values)
        if self.where is not None:
            yield self.where


def column_types(
    keys: Sequence[Type], aggregates: Sequence[BoundAggregate], bounds: Type | None = TIMESTAMP
) -> dict[str, Type]:
    """The columns above the aggregates. `bounds` is the type of window_start and window_end, where it has them."""
    types: dict[str, Type] = {} if bounds is None else {**dict.fromkeys(WINDOW_COLUMNS, bounds), SHED: BIGINT}
    types.update({f"#k{i}": type_ for i, type_ in enumerate(keys)})
    types.update({f"#a{i}": aggregate.result for i, aggregate in enumerate(aggregates)})
    return types
