"""Requests to a run from another process: checked against what the run has committed, and left in its checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mullion.errors import CheckError, CheckpointError, MullionError, closest
from mullion.service.ended_keys import check_number
from mullion.service.heartbeats import SECOND, refuse_time
from mullion.storage.journal import Journal
from mullion.storage.manifest import Manifest, stream_folder
from mullion.storage.requests import request_advance, request_punctuation

TRIES = 5
"""A run may remove the commit that is being read, when it has written newer ones."""


def request(checkpoint: Path, stream: str, to: int, clock: Callable[[], float] = time.time) -> None:
    """Ask for a heartbeat. Refuses an unknown stream, and a time that is behind or too far ahead."""
    name, directory = _known(checkpoint, stream)
    at = _at_work(name, directory)
    if at is not None:
        furthest = None if at.get("ahead") is None else int(clock() * SECOND) + at["ahead"]
        refuse_time(name, to, at.get("watermark"), furthest)
    request_advance(directory, to)


def request_end(checkpoint: Path, stream: str, key: Sequence[str]) -> None:
    """Say that a key is over. Refuses an unknown stream, and what is no key of it."""
    name, directory = _known(checkpoint, stream)
    at = _at_work(name, directory)
    if at is not None:
        columns = at.get("punctuated")
        if columns is None:
            hint = "add PUNCTUATE ON columns WHEN condition to CREATE STREAM"
            raise MullionError(f"stream '{name}' declares no keys that end", hint=hint)
        check_number(name, columns, key)
    request_punctuation(directory, key)


def _known(checkpoint: Path, stream: str) -> tuple[str, Path]:
    """The name of a stream as it is spelt, and its folder."""
    manifest = Manifest.read(checkpoint)
    if manifest is None:
        raise MullionError(f"there is no checkpoint in {checkpoint}", hint="name the directory of --checkpoint")
    by_lower = {name.lower(): name for name in manifest.streams}
    name = by_lower.get(stream.lower())
    if name is None:
        hint = closest(stream, manifest.streams)
        raise CheckError(f"the checkpoint {checkpoint} knows no stream '{stream}'", hint=hint)
    return name, checkpoint / stream_folder(name)


def _at_work(name: str, directory: Path) -> dict[str, Any] | None:
    """What is known of a stream that has not ended; None before the first commit."""
    newest = _newest(Journal(directory))
    if newest is None:
        return None
    at, is_end = newest
    if is_end:
        raise MullionError(f"stream '{name}' has ended")
    return at


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
