"""What is asked of values: numpy's answers are accepted, others are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.aggregate_questions import approximate, exact, row_windows
from benchmarks.measures import (
    ApproxDistinct,
    ApproxPercentile,
    Distinct,
    Frequent,
    Measure,
    Median,
    Percentile,
    Top,
    approximate_measures,
    exact_measures,
    missing,
)
from mullion.aggregates import REGISTRY
from mullion.language.parse import parse_query

VALUES = np.array([5, 1, 1, 3, 3, 3, 9, 9, 2, 7])


@pytest.mark.parametrize(
    ("measure", "right", "wrong"),
    [
        (Percentile(0.25), 2.25, 2.0),
        (Median(), 3.0, 3.5),
        (Distinct(), 6, 7),
        (Top(2), [(3, 3), (1, 2)], [(3, 3), (9, 2)]),
        (Top(2), [{"value": 3, "count": 3}, {"value": 1, "count": 2}], []),
        (ApproxPercentile(0.5), 3, 9),
        (ApproxDistinct(), 6, 8),
        (Frequent(0.3), [(3, 3)], []),
        (Frequent(0.3), [(3, 4)], [(3, 3), (7, 1)]),
    ],
)
def test_right_and_wrong_answers(measure: Measure, right: Any, wrong: Any) -> None:
    assert measure.is_right(VALUES, right)
    assert not measure.is_right(VALUES, wrong)


def test_a_mix_takes_its_kinds_in_turn() -> None:
    assert [m.function for m in exact_measures(6)] == ["percentile", "count", "top_k", "median", "percentile", "count"]
    assert {m.function for m in approximate_measures(3)} == {"approx_percentile", "approx_count_distinct", "frequent"}
    shares = [m.share for m in exact_measures(256) if isinstance(m, Percentile)]
    assert len(set(shares)) == 64 and min(shares) > 0 and max(shares) < 1


def test_queries_parse_and_differ() -> None:
    texts = [q.text() for q in (*exact(64), *approximate(64))] + [w.text() for w in row_windows(64)]
    assert len(set(texts)) == 192
    for text in texts:
        parse_query(text, name="q")


def test_functions_that_are_not_there_are_told() -> None:
    assert missing(exact_measures(8)) == []
    told = missing(approximate_measures(8))
    assert told == sorted({"approx_count_distinct", "approx_percentile", "frequent"} - set(REGISTRY))
