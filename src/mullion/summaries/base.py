"""What a summary is: a black box with five functions over the codes of keys (ali 3.2).

| function | does |
|---|---|
| `summarize` | takes events in |
| `estimate` | tells how often each key came |
| `confidence` | tells how far an estimate may be from the truth |
| `add` | becomes a summary of both |
| `subtract` | becomes a summary of what is left |

Keys come as whole numbers, many at a time (`expressions.coding.hashes.keys_of`). A kind of summary is a class that is
registered under its name: `summaries.kinds` has those that there are, and users may register their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Codes, Counts, Mask, Real

SURE = 0.99
"""The least probability with which a count lies within `confidence` of its estimate."""


class Option(NamedTuple):
    """A whole number that a kind may be given: `USING count_sketch (width 512)`."""

    default: int
    least: int
    most: int


class Summary(ABC):
    """How often keys came. Every method is linear in what it is given; nothing depends on the order of events.

    Estimates are never negative and never above `events`. Adding and subtracting are exact: a summary of some events,
    with that of others added and subtracted again, is the same to the bit in all that it tells of keys.
    """

    kind: ClassVar[str]
    """What CREATE SUMMARY calls it after USING."""
    options: ClassVar[Mapping[str, Option]] = {}
    """What it may be given, by the names of the constructor's arguments."""
    is_exact: ClassVar[bool] = False
    """Whether estimates are the counts themselves."""
    knows_codes: ClassVar[bool] = False
    """Whether `codes` tells which keys came. Questions with GROUP BY need it."""
    events: int
    """How many events it is of."""

    @abstractmethod
    def __init__(self, **options: int) -> None:
        """A summary of no events."""

    @abstractmethod
    def summarize(self, codes: Codes) -> None:
        """Take in events by the codes of their keys, in any order."""

    @abstractmethod
    def estimate(self, codes: Codes) -> Counts:
        """How often each key came."""

    @abstractmethod
    def confidence(self) -> float:
        """How far the count of a key is from its estimate at most, with probability `SURE`; 0 where it is exact."""

    def errors(self, codes: Codes, sure: float = SURE) -> Real:
        """The same for each key and with another probability, where a kind knows it better than for all of them."""
        return np.full(len(codes), self.confidence() if sure <= SURE or self.is_exact else float(self.events))

    @abstractmethod
    def add(self, other: Self) -> None:
        """Be a summary of the events of both. `other` was made with the same options, and stays as it is."""

    @abstractmethod
    def subtract(self, other: Self) -> None:
        """Be a summary of the events that `other` is not of. It is of some of these events, and stays as it is."""

    def may_hold(self, codes: Codes) -> Mask:
        """Whether each key may have come: where this is False it surely did not."""
        return self.estimate(codes) > 0

    def codes(self) -> Codes:
        """Every key that came, once, in ascending order: for kinds that know them."""
        raise NotImplementedError(f"{self.kind} does not know which keys came")

    @abstractmethod
    def distance(self, other: Self) -> float:
        """How differently keys are spread: the Euclidean distance between their shares of the events, 0 to sqrt(2).
        Neither is of no events."""

    @abstractmethod
    def copy(self) -> Self:
        """One that may change while others read this one."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The memory that it takes. It depends on what was summarized, and not on how that came."""

    # What a restart needs

    @abstractmethod
    def snapshot(self) -> pa.Table:
        """All that it holds but `events`."""

    @abstractmethod
    def restore(self, table: pa.Table, events: int) -> None:
        """Be what was snapshot, with the same options, as it was of so many events."""


KINDS: dict[str, type[Summary]] = {}
"""Every kind of summary by its name."""


def register(kind: type[Summary]) -> type[Summary]:
    """Make a kind known to CREATE SUMMARY and to the contract tests."""
    name = kind.kind
    if not name.isidentifier() or name != name.lower():
        raise ValueError(f"'{name}' is no name for a kind of summary: small letters, digits and _")
    if KINDS.get(name, kind) is not kind:
        raise ValueError(f"there is a kind of summary '{name}' already")
    KINDS[name] = kind
    return kind
