"""Counters of values, of which at most so many are kept: numbers in arrays, texts in dictionaries.

    counters of two slices     a 5, b 3, c 3      a 4, d 2
    together, at most two      a 9, b 3, c 3, d 2   less the third largest, 3:   a 6, and 3 are lost

What is lost of any value is at most `lost`: each lowering by n takes n from more counters than are kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mullion.aggregates.counter_loops import merge_counts
from mullion.expressions.arrays import Array, Whole
from mullion.lazy import cached_property

FEW = 1024
"""Of so many counters one set is made sooner than they are looked into one by one."""

Found = list[tuple[Any, int]]
"""Keys, and counts that are not below the true ones."""


class Counters(ABC):
    """Of `total` values, the counts of some, each too small by at most `lost`; those without a counter occur at most
    `lost` times. They never change."""

    total: int
    lost: int

    @abstractmethod
    def __len__(self) -> int:
        """How many counters there are."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """The largest count."""

    @abstractmethod
    def reaching(self, least: int) -> Any:
        """The keys whose counts are at least this."""

    @staticmethod
    @abstractmethod
    def frequent(parts: Sequence[Any], lists: Sequence[Any], least: int) -> Found:
        """Of the keys in any of the lists, those whose counts in all parts together are at least this."""

    @classmethod
    @abstractmethod
    def together(cls, parts: Sequence[Any], most: int) -> Self:
        """One for two or more, with at most so many counters."""

    @abstractmethod
    def written(self) -> bytes: ...

    @classmethod
    @abstractmethod
    def read(cls, written: bytes) -> Self: ...


@dataclass(frozen=True, eq=False)
class NumberCounters(Counters):
    total: int
    lost: int
    keys: Whole
    """Ascending."""
    counts: Whole

    @classmethod
    def of(cls, keys: Whole, counts: Whole, total: int, lost: int, most: int) -> Self:
        """Lowered until at most so many counters are left."""
        if len(keys) > most:
            cut = np.partition(counts, len(counts) - most - 1)[len(counts) - most - 1]
            kept = counts > cut
            keys, counts, lost = keys[kept], counts[kept] - cut, lost + int(cut)
        return cls(total, lost, keys, counts)

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def largest(self) -> int:
        return int(self.counts.max(initial=0))

    def reaching(self, least: int) -> Whole:
        return self.keys[self.counts >= least]

    @staticmethod
    def frequent(parts: Sequence[NumberCounters], lists: Sequence[Whole], least: int) -> Found:
        if len(parts) == 1:
            chosen = parts[0].counts >= least
            return list(zip(parts[0].keys[chosen].tolist(), parts[0].counts[chosen].tolist(), strict=True))
        keys = np.unique(np.concatenate(lists))
        counts = np.zeros(len(keys), np.int64)
        for part in parts:
            if len(part.keys) and len(keys):
                at = np.searchsorted(part.keys, keys)
                at[at == len(part.keys)] = 0
                counts += np.where(part.keys[at] == keys, part.counts[at], 0)
        chosen = counts >= least
        return list(zip(keys[chosen].tolist(), counts[chosen].tolist(), strict=True))

    @classmethod
    def together(cls, parts: Sequence[Self], most: int) -> Self:
        total, lost = sum(part.total for part in parts), sum(part.lost for part in parts)
        if sum(map(len, parts)) <= FEW:
            keys, counts = _added(np.concatenate([p.keys for p in parts]), np.concatenate([p.counts for p in parts]))
            return cls.of(keys, counts, total, lost, most)
        parts = sorted(parts, key=len, reverse=True)
        keys, counts = parts[-1].keys, parts[-1].counts
        for part in parts[-2::-1]:
            room = len(keys) + len(part.keys)
            both = np.empty((2, room), np.int64)
            number = merge_counts(keys, counts, part.keys, part.counts, both[0], both[1])
            keys, counts = both[0, :number], both[1, :number]
        return cls.of(keys, counts, total, lost, most)

    def written(self) -> bytes:
        return np.array([self.total, self.lost]).tobytes() + self.keys.tobytes() + self.counts.tobytes()

    @classmethod
    def read(cls, written: bytes) -> Self:
        whole = np.frombuffer(written, np.int64)
        middle = 1 + len(whole) // 2
        return cls(int(whole[0]), int(whole[1]), whole[2:middle], whole[middle:])


@dataclass(frozen=True, eq=False)
class TextCounters(Counters):
    total: int
    lost: int
    counts: dict[str, int]

    @classmethod
    def of(cls, counts: dict[str, int], total: int, lost: int, most: int) -> Self:
        """Lowered until at most so many counters are left."""
        if len(counts) > most:
            cut = sorted(counts.values(), reverse=True)[most]
            counts = {key: count - cut for key, count in counts.items() if count > cut}
            lost += cut
        return cls(total, lost, counts)

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def largest(self) -> int:
        return max(self.counts.values(), default=0)

    def reaching(self, least: int) -> list[str]:
        return [key for key, count in self.counts.items() if count >= least]

    @staticmethod
    def frequent(parts: Sequence[TextCounters], lists: Sequence[list[str]], least: int) -> Found:
        keys = dict.fromkeys(key for keys in lists for key in keys)
        counted = ((key, sum(part.counts.get(key, 0) for part in parts)) for key in keys)
        return [(key, count) for key, count in counted if count >= least]

    @classmethod
    def together(cls, parts: Sequence[Self], most: int) -> Self:
        largest = max(range(len(parts)), key=lambda at: len(parts[at].counts))
        counts = dict(parts[largest].counts)
        get = counts.get
        for at, part in enumerate(parts):
            if at != largest:
                for key, count in part.counts.items():
                    counts[key] = get(key, 0) + count
        return cls.of(counts, sum(part.total for part in parts), sum(part.lost for part in parts), most)

    def written(self) -> bytes:
        numbers = [self.total, self.lost, len(self.counts), *self.counts.values(), *map(len, self.counts)]
        return np.array(numbers, np.int64).tobytes() + "".join(self.counts).encode("utf-8", "surrogatepass")

    @classmethod
    def read(cls, written: bytes) -> Self:
        total, lost, number = np.frombuffer(written, np.int64, 3).tolist()
        counts, lengths = np.frombuffer(written, np.int64, 2 * number, 24).reshape(2, number)
        text = written[24 + 16 * number :].decode("utf-8", "surrogatepass")
        ends = np.cumsum(lengths)
        cuts = zip((ends - lengths).tolist(), ends.tolist(), counts.tolist(), strict=True)
        return cls(total, lost, {text[low:high]: count for low, high, count in cuts})


@dataclass(frozen=True, eq=False)
class CountersOf:
    """Counters of one or more sets of values, which are looked into together without being made one: a window is
    asked once."""

    parts: tuple[Any, ...]

    @property
    def total(self) -> int:
        return sum(part.total for part in self.parts)

    def at_least(self, least: int) -> Found:
        """All values that may occur so often, with counts that are not below the true ones.

        A value with this count has in some part at least that part's share of it, however it is shared out. It is
        shared out by the largest counts of the parts, so that few values of each are looked at.
        """
        parts = self.parts
        lost = sum(part.lost for part in parts)
        if len(parts) > 1 and sum(map(len, parts)) <= FEW:
            parts = self.together(FEW).parts
        needed, highest = max(1, least - lost), sum(part.largest for part in parts)
        if highest < needed:
            return []
        lists = [part.reaching(max(1, -(-needed * part.largest // highest))) for part in parts]
        return [(key, count + lost) for key, count in parts[0].frequent(parts, lists, needed)]

    def together(self, most: int) -> CountersOf:
        """The same as one set of at most so many counters."""
        return self if len(self.parts) == 1 else CountersOf((type(self.parts[0]).together(self.parts, most),))


def _added(keys: Whole, counts: Whole) -> tuple[Whole, Whole]:
    """Ascending, with the counts of equal keys added."""
    if not len(keys):
        return keys, counts
    order = keys.argsort()
    keys = keys[order]
    new = np.empty(len(keys), np.bool_)
    new[0] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys[new], np.add.reduceat(counts[order], np.flatnonzero(new))


def runs_of_counters(keys: Whole, counts: Whole, ends: Whole, most: int) -> list[CountersOf | None]:
    """The counters of each run, which ends at ends[r]; None of an empty one."""
    by_run: list[CountersOf | None] = []
    first = 0
    totals: Array = np.concatenate([[0], np.cumsum(counts)])
    for last in ends.tolist():
        total = int(totals[last] - totals[first])
        own = NumberCounters.of(keys[first:last], counts[first:last], total, 0, most)
        by_run.append(CountersOf((own,)) if last > first else None)
        first = last
    return by_run
