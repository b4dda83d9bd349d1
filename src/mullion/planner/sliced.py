"""An aggregation that is run by slices: what it needs of every event, and what it makes of a window.

Below the aggregates stand expressions over events: the predicate, the group keys and the arguments; queries share those
that are equal. Above them stands the `AnswerTemplate`: the items, HAVING, ORDER BY and LIMIT over keys and aggregates;
answers of all queries of one template are made together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from mullion.algebra.bound_aggregate import WINDOW_COLUMNS, BoundAggregate, column_types
from mullion.algebra.lookups import Lookup
from mullion.expressions.evaluate import is_fallible
from mullion.expressions.pool import Pool
from mullion.expressions.vector import arrow_type
from mullion.instants import EVERYTHING
from mullion.language.query import TIME_AXIS, Axis, Column, Expr, OrderTerm, Period, Window
from mullion.language.types import TIMESTAMP, Type
from mullion.lazy import cached_property
from mullion.planner.comparisons import Comparison, conjuncts_of_tree, decompose
from mullion.planner.predicate_slot import PredicateSlot

IS_BOUNDED, IS_SCHEDULED, HAS_KEYS, NEVER_STOPS, STARTS_ANYWHERE, IS_ENDLESS, IS_OVER_TIME, IS_NEWCOMER = (
    1 << i for i in range(8)
)
"""What is asked of all queries of a set at once, as bits of `SlicedAggregation.flags`."""

MOST_EVENTS = 1 << 62
"""No group has so many."""


@dataclass(frozen=True)
class AnswerTemplate:
    """What is made of a window: columns #k0.. hold the keys, #a0.. the aggregates."""

    keys: tuple[Type, ...]
    aggregates: tuple[BoundAggregate, ...]
    names: tuple[str, ...]
    items: tuple[tuple[Expr, Type], ...]
    having: Expr | None
    order_by: tuple[OrderTerm, ...]
    limit: int | None
    bounds: Type = TIMESTAMP
    """The type of window_start and window_end: BIGINT for a window over whole numbers."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Remembered: plans ask for it for every query, and it walks all expressions."""
        above = self.items, self.having, self.order_by, self.limit
        return hash((self.keys, self.aggregates, self.names, above, self.bounds))

    @cached_property
    def types(self) -> dict[str, Type]:
        return column_types(self.keys, self.aggregates, self.bounds)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of an answer: the window's bounds, then the items."""
        fields = [(name, arrow_type(self.bounds)) for name in WINDOW_COLUMNS]
        fields += [(name, arrow_type(type_)) for name, (_, type_) in zip(self.names, self.items, strict=True)]
        return pa.schema(fields)

    @cached_property
    def fallible(self) -> tuple[Expr, ...]:
        """What can meet a bad value above the aggregates."""
        expressions = [expr for expr, _ in self.items] + ([] if self.having is None else [self.having])
        return tuple(expr for expr in expressions if is_fallible(expr, self.types))

    @cached_property
    def least_events(self) -> int:
        """Groups of fewer events are left out by HAVING, and nothing is counted of them before."""
        if self.having is None or self.fallible:
            return 1
        counts = {f"#a{i}" for i, own in enumerate(self.aggregates) if own.counts_events}
        least = 1
        for part in conjuncts_of_tree(decompose(self.having)):
            match part:
                case Comparison(expr=Column(name=name), op=("ge" | "gt") as op, constants=(int(number),)):
                    least = max(least, number + (op == "gt")) if name in counts else least
        return min(least, MOST_EVENTS)

    @cached_property
    def deciding_order(self) -> tuple[OrderTerm, ...]:
        """ORDER BY without the first keys in their order at its end: ties go by all keys anyway."""
        keys = tuple(OrderTerm(Column(f"#k{i}")) for i in range(len(self.keys)))
        lengths = range(min(len(keys), len(self.order_by)), 0, -1)
        same = next((n for n in lengths if self.order_by[-n:] == keys[:n]), 0)
        return self.order_by[: len(self.order_by) - same]

    @property
    def is_plain(self) -> bool:
        """Neither HAVING nor ORDER BY nor LIMIT."""
        return self.having is None and not self.order_by and self.limit is None


