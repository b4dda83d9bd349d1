"""Estimates from samples: by hand on small ones, and within stated bounds of the truth on skewed ones."""

from __future__ import annotations

import numpy as np
import pytest

from mullion.language.query import Column
from mullion.planner.statistics import (
    COUNTED,
    FOOTERS,
    ONE_GROUP,
    SAMPLE,
    Sampled,
    SampledGroups,
    Statistics,
    expected_cells,
)

WHERE = Column("flag")


def zipf(groups: int, events: int, seed: int, skew: float = 1.0) -> np.ndarray:
    shares = 1 / np.arange(1, groups + 1) ** skew
    return np.random.default_rng(seed).choice(groups, events, p=shares / shares.sum())


def sampled_groups(codes: np.ndarray, sampled: int, seed: int) -> SampledGroups:
    sample = np.random.default_rng(seed + 1).choice(codes, sampled, replace=False)
    return SampledGroups.of(np.bincount(sample), sampled, len(codes))


def pairs(slices: np.ndarray, groups: np.ndarray) -> int:
    return len(np.unique(slices.astype(np.int64) * (int(groups.max()) + 1) + groups))


def test_a_sample_that_is_the_batch_is_exact() -> None:
    groups = SampledGroups.of(np.array([1, 0, 3]), sampled=4, events=4)
    assert (groups.number, groups.frequencies.tolist(), groups.unseen, groups.is_exact) == (2, [0.75, 0.25], 0.0, True)


def test_each_group_that_was_seen_once_stands_for_the_root_of_the_ratio() -> None:
    """GEE by hand: 10 of 1,000 events, two groups seen twice or more, two once: 2 + 2 sqrt(100)."""
    groups = SampledGroups.of(np.array([6, 2, 1, 1]), sampled=10, events=1000)
    assert groups.number == 22
    assert groups.unseen == pytest.approx(0.2)
    assert groups.frequencies.sum() + groups.unseen == pytest.approx(1.0)


def test_dictionaries_know_of_groups_that_the_sample_has_not() -> None:
    assert SampledGroups.of(np.array([5, 5]), sampled=10, events=1000, at_least=7).number == 7


@pytest.mark.parametrize("skew", [0.0, 0.7, 1.0, 1.5])
@pytest.mark.parametrize("number", [10, 300, 5_000, 100_000])
def test_distinct_groups_are_within_the_guarantee_of_gee(number: int, skew: float) -> None:
    """The ratio to the truth is at most about sqrt(N / n), whatever the distribution."""
    events, sampled = 200_000, 10_000
    codes = zipf(number, events, seed=number, skew=skew)
    right, found = len(np.unique(codes)), sampled_groups(codes, sampled, seed=number)
    bound = np.sqrt(events / sampled) * 1.1
    assert right / bound <= found.number <= right * bound
    assert found.number == right or number > 10


@pytest.mark.parametrize("skew", [0.0, 1.0])
@pytest.mark.parametrize("number", [1, 20, 2_000])
@pytest.mark.parametrize("slices", [1, 50, 20_000])
def test_cells_are_near_the_truth(slices: int, number: int, skew: float) -> None:
    events = 200_000
    codes = zipf(number, events, seed=slices, skew=skew)
    where = np.random.default_rng(slices).integers(0, slices, events)
    groups = sampled_groups(codes, 20_000, seed=number)
    # In one slice the cells are the groups, which GEE tells less exactly.
    near = 0.15 if slices > 1 else 0.4
    assert float(expected_cells(slices, events, groups)) == pytest.approx(pairs(where, codes), rel=near)


def test_cells_are_never_more_than_events_and_never_less_than_none() -> None:
    groups = SampledGroups.of(np.ones(100, np.int64), 100, 10_000)
    found = expected_cells([1e9, 10, 0], [500, 0, 0], groups)
    assert found[0] <= 500
    assert found[1:].tolist() == [0, 0]


