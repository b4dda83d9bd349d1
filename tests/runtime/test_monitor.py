"""The input monitor on traces made by hand."""

from __future__ import annotations

import pytest

from mullion.options import Relief
from mullion.runtime.monitor import Monitor, Policy, SourceLag


def monitor(*order: Relief, heaviest: float = 8.0, stretch: bool = False, enlarge: bool = False) -> Monitor:
    return Monitor(Policy(10.0, order or tuple(Relief), heaviest), can_stretch=stretch, can_enlarge=enlarge)


def batch(watching: Monitor, began: float, seconds: float, waiting: SourceLag | None, events: int = 100) -> Monitor:
    if watching.observe(began, began + seconds, events):
        watching.look(began + seconds, waiting)
    return watching


def flood(watching: Monitor, began: float, until: float, waiting: SourceLag | None) -> list[float]:
    """Batches of a second, one after the other; the weights after each."""
    weights = []
    while began < until:
        batch(watching, began, 1.0, waiting)
        weights.append(watching.weight)
        began += 1.0
    return weights


MUCH, LITTLE = SourceLag(2000, 100), SourceLag(100, 100)
"""Twenty batches, or one, wait where a batch takes a second."""


def test_rates() -> None:
    watching = batch(monitor(), 0.0, 2.0, SourceLag(50, 100))
    rates = watching.rates
    assert (rates.working, rates.backlog, rates.lag, rates.busy) == (50.0, 50.0, 1.0, 1.0)
    batch(watching, 3.0, 1.0, SourceLag(150, 100))
    # 100 events and 100 more that wait came in two seconds; before, 100 had come in two.
    assert rates.arriving == pytest.approx((50 + 100) / 2)
    assert (rates.backlog, rates.lag, rates.busy) == (150.0, 1.5, 0.5)


def test_a_short_lag_is_not_behind() -> None:
    watching = monitor()
    assert set(flood(watching, 0, 100, LITTLE)) == {1.0}
    assert not watching.is_behind


def test_behind_needs_its_time() -> None:
    watching = monitor(heaviest=2.0)
    weights = flood(watching, 0, 9, MUCH)
    assert set(weights) == {1.0} and watching.behind_since == 0.0
    assert flood(watching, 9, 11, MUCH) == [1.5, 1.5] and watching.is_behind


def test_one_long_batch_is_enough() -> None:
    watching = batch(monitor(heaviest=2.0), 0.0, 1.0, LITTLE)
    assert batch(watching, 1.0, 11.0, MUCH).weight > 1.0


def test_one_look_without_lag_begins_anew() -> None:
    watching = monitor()
    flood(watching, 0, 9, MUCH)
    flood(watching, 9, 10, LITTLE)
    assert set(flood(watching, 10, 19, MUCH)) == {1.0}


def test_relief_comes_in_order() -> None:
    watching = monitor(stretch=True, enlarge=True, heaviest=2.0)
    seen = []
    for second in range(200):
        flood(watching, second, second + 1, MUCH)
        state = (watching.stretch, watching.larger, watching.weight)
        if not seen or seen[-1] != state:
            seen.append(state)
    assert seen == [
        (1.0, 1, 1.0), (2.0, 1, 1.0), (4.0, 1, 1.0), (8.0, 1, 1.0), (8.0, 2, 1.0), (8.0, 4, 1.0), (8.0, 8, 1.0),
        (8.0, 16, 1.0), (8.0, 16, 1.5), (8.0, 16, 2.0),
    ]  # fmt: skip


def test_the_order_can_be_chosen() -> None:
    watching = monitor(Relief.SHED, Relief.STRETCH, stretch=True, heaviest=1.5)
    flood(watching, 0, 12, MUCH)
    assert (watching.weight, watching.stretch) == (1.5, 1.0)
    flood(watching, 12, 24, MUCH)
    assert (watching.weight, watching.stretch) == (1.5, 2.0)


def test_where_nothing_may_be_shed_nothing_is() -> None:
    assert set(flood(monitor(heaviest=1.0), 0, 200, MUCH)) == {1.0}
    assert set(flood(monitor("stretch", "enlarge"), 0, 200, MUCH)) == {1.0}


def test_shedding_goes_at_once_to_what_rates_ask_for() -> None:
    """Five times as much comes as is worked off, and what waits takes 52 s; it should be worked off in 40, beside what
    comes: 5 + 52 / 40 times as fast, so that one of eight is kept."""
    watching = monitor(heaviest=100.0)
    amount = 0.0
    for second in range(13):
        amount += 400
        batch(watching, second, 1.0, SourceLag(amount, 100))
    assert watching.rates.arriving == pytest.approx(500, rel=0.01)
    assert watching.weight == 8.0


