"""The hash by which events are kept or shed, as Spark has it: XXH64 of whole numbers."""

from __future__ import annotations

import numpy as np

from mullion.expressions.arrays import Array, Unsigned
from mullion.loops import inlined_loop, loop

SEED = np.uint64(42)
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


@inlined_loop
def _turned(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inlined_loop
def _hash(value: np.uint64, seed: np.uint64) -> np.uint64:
    """XXH64 of eight bytes."""
    hashed = (seed + _P5 + np.uint64(8)) ^ (_turned(value * _P2, 31) * _P1)
    hashed = _turned(hashed, 27) * _P1 + _P4
    hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
    hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
    return hashed ^ (hashed >> np.uint64(32))


@loop
def hash_places(parts: Array, places: Array, out: Array) -> None:
    """xxhash64(part, place) of each place; one part for all, or one for each."""
    seed = _hash(np.uint64(parts[0]), SEED) if len(parts) else SEED
    for i in range(len(places)):
        at = Unsigned(i)
        if len(parts) > 1:
            seed = _hash(np.uint64(parts[at]), SEED)
        out[at] = np.int64(_hash(np.uint64(places[at]), seed))