def test_a_predicate_that_leaves_one_group_leaves_its_cells() -> None:
    """Half of the events are of group 0, and only these are selected; independence would expect all 100 groups."""
    codes = np.where(np.arange(10_000) % 2 == 0, 0, np.arange(10_000) % 99 + 1)
    groups = SampledGroups.of(np.bincount(codes), len(codes), 1_000_000)
    sample = Sampled(codes, (codes == 0)[:, None], {WHERE: 0})
    known = Statistics(1_000_000, 0, 999_999, 10_000, FOOTERS, FOOTERS, {"k": groups}, {"k": sample})
    left = known.selected_groups("k", (WHERE,))
    assert left is not None and left.number == 1
    assert known.selected_groups("k", (Column("another"),)) is None
    cells = known.cells("k", [WHERE, None], np.full(2, 100.0), np.ones(2))
    assert cells is not None and cells.tolist() == pytest.approx([100, 10_000], rel=0.01)
    assert known.cells("k", [None, Column("another")], np.full(2, 100.0), np.ones(2)) is None
    assert known.selectivity("k", WHERE) == 0.5 == known.selectivities("k")[WHERE]
    assert known.selectivity("k", None) == 1.0
    assert known.selectivity("k", Column("another")) is None


@pytest.mark.parametrize(("by_key", "right"), [(True, 300), (False, 3000)])
def test_a_predicate_over_keys_leaves_groups_out_and_another_does_not(by_key: bool, right: int) -> None:
    """A tenth of the events of 3,000 groups: those of a tenth of the groups, or of any."""
    codes = np.random.default_rng(2).integers(0, 3000, 1_000_000) % 3000
    truths = codes % 10 == 0 if by_key else np.random.default_rng(3).random(len(codes)) < 0.1
    taken = np.random.default_rng(4).choice(len(codes), 100_000, replace=False)
    sample = Sampled(codes[taken], truths[taken][:, None], {WHERE: 0})
    groups = SampledGroups.of(np.bincount(codes[taken]), 100_000, 1_000_000)
    known = Statistics(1_000_000, 0, 1, 100_000, groups={"k": groups}, selections={"k": sample})
    left = known.selected_groups("k", (WHERE,))
    assert left is not None
    assert left.number == pytest.approx(right, rel=0.1)


def test_fragments_of_a_sample() -> None:
    truths = np.array([[1, 0], [1, 0], [1, 1], [0, 0]], np.bool_)
    first, second = Column("p"), Column("q")
    sample = Sampled(np.array([0, 1, 0, 0]), truths, {first: 0, second: 1})
    known = Statistics(4, 0, 3, 4, COUNTED, COUNTED, {"k": ONE_GROUP}, {"k": sample})
    of_both, with_groups = (
        known.fragments("k", (first, second)),
        known.fragments("k", (first, second), with_groups=True),
    )
    assert of_both is not None and with_groups is not None
    assert (of_both.number, of_both.frequencies.tolist()) == (2, [0.5, 0.25])
    assert (with_groups.number, with_groups.frequencies.tolist()) == (3, [0.25, 0.25, 0.25])
    assert known.fragments("k", ()) is None
    assert known.fragments("k", (Column("another"),)) is None


def test_what_is_said_of_a_batch() -> None:
    day = 86_400_000_000
    known = Statistics(
        3_000_000, 0, day, 100, FOOTERS, FOOTERS, {"origin": SampledGroups(229, np.ones(1)), "()": ONE_GROUP}
    )
    assert known.text() == (
        "3,000,000 events from 1970-01-01 00:00:00 to 1970-01-02 00:00:00 (footers), "
        "about 229 groups of origin (sample)"
    )
    assert known.text(["route"]).endswith(", groups of route (assumed)")
    assert Statistics().text() == "the number of events is assumed"
    assert (
        Statistics(1, 5, 5, 1, COUNTED, COUNTED, {"k": ONE_GROUP}).text().endswith("(counted), 1 group of k (counted)")
    )
    assert Statistics(9, 0, 0, 1, FOOTERS, SAMPLE).text().endswith("(footers; times: sample)")
    before = Statistics(2, -1, -1, 2, COUNTED, COUNTED).text()
    assert before == "2 events from 1969-12-31 23:59:59 to 1969-12-31 23:59:59 (counted)"
