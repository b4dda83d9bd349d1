"""The benchmark of schedules: it runs, and its machine does what the schedulers say."""

from __future__ import annotations

import io
import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import schedules
from benchmarks.schedules_lab import KEYS, Costs, simulate, timetable, workload
from benchmarks.schedules_rest import Rest
from mullion.options import Schedule

COSTS = dict.fromkeys(KEYS, Costs(1.0, 0.05, 0.01))


@pytest.mark.slow
def test_it_runs_and_judges_nothing_when_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plot = tmp_path / "s.png" if find_spec("matplotlib") else None
    small = schedules.Sizes((5,), 3, 12, 1, Rest(queries=6, batches=8, events=200, groups=5))
    monkeypatch.setattr(schedules, "QUICK", small)
    monkeypatch.setattr(schedules, "RATES", {50: 1, 100: 2})
    made = schedules.run(Console(file=io.StringIO()), json=tmp_path / "s.json", plot=plot, quick=True)
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["benchmark"] == "schedules" and not found["judged"] and made.passed
    assert len(found["outcomes"]) == 2 * len(schedules.WAYS) and len(found["figures"]) == 5
    assert plot is None or plot.exists()


def test_with_time_enough_nobody_is_late_and_aggressive_runs_most() -> None:
    queries = workload(5, 1)
    outcomes = {way: simulate(timetable(way, queries, COSTS), queries, 1e6, 200) for way in Schedule}
    assert all(outcome.latency == 0 for outcome in outcomes.values())
    assert outcomes[Schedule.AGGRESSIVE].throughput == max(outcome.throughput for outcome in outcomes.values())
    wanted = sum(200 // query.slide for query in queries) / 200
    assert outcomes[Schedule.EDF].throughput == pytest.approx(wanted)


def test_with_too_little_all_are_late_and_sharing_helps() -> None:
    queries = workload(20, 1)
    capacity = timetable(Schedule.HYBRID, queries, COSTS).load / 2
    late = {way: simulate(timetable(way, queries, COSTS), queries, capacity, 200) for way in Schedule}
    assert late[Schedule.EDF].latency > late[Schedule.CONSERVATIVE].latency > late[Schedule.LATE_PENDING].latency
    assert late[Schedule.LATE_PENDING].throughput > 1.2 * late[Schedule.HYBRID].throughput
