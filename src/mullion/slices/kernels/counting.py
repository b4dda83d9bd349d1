"""The loops over value counts, compiled by numba as those of `slices.kernels.compiled` are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Array, Unsigned
from mullion.loops import loop

PICKED = 12
"""Blocks that are picked by what they may hold at most, before the rest is looked at in turn."""


@loop
def sum_of_present(
    code: Array, numbers: Array, bounds: Array, begin: Array, ends_from: Array, ends: Array, last: Array, out: Array
) -> None:
    """For each range, the sum of `numbers` over the different codes in it.

    `bounds` cut the rows into segments. Each code counts in the segment where it was last seen, so at bound b the
    segments from a on hold every code of the rows between a and b once. Windows `ends[ends_from[b]:ends_from[b + 1]]`
    end at bound b; window w begins at bound `begin[w]`. `last` is -1 for every code.
    """
    segments = len(bounds)
    shift = 0
    while (1 << (2 * shift)) < segments:
        shift += 1
    fine = np.zeros(segments + 1, np.int64)
    coarse = np.zeros((segments >> shift) + 1, np.int64)
    for b in range(1, segments):
        here = b - 1
        for i in range(bounds[here], bounds[b]):
            c = Unsigned(code[Unsigned(i)])
            before = last[c]
            if before != here:
                number = numbers[c]
                fine[here] += number
                coarse[here >> shift] += number
                if before >= 0:
                    fine[Unsigned(before)] -= number
                    coarse[Unsigned(before >> shift)] -= number
                last[c] = here
        for e in range(ends_from[b], ends_from[b + 1]):
            w = ends[e]
            total, at = 0, begin[w]
            border = min(((at >> shift) + 1) << shift, b)
            for s in range(at, border):
                total += fine[Unsigned(s)]
            if border < b:
                for s in range(border >> shift, (here >> shift) + 1):
                    total += coarse[Unsigned(s)]
            out[w] = total


@loop
def part_by_bit(
    code: Array, count: Array, bit: int, next_code: Array, next_count: Array, zeros: Array, weights: Array
) -> int:
    """Bring the rows whose code has a 0 at `bit` before the others, else in order.

    `zeros[i]` and `weights[i]` become how many of the first i rows those are, and their counts together. Returns how
    many they are in all.
    """
    border = 0
    for i in range(len(code)):
        border += 1 - ((code[i] >> bit) & 1)
    zero, weight = 0, 0
    zeros[0], weights[0] = 0, 0
    for i in range(len(code)):
        c, n = code[i], count[i]
        is_one = (c >> bit) & 1
        at = Unsigned(border + i - zero if is_one else zero)
        next_code[at], next_count[at] = c, n
        zero += 1 - is_one
        weight += 0 if is_one else n
        zeros[i + 1], weights[i + 1] = zero, weight
    return border


@loop
def descend(
    zeros: Array, weights: Array, border: int, bit: int, low: Array, high: Array, rank: Array, out: Array
) -> None:
    """One bit of the code at each rank, from the highest on; ranges and ranks become those of the next bit."""
    for w in range(len(rank)):
        a, b = low[w], high[w]
        weight = weights[Unsigned(b)] - weights[Unsigned(a)]
        if rank[w] < weight:
            low[w], high[w] = zeros[Unsigned(a)], zeros[Unsigned(b)]
        else:
            rank[w] -= weight
            low[w], high[w] = border + a - zeros[Unsigned(a)], border + b - zeros[Unsigned(b)]
            out[w] |= 1 << bit


@loop
def _is_less(count: int, code: int, other_count: int, other_code: int) -> bool:
    """Whether a code comes after another: it is less frequent, or as frequent and larger."""
    return count < other_count or (count == other_count and code > other_code)


@loop
def _sink(codes: Array, counts: Array, root: int, size: int, code: int, count: int) -> None:
    """Replace what is on top of a heap of `size` codes from `root` on."""
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        left = root + down
        if down + 1 < size and _is_less(counts[left + 1], codes[left + 1], counts[left], codes[left]):
            down += 1
        child = root + down
        if not _is_less(counts[child], codes[child], count, code):
            break
        codes[root + at], counts[root + at] = codes[child], counts[child]
        at = down
    codes[root + at], counts[root + at] = code, count


@loop
def _offer(codes: Array, counts: Array, root: int, size: int, most: int, code: int, count: int) -> int:
    """Put a code on a heap of the `most` best, the last of them on top; returns how many it holds then."""
    if size == most:
        if not _is_less(count, code, counts[root], codes[root]):
            _sink(codes, counts, root, size, code, count)
        return size
    at = size
    while at > 0:
        up = (at - 1) >> 1
        if not _is_less(count, code, counts[root + up], codes[root + up]):
            break
        codes[root + at], counts[root + at] = codes[root + up], counts[root + up]
        at = up
    codes[root + at], counts[root + at] = code, count
    return size + 1


@loop
def in_order(codes: Array, counts: Array, offsets: Array) -> None:
    """Take the heap of each window down to a list, the best first."""
    for w in range(len(offsets) - 1):
        root = offsets[w]
        size = offsets[w + 1] - root
        while size > 1:
            size -= 1
            code, count = codes[root + size], counts[root + size]
            codes[root + size], counts[root + size] = codes[root], counts[root]
            _sink(codes, counts, root, size, code, count)


class WeightedCodes(NamedTuple):
    """Rows: a code each, and how often it occurs."""

    code: Array
    weight: Array


class RowWindows(NamedTuple):
    """Windows over rows from `low` to `high`, in the order in which they are taken. `offsets` tell how many codes are
    asked of each window; none has fewer."""

    order: Array
    low: Array
    high: Array
    offsets: Array


class Sliding(NamedTuple):
    """What the rows of a window amount to: `occurring` counts each code and `seen` marks it, `bound` and `looked` are
    for blocks of 2^shift codes. At the start counts are 0 and marks -1."""

    occurring: Array
    seen: Array
    bound: Array
    looked: Array
    shift: int


class Heaps(NamedTuple):
    """The most frequent codes of each window, one heap after the other."""

    codes: Array
    counts: Array


@loop
def _add(rows: WeightedCodes, low: int, high: int, now: Sliding) -> None:
    for i in range(low, high):
        c = rows.code[i]
        n = now.occurring[c] + rows.weight[i]
        now.occurring[c] = n
        if n > now.bound[c >> now.shift]:
            now.bound[c >> now.shift] = n


@loop
def _subtract(rows: WeightedCodes, low: int, high: int, now: Sliding) -> None:
    for i in range(low, high):
        now.occurring[rows.code[i]] -= rows.weight[i]


@loop
def _mend(now: Sliding, block: int) -> int:
    """The highest count of a block; its bound becomes that."""
    low = block << now.shift
    most: int = now.occurring[low]
    for c in range(low + 1, min(low + (1 << now.shift), len(now.occurring))):
        most = max(most, now.occurring[c])
    now.bound[block] = most
    return most


@loop
def _top_of_rows(rows: Array, now: Sliding, mark: int, heaps: Heaps, root: int, most: int) -> None:
    """The most frequent codes of a window that has few rows: each row is looked at."""
    size = 0
    for c in rows:
        if now.seen[c] != mark:
            now.seen[c] = mark
            if now.occurring[c] > 0:
                size = _offer(heaps.codes, heaps.counts, root, size, most, c, now.occurring[c])


@loop
def _top_of_blocks(now: Sliding, mark: int, heaps: Heaps, root: int, most: int) -> None:
    """The most frequent codes of a window that has many rows: blocks of codes that cannot hold any are passed over.

    `bound` is no less than the highest count of each block. Removing leaves it too high, and it is mended here. Some
    blocks are picked by it, so that the heap soon holds high counts; then all others are gone through.
    """
    size, blocks = 0, len(now.bound)
    for turn in range(PICKED + blocks):
        block, highest = turn - PICKED, 0
        if turn < PICKED:
            for b in range(blocks):
                if now.bound[b] > highest and now.looked[b] != mark:
                    block, highest = b, now.bound[b]
            if highest == 0:
                break
        elif now.looked[block] == mark:
            continue
        low = block << now.shift
        if size == most and _is_less(now.bound[block], low, heaps.counts[root], heaps.codes[root]):
            if turn < PICKED:
                break
            continue
        if _mend(now, block) < highest:
            continue
        now.looked[block] = mark
        for c in range(low, min(low + (1 << now.shift), len(now.occurring))):
            n = now.occurring[c]
            if n > 0 and (size < most or n >= heaps.counts[root]):
                size = _offer(heaps.codes, heaps.counts, root, size, most, c, n)


@loop
def top_by_sliding(rows: WeightedCodes, windows: RowWindows, now: Sliding, heaps: Heaps) -> None:
    """Heaps of the most frequent codes of each window, from the window before it in the order: new rows are added, old
    ones subtracted."""
    a, b = 0, 0
    for at in range(len(windows.order)):
        w = windows.order[at]
        new_a, new_b = windows.low[w], windows.high[w]
        if new_a >= b or new_b <= a:
            _subtract(rows, a, b, now)
            a, b = new_a, new_a
        _add(rows, new_a, a, now)
        _add(rows, b, new_b, now)
        _subtract(rows, a, new_a, now)
        _subtract(rows, new_b, b, now)
        a, b = new_a, new_b
        root, most = windows.offsets[w], windows.offsets[w + 1] - windows.offsets[w]
        if b - a <= len(now.bound):
            _top_of_rows(rows.code[a:b], now, at, heaps, root, most)
        elif most > 0:
            _top_of_blocks(now, at, heaps, root, most)


class InBlocks(NamedTuple):
    """How often each code occurs in a window, and those of each block of 2^shift codes together. All 0 at the start."""

    occurring: Array
    blocks: Array
    shift: int


@loop
def _move(rows: WeightedCodes, low: int, high: int, sign: int, now: InBlocks) -> None:
    """Add rows to a window, or with the sign -1 take them away."""
    for i in range(low, high):
        c = Unsigned(rows.code[Unsigned(i)])
        n = sign * rows.weight[Unsigned(i)]
        now.occurring[c] += n
        now.blocks[c >> Unsigned(now.shift)] += n


@loop
def _code_at(rank: int, now: InBlocks) -> int:
    """The code at a rank of the window; the last one at ranks that are too high."""
    block, left = 0, rank
    while block < len(now.blocks) - 1 and left >= now.blocks[Unsigned(block)]:
        left -= now.blocks[Unsigned(block)]
        block += 1
    c = block << now.shift
    last = min(c + (1 << now.shift), len(now.occurring)) - 1
    while c < last and left >= now.occurring[Unsigned(c)]:
        left -= now.occurring[Unsigned(c)]
        c += 1
    return c


@loop
def ranked_by_sliding(
    rows: WeightedCodes, order: Array, low: Array, high: Array, now: InBlocks, rank: Array, out: Array
) -> None:
    """The codes at the ranks of each window, a window a column, from the window before it in the order."""
    a, b = 0, 0
    for w in order:
        new_a, new_b = low[w], high[w]
        if new_a >= b or new_b <= a:
            _move(rows, a, b, -1, now)
            a, b = new_a, new_a
        _move(rows, new_a, a, 1, now)
        _move(rows, b, new_b, 1, now)
        _move(rows, a, new_a, -1, now)
        _move(rows, new_b, b, -1, now)
        a, b = new_a, new_b
        for r in range(rank.shape[0]):
            out[r, w] = _code_at(rank[r, w], now)


@loop
def snapshots(code: Array, count: Array, bounds: Array, out: Array) -> None:
    """How often each code occurs between the first bound and every other."""
    for b in range(1, len(bounds)):
        for c in range(out.shape[1]):
            out[b, c] = out[b - 1, c]
        for i in range(bounds[b - 1], bounds[b]):
            out[b, code[i]] += count[i]


@loop
def top_of_differences(
    prefixes: Array, begin: Array, end: Array, first: Array, length: Array, codes: Array, counts: Array
) -> None:
    """Heaps of the most frequent codes of each window, from the difference of two snapshots."""
    for w in range(len(begin)):
        root, most, size, least = first[w], length[w], 0, 0
        a, b = begin[w], end[w]
        for c in range(prefixes.shape[1] if most > 0 else 0):
            n = prefixes[b, c] - prefixes[a, c]
            if n > least:
                size = _offer(codes, counts, root, size, most, c, n)
                if size == most:
                    least = counts[root]
