"""Requests to a run from another process: checked against what the run has committed, and left in its checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mullion.errors import CheckError, CheckpointError, MullionError, closest
from mullion.service.heartbeats import SECOND, refuse
from mullion.storage.journal import Journal
from mullion.storage.manifest import Manifest, stream_folder
from mullion.storage.requests import request_advance

TRIES = 5
"""A run may remove the commit that is being read, when it has written newer ones."""


def request(checkpoint: Path, stream: str, to: int, clock: Callable[[], float] = time.time) -> None:
    """Ask for a heartbeat. Refuses an unknown stream, and a time that is behind or too far ahead."""
    manifest = Manifest.read(checkpoint)
    if manifest is None:
        raise MullionError(f"there is no checkpoint in {checkpoint}", hint="name the directory of --checkpoint")
    by_lower = {name.lower(): name for name in manifest.streams}
    name = by_lower.get(stream.lower())
    if name is None:
        hint = closest(stream, manifest.streams)
        raise CheckError(f"the checkpoint {checkpoint} knows no stream '{stream}'", hint=hint)
    directory = checkpoint / stream_folder(name)
    newest = _newest(Journal(directory))
    if newest is not None:
        at, is_end = newest
        if is_end:
            raise MullionError(f"stream '{name}' has ended")
        furthest = None if at.get("ahead") is None else int(clock() * SECOND) + at["ahead"]
        refuse(name, to, at.get("watermark"), furthest)
    request_advance(directory, to)


def _newest(journal: Journal) -> tuple[dict[str, Any], bool] | None:
    """What the newest commit knows, and whether it is the end; None before the first."""
    for _ in range(TRIES):
        commits = journal.commits()
        if not commits:
            return None
        mark, name = commits[-1]
        try:
            return journal.read(name).state, mark.end
        except (CheckpointError, OSError) as problem:
            failure = problem
    raise failure
