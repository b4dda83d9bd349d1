"""How a relation enters streams that may be at work already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import NamedTuple, Protocol

from mullion.algebra.nodes import Node, Scan, nodes, scans
from mullion.algebra.relation import Relation
from mullion.errors import NotSupported, Place
from mullion.language.query import Window


class Standing(Protocol):
    """A query as it entered, in whatever form it is run."""

    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def backfill(self) -> bool: ...

    @property
    def start(self) -> int | None: ...

    @property
    def stop(self) -> int | None: ...

    @property
    def after(self) -> int | None: ...


class Entrance(NamedTuple):
    """What entering decides of a query; each is a field of `Relation`."""

    start: int | None = None
    after: int | None = None
    tag: str = ""
    entered_after: int | None = None


GONE = "not possible any more"
"""So begins what is said of a past that is gone."""


class Past(NamedTuple):
    """Where a query gets the events before it from, or why it cannot any more. `tag` and `entered_after` are as in
    `Relation`, where the events are read for it alone."""

    how: str
    is_gone: bool = False
    tag: str = ""
    entered_after: int | None = None


def no_past(name: str, reason: str, place: Place | None, *, hint: str | None = None) -> NotSupported:
    """The error for a query that cannot have BACKFILL. After a restart there is no place to show."""
    return NotSupported(f"BACKFILL of query '{name}' ({reason})", place, hint=hint)


def gone(reason: str) -> Past:
    return Past(f"{GONE}: {reason}", is_gone=True)


def read_once_more(streams: Mapping[str, bool]) -> str:
    """How a query comes by events of streams, given whether what each keeps is read, or else its source.

    >>> read_once_more({"a": True, "b": False, "c": False})
    'from the events that a keeps, and by reading the files of b and c again'
    """
    kept = [name for name, is_kept in streams.items() if is_kept]
    files = [name for name, is_kept in streams.items() if not is_kept]
    how = [f"from the events that {' and '.join(kept)} {'keeps' if len(kept) == 1 else 'keep'}"] if kept else []
    how += [f"by reading the files of {' and '.join(files)} again"] if files else []
    return ", and ".join(how)


def entrance(
    query: Standing, newest: int, first: int, past: Callable[[int], Past], at_newest: Callable[[], Past]
) -> tuple[Entrance, str]:
    """How a query enters streams that have come to `newest`, and how it comes by its past.

    It answers what starts with the newest event, if `at_newest` finds the events of that time, which came before it;
    otherwise it answers from `first` on, because they are gone. With BACKFILL it answers all that ends after the newest
    event, if `past` finds what came before that.
    """
    if not query.backfill:
        if query.start is not None and query.start >= first:
            return Entrance(query.start, query.after), ""
        events = at_newest()
        if events.is_gone:
            return Entrance(first, query.after), events.how
        return Entrance(newest, query.after, events.tag, events.entered_after), events.how
    after = newest if query.after is None else query.after
    events = past(after)
    if events.is_gone:
        return Entrance(first), events.how
    return Entrance(query.start, after, events.tag, events.entered_after), events.how


def entered(relation: Relation, entrance: Entrance, materialized: Set[Node] = frozenset()) -> Relation:
    """The relation as it entered. `materialized` as in `entering_at`."""
    return replace(entering_at(relation, entrance.start, materialized), **entrance._asdict())


def entering_at(relation: Relation, start: int | None, materialized: Set[Node] = frozenset()) -> Relation:
    """The relation as it enters at an event time, whatever it was before: windows without a length in time, and those
    whose results stay, hold what comes from then on. Of such a window over results, that is what comes of events from
    then on.

    `materialized` are the results of materialised queries, which are read as they are.
    """
    if start is None and relation.start is None:
        return relation

    def since(node: Node, lasts: bool) -> Node:
        if node in materialized:
            return node
        lasts = lasts or _lasts(node)
        if isinstance(node, Scan):
            return replace(node, since=start) if lasts and node.since != start else node
        return node.with_inputs(tuple(since(part, lasts) for part in node.inputs))

    window = relation.output_window
    return replace(relation, start=start, root=since(relation.root, window is not None and _stays(window)))


def _lasts(node: Node) -> bool:
    """Whether it is a window that may hold what is as old as the stream."""
    return node.own_window is not None and _stays(node.own_window)


def _stays(window: Window) -> bool:
    return window.range is None or window.internal


def starts_at(relation: Relation, time: int) -> bool:
    """Whether it is answered for a window that starts exactly then, or counts what comes from then on."""
    if relation.slide is None or relation.longest is None or any(map(_lasts, nodes(relation.plan))):
        return True
    end = time + relation.longest
    return (end - relation.offset) % relation.slide == 0 and (relation.stop is None or end <= relation.stop)


def needed_since(relation: Relation, after: int) -> int | None:
    """The time before which no event matters to what the relation answers after another; None where all may.

    A row is there while all its parts are, and what kept it away may have come and gone before: so all windows together
    say how far back that reaches.
    """
    windows = [scan.window for scan in scans(relation.root)]
    lengths = [0 if window.now else window.range for window in windows if not window.internal]
    if len(lengths) < len(windows) or any(node.looks_back for node in nodes(relation.root)):
        return None
    known = [length for length in lengths if length is not None]
    return after - sum(known) if len(known) == len(lengths) else None