NO_WINDOW = Window()


@dataclass(frozen=True, slots=True)
class SlicedAggregation:
    """A query as the engine runs it. Answers windows with window_start >= start and window_end <= stop.

    Its expressions are over the stream's columns and those that the lookups add, in their order.
    """

    name: str
    text: str
    stream: str
    window: Period
    predicate: Expr | None
    keys: tuple[Expr, ...]
    template: AnswerTemplate
    start: int | None = None
    stop: int | None = None
    backfill: bool = False
    after: int | None = None
    """With BACKFILL: answers windows with window_end > after."""
    prefers: bool = False
    """Whether it was written with a PREFERENCE, which it does without."""
    tag: str = ""
    """Not empty for a query whose past was read once more: it must not be answered from what others keep."""
    entered_after: int | None = None
    """The last batch before such a query entered."""
    lookups: tuple[Lookup, ...] = ()
    axis: Axis = TIME_AXIS
    """What `window` is laid over."""
    frame: Window = NO_WINDOW
    """The window as it was written."""
    at_most: int | None = None
    """With SLIDE AT MOST: how long an answer may be the last one. `window.slide` is then the step: it may be answered
    at the multiples of that (`planner.schedules.steps`)."""

    # What follows from the above. Plans and batches ask for it for every query, so it is found once.

    slot: PredicateSlot = field(init=False, compare=False, repr=False)
    slots: tuple[PredicateSlot, ...] = field(init=False, compare=False, repr=False)
    """Its slot, and the one that it goes on with once its first window is answered."""
    is_newcomer: bool = field(init=False, compare=False, repr=False)
    """Its past was read for its first window alone, which starts with the newest event that came before it. Until that
    is answered, what comes is kept for the query apart, and for all that share its predicate."""
    is_bounded: bool = field(init=False, compare=False, repr=False)
    """It begins or ends at a time."""
    starts_anywhere: bool = field(init=False, compare=False, repr=False)
    """Its first window is the first that holds an event."""
    is_endless: bool = field(init=False, compare=False, repr=False)
    """Its windows have no start, so that they need all there ever was."""
    flags: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        own = PredicateSlot(self.predicate, self.tag)
        is_newcomer = bool(self.tag) and not self.backfill and self.window.range != EVERYTHING
        begins = self.start is not None or self.after is not None
        found: dict[str, Any] = {
            "slot": own,
            "slots": (own, PredicateSlot(self.predicate)) if is_newcomer else (own,),
            "is_newcomer": is_newcomer,
            "is_bounded": begins or self.stop is not None,
            "starts_anywhere": not begins and self.frame.since is None,
            "is_endless": self.window.range == EVERYTHING or self.frame.is_endless,
        }
        found["flags"] = (
            IS_BOUNDED * found["is_bounded"]
            | IS_SCHEDULED * (self.at_most is not None)
            | HAS_KEYS * bool(self.keys)
            | NEVER_STOPS * (self.stop is None)
            | STARTS_ANYWHERE * found["starts_anywhere"]
            | IS_ENDLESS * found["is_endless"]
            | IS_OVER_TIME * (self.axis == TIME_AXIS)
            | IS_NEWCOMER * found["is_newcomer"]
        )
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def asked_window(self) -> Period:
        """The window as it is asked for, whatever the step: one with BACKFILL begins with it."""
        return self.window if self.at_most is None else self.window._replace(slide=self.at_most)

    def event_expressions(self) -> Iterator[Expr]:
        """What is evaluated on the events that the query selects."""
        yield from self.keys
        for aggregate in self.template.aggregates:
            yield from aggregate.expressions()


TEMPLATES: Pool[AnswerTemplate] = Pool()
"""Queries of equal templates hold the same one: a thousand of them cost the memory of one, and compare at once."""
