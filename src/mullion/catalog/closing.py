"""The end of a bounded input.

    with a checkpoint     the input may grow: what the watermark has not passed stays open, and the next run goes on
    closed, or without    the end of the input is the end of the stream: every window that holds an event is answered

Nothing goes on after a close: its windows were answered as if no more events would come. Attempts are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from mullion.errors import CheckpointError, MullionError


def check_close(streams: Iterable[tuple[str, bool]], *, follow: bool) -> None:
    """Whether a run can be closed: its streams, and whether each ends by itself."""
    if follow:
        raise MullionError(
            "close answers all windows at the end of the input, and a run that follows its sources has no end",
            hint="follow without close; at the end of the stream, run once with close and without follow",
        )
    for name, ends in streams:
        if not ends:
            raise MullionError(f"stream '{name}' cannot be closed, since its source never ends", hint="leave close out")


def more_after_the_end(stream: str, *, has_checkpoint: bool) -> CheckpointError:
    """More events came to a stream that was closed."""
    message = f"stream '{stream}' was closed, and there is more to read: its windows are answered without these events"
    return CheckpointError(message, hint=_instead(has_checkpoint))


def following_after_the_end(stream: str, *, has_checkpoint: bool) -> CheckpointError:
    return CheckpointError(
        f"stream '{stream}' was closed: it cannot be followed any more", hint=_instead(has_checkpoint)
    )


def query_after_the_end(query: str, stream: str, *, has_checkpoint: bool) -> CheckpointError:
    message = f"query '{query}' is new to stream '{stream}', which was closed: none of its windows can be answered"
    return CheckpointError(message, hint=_instead(has_checkpoint))


def other_rows(stream: str) -> CheckpointError:
    """A static DataFrame is not what an earlier run has read."""
    return CheckpointError(
        f"the DataFrame of stream '{stream}' does not hold the rows that the checkpoint was made with",
        hint="a static DataFrame is read once, whole: for input that grows use spark.readStream or CREATE STREAM; "
        "or start with a new checkpoint directory",
    )


def _instead(has_checkpoint: bool) -> str:
    if has_checkpoint:
        return "start over the whole input with a new checkpoint and new answers, and without close while more may come"
    return "make a new Engine, and give it a checkpoint to go on as the input grows"


def stays_open(watermarks: Iterable[int | None]) -> str | None:
    """The sentence at the end of a bounded run that was not closed; None when nothing was read."""
    known = [mark for mark in watermarks if mark is not None]
    if not known:
        return None
    return (
        f"windows that end after {instant_text(min(known))} stay open until more comes: "
        "run the same command again then, or with --close to answer them"
    )


def instant_text(microseconds: int) -> str:
    """An instant with its zone.

    >>> instant_text(1101902400_250_000)
    '2004-12-01 12:00:00.250000 UTC'
    """
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds} us"
    return f"{at.isoformat(sep=' ').removesuffix('+00:00')} UTC"
