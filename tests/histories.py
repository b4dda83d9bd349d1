"""Histories of windows that slide and of questions that read them, and what they are: the oracle of isolation.

A window is n sub-windows; slide j writes the version j of sub-window j mod n (golab 7.2). `Recorded` hears the readers
of the product; `written` reads the notation of the paper. Whether a history is window-serializable is decided twice:
by what was read (Definitions 7.1 and 7.2), and by its serialization graph (Theorems 7.1 and 7.2).
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple


class Slide(NamedTuple):
    """`w` and `c` of the paper: a version is written, and committed."""

    version: int
    what: str


class Read(NamedTuple):
    reader: Hashable
    version: int


class InVain(NamedTuple):
    """What a question read counts no more, since it has left the window."""

    reader: Hashable
    version: int
    vain: bool = True


class Done(NamedTuple):
    """A question commits."""

    reader: Hashable


Event = Slide | Read | InVain | Done


@dataclass
class History:
    """What happened, in its order; `lengths` says how many of the youngest sub-windows each question reads."""

    events: tuple[Event, ...]
    lengths: dict[Hashable, int]

    @cached_property
    def committed(self) -> list[Hashable]:
        return [event.reader for event in self.events if isinstance(event, Done)]

    @cached_property
    def _read(self) -> dict[Hashable, set[int]]:
        versions: dict[Hashable, set[int]] = {}
        for event in self.events:
            if isinstance(event, Read):
                versions.setdefault(event.reader, set()).add(event.version)
            elif isinstance(event, InVain):
                versions[event.reader].discard(event.version)
        return versions

    def read_by(self, reader: Hashable) -> list[int]:
        """The versions of which a question was answered."""
        return sorted(self._read[reader])

    @cached_property
    def _places(self) -> dict[Event, int]:
        return {event: place for place, event in enumerate(self.events)}

    def at(self, event: Event) -> int:
        return self._places[event]

    def newest_at(self, place: int) -> int:
        """The youngest version that was written by then."""
        return max(e.version for e in self.events[:place] if isinstance(e, Slide) and e.what == "w")

    @cached_property
    def _slides(self) -> set[int]:
        return {e.version for e in self.events if isinstance(e, Slide) and e.what == "w"}

    # By what was read

    def is_true_state(self, reader: Hashable) -> bool:
        """Definition 7.1: the versions follow one another, and so were the window once."""
        versions = self.read_by(reader)
        return versions == list(range(versions[0], versions[0] + self.lengths[reader]))

    def is_latest_state(self, reader: Hashable) -> bool:
        """Definition 7.2: they are the window at the commit."""
        newest = self.newest_at(self.at(Done(reader)))
        return self.is_true_state(reader) and max(self.read_by(reader)) == newest

    # By the serialization graph

    def before(self, reader: Hashable) -> set[int]:
        """The slides whose versions the question read: edges from them to it."""
        return set(self.read_by(reader))

    def after(self, reader: Hashable) -> set[int]:
        """The slides that made something leave that the question had read: edges from it to them. A window of k
        sub-windows loses version v with slide v + k."""
        length = self.lengths[reader]
        return {version + length for version in self.read_by(reader)} & self._slides

    def is_window_serializable(self) -> bool:
        """Theorem 7.1."""
        return all(i < j for reader in self.committed for i in self.before(reader) for j in self.after(reader))

    def is_latest_window_serializable(self) -> bool:
        """Theorem 7.2: what slid while the question ran stands before it."""
        return self.is_window_serializable() and not any(
            self.at(Slide(j, "w")) < self.at(Done(reader)) for reader in self.committed for j in self.after(reader)
        )

    def is_commit_order_preserving(self) -> bool:
        """What stands before another in the graph has committed before it."""
        for reader in self.committed:
            end = self.at(Done(reader))
            if any(self.at(Slide(i, "c")) > end for i in self.before(reader)):
                return False
            if any(self.at(Slide(j, "c")) < end for j in self.after(reader)):
                return False
        return True


def written(text: str, n: int, filled: int) -> History:
    """A history of one question in the notation of the paper, after slides 0 to filled - 1. A read sees what was
    written last.

    >>> written("r0 w2 c2 r1 q", n=2, filled=2).read_by("Q")
    [0, 1]
    """
    events: list[Event] = [Slide(j, what) for j in range(filled) for what in "wc"]
    newest = {j % n: j for j in range(filled)}
    for word in text.split():
        if word == "q":
            events.append(Done("Q"))
        elif word[0] == "r":
            events.append(Read("Q", newest[int(word[1:])]))
        else:
            version = int(word[1:])
            events.append(Slide(version, word[0]))
            if word[0] == "w":
                newest[version % n] = version
    return History(tuple(events), {"Q": n})


@dataclass
class Recorded:
    """A recorder for `Published`, of readers whose sub-windows are numbered by the slides that brought them. Those that
    were there before are noted first."""

    filled: int
    lengths: dict[Hashable, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.events += [Slide(j, what) for j in range(self.filled) for what in "wc"]

    def __call__(self, kind: str, *what: Any) -> None:
        with self._lock:
            match kind, what:
                case "slide", (number,):
                    self.events += [Slide(self.filled + number - 1, "w"), Slide(self.filled + number - 1, "c")]
                case "read", (reader, version):
                    self.events.append(Read(reader, version))
                case "in vain", (reader, version):
                    self.events.append(InVain(reader, version))
                case "commit", (reader, _):
                    self.events.append(Done(reader))

    def history(self) -> History:
        return History(tuple(self.events), self.lengths)
