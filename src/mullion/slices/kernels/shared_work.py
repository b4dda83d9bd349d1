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
from mullion.slices.kernels.grouping_partials import GroupingPartials, has_columns
from mullion.threads import Run


def find_shared(made: Sequence[GroupingPartials], run: Run) -> None:
    """Regions of what predicates compare; then, of groupings that have events, states, bad values and groups."""
    regions: dict[Hashable, Callable[[], object]] = {}
    for grouped in made:
        selection = grouped.joined.selection(grouped.grouping.lookups)
        for attribute in grouped.grouping.index.attributes:
            regions[selection, attribute.expr] = partial(selection.regions, attribute.expr)
    run(call, list(regions.values()))
    run(call, [*_values(made), *_groups(made, alone=True)])
    run(call, _groups(made, alone=False))


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
