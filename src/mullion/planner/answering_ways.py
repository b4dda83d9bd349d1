"""How the windows of a grouping are answered from its partials. Who answers asks here, and so does EXPLAIN.

| way | where |
|---|---|
| sweep | few queries read the rows of a slot, and states are added, or the least or the most is kept |
| synopsis | all others: ranges of rows are looked up (`planner.synopses` says in which one) |
| kept window | few windows are due: the last one slides, if all of its states can (`slices.kept` counts the cost) |

Decision 15 says what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mullion.aggregates.exact_sums import Residue
from mullion.aggregates.extremes import Largest, Smallest
from mullion.aggregates.integer_states import WholeNumbers
from mullion.aggregates.values import CountDistinct, has_order
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.instants import EVERYTHING
from mullion.planner.plan import Grouping, Plan, StateColumn, states_of
from mullion.planner.sliced import AnswerTemplate
from mullion.planner.slices import distinct
from mullion.plural import plural

MOST_SWEEPS = 4
"""Queries that may go over the rows of a slot one after the other; more look up ranges of them."""

IN_STACKS = (Residue.kind, Smallest.kind, Largest.kind)
"""States without an inverse that are swept, by two stacks."""


def is_swept(grouping: Grouping, template: AnswerTemplate, queries: npt.NDArray[np.intp]) -> bool:
    """Whether the windows of these queries of a template, given by their numbers, are swept over the rows when they are
    due together."""
    few = MOST_SWEEPS * len(distinct(grouping.slot_of[queries]))
    return bool(grouping.keys) and len(distinct(queries)) <= few and can_sweep(template)


def can_sweep(template: AnswerTemplate) -> bool:
    """Whether its states are numbers that are added, or of which the least or the most is kept."""
    own = [aggregate for aggregate in template.aggregates if not aggregate.values]
    return all(_is_swept(state) for aggregate in own for state in states_of(aggregate))


def _is_swept(state: StateColumn) -> bool:
    partial = state.partial
    return isinstance(partial, WholeNumbers) or (partial.is_dense and partial.kind in IN_STACKS)


def can_slide(templates: Iterable[AnswerTemplate]) -> bool:
    """Whether windows can be kept from batch to batch. Sketches that only mean something among those that were loaded
    with them cannot, nor can value counts where the order of texts matters."""
    aggregates = [aggregate for template in templates for aggregate in template.aggregates]
    return all(map(_values_can_slide, aggregates)) and all(
        state.partial.stands_alone or state.partial.is_numbered
        for aggregate in aggregates
        for state in states_of(aggregate)
    )


def _values_can_slide(aggregate: BoundAggregate) -> bool:
    types = [type_ for _, type_ in aggregate.values]
    return not types or isinstance(aggregate.aggregate, CountDistinct) or has_order(types)


def swept_templates(grouping: Grouping) -> dict[int, bool]:
    """The templates that are swept when all their queries are due, by number, and whether they also are whenever only
    some of them are due."""
    codes, templates = grouping.templates
    order = np.argsort(codes, kind="stable")
    swept = {}
    for code, queries in enumerate(np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)):
        if is_swept(grouping, templates[code], queries):
            _, numbers = np.unique(grouping.slot_of[queries], return_counts=True)
            swept[code] = int(numbers.max()) <= MOST_SWEEPS
    return swept


def kept_text(plan: Plan, grouping: Grouping) -> str | None:
    """What is said of windows that are kept; None where none can be."""
    slides = _sliding(plan, grouping)
    others = len(grouping.queries) - sum(slides)
    if not any(slides):
        return None
    but = f", but for {plural(others, 'query', 'queries')} whose windows cannot" if others else ""
    return f"where few windows are due batch after batch, the last one is kept and slides{but}"


def _sliding(plan: Plan, grouping: Grouping) -> Sequence[bool]:
    """Of each query, whether its windows can slide. Those without a start have nothing that leaves."""
    if grouping.counted or plan.axis.kind == "partitions":
        return ()
    codes, templates = grouping.templates
    can = [can_slide([template]) for template in templates]
    pairs = zip(codes.tolist(), grouping.queries, strict=True)
    return [can[code] and query.window.range < EVERYTHING for code, query in pairs]
