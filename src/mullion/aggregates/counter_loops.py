"""The loops of counters: how often each number occurs in runs, and two lists of counters in one."""

from __future__ import annotations

from mullion.expressions.arrays import Array
from mullion.loops import loop


@loop
def count_runs(keys: Array, bounds: Array, counts: Array, ends: Array) -> int:
    """Sort each run keys[bounds[r]:bounds[r + 1]] and count equal numbers. The different ones stand at the start of
    `keys` afterwards, run after run up to ends[r]; returns how many there are."""
    number = 0
    for r in range(len(bounds) - 1):
        run = keys[bounds[r] : bounds[r + 1]]
        run.sort()
        for i in range(len(run)):
            if i and run[i] == keys[number - 1]:
                counts[number - 1] += 1
            else:
                keys[number], counts[number] = run[i], 1
                number += 1
        ends[r] = number
    return number


@loop
def merge_counts(a: Array, a_counts: Array, b: Array, b_counts: Array, keys: Array, counts: Array) -> int:
    """The ascending numbers of both with their counts added; returns how many there are."""
    i, j, number = 0, 0, 0
    while i < len(a) and j < len(b):
        if a[i] < b[j]:
            keys[number], counts[number] = a[i], a_counts[i]
            i += 1
        elif a[i] > b[j]:
            keys[number], counts[number] = b[j], b_counts[j]
            j += 1
        else:
            keys[number], counts[number] = a[i], a_counts[i] + b_counts[j]
            i += 1
            j += 1
        number += 1
    while i < len(a):
        keys[number], counts[number] = a[i], a_counts[i]
        i += 1
        number += 1
    while j < len(b):
        keys[number], counts[number] = b[j], b_counts[j]
        j += 1
        number += 1
    return number
