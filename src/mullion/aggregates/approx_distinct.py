"""approx_count_distinct(x [, rsd]): about how many different values there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from mullion.aggregates.base import Aggregate, Partial, State
from mullion.aggregates.hyperloglog_loops import different_hashes, estimate, take_in
from mullion.aggregates.integer_states import always
from mullion.aggregates.keys import PresentValues, stable_codes
from mullion.aggregates.sketched import Sketched
from mullion.errors import CheckpointError
from mullion.expressions.arrays import Array, Index, Whole, objects
from mullion.expressions.coding.hashes import mix_in
from mullion.expressions.readonly import frozen
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, Type

LEAST, USUAL, MOST = 7, 12, 21
"""The logarithms of how many registers a sketch may have; the usual one has a standard error of 1.6 %."""
FORMAT = b"distinct"
"""What is written begins with it: an earlier version wrote sketches of another library, which look alike."""


@dataclass(frozen=True, eq=False)
class DistinctValues:
    """What is kept of values that were seen: their hashes while these are few, ascending, or else registers."""

    kept: Array

    @property
    def is_few(self) -> bool:
        return self.kept.dtype != np.uint8


@dataclass(frozen=True)
class HyperLogLog(Sketched):
    """2^size registers, each of which keeps the longest row of leading zeros among the hashes that fell to it; of few
    values the hashes themselves are kept (Flajolet et al., HyperLogLog, AofA 2007; the estimate is Ertl's, 2017).

    Requires: a commutative, idempotent merge, the larger of two registers: a value seen twice counts once.
    Time: O(1) an event, O(2^size) a merge.
    Space: 2^size bytes, less for few values.
    Guarantee: a relative standard error of 1.04 / sqrt(2^size). Up to 3/32 2^size values the number is right unless two
    of their hashes of 64 bits collide. The number does not depend on how values were cut into slices or in which order
    they came.
    """

    kind = "hll"
    size: int = USUAL

    @property
    def label(self) -> str:
        return f"hll{self.size}"

    @property
    def most_hashes(self) -> int:
        return int(3 * 2**self.size // 32)

    def build(self, events: Vector, starts: Index) -> State:
        hashes, bounds = PresentValues.of(Vector(BIGINT, self._hashes(events), events.valid), starts)
        kept, counts = np.empty(len(hashes), np.int64), np.empty(len(starts), np.int64)
        read, cuts = frozen(hashes, np.array(bounds, np.int64))
        different_hashes(read, cuts, self.most_hashes, kept, counts)
        seen: list[DistinctValues | None] = []
        first = 0
        for count, (low, high) in zip(counts.tolist(), pairwise(bounds), strict=True):
            if count < 0:
                seen.append(DistinctValues(self._registers([hashes[low:high]])))
            else:
                seen.append(DistinctValues(kept[first : first + count].copy()) if count else None)
                first += count
        return (objects(seen),)

    def _hashes(self, events: Vector) -> Whole:
        """Equal values have equal hashes, in every run of every process."""
        if events.coded is not None:
            codes, values = events.coded
            own = self._hashes(values)
            return own[np.where(events.valid, codes, 0)] if len(own) else np.zeros(len(events), np.int64)
        hashes = np.ones(len(events), np.int64)
        mix_in(hashes, frozen(stable_codes(events))[0])
        return hashes

    def _registers(self, hashes: Sequence[Array]) -> Array:
        registers = np.zeros(2**self.size, np.uint8)
        for own in frozen(*hashes):
            take_in(registers, own, self.size)
        return registers

    def merged(self, sketches: Sequence[DistinctValues]) -> DistinctValues:
        few = [seen.kept for seen in sketches if seen.is_few]
        if len(few) == len(sketches):
            hashes = np.unique(np.concatenate(few))
            return DistinctValues(hashes if len(hashes) <= self.most_hashes else self._registers([hashes]))
        registers = self._registers(few)
        for seen in sketches:
            if not seen.is_few:
                np.maximum(registers, seen.kept, out=registers)
        return DistinctValues(registers)

    def read(self, written: bytes) -> DistinctValues:
        if not written.startswith(FORMAT):
            hint = "finish it with the version of Mullion that made it, or start with a new checkpoint directory"
            raise CheckpointError(
                "the checkpoint has approx_count_distinct in the format of an earlier version", hint=hint
            )
        size = len(written) - len(FORMAT)
        return DistinctValues(
            np.frombuffer(written, np.uint8 if size == 2**self.size else np.int64, offset=len(FORMAT))
        )

    def write(self, sketch: DistinctValues) -> bytes:
        return FORMAT + sketch.kept.tobytes()

    def estimate(self, sketch: DistinctValues | None) -> int:
        if sketch is None:
            return 0
        (kept,) = frozen(sketch.kept)
        return len(kept) if sketch.is_few else round(estimate(kept, self.size))


@dataclass(frozen=True)
class ApproxCountDistinct(Aggregate):
    """The optional second argument is the relative standard error, 0.016 unless told."""

    name = "approx_count_distinct"
    casts_text = False
    is_exact = False
    size: int = USUAL

    def with_parameters(self, parameters: tuple[Any, ...]) -> Aggregate:
        if not parameters:
            return self
        if len(parameters) > 1:
            raise TypeError(f"takes an argument and a relative standard error, not {1 + len(parameters)} arguments")
        return replace(self, size=size_for(parameters[0]))

    def result(self, argument: Type | None) -> Type:
        if argument is None:
            raise TypeError("needs an argument")
        return BIGINT

    def partials(self, argument: Type | None) -> tuple[Partial, ...]:
        if argument is None:
            raise TypeError("needs an argument")
        return (HyperLogLog(argument, self.size),)

    def lower(self, argument: Type | None, states: Sequence[tuple[Vector, ...]]) -> Vector:
        assert argument is not None
        partial = HyperLogLog(argument, self.size)
        sketches = partial.opened(states[0][0])
        return always(np.fromiter(map(partial.estimate, sketches), np.int64, len(sketches)), BIGINT)


def size_for(error: Any) -> int:
    """The smallest sketch whose relative standard error is at most this."""
    try:
        wanted = float(error)
    except (TypeError, ValueError):
        wanted = math.nan
    if isinstance(error, bool) or not 0 < wanted < 1:
        raise TypeError(f"needs a relative standard error between 0 and 1, not {error}")
    for size in range(LEAST, MOST + 1):
        if 1.04 / math.sqrt(2**size) <= wanted:
            return size
    raise TypeError(f"has a relative standard error of {1.04 / math.sqrt(2**MOST):.5f} at best, not {error}")
