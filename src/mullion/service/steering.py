"""What a user can say to an engine while it runs."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from mullion.arguments import require
from mullion.catalog.catalog import Catalog
from mullion.language.parse import parse_instant
from mullion.service.operation import Operation

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Steering:
    _operation: Operation
    _lock: threading.RLock
    catalog: Catalog

    def advance(self, stream: str, time: datetime | str) -> None:
        """A heartbeat: no event before `time` comes on the stream any more. Windows up to it are answered now, and an
        earlier event that comes nevertheless is late. Returns after the commit; a running batch ends first.

            engine.advance("trades", "2024-01-01 12:00")

        A time without a zone is UTC. Refused if event time has passed `time`, or if `time` is further past the clock
        than the stream's AHEAD allows.
        """
        require("the name of a stream", stream, str, "text")
        require("time", time, (str, datetime), "a datetime, or text such as '2024-01-01 12:00'")
        with self._lock:
            name = self.catalog.stream(stream, None).name
        self._operation.heartbeats.advance(name, in_microseconds(time))

    def punctuate(self, stream: str, key: Any) -> None:
        """No event of a key comes on the stream any more. State that only such events could have met or changed is
        dropped, and an event of the key that comes nevertheless is set aside. Returns after the commit; a running batch
        ends first.

            engine.punctuate("orders", 7)           # one column after PUNCTUATE ON
            engine.punctuate("orders", ("de", 7))   # two, in their order

        The key ends at the newest event of the stream, for as long as FOR of PUNCTUATE says.
        """
        require("the name of a stream", stream, str, "text")
        with self._lock:
            name = self.catalog.stream(stream, None).name
        self._operation.heartbeats.punctuate(name, key if isinstance(key, tuple | list) else (key,))


def in_microseconds(time: datetime | str) -> int:
    """Since 1970.

    >>> in_microseconds("1970-01-01 00:00:01"), in_microseconds(datetime(1970, 1, 1, 0, 0, 1))
    (1000000, 1000000)
    """
    if isinstance(time, str):
        return parse_instant(time)
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)
