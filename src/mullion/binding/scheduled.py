"""Where SLIDE AT MOST makes sense: where an answer says what is there at its instant, whatever was answered before.

Such a query is the one with SLIDE, of which a scheduler may put instants off. So what is told of the instants between,
or looked at by others at instants of their own, cannot be left to it.
"""

from __future__ import annotations

from mullion.binding.windows import Clock
from mullion.errors import NotSupported, Place
from mullion.language.query import Query

EXACT = "leave AT MOST out, which answers at exact instants"


def check_scheduled(query: Query, output: str, clock: Clock) -> None:
    """Refuse to schedule a query that emits what came or went since an answer before, or is kept for others."""
    if not clock.at_most:
        return
    around = query.output
    if query.materialized:
        raise _refused("MATERIALIZED", "other queries read the kept result at their own instants", query.place)
    if around is None and output == "istream":
        raise _refused("INTERNAL windows", "results that do not expire are answered as they come", query.place)
    if around is not None and (around.restore or around.kind not in ("rstream", "wstream")):
        written = f"{around.kind.upper()}{' RESTORE' if around.restore else ''}"
        raise _refused(written, "the changes since the last answer would depend on when that was", around.place)


def check_scheduled_within(within: Clock, around: Clock, place: Place | None) -> None:
    """Refuse to schedule a query whose results are events to another that keeps another time."""
    if within.at_most and within != around:
        raise _refused("a window over the results", "the outer query needs them as events at every instant", place)


def _refused(what: str, why: str, place: Place | None) -> NotSupported:
    return NotSupported(f"SLIDE AT MOST with {what}", place, hint=f"{why}: {EXACT}")
