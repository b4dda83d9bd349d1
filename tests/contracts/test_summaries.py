"""The contract of every kind of summary: the five functions over random codes, against counting them in Python."""

from __future__ import annotations

from collections import Counter
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.expressions.arrays import Codes
from mullion.summaries.base import Summary, register
from mullion.summaries.kinds import KINDS

FEW = st.integers(-5, 5)
ANY = st.sampled_from([-(2**63), 2**63 - 1, 2**32, -1, 0, 1]) | st.integers(-(2**63), 2**63 - 1)
EVENTS = st.lists(FEW | ANY, max_size=60).map(lambda codes: np.array(codes, np.int64))
ASKED = np.array([-(2**63), *range(-7, 8), 2**32, 2**63 - 1], np.int64)


def kinds() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", list(KINDS.values()), ids=list(KINDS))


def made(kind: type[Summary], *parts: Codes) -> Summary:
    summary = kind()
    for codes in parts:
        summary.summarize(codes)
    return summary


def told(summary: Summary, codes: Codes) -> tuple[object, ...]:
    """All that it tells of codes."""
    return summary.events, summary.estimate(codes).tolist(), summary.confidence()


@kinds()
def test_a_small_one_by_hand(kind: type[Summary]) -> None:
    summary = made(kind, np.array([5, 9, 5]))
    assert summary.events == 3
    assert summary.may_hold(np.array([5, 9])).all()
    off = np.abs(summary.estimate(np.array([5, 9])) - [2, 1])
    assert (off <= summary.confidence()).all()
    assert summary.is_exact == (summary.confidence() == 0)


@kinds()
@settings(max_examples=40)
@given(events=EVENTS, cut=st.integers(0, 60))
def test_parts_of_events_are_all_of_them(kind: type[Summary], events: Codes, cut: int) -> None:
    asked = np.concatenate([events, ASKED])
    whole, parts = made(kind, events), made(kind, events[:cut], events[cut:][::-1])
    assert told(parts, asked) == told(whole, asked)
    assert parts.nbytes == whole.nbytes
    added = made(kind, events[cut:])
    added.add(made(kind, events[:cut]))
    assert told(added, asked) == told(whole, asked)
    assert added.snapshot().equals(whole.snapshot())


@kinds()
@settings(max_examples=40)
@given(events=EVENTS, others=EVENTS)
def test_what_is_added_and_subtracted_was_never_there(kind: type[Summary], events: Codes, others: Codes) -> None:
    asked = np.concatenate([events, others, ASKED])
    summary, other = made(kind, events), made(kind, others)
    before = other.snapshot()
    summary.add(other)
    assert told(summary, asked) == told(made(kind, events, others), asked)
    summary.subtract(other)
    left = summary.may_hold(asked)
    assert summary.events == len(events)
    assert summary.confidence() == made(kind, events).confidence()
    of_both = left & made(kind, events).may_hold(asked)
    assert summary.estimate(asked[of_both]).tolist() == made(kind, events).estimate(asked[of_both]).tolist()
    assert left[: len(events)].all(), "what came may have come"
    assert other.snapshot().equals(before), "what is added and subtracted stays as it is"


@kinds()
@settings(max_examples=40)
@given(events=EVENTS)
def test_estimates_are_near_the_counts(kind: type[Summary], events: Codes) -> None:
    summary, truth = made(kind, events), Counter(events.tolist())
    asked = np.concatenate([events, ASKED])
    estimated = summary.estimate(asked)
    assert ((estimated >= 0) & (estimated <= summary.events)).all()
    came = np.array([truth[code] for code in asked.tolist()], np.int64)
    if summary.is_exact:
        assert estimated.tolist() == came.tolist() and summary.confidence() == 0
    assert not (came[~summary.may_hold(asked)]).any()
    assert not (estimated[~summary.may_hold(asked)]).any()


@kinds()
def test_nothing_is_estimated_of_no_events(kind: type[Summary]) -> None:
    summary = kind()
    assert told(summary, ASKED) == (0, [0] * len(ASKED), 0.0)
    assert not summary.may_hold(ASKED).any()
    summary.add(kind())
    summary.subtract(kind())
    assert told(summary, ASKED[:0]) == (0, [], 0.0)


@kinds()
@settings(max_examples=40)
@given(events=EVENTS.filter(len), others=EVENTS.filter(len))
def test_distance(kind: type[Summary], events: Codes, others: Codes) -> None:
    a, b = made(kind, events), made(kind, others)
    assert a.distance(made(kind, np.tile(events, 3))) == pytest.approx(0, abs=1e-6)
    assert a.distance(b) == b.distance(a)
    if a.is_exact:
        one, two = Counter(events.tolist()), Counter(others.tolist())
        shares = [one[key] / len(events) - two[key] / len(others) for key in one | two]
        assert a.distance(b) == pytest.approx(sqrt(sum(share**2 for share in shares)), abs=1e-6)


@kinds()
@settings(max_examples=40)
@given(events=EVENTS, others=EVENTS.filter(len))
def test_a_restored_one_goes_on_as_if_nothing_had_been(kind: type[Summary], events: Codes, others: Codes) -> None:
    asked = np.concatenate([events, others, ASKED])
    summary = made(kind, events)
    restored = kind()
    restored.restore(summary.snapshot(), summary.events)
    for one in (summary, restored):
        one.summarize(others)
    assert told(restored, asked) == told(summary, asked)
    assert restored.snapshot().equals(summary.snapshot()) and restored.nbytes == summary.nbytes
    assert restored.distance(made(kind, others)) == summary.distance(made(kind, others))


@kinds()
def test_a_copy_leaves_the_first_one_alone(kind: type[Summary]) -> None:
    summary = made(kind, np.arange(5))
    before = told(summary, ASKED)
    copied = summary.copy()
    copied.summarize(np.arange(4))
    copied.add(made(kind, np.arange(3)))
    assert told(summary, ASKED) == before
    assert told(copied, ASKED) == told(made(kind, np.arange(5), np.arange(4), np.arange(3)), ASKED)


def test_names_of_kinds() -> None:
    class Other(KINDS["counts"]):  # type: ignore[name-defined,misc]
        kind = "counts"

    with pytest.raises(ValueError, match="there is a kind of summary 'counts' already"):
        register(Other)
    Other.kind = "Two words"
    with pytest.raises(ValueError, match="no name for a kind"):
        register(Other)
    assert register(KINDS["counts"]) is KINDS["counts"]
