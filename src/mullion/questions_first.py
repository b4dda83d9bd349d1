"""Questions go before the work of batches (golab 7.4.1: read-only transactions with priorities).

Somebody waits for a question; nobody waits for one batch in particular. Both need Python's interpreter. A question
hands it over whenever it calls what needs none, and gets it back only after a while. So a batch stops between two
pieces of its work until the question is answered: it would get little done meanwhile. It does so for a twelfth of the
time at most: it ends, however many ask. Where a piece takes long, the interpreter is handed over fifty times as often
as usual.

There is one interpreter for all engines of a process, and so one order of all that they do.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHARE = 1 / 12
"""Of the time, batches may wait so much for questions."""
MOST_SAVED = 0.02
"""Seconds of waiting that are saved up while nobody asks."""
LEAST_SAVED = 0.001
"""With less than that it does not pay to stop."""
TURNS = 0.0001
"""Seconds after which a thread hands the interpreter over, if another wants it, while questions are answered."""


class QuestionsFirst:
    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._changed = threading.Condition(threading.Lock())
        self._asked = 0
        self._usual = 0.0
        self._saved, self._counted_at = MOST_SAVED, clock()
        """How long may be waited, as it was at that time."""
        self._own = threading.local()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """This thread answers a question meanwhile."""
        with self._changed:
            self._asked += 1
            if self._asked == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(TURNS, self._usual))
        before, self._own.is_asking = self._is_asking, True
        try:
            yield
        finally:
            self._own.is_asking = before
            with self._changed:
                self._asked -= 1
                if not self._asked:
                    sys.setswitchinterval(self._usual)
                    self._changed.notify_all()

    @property
    def _is_asking(self) -> bool:
        return getattr(self._own, "is_asking", False)

    def give_way(self) -> None:
        """Between two pieces of work. Requires: nothing is held that a question may wait for."""
        if self._asked and not self._is_asking:
            with self._changed:
                self._save()
                if self._saved >= LEAST_SAVED:
                    began = self._clock()
                    self._changed.wait_for(lambda: not self._asked, self._saved)
                    self._counted_at = self._clock()
                    self._saved -= self._counted_at - began

    def _save(self) -> None:
        now = self._clock()
        self._saved = min(MOST_SAVED, self._saved + SHARE * (now - self._counted_at))
        self._counted_at = now


_OF_THIS_PROCESS = QuestionsFirst()
asking, give_way = _OF_THIS_PROCESS.asking, _OF_THIS_PROCESS.give_way
