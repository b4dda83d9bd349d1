"""What the groupings of a batch have in common: found once, before threads go on with each of them.

Threads that met in a grouping each would look for the same at the same time, and throw all but one result away.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import call

from mullion.language.query import Expr
from mullion.planner.plan import StateColumn
from mullion.slices.kernels.events import Events
from mullion.slices.kernels.grouping_partials import GroupingPartials, has_columns, may_use_boxes
from mullion.threads import Run


def find_shared(made: Sequence[GroupingPartials], run: Run) -> None:
    """Regions of what predicates compare; then, of groupings that have events, states, bad values and groups."""
    run(call, _regions(made))
    run(call, [*_values(made), *_axes(made), *_groups(made, alone=True)])
    run(call, _groups(made, alone=False))


def _regions(made: Sequence[GroupingPartials]) -> list[Callable[[], object]]:
    """The regions of what is compared. Expressions with many constants take longest, so they are begun first."""
    regions: dict[Hashable, tuple[int, Callable[[], object]]] = {}
    for grouped in made:
        selection = grouped.joined.selection(grouped.grouping.lookups)
        for attribute in grouped.grouping.index.attributes:
            find = partial(selection.regions, attribute.expr)
            regions[selection, attribute.expr] = len(attribute.constants), find
    return [find for _, find in sorted(regions.values(), key=lambda own: -own[0])]


def _axes(made: Sequence[GroupingPartials]) -> list[Callable[[], object]]:
    """The axes of predicates whose sums come from boxes."""
    axes: dict[Hashable, Callable[[], object]] = {}
    for grouped in made:
        index, selection = grouped.grouping.index, grouped.joined.selection(grouped.grouping.lookups)
        for axis in index.axes if may_use_boxes(grouped) else ():
            attributes = tuple(index.attributes[at] for at in axis.attributes)
            axes[selection, attributes] = partial(selection.numbered, attributes)
    return list(axes.values())


def _values(made: Sequence[GroupingPartials]) -> list[Callable[[], object]]:
    """What is made of each expression."""
    checks: set[tuple[Events, Expr]] = set()
    states: dict[tuple[Events, Expr | None], dict[StateColumn, None]] = {}
    for grouped in made:
        checks |= {(grouped.joined, check) for check in grouped.grouping.checks}
        for state in grouped.grouping.states if has_columns(grouped) else ():
            states.setdefault((grouped.joined, state.argument), {})[state] = None
    checked = [(*key, ()) for key in checks - states.keys()]
    lifted = [(*key, tuple(own)) for key, own in states.items()]
    return [partial(_find_values, *key, is_checked=key[:2] in checks) for key in (*lifted, *checked)]


def _find_values(events: Events, expr: Expr | None, states: Sequence[StateColumn], *, is_checked: bool) -> None:
    if is_checked and expr is not None:
        events.bad(expr)
    for state in states:
        events.lifted(state)
    events.columns.forget_steps()


def _groups(made: Sequence[GroupingPartials], *, alone: bool) -> list[Callable[[], object]]:
    """The groups of key sets: those of single keys come first, since others are made of them."""
    keys = {(grouped.joined, grouped.grouping.keys) for grouped in made if not grouped.is_idle}
    if alone:
        keys = {(events, (key,)) for events, several in keys for key in several}
    return [partial(events.groups, own) for events, own in keys if own]
