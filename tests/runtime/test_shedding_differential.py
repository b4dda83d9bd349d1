"""Events that are shed: answers are those of the reference over the kept events with their weights, over batches,
restarts and kills, with queries that enter and leave. Without a JVM."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shed_trials import JOINS, PROBES, SHEDDING, Trial, play, trials


@pytest.mark.slow
@settings(max_examples=40)
@given(trial=trials())
def test_answers_are_those_of_the_kept_events(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as name:
        play(trial, Path(name))


@pytest.mark.slow
@settings(max_examples=25)
@given(
    trial=trials(
        (*JOINS, "marked", "rows"),
        st.sampled_from([{"s": PROBES, "r": SHEDDING[0]}, {"s": PROBES, "r": PROBES}, {"s": PROBES, "r": ""}]),
    )
)
def test_joins_that_do_not_probe(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as name:
        play(trial, Path(name))


@pytest.mark.parametrize("step", ["after shedding is decided", "before partials", "after answers", "before head"])
def test_a_batch_that_is_played_again_keeps_the_same_events(step: str, tmp_path: Path) -> None:
    """Killed within a batch of which half is kept. The next run would keep all of it, if nothing were noted."""
    files = {"s": [list(range(i * 20, i * 20 + 20)) for i in range(4)], "r": [[1], [2]]}
    weights = {"s": [1.0, 1.0, 2.0, 4.0], "r": [1.0]}
    trial = Trial(files, weights, dict.fromkeys("sr", SHEDDING[0]), 0, 1, ("totals",), None, (0, 0), (step, 3), "auto")
    shares = [row["kept_share"] for row in play(trial, tmp_path)["totals"]]
    assert 1.0 in shares and 0.4 < min(shares) < 0.6
