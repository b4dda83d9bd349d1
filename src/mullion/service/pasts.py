"""How queries that entered came by events that were there before them: EXPLAIN says it, and what is gone is told."""

from __future__ import annotations

import logging

from mullion.binding.entering import GONE, Standing
from mullion.runtime.sharing_set import listed

log = logging.getLogger("mullion")


class Pasts(dict[str, str]):
    """By the names of queries."""

    def __init__(self) -> None:
        super().__init__()
        self._without: dict[str, list[str]] = {}

    def note(self, query: Standing, how: str) -> None:
        """A query has entered; without a word if it needs nothing of what was there."""
        self.pop(query.name, None)
        if how:
            self[query.name] = how
        if how.startswith(GONE) and not query.backfill:
            self._without.setdefault(how, []).append(query.name)

    def tell(self) -> None:
        """Warn of queries that cannot answer their first window, once of all that have entered together."""
        without, self._without = self._without, {}
        for how, names in without.items():
            told = "the window that starts with the newest event is not answered by"
            log.warning("%s %s: that is %s", told, listed(names), how)
