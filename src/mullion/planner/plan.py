"""The shared plan of a stream: everything that is computed for its queries, each thing once.

Plan
  windows, grid, way                 where the stream is cut, and how partials come about
  Grouping (one for each key set)
    keys                             what partials are grouped by
    slots                            the different predicates of its queries
    states                           what is kept for every slice, fragment and group
    checks                           expressions whose bad values are counted
    queries                          those that are answered from it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mullion.aggregates import Partial
from mullion.aggregates.base import has_prefixes
from mullion.aggregates.count import Count
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.grid import Grid
from mullion.algebra.lookups import Lookup
from mullion.algebra.streams import Stream
from mullion.expressions.arrays import Times
from mullion.language.query import TIME_AXIS, Axis, Expr, Period
from mullion.language.render import render
from mullion.language.types import BOOLEAN, Type
from mullion.lazy import cached_property
from mullion.options import DEFAULTS, Options, Slicing
from mullion.planner.comparisons import Tree
from mullion.planner.covers import Covers
from mullion.planner.fragments import PredicateIndex
from mullion.planner.predicate_slot import NO_SLOTS, PredicateSlot, Slots, rendered
from mullion.planner.query_set import QuerySet
from mullion.planner.sliced import AnswerTemplate, SlicedAggregation
from mullion.planner.slices import Progressions, is_hopping

T = TypeVar("T")

NO_GRID = Grid(1, 0)


@dataclass(frozen=True)
class StateColumn:
    """A partial over an expression, by a name that stays the same while queries come and go."""

    name: str
    partial: Partial
    argument: Expr | None
    where: Expr | None = None
    """Only events that satisfy it, for a state to which a NULL is a value like any other."""

    def __hash__(self) -> int:
        return hash(self.name)

    @staticmethod
    def of(partial: Partial, argument: Expr | None, where: Expr | None = None) -> StateColumn:
        name = f"{partial.label}({'*' if argument is None else rendered(argument)})"
        if where is not None:
            name += f" where {rendered(where)}"
        return StateColumn(name, partial, argument, where)

    def expressions(self) -> Iterator[Expr]:
        yield from (expr for expr in (self.argument, self.where) if expr is not None)

    @property
    def synopsis(self) -> str:
        """Prefixes need an inverse and small states; a tree of intervals takes anything, and folds what is heavy
        (golab 2.3.4)."""
        if has_prefixes(self.partial):
            return "running"
        return "folded" if self.partial.is_heavy else "interval"


EVENTS = StateColumn("rows", Count(BOOLEAN), None)
"""How many events a partial holds; every grouping keeps it."""


@lru_cache(maxsize=1 << 16)
def states_of(aggregate: BoundAggregate) -> tuple[StateColumn, ...]:
    partials = aggregate.aggregate.partials(aggregate.argument_type)
    return tuple(StateColumn.of(partial, aggregate.argument, aggregate.where) for partial in partials)


FRAGMENTS, ROWS = "fragments", "rows"
"""The two ways on from the predicates that events satisfy: fragments by hash, and dense rows (design decision 4)."""


@dataclass(frozen=True)
class Grouping:
    """The queries over one stream that group by the same keys."""

    keys: tuple[Expr, ...]
    key_types: tuple[Type, ...]
    queries: QuerySet
    types: Mapping[str, Type]
    """The columns that its expressions may read: the stream's, and those that lookups add."""
    lookups: tuple[Lookup, ...] = ()
    slots: Slots = NO_SLOTS
    """Those with a condition are the bits of the signature, in this order."""
    states: tuple[StateColumn, ...] = ()
    checks: tuple[Expr, ...] = ()
    selected_checks: int = 0
    """So many of the checks, the first ones, count on the events that a query selects, the others on all events."""
    counted: int = 0
    """So many of the keys, the last ones, are values that are counted for aggregates of another grouping."""

    @cached_property
    def state_set(self) -> frozenset[StateColumn]:
        return frozenset(self.states)

    @cached_property
    def name(self) -> str:
        """A name by which the sub-windows of one grouping find each other across plans."""
        return grouping_name(self.group_keys, self.lookups, self.values)

    @cached_property
    def group_keys(self) -> tuple[Expr, ...]:
        return self.keys[: len(self.keys) - self.counted]

    @cached_property
    def values(self) -> tuple[Expr, ...]:
        """What is counted."""
        return self.keys[len(self.keys) - self.counted :]

    def counts_of(self, aggregate: BoundAggregate) -> str:
        """The name of the grouping that counts the values of the aggregate."""
        return grouping_name(self.group_keys, self.lookups, [expr for expr, _ in aggregate.values])

    @property
    def bits(self) -> tuple[PredicateSlot, ...]:
        return self.slots.bits

    @property
    def selective(self) -> bool:
        """Every query has a condition, so an event that satisfies none answers no query."""
        return len(self.bits) == len(self.slots)

    @property
    def predicates(self) -> tuple[Expr, ...]:
        return self.slots.predicates

    @cached_property
    def index(self) -> PredicateIndex:
        return _index(self.predicates, tuple(self.types.items()))

    @cached_property
    def covers(self) -> Covers:
        """Which slots are made of others that have windows at the same instants. One with a tag shares nothing."""
        trees: Sequence[Tree | None] = [*self.index.trees, *[None] * (len(self.slots) - len(self.bits))]
        instants: dict[tuple[int, int], set[int]] = {}
        for query, slot in zip(self.queries, self.slot_of.tolist(), strict=True):
            instants.setdefault((query.window.slide, query.window.offset), set()).add(slot)
        together = set().union(*(slots for slots in instants.values() if len(slots) > 1))
        return Covers({i: trees[i] for i in sorted(together) if not self.slots[i].tag})

    @property
    def slot_of(self) -> npt.NDArray[np.intp]:
        """For each query, the number of its slot."""
        return self.queries.slots[0]

    @cached_property
    def progressions(self) -> Progressions:
        """The edges of each slot."""
        queries, slot = self.queries, self.slot_of
        windows, newcomers = queries.windows, np.flatnonzero(queries.are_newcomers)
        if len(newcomers):
            later = [self.slots.numbers[queries[i].slots[-1]] for i in newcomers.tolist()]
            windows, slot = np.concatenate([windows, windows[newcomers]]), np.append(slot, np.array(later, np.intp))
        return Progressions.of(windows, slot)

    @cached_property
    def _windows(self) -> list[dict[Period, None]]:
        """The different windows of each slot."""
        windows: dict[PredicateSlot, dict[Period, None]] = {slot: {} for slot in self.slots}
        for query in self.queries:
            for slot in query.slots:
                windows[slot][query.window] = None
        return list(windows.values())

    @cached_property
    def bounded(self) -> tuple[SlicedAggregation, ...]:
        """Queries that begin or end at a time."""
        return tuple(self.queries[i] for i in np.flatnonzero(self.queries.is_bounded).tolist())

    @cached_property
    def unbounded_windows(self) -> Times:
        """The windows of all other queries with SLIDE."""
        queries = self.queries
        return queries.windows[~(queries.is_bounded | queries.is_scheduled)]

    @cached_property
    def at_most_windows(self) -> Times:
        """The same of those with SLIDE AT MOST, which are answered at instants that are chosen for them."""
        queries = self.queries
        return queries.windows[~queries.is_bounded & queries.is_scheduled]

    @cached_property
    def hopping(self) -> tuple[tuple[Period, ...], ...]:
        """The windows of each slot, if all of them hop over time: its events between them answer nothing and need not
        be kept. None of a slot whose windows leave no event out."""
        range_, slide, _ = self.queries.windows.T
        if not (range_ < slide).any() or not self.queries.are_over_time:
            return ((),) * len(self.slots)
        return tuple(tuple(own) if all(map(is_hopping, own)) else () for own in self._windows)

    @cached_property
    def all_hopping(self) -> tuple[Period, ...]:
        """The windows of all slots, if all of them hop over time."""
        if not all(self.hopping):
            return ()
        return tuple(dict.fromkeys(window for windows in self.hopping for window in windows))

    @property
    def templates(self) -> tuple[npt.NDArray[np.intp], list[AnswerTemplate]]:
        return self.queries.templates

    @property
    def slot_names(self) -> tuple[str, ...]:
        return self.slots.names

    def for_workers(self, method: str) -> Grouping:
        """What a worker needs: queries and predicates stay on the driver, what is made of them comes along."""
        bits = len(self.bits)
        nameless = Slots([*(PredicateSlot(None, str(bit)) for bit in range(bits)), *self.slots[bits:]])
        slim = replace(self, queries=QuerySet(), slots=nameless)
        index = self.index.for_rows() if method == ROWS and not self.keys else self.index
        slim.__dict__.update(index=index, progressions=self.progressions, hopping=self.hopping)
        return slim


