"""Questions go before the standing queries of a batch (golab 7.4.1: read-only transactions with priorities).

Somebody waits for a question; nobody waits for one batch in particular. Answering its windows, a batch gives way
between two pieces of work while questions are answered, but for no more than a twelfth of the time that it has taken:
it ends, however many ask. A question never waits for a piece to end: where both need the interpreter, it is handed over
ten times as often as usual.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHARE = 1 / 12
"""Of the time that a batch has taken, it may wait so much for questions."""
TURNS = 0.0005
"""Seconds after which a thread hands the interpreter over, if another wants it, while questions are answered."""


class QuestionsFirst:
    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._changed = threading.Condition(threading.Lock())
        self._asked = 0
        self._usual = 0.0

    @contextmanager
    def asking(self) -> Iterator[None]:
        """A question is answered meanwhile."""
        with self._changed:
            self._asked += 1
            if self._asked == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(TURNS, self._usual))
        try:
            yield
        finally:
            with self._changed:
                self._asked -= 1
                if not self._asked:
                    sys.setswitchinterval(self._usual)
                    self._changed.notify_all()

    def batch(self) -> GivesWay:
        """For the work of a batch that begins now."""
        return GivesWay(self, self._clock())

    def wait(self, seconds: float) -> float:
        """Until no question is answered, at most so long; returns how long that was."""
        began = self._clock()
        with self._changed:
            self._changed.wait_for(lambda: not self._asked, seconds)
        return self._clock() - began

    @property
    def is_asked(self) -> bool:
        return self._asked > 0


class GivesWay:
    """A batch at work."""

    def __init__(self, questions: QuestionsFirst, began: float) -> None:
        self._questions, self._began = questions, began
        self.waited = 0.0

    def __call__(self) -> None:
        """Between two pieces of work."""
        questions = self._questions
        if questions.is_asked:
            left = SHARE * (questions._clock() - self._began - self.waited) - self.waited
            if left > 0:
                self.waited += questions.wait(left)
