"""How EXPLAIN speaks of windows: what they are laid over, and what they are cut into."""

from __future__ import annotations

from mullion.instants import EVERYTHING
from mullion.language.query import Axis, Window
from mullion.language.render import duration_text, render, render_window
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.slices import paired


def window_text(query: SlicedAggregation) -> str:
    """The window as it was written, in its brackets."""
    return render_window(query.frame, quoted=False)


def axis_text(axis: Axis) -> str:
    """What the windows lie over.

    >>> axis_text(Axis()), axis_text(Axis("rows")), axis_text(Axis("column", "n"))
    ('time', 'numbers of events', 'column n')
    """
    match axis.kind:
        case "rows":
            return "numbers of events"
        case "events":
            return "single events" + (f" in the order of {axis.order}" if axis.order else "")
        case "partitions":
            return f"the last events of each {', '.join(map(render, axis.partition))}"
        case "column":
            return f"column {axis.order}"
    return "time"


def has_slices(axis: Axis) -> bool:
    """Whether several events may share a slice; elsewhere there are no panes."""
    return axis.kind not in ("events", "partitions")


def amount_text(amount: int, axis: Axis, frame: Window) -> str:
    """A length on the axis."""
    if axis.kind == "rows":
        return f"{amount:,} event{'' if amount == 1 else 's'}"
    return f"{amount:,}" if frame.unitless else duration_text(amount)


def paired_slices(query: SlicedAggregation) -> list[str]:
    """The lengths of the slices of a period; none where every event is a slice of its own."""
    if not has_slices(query.axis):
        return []
    return [amount_text(length, query.axis, query.frame) for length in paired(query.window)]


def cut_text(query: SlicedAggregation) -> str:
    if query.axis.kind == "events":
        when = "events" if query.frame.slide is None else f"instants {duration_text(query.frame.slide)} apart"
        return f"answered at {when}: no panes (li 1), each event is a slice"
    if query.axis.kind == "partitions":
        return "no range of the order: no panes, the events of each window are gathered"
    text = f"cut into {' + '.join(paired_slices(query))}"
    if query.window.range == EVERYTHING:
        since = "the first event" if query.frame.since is None else "the landmark"
        text += f", all slices since {since}"
    return text