@lru_cache(maxsize=4)
def _index(predicates: tuple[Expr, ...], types: tuple[tuple[str, Type], ...]) -> PredicateIndex:
    """Kept: a run plans once to know how much a batch may take, and again with what it then reads."""
    return PredicateIndex(predicates, dict(types))


def grouping_name(keys: Sequence[Expr], lookups: Sequence[Lookup], values: Sequence[Expr] = ()) -> str:
    name = " with ".join([", ".join(render(key) for key in keys) or "()", *(lookup.name for lookup in lookups)])
    return f"{name} counting {', '.join(render(value) for value in values)}" if values else name


@dataclass(frozen=True)
class Reason:
    """What a rule decided, and why. The text is found when somebody reads it: most plans are never explained."""

    rule: str
    told: Callable[[], str] = field(compare=False)

    @staticmethod
    def of(rule: str, text: str) -> Reason:
        return Reason(rule, lambda: text)

    @cached_property
    def text(self) -> str:
        return self.told()


@dataclass(frozen=True)
class Plan:
    stream: Stream
    queries: QuerySet
    options: Options = DEFAULTS
    """What the user has decided; 'auto' leaves it to the cost model."""
    axis: Axis = TIME_AXIS
    """What all its windows are laid over."""
    files: bool = False
    """The source is files that the kernel can read by itself."""
    only_kernel: str = ""
    """Why Spark cannot make the partials, if it cannot."""
    windows: tuple[Period, ...] = ()
    grid: Grid = NO_GRID
    groupings: tuple[Grouping, ...] = ()
    way: str = "native"
    methods: tuple[str, ...] = ()
    """For each grouping, how the kernel goes on from predicates."""
    from_rows: bool = False
    """The driver runs the kernel over rows that it reads for others, whatever the way of larger batches is."""
    on_driver: bool = False
    """The batch has so few events that the driver makes the partials by itself, and no tasks are started for it."""
    reasons: tuple[Reason, ...] = field(default=())
    cluster: str = ""
    """The name of the cluster that its queries are, where there are several."""

    @property
    def slicing(self) -> Slicing:
        return self.options.slicing

    @cached_property
    def answering(self) -> tuple[Grouping, ...]:
        """The groupings that answer queries; the others count values for them."""
        return tuple(g for g in self.groupings if not g.counted)

    def counting(self, grouping: Grouping) -> tuple[Grouping, ...]:
        """The groupings that count values for one that answers."""
        same = (grouping.keys, grouping.lookups)
        return tuple(g for g in self.groupings if g.counted and (g.group_keys, g.lookups) == same)


@dataclass(frozen=True)
class Pass:
    """Plans whose partials are made in one pass over a batch: they share the read, the expressions and the way."""

    plans: tuple[Plan, ...]

    @property
    def way(self) -> str:
        return self.plans[0].way

    @property
    def on_driver(self) -> bool:
        return self.plans[0].on_driver

    @property
    def slicing(self) -> Slicing:
        return self.plans[0].slicing

    @cached_property
    def groupings(self) -> tuple[Grouping, ...]:
        """Those of all plans, one plan after the other."""
        return tuple(grouping for plan in self.plans for grouping in plan.groupings)

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(method for plan in self.plans for method in plan.methods)

    @property
    def windows(self) -> tuple[tuple[Period, ...], ...]:
        """For each grouping, the windows of its plan."""
        return tuple(plan.windows for plan in self.plans for _ in plan.groupings)

    @property
    def grids(self) -> tuple[Grid, ...]:
        """For each grouping, the grid of its plan."""
        return tuple(plan.grid for plan in self.plans for _ in plan.groupings)

    def by_plan(self, items: Sequence[T]) -> list[list[T]]:
        """What there is of each grouping, plan by plan."""
        rest = iter(items)
        return [[next(rest) for _ in plan.groupings] for plan in self.plans]
