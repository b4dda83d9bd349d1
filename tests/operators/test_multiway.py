"""The multi-way joins against all combinations of tuples, tried one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.operators.kernels.multiway import Arrivals, Joined, Reevaluation, join

LAZY_MODES = (Reevaluation.LAZY, Reevaluation.RESTORE)


@dataclass(frozen=True)
class Case:
    arrivals: Arrivals
    lengths: list[int]
    order: list[int]
    delta: int

    def join(self, mode: Reevaluation, buckets: int = 1) -> Joined:
        return join(self.arrivals, lengths=self.lengths, order=self.order, mode=mode, delta=self.delta, buckets=buckets)


@st.composite
def cases(draw: st.DrawFn, *, strict: bool) -> Case:
    streams = draw(st.integers(2, 4))
    one = st.tuples(st.integers(0, streams - 1), st.integers(0, 4), st.integers(0, 1), st.integers(-4, 9))
    drawn = draw(st.lists(one, min_size=6, max_size=22))
    events: list[tuple[int, int, int, int]] = []
    now = 0
    for stream, step, value, chosen in drawn:
        now += step
        # Negative tuples come before others of the same time, and take out what came before it.
        others_came = any(time == now and taken < 0 for _, time, _, taken in events)
        here = [e for e, event in enumerate(events) if event[3] < 0 and all(e != other[3] for other in events)]
        if strict and chosen >= 0 and here and not others_came:
            taken = here[chosen % len(here)]
            events.append((events[taken][0], now, events[taken][2], taken))
        else:
            events.append((stream, now, value, -1))
    lengths = draw(st.lists(st.integers(1, 12), min_size=streams, max_size=streams))
    order = draw(st.permutations(range(streams)))
    columns = (np.array(column, np.int64) for column in zip(*events, strict=True))
    return Case(Arrivals.of(*columns), lengths, list(order), draw(st.integers(1, 9)))


@dataclass(frozen=True)
class Combination:
    """Tuples of equal values, one of each stream, with the end that their windows promise and the one they have."""

    parts: tuple[int, ...]
    start: int
    promised: int
    end: int
    cuts: tuple[int, ...]
    promises: tuple[int, ...]

    def end_known_at(self, time: int) -> int:
        return min(min(cut, end) if cut < time else end for cut, end in zip(self.cuts, self.promises, strict=True))


def combinations(case: Case) -> list[Combination]:
    """All whose parts lived at one time."""
    given, never = case.arrivals, 1 << 40
    cut = {int(e): int(given.times[i]) for i, e in enumerate(given.takes_out) if e >= 0}
    of_stream = [
        [e for e in range(len(given)) if given.streams[e] == s and given.takes_out[e] < 0]
        for s in range(len(case.lengths))
    ]
    found = []
    for parts in product(*of_stream):
        if len({int(given.codes[e]) for e in parts}) > 1:
            continue
        start = max(int(given.times[e]) for e in parts)
        promises = tuple(int(given.times[e]) + case.lengths[s] for s, e in enumerate(parts))
        cuts = tuple(cut.get(e, never) for e in parts)
        one = Combination(parts, start, min(promises), min(*promises, *cuts), cuts, promises)
        if one.start < one.end:
            found.append(one)
    return found


def rows(found: Joined) -> Counter[tuple[tuple[int, ...], int, int, int]]:
    columns = (found.parts.tolist(), found.emitted.tolist(), found.end.tolist(), found.sign.tolist())
    return Counter((tuple(p), t, e, s) for p, t, e, s in zip(*columns, strict=True))


def next_execution(time: int, delta: int) -> int:
    """The first that sees what comes at a time."""
    return (time // delta + 1) * delta


def expected(case: Case, mode: Reevaluation) -> Counter[tuple[tuple[int, ...], int, int, int]]:
    told: Counter[tuple[tuple[int, ...], int, int, int]] = Counter()
    for one in combinations(case):
        at = next_execution(one.start, case.delta) if mode in LAZY_MODES else one.start
        if mode is Reevaluation.LAZY and one.end < at:
            continue
        promise = one.end_known_at(at) if mode in LAZY_MODES else one.promised
        told[one.parts, at, promise, 1] += 1
        if one.end < promise and (mode is not Reevaluation.LAZY or promise >= next_execution(one.end, case.delta)):
            told[one.parts, one.end, one.end, -1] += 1
    return told


@pytest.mark.slow
def test_two_windows_by_hand() -> None:
    """S0 of length 10, S1 of length 4; x and y.

    time   0   2   3   5   7   12
    S0     x           y       x
    S1         x   y       y
    """
    arrivals = Arrivals.of([0, 1, 1, 0, 1, 0], [0, 2, 3, 5, 7, 12], list("xxyyyx"))
    eager = join(arrivals, lengths=[10, 4])
    assert eager.parts.tolist() == [[0, 1], [3, 2], [3, 4]]
    assert eager.emitted.tolist() == [2, 5, 7]
    assert eager.end.tolist() == [6, 7, 11]
    # 0: nobody in S1. 1: S0 has 0. 2: S0 has 0. 3: S1 has 1, 2. 4: S0 has 0, 3. 5: S1 is empty, 11 is past.
    assert eager.compared == eager.looked_at == 1 + 1 + 2 + 2
    # At 10 only (3, 4) lives; (0, 1) and (3, 2) have come and gone.
    lazy = join(arrivals, lengths=[10, 4], mode=Reevaluation.LAZY, delta=10)
    assert (lazy.parts.tolist(), lazy.emitted.tolist(), lazy.end.tolist()) == ([[3, 4]], [10], [11])
    restored = join(arrivals, lengths=[10, 4], mode=Reevaluation.RESTORE, delta=10)
    assert sorted(restored.parts.tolist()) == [[0, 1], [3, 2], [3, 4]]
    assert restored.emitted.tolist() == [10, 10, 10]


def test_a_tuple_does_not_join_at_its_end() -> None:
    arrivals = Arrivals.of([0, 1, 1], [0, 9, 10], [1, 1, 1])
    for mode in (Reevaluation.EAGER, Reevaluation.LAZY_EXPIRY, Reevaluation.RESTORE):
        assert join(arrivals, lengths=[10, 10], mode=mode, delta=3).parts.tolist() == [[0, 1]]


def test_parts_that_never_met_are_not_restored() -> None:
    """All come between two executions; 0 lives with 1, 1 with 2, but 0 is gone when 2 comes.

    Algorithm 5 as printed compares each part only with the new tuple of S2, whose turn comes last.
    """
    arrivals = Arrivals.of([0, 2, 1], [0, 3, 9], [1, 1, 1])
    assert join(arrivals, lengths=[5, 50, 50], mode=Reevaluation.RESTORE, delta=10).results == 0
    met = Arrivals.of([0, 2, 1], [0, 3, 4], [1, 1, 1])
    assert join(met, lengths=[5, 50, 50], mode=Reevaluation.RESTORE, delta=10).parts.tolist() == [[0, 2, 1]]


def test_equal_new_tuples_probe_once() -> None:
    arrivals = Arrivals.of([0] * 5 + [1] * 4, range(9), [7] * 9)
    eager = join(arrivals, lengths=[100, 100])
    lazy = join(arrivals, lengths=[100, 100], mode=Reevaluation.LAZY, delta=50)
    assert eager.results == lazy.results == 20
    assert (eager.compared, lazy.compared) == (20, 5)


def test_a_negative_tuple_by_hand() -> None:
    """Tuple 0 is taken out at 5: the result that it has is gone, and 3 does not find it."""
    arrivals = Arrivals.of([0, 1, 0, 1], [0, 2, 5, 6], [1, 1, 1, 1], [-1, -1, 0, -1])
    found = join(arrivals, lengths=[10, 10])
    assert rows(found) == Counter([((0, 1), 2, 10, 1), ((0, 1), 5, 5, -1)])
    # An execution at 4 tells the result, the negative tuple takes it back.
    assert rows(join(arrivals, lengths=[10, 10], mode=Reevaluation.LAZY, delta=4)) == Counter(
        [((0, 1), 4, 10, 1), ((0, 1), 5, 5, -1)]
    )
    # Nothing is told before 7: then it is known that the result ended at 5.
    assert rows(join(arrivals, lengths=[10, 10], mode=Reevaluation.RESTORE, delta=7)) == Counter([((0, 1), 7, 5, 1)])
    assert join(arrivals, lengths=[10, 10], mode=Reevaluation.LAZY, delta=7).results == 0


def test_windows_that_only_negative_tuples_empty() -> None:
    """ROWS 1 on both sides: each tuple takes out the one before it in its stream."""
    arrivals = Arrivals.of([0, 1, 0, 0, 1, 1], [1, 2, 3, 3, 4, 4], [5, 5, 5, 5, 5, 5], [-1, -1, 0, -1, 1, -1])
    found = join(arrivals, lengths=[1 << 62, 1 << 62], buckets=3)
    assert found.parts.tolist() == [[0, 1], [0, 1], [3, 1], [3, 1], [3, 5]]
    assert found.sign.tolist() == [1, -1, 1, -1, 1]


@pytest.mark.parametrize("mode", list(Reevaluation))
@settings(max_examples=50, deadline=None, derandomize=True)
@given(case=cases(strict=False))
def test_every_mode_finds_what_it_promises(mode: Reevaluation, case: Case) -> None:
    found = case.join(mode)
    assert rows(found) == expected(case, mode)
    assert found.ends == found.end.sum()


@pytest.mark.parametrize("mode", [Reevaluation.EAGER, Reevaluation.LAZY, Reevaluation.RESTORE])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(case=cases(strict=True))
def test_negative_tuples_take_results_back(mode: Reevaluation, case: Case) -> None:
    assert rows(case.join(mode)) == expected(case, mode)


@pytest.mark.parametrize("mode", list(Reevaluation))
@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=cases(strict=False), buckets=st.integers(2, 4))
def test_hash_tables_find_the_same_with_fewer_comparisons(mode: Reevaluation, case: Case, buckets: int) -> None:
    nested, hashed = case.join(mode), case.join(mode, buckets)
    assert rows(nested) == rows(hashed)
    assert hashed.compared <= nested.compared


@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=cases(strict=True), buckets=st.integers(2, 4))
def test_hash_tables_know_negative_tuples(case: Case, buckets: int) -> None:
    for mode in (Reevaluation.EAGER, Reevaluation.LAZY, Reevaluation.RESTORE):
        assert rows(case.join(mode)) == rows(case.join(mode, buckets))


def test_lazy_expiry_holds_more_and_refuses_negative_tuples() -> None:
    random = np.random.default_rng(5)
    arrivals = Arrivals.of(random.integers(0, 3, 2000), np.arange(2000), random.integers(0, 20, 2000))
    eager = join(arrivals, lengths=[60, 60, 60])
    later = join(arrivals, lengths=[60, 60, 60], mode=Reevaluation.LAZY_EXPIRY, delta=50)
    assert eager.results == later.results > 0
    assert eager.compared == later.compared < later.looked_at
    assert later.checked < eager.checked
    # Eager expiry spares the window of the new tuple, so a few are held a little longer there too.
    assert eager.most_held < 75 < 100 < later.most_held <= 110
    negative = Arrivals.of([0, 0], [0, 1], [1, 1], [-1, 0])
    with pytest.raises(ValueError, match="negative tuples"):
        join(negative, lengths=[10, 10], mode=Reevaluation.LAZY_EXPIRY, delta=5)


def test_nothing_comes() -> None:
    nothing = Arrivals.of(*np.zeros((3, 0), np.int64))
    for mode in Reevaluation:
        assert join(nothing, lengths=[10, 10], mode=mode, delta=5).results == 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0, 0], [1, 0], [1, 1]), "order of time"),
        (([0, 0], [1, 1], [1, 1], [-1, 0]), "negative tuples come first"),
        (([0, 1], [0, 1], [1, 1], [-1, 0]), "own stream"),
        (([0, 0], [0, 1], [1, 1], [-1, 1]), "an earlier tuple"),
    ],
)
def test_arrivals_that_cannot_be(columns: tuple[list[int], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Arrivals.of(*map(np.array, columns))
