"""Windows of queries that group their events, checked against their stream."""

from __future__ import annotations

from dataclasses import replace

from mullion.algebra.streams import Stream
from mullion.errors import CheckError, Place, closest
from mullion.language.query import Window


def checked_window(window: Window | None, stream: Stream, place: Place | None) -> Window:
    """The window, with the column that it goes over as the stream spells it, or None for the event time.

    INTERNAL is for results that would expire; answers of aggregates don't.
    """
    if window is None:
        hint = "write one after its name, such as [RANGE '10 min' SLIDE '1 min']"
        raise CheckError(f"stream '{stream.name}' needs a window", place, hint=hint)
    window = replace(window, internal=False)
    if window.attribute is None:
        return _in_time(window)
    attribute = stream.spelling.get(window.attribute.lower())
    if attribute is None:
        near = closest(window.attribute, stream.types)
        raise CheckError(f"unknown column '{window.attribute}' in {stream.name}", window.place, hint=near)
    if attribute == stream.time_column:
        return _in_time(replace(window, attribute=None))
    type_ = stream.types[attribute]
    if window.rows is not None:
        raise CheckError("a window of ROWS has no WATTR: rows are ordered by event time", window.place)
    if not type_.is_integer and type_.kind not in ("timestamp", "timestamp_ntz", "date"):
        hint = "take a column of whole numbers, dates or timestamps"
        raise CheckError(f"a window cannot go over '{attribute}', which is {type_}", window.place, hint=hint)
    if not type_.is_integer:
        return _in_time(replace(window, attribute=attribute))
    if not window.unitless and (window.range, window.slide, window.since) != (None, None, None):
        hint = f"write numbers alone, as in [RANGE 10 SLIDE 5 WATTR {attribute}]"
        raise CheckError(f"'{attribute}' is {type_}: a window over it has no durations", window.place, hint=hint)
    return replace(window, attribute=attribute)


def _in_time(window: Window) -> Window:
    if window.unitless:
        raise CheckError("a duration needs a unit, such as 10 s", window.place)
    return window


__all__ = ["checked_window"]
