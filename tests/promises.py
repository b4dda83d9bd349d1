"""PUNCTUATE by brute force: what of a stream counts, one event after the other in the order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from mullion.algebra.streams import Stream
from mullion.language.parse import parse_punctuation
from strategies import Draw, Event


@dataclass(frozen=True)
class Ending:
    """Events with a value of a column end their key, for a time or for ever."""

    keys: tuple[str, ...]
    column: str
    value: Any
    span: int | None

    @property
    def clause(self) -> str:
        span = "" if self.span is None else f" FOR '{self.span} us'"
        return f"ON {', '.join(self.keys)} WHEN {self.column} = {self.value!r}{span}"

    def of(self, stream: Stream) -> Stream:
        return replace(stream, punctuation=parse_punctuation(self.clause)).check()


@dataclass
class Promised:
    """What is known of the keys of a stream."""

    ending: Ending | None
    ends: list[tuple[tuple[Any, ...], int]] = field(default_factory=list)

    def takes(self, event: Event) -> bool:
        """Whether the next event counts."""
        if self.ending is None:
            return True
        time, key = event["ts"], tuple(event[name] for name in self.ending.keys)
        if None in key:
            return True
        since = [time - end for known, end in self.ends if known == key]
        if any(ago >= 0 and (self.ending.span is None or ago < self.ending.span) for ago in since):
            return False
        if event[self.ending.column] == self.ending.value:
            self.ends.append((key, time))
        return True


def kept(ending: Ending | None, events: Sequence[Event]) -> list[Event]:
    """The events of a stream that keep its promises; those without a time make and break none."""
    promised = Promised(ending)
    return [event for event in events if event["ts"] is None or promised.takes(event)]


@st.composite
def endings(draw: Draw[Any], column: str, values: Sequence[Any], keys: Sequence[tuple[str, ...]] = (("k",),)) -> Ending:
    span = draw(st.sampled_from((None, None, 1, 4, 9)))
    return Ending(draw(st.sampled_from(keys)), column, draw(st.sampled_from(values)), span)
