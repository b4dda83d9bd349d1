"""With windows of which lengths plans look at joins that they share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mullion.algebra.nodes import Join, JoinView, Node


def _lengths(join: Join) -> tuple[int, ...]:
    return tuple(scan.window.range or 0 for scan, _ in join.time_windows() or ())


def views_in(plan: Node) -> Iterator[JoinView]:
    """How a plan looks at joins that may be shared: with windows of which lengths."""
    if isinstance(plan, JoinView):
        yield plan
        return
    if isinstance(plan, Join):
        yield JoinView(plan, _lengths(plan))
    for below in plan.operator_inputs if plan.is_part else plan.inputs:
        yield from views_in(below)


def views_of(plans: Iterable[Node]) -> dict[Join, list[tuple[int, ...]]]:
    """The lengths of the windows with which joins are looked at, where these are several; the longest first."""
    views: dict[Join, dict[tuple[int, ...], None]] = {}
    for plan in plans:
        for view in views_in(plan):
            views.setdefault(view.input, {})[view.ranges] = None
    return {join: sorted(ranges, key=sum, reverse=True) for join, ranges in views.items() if len(ranges) > 1}
