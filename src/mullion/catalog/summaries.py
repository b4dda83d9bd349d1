"""Summaries that users create, checked against their stream and the kinds that there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mullion.algebra.streams import Stream
from mullion.catalog.synopses import StreamSynopsis, check_whole
from mullion.errors import CheckError, closest
from mullion.language.limits import LONGEST
from mullion.language.script import CreateSummary

KB = 1024
LEAST_ZONES = 8
"""A summary whose memory holds fewer would tell of little but now."""
DRIFT = 0.2
"""Shares of 1,024 events differ by 0.03 from chance alone, and by more than this where other keys are frequent now."""


@dataclass(frozen=True)
class StreamSummary:
    """How often each value of a column came, zone by zone of time."""

    name: str
    stream: str
    column: str
    kind: str
    options: tuple[tuple[str, int], ...]
    """Those of its kind, all of them."""
    granularity: int
    rate: int
    depth: int
    drift: float
    longest: int
    memory: int | None = None


StreamStructure = StreamSynopsis | StreamSummary
"""What every event of a stream is added to."""


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


class SummaryKind(Protocol):
    """A kind of summary, as far as CREATE SUMMARY goes."""

    @property
    def options(self) -> Mapping[str, tuple[int, int, int]]:
        """What each option is without being written, at the least and at the most."""

    def __call__(self, **options: int) -> Sized:
        """A summary of no events."""


def checked_summary(
    create: CreateSummary, stream: Stream, kinds: Mapping[str, SummaryKind], default: str
) -> StreamSummary:
    place = create.place
    check_whole(stream, "a summary", place)
    column = stream.column(create.column, create.column_place or place)
    kind = create.kind or default
    if kind not in kinds:
        hint = closest(kind, kinds) or f"there are {' and '.join(kinds)}"
        raise CheckError(f"unknown kind of summary '{kind}'", place, hint=hint)
    options = _options(create, kind, kinds[kind].options)
    if create.granularity * create.rate ** (create.depth - 1) > LONGEST:
        hint = "use a shorter granularity, a smaller rate or a smaller depth"
        raise CheckError("the oldest granularity is longer than 10,000 years", place, hint=hint)
    longest = create.longest or max(create.granularity // create.rate, 1)
    if longest > create.granularity:
        raise CheckError("a zone of the newest granularity cannot be longer than this", place, hint="lower longest")
    least = LEAST_ZONES * kinds[kind](**dict(options)).nbytes
    if create.memory is not None and create.memory < least:
        hint = f"write MEMORY '{-(-least // KB)} KB' at least, or use smaller options"
        raise CheckError(f"MEMORY holds fewer than {LEAST_ZONES} zones of {kind}", place, hint=hint)
    drift = DRIFT if create.drift is None else create.drift
    return StreamSummary(
        create.name,
        stream.name,
        column,
        kind,
        options,
        create.granularity,
        create.rate,
        create.depth,
        drift,
        longest,
        create.memory,
    )


def _options(
    create: CreateSummary, kind: str, known: Mapping[str, tuple[int, int, int]]
) -> tuple[tuple[str, int], ...]:
    """The options as written, and the others as they are otherwise."""
    written = dict(create.options)
    for name, value in written.items():
        if name not in known:
            every = [*known, "drift", "longest"]
            hint = closest(name, every) or f"its options: {', '.join(every)}"
            raise CheckError(f"{kind} has no option '{name}'", create.place, hint=hint)
        _, least, most = known[name]
        if not least <= value <= most:
            raise CheckError(f"{name} must be from {least:,} to {most:,}, not {value:,}", create.place)
    return tuple((name, written.get(name, default)) for name, (default, _, _) in known.items())
