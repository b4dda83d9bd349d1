"""What a question sees of windows that slide while it reads them (golab 7).

| isolation | the answer is the state | how |
|---|---|---|
| snapshot | when it was asked | a list of immutable sub-windows is held; windows slide on unseen |
| latest | when it is answered | sub-windows one by one, those that leave last first; new ones too (Algorithm 8) |
| restarting | when it is answered | in the order of arrival, all again when one that was read has left (Algorithm 7) |
| serial | when it is answered | no window slides meanwhile |

Snapshots are window-serializable, the others latest-window-serializable (golab Definitions 7.1, 7.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from mullion.options import Isolation
from mullion.runtime.published import Published
from mullion.runtime.reading import Reading, by_time_to_update, oldest_first

PATIENCE = 4
"""So often windows may slide under a reader that wants the latest state; then it holds them until it is through."""

S = TypeVar("S")
A = TypeVar("A")
S_contra = TypeVar("S_contra", contravariant=True)
A_co = TypeVar("A_co", covariant=True)


@dataclass(frozen=True)
class StateScan(Generic[A_co]):
    """How a question is answered from one state: by reading sub-windows, the oldest first, each for itself, and then
    from what was read of all of them."""

    sub_windows: Mapping[Any, Callable[[], Any]]
    """By a key that another state has too if the sub-window is still in the window, and unchanged."""
    answer: Callable[[Sequence[Any]], A_co]
    base: Any = None
    """What a scan of a later state goes on from."""


def in_one_read(answer: Callable[[], A]) -> StateScan[A]:
    """All is read at once, and once more when anything has changed."""
    return StateScan({object(): answer}, lambda parts: parts[0])


class Readable(Protocol[S_contra, A_co]):
    """A question."""

    def whole(self, state: S_contra) -> A_co:
        """The answer, read in one go."""

    def scan(self, state: S_contra, before: StateScan[Any] | None) -> StateScan[A_co]:
        """How to read the state, after some were read of the state `before`."""


class Reader(Generic[S, A]):
    """A question that wants the latest state, and reads one sub-window at a step."""

    def __init__(
        self, question: Readable[S, A], published: Published, take: Callable[[], S], reading: Reading[Any]
    ) -> None:
        self._question, self._published, self._take = question, published, take
        self.reading = reading
        self._scan: StateScan[A] | None = None
        self._slides = -1
        self.overtaken = -1
        """How often the window slid since it was first looked at."""

    def step(self) -> bool:
        """Read on, or commit; returns whether it has."""
        published, reading = self._published, self.reading
        if published.slides != self._slides:
            self._look()
        assert self._scan is not None
        unit = reading.next()
        if unit is None:
            return published.stands(self._slides, self)
        part = self._scan.sub_windows[unit]()
        published.record("read", self, unit)
        reading.record(unit, part)
        return False

    def _look(self) -> None:
        self._slides, state = self._published.newest(self._take)
        self._scan = self._question.scan(state, self._scan)
        for unit in self.reading.slid(self._scan.sub_windows):
            self._published.record("in vain", self, unit)
        self.overtaken += 1

    def answer(self) -> A:
        """After the commit."""
        assert self._scan is not None
        return self._scan.answer(self.reading.parts)

    def to_the_end(self) -> A:
        while self.overtaken < PATIENCE:
            if self.step():
                return self.answer()
        with self._published.commits_held_back():
            while not self.step():
                pass
        return self.answer()


def reading_for(isolation: Isolation) -> Reading[Any]:
    """How the latest state is read."""
    if isolation is Isolation.RESTARTING:
        return Reading(oldest_first, restarts=True)
    return Reading(by_time_to_update)


def answered(question: Readable[S, A], published: Published, take: Callable[[], S], isolation: Isolation) -> A:
    """The answer of a question to what has been published; `take` gives what it is about."""
    if isolation is Isolation.SNAPSHOT:
        _, state = published.newest(take)
        return question.whole(state)
    if isolation is Isolation.SERIAL:
        with published.commits_held_back():
            slides, state = published.newest(take)
            answer = question.whole(state)
            published.stands(slides, question)
            return answer
    return Reader(question, published, take, reading_for(isolation)).to_the_end()