def test_shedding_that_is_not_enough_goes_on_from_what_is_kept() -> None:
    """One of four is kept, and still twice as much comes as is worked off."""
    watching = monitor(heaviest=100.0)
    watching.steps[Relief.SHED] = 4
    amount = 1000.0
    for second in range(11):
        amount += 100
        batch(watching, second, 1.0, SourceLag(amount, 100))
    assert watching.rates.arriving == pytest.approx(200, rel=0.01)
    assert watching.weight == 12.0, "4 x (2 + 20 / 40) = 10"


def test_periods_stretch_at_once_as_far_as_needed() -> None:
    watching = monitor(stretch=True)
    amount = 0.0
    for second in range(13):
        amount += 400
        batch(watching, second, 1.0, SourceLag(amount, 100))
    assert (watching.stretch, watching.weight) == (8.0, 1.0)


def test_a_batch_that_alone_would_be_too_long_is_shed_from_its_beginning_on() -> None:
    """100 take two seconds. 3,000 would take a minute, and a batch may take twice ten seconds."""
    watching = monitor(heaviest=100.0)
    watching.begins(100)
    assert watching.weight == 1.0  # nothing is known of batches yet
    batch(watching, 0.0, 2.0, SourceLag(500, 100))
    watching.begins(1000)
    assert watching.weight == 1.0
    watching.begins(3000)
    assert watching.weight == 3.0 and watching.is_behind
    # A third of 3,000 took as long as foreseen, so that as much again may take as long.
    batch(watching, 2.0, 20.0, SourceLag(1000, 3000))
    watching.begins(3000)
    assert watching.weight == 3.0


def test_no_batch_is_too_long_where_nothing_may_be_shed() -> None:
    for waits in (monitor(heaviest=1.0), monitor("stretch", "enlarge"), monitor(heaviest=100.0)):
        waits.acts = waits.policy.heaviest < 100.0 or "shed" not in waits.policy.order
        batch(waits, 0.0, 2.0, LITTLE)
        waits.begins(1e9)
        assert waits.weight == 1.0


def test_calm_takes_back_step_by_step() -> None:
    watching = monitor(stretch=True, heaviest=2.0)
    flood(watching, 0, 70, MUCH)
    assert (watching.stretch, watching.weight) == (8.0, 2.0)
    seen = []
    for second in range(70, 200):
        flood(watching, second, second + 1, LITTLE)
        state = (watching.stretch, watching.weight)
        if not seen or seen[-1] != state:
            seen.append(state)
    assert seen == [(8.0, 2.0), (8.0, 1.5), (8.0, 1.0), (4.0, 1.0), (2.0, 1.0), (1.0, 1.0)]
    assert not watching.is_behind


def test_after_deep_shedding_calm_takes_back_more_each_time() -> None:
    watching = monitor(heaviest=256.0)
    watching.steps[Relief.SHED] = 13
    weights = flood(watching, 0, 60, LITTLE)
    changes = [weight for weight, before in zip(weights[1:], weights, strict=False) if weight != before]
    assert changes == [64.0, 32.0, 8.0, 1.0], "1, 2, 4 and 8 steps"


def test_who_is_behind_again_takes_back_slowly_again() -> None:
    watching = monitor(heaviest=256.0)
    watching.steps[Relief.SHED] = 13
    flood(watching, 0, 31, LITTLE)
    assert watching.weight == 8.0
    flood(watching, 31, 43, MUCH)
    again = watching.weight
    assert again > 8.0
    weights = flood(watching, 43, 56, LITTLE)
    assert weights[-1] == max(w for w in watching.policy.weights() if w < again)


def test_between_behind_and_calm_nothing_changes() -> None:
    watching = monitor(heaviest=2.0)
    flood(watching, 0, 30, MUCH)
    assert watching.weight == 2.0
    assert set(flood(watching, 30, 200, SourceLag(700, 100))) == {2.0}


def test_a_source_that_tells_nothing() -> None:
    """Long batches that follow one another at once are behind; the same ones with pauses are not."""
    watching = monitor(heaviest=2.0)
    for i in range(5):
        batch(watching, i * 12.1, 12.0, None)
    assert watching.rates.lag == 12.0 and watching.weight > 1.0
    watching = monitor(heaviest=2.0)
    for i in range(20):
        batch(watching, i * 20.0, 12.0, None)
    assert (watching.rates.lag, watching.rates.backlog, watching.weight) == (0.0, None, 1.0)


def test_a_run_that_ends_by_itself_is_not_behind() -> None:
    watching = monitor()
    watching.acts = False
    assert set(flood(watching, 0, 100, MUCH)) == {1.0} and not watching.is_behind


def test_many_short_batches_are_looked_at_together() -> None:
    watching = monitor()
    ends = [i / 10 + 0.05 for i in range(30)]
    looks = [end for end in ends if watching.observe(end - 0.05, end, 10) and watching.look(end, LITTLE) is None]
    assert 5 <= len(looks) <= 7
