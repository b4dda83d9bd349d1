"""The benchmark of the index on disk: the same records for all, and figures of all techniques."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import operators_index
from benchmarks.lifetime_records import RECORD, Source, Technique, Workload, look_at, measure
from benchmarks.operators_index import Size, fastest
from mullion.errors import EnvironmentProblem
from mullion.storage.lifetime_index import LifetimeIndex

TINY = Workload(1, updates=6, scan_every=3)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.fsync", lambda handle: None)
    monkeypatch.chdir(tmp_path)


def test_techniques_have_the_names_of_the_paper() -> None:
    names = [
        Technique("R-ins", 4),
        Technique("D-exp", 1, 9),
        Technique("NoRebuild", 2, 8),
        Technique("Rebuild chr", 3, 3),
    ]
    assert [t.name for t in names] == ["R-ins4", "D-exp9", "NoRebuild2x8", "Rebuild3x3 chr"]
    assert [t.clustering for t in names] == ["rebuild", "norebuild", "norebuild", "rebuild"]
    assert [t.partitioning.round_robin for t in names] == [False, False, True, False]
    assert [(t.partitioning.insertions, t.partitioning.expiries) for t in names] == [(4, 1), (1, 9), (2, 8), (3, 3)]


def test_there_are_always_as_many_records_as_the_size_says() -> None:
    source = Source(TINY)
    rows, start, end = source.first()
    assert len(rows) == pytest.approx(TINY.records, rel=0.1)
    assert (start.max(), end.min()) == (0, 1)
    there = np.array(end)
    for number, count in enumerate(TINY.arrivals, 1):
        now = number * TINY.interval
        _, start, end = source.next(now, count)
        assert now - TINY.interval < start.min() and start.max() <= now
        there = np.concatenate([there, end])
        there = there[there > now]
        assert len(there) == pytest.approx(TINY.records, rel=0.15)


def test_a_fluctuating_rate_varies_by_up_to_four_and_brings_as_many() -> None:
    arrivals = Workload(100, fluctuating=True).arrivals
    assert sum(arrivals) == pytest.approx(100_000, rel=0.01)
    assert 2 < max(arrivals) / min(arrivals) <= 4.01


def test_all_contents_are_looked_at(tmp_path: Path) -> None:
    source = Source(TINY)
    rows, start, end = source.first()
    for technique in (Technique("Rebuild", 2, 2), Technique("NoRebuild", 2, 2)):
        index: LifetimeIndex = TINY.create(technique, tmp_path / technique.name)
        index.update(0, rows, start, end)
        assert look_at(table for sub in index.snapshot().subs for table in sub.tables()) == look_at([rows])
        assert sum(index.sizes) == len(rows)


def test_a_measurement_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    one = measure(Technique("Rebuild", 2, 2), TINY, tmp_path)
    assert min(one.update, one.probe, one.scan) > 0
    assert one.touched == 3
    assert TINY.records * RECORD * 0.5 < one.written < TINY.records * RECORD * 0.9
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_all_figures_are_measured_and_drawn(tmp_path: Path) -> None:
    few = Workload(1, updates=3, scan_every=3)
    size = Size(few, Workload(2, updates=6, measured=2), roots=(2,))
    part = operators_index.measure_sizes(Console(file=io.StringIO()), size)
    assert [bar.what for bar in part.bars] == [
        "updates of 0.002 GB, R-ins by Rebuild",
        "updates of 0.002 GB, D-ins by NoRebuild",
    ]
    assert len(part.facts["small"]) == 3 + 2 + 2 + 2
    assert len(part.facts["fluctuating"]) == len(part.facts["large"]) == 4
    json.dumps(part.facts)
    assert [len(grid.rows) for grid in part.grids] == [9, 4, 4]
    pytest.importorskip("matplotlib")
    for draw in part.pictures.values():
        draw(tmp_path / "index.png")
    assert [path.name for path in tmp_path.iterdir()] == ["index.png"]


def test_the_fastest_of_a_kind_is_taken(tmp_path: Path) -> None:
    found = {n: measure(Technique("R-ins", n), TINY, tmp_path) for n in (1, 4)}
    by_name = {f"R-ins{n}": one for n, one in found.items()}
    assert fastest(by_name, "R-ins").update == min(one.update for one in found.values())


def test_a_disk_without_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    size = Size(Workload(10**9, updates=6), None)
    with pytest.raises(EnvironmentProblem, match="are free"):
        operators_index.measure_sizes(Console(file=io.StringIO()), size)
