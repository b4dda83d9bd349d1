"""Some of the pairs of rows with equal keys: those that entries of an agenda still have, or a sample of them.

    entry of a row   rows 3..8 of the other side, 2 of 6 drawn      its pairs, in the order in which they are met
                                                                    . . x . . x
                     or each drawn by itself, with a chance of 1/3  x . . . x .

Evenly spaced pairs are as many as were asked for, and vary the least; but of what they would have been with another
beginning they say nothing. Those that are drawn by themselves tell how far off they may be. Whether one is depends on
the numbers of its two rows and on the join alone, not on the step that looks at it.

Pairs are walked over without being kept; only what is chosen is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Array, Codes, Counts, Index, Mask, Real, Times
from mullion.expressions.coding.hashes import mixed_with
from mullion.expressions.readonly import frozen
from mullion.loops import loop
from mullion.operators.kernels.join import PORTION, KeyRuns, PairBuffers, Pairs, Side, room_for, sides


class PairChoice(NamedTuple):
    """For each row that probes: which numbers the rows have that it is to meet, and how many pairs are taken of how
    many, evenly spaced from a phase on; or, where that is less than 1, with which chance each is drawn by itself.
    `seen` counts the pairs that were met, taken or not. `own` is the number of the row, and `side` its input; with
    `salt`, different joins have different dice."""

    since: Codes
    until: Codes
    taken: Counts
    of: Counts
    phase: Real
    chance: Real
    seen: Counts
    own: Codes
    side: int
    salt: int


def chosen_pairs(
    probe: KeyRuns,
    stored: KeyRuns,
    runs: tuple[Index, Index],
    probe_times: tuple[Times, Times],
    stored_times: tuple[Times, Times],
    number: Codes,
    wanted: PairChoice,
    before: int,
) -> Iterator[Pairs]:
    """The pairs that are wanted, of rows whose lives overlap and reach beyond `before`."""
    p, k = sides(probe, stored, runs, probe_times, stored_times)
    at = np.zeros(3, np.int64)
    if len(p.first):
        at[1], at[2] = p.first[0], k.first[0]
    number = frozen(number)[0]
    room = min(PORTION, int(wanted.taken.sum()) + 1)
    while at[0] < len(p.first):
        out = room_for(room)
        count = _choose(p, k, number, wanted, before, at, out)
        if count:
            yield Pairs(*(column[:count] for column in out))


def taken_of(which: Index, number: Codes, wanted: PairChoice) -> Mask:
    """Which of some pairs are taken, when each is of such a row that probes, with a row of such a number."""
    taken = np.zeros(len(which), np.bool_)
    _take(which, number, wanted, taken)
    return taken


@loop
def _is_taken(wanted: PairChoice, p: int, place: int, number: int) -> bool:
    """Whether a pair is, when so many come before it."""
    if wanted.chance[p] < 1.0:
        first, second = (wanted.own[p], number) if wanted.side == 0 else (number, wanted.own[p])
        return bool(_drawn(wanted.salt, first, second) < wanted.chance[p])
    taken, of = wanted.taken[p], wanted.of[p]
    if taken <= 0 or taken >= of:
        return bool(taken > 0)
    return bool(_passed(wanted, p, place) + taken >= of)


def pair_codes(salt: int, first: Codes, second: Codes) -> Codes:
    """What stands for pairs of numbers, as if it were drawn at random, but the same again."""
    codes = np.empty(len(first), np.int64)
    first, second = frozen(first, second)
    _mix(salt, first, second, codes)
    return codes


def dice(codes: Codes) -> Real:
    """Numbers between 0 and 1 by codes."""
    thrown: Real = (codes.view(np.uint64) >> np.uint64(11)) / float(1 << 53)
    return thrown


@loop
def _mix(salt: int, first: Array, second: Array, codes: Array) -> None:
    for i in range(len(first)):
        codes[i] = mixed_with(mixed_with(salt, first[i]), second[i])


@loop
def _drawn(salt: int, first: int, second: int) -> float:
    """A number between 0 and 1 by the numbers of the rows of a pair: as if it were random, but the same again."""
    return float(np.uint64(mixed_with(mixed_with(salt, first), second)) >> np.uint64(11)) / float(1 << 53)


@loop
def _passed(wanted: PairChoice, p: int, place: int) -> int:
    """How much of the way to the next pair that is taken has been passed, when so many come before it. A pair adds
    `taken`, and the one that reaches `of` is taken: of all exactly as many, each equally likely."""
    return int((int(wanted.phase[p] * wanted.of[p]) + place * wanted.taken[p]) % wanted.of[p])


@loop
def _take(which: Array, number: Array, wanted: PairChoice, taken: Array) -> None:
    for i in range(len(which)):
        p = which[i]
        taken[i] = _is_taken(wanted, p, wanted.seen[p], number[i])
        wanted.seen[p] += 1


@loop
def _choose(
    probe: Side, stored: Side, number: Array, wanted: PairChoice, before: int, at: Array, out: PairBuffers
) -> int:
    """Fill the output, going on from the run and rows in `at`, which then tell where to go on."""
    count, room = 0, len(out.probe)
    run, p, k = at[0], at[1], at[2]
    while run < len(probe.first):
        while p < probe.last[run]:
            start, end, since, until = probe.start[p], probe.end[p], wanted.since[p], wanted.until[p]
            taken, of, is_drawn, place = wanted.taken[p], wanted.of[p], wanted.chance[p] < 1.0, wanted.seen[p]
            is_part = 0 < taken < of
            passed = _passed(wanted, p, place) if is_part else 0
            while k < stored.last[run]:
                if count == room:
                    at[0], at[1], at[2] = run, p, k
                    wanted.seen[p] = place
                    return count
                later, sooner = max(start, stored.start[k]), min(end, stored.end[k])
                if later < sooner and sooner > before and since <= number[k] < until:
                    is_taken = taken > 0
                    if is_drawn:
                        is_taken = _is_taken(wanted, p, place, number[k])
                    elif is_part:
                        passed += taken
                        is_taken = passed >= of
                        passed -= of if is_taken else 0
                    place += 1
                    if is_taken:
                        out.probe[count], out.stored[count], out.start[count], out.end[count] = p, k, later, sooner
                        count += 1
                k += 1
            wanted.seen[p] = place
            p += 1
            k = stored.first[run]
        run += 1
        if run < len(probe.first):
            p, k = probe.first[run], stored.first[run]
    at[0] = run
    return count
