"""The events that a stream hands on to relations, until all of them have passed.

    batch k --> intake/k --named by the stream's commit k--> relations take its events once, in the order of time
                         --all events before what every relation has committed--> removed

A relation knows by its own commit up to which event time it has taken everything, so after a crash it finds in the log
exactly what it lacks.
"""

from __future__ import annotations

from mullion.slices.kernels.events import TIME
from mullion.storage.event_log import EventLog
from mullion.storage.files import CommittedFiles

OVER = "#over"
"""A batch with this column has no events but keys that somebody said are over."""


def new_intake(files: CommittedFiles | None) -> EventLog:
    """Files stay open: relations over several streams may read a batch that its own stream has forgotten."""
    return EventLog(files, "intake", TIME, stays_open=True)
