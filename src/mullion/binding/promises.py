"""What a PREFERENCE is made of, for joins and selections: what rows promise, and the granularities of summaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from mullion.algebra.nodes.promising import ESTIMATE
from mullion.binding.layouts import typed
from mullion.errors import CheckError, Place
from mullion.expressions.functions import NAMES
from mullion.expressions.functions.sparks import unknown_function
from mullion.expressions.shared import shared
from mullion.language.query import Call, Cast, Column, Expr, rewrite
from mullion.language.types import BIGINT, DOUBLE, Type


class SummaryOn(Protocol):
    """What is asked of a summary here (`catalog.summaries`)."""

    @property
    def stream(self) -> str: ...

    @property
    def column(self) -> str: ...

    @property
    def granularity(self) -> int: ...

    @property
    def rate(self) -> int: ...

    @property
    def depth(self) -> int: ...

    @property
    def memory(self) -> int | None: ...


def promised(placed: Expr, types: Mapping[str, Type], estimated: Callable[[Call], None], place: Place | None) -> Expr:
    """An expression over columns and estimates as a number, once all its estimates have been checked."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Call) and node.function == "estimate":
            if len(node.args) != 1:
                hint = "such as estimate(s.k)"
                raise CheckError("estimate takes one value, a column with a summary", node.place, hint=hint)
            estimated(node)
            return Column(ESTIMATE, place=node.place)
        if isinstance(node, Call) and node.function not in NAMES:
            raise unknown_function(node.function, node.place, ["estimate", *NAMES])
        return None

    types = {**types, ESTIMATE: BIGINT}
    resolved, type_ = typed(rewrite(placed, change), types)
    if not type_.is_numeric:
        raise CheckError(f"a PREFERENCE is a number, and this is {type_}", place, hint="such as estimate(s.k)")
    return resolved if type_ == DOUBLE else shared(typed(Cast(resolved, DOUBLE), types)[0])


def ages_of(summary: SummaryOn) -> tuple[int, ...]:
    """The ages at which events pass into an older granularity."""
    ages, length = list[int](), summary.granularity
    for _ in range(summary.depth - 1):
        ages.append((ages[-1] if ages else 0) + length)
        length *= summary.rate
    return tuple(ages)


def create_hint(stream: str, column: str) -> str:
    return f"write CREATE SUMMARY name ON {stream}({column}) WITH GRANULARITY '10 s' AND COLLAPSE (4, 5)"
