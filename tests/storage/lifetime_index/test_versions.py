"""Versions of the index, restarts and crashes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mullion.errors import CheckpointError
from mullion.storage import fault_points
from mullion.storage.lifetime_index import DoublyPartitioned, LifetimeIndex, wave_by_insertion
from storage.lifetime_index.small_indices import (
    INTERVAL,
    create,
    each_clustering,
    each_partitioning,
    listed,
    scan,
    search,
    update,
)


def some_updates(index: LifetimeIndex, first: int, last: int) -> Iterator[int]:
    for now in range(first, last, INTERVAL):
        update(index, now, [(i % 4, 0.0, now * 100 + i, now, now + 1 + (7 * i) % 16) for i in range(20)])
        yield now


@each_clustering
def test_a_snapshot_stays_as_it_was(tmp_path: Path, clustering: str) -> None:
    index = create(tmp_path, DoublyPartitioned(2, 2), clustering)
    list(some_updates(index, 0, 20))
    held, was = index.snapshot(), listed(scan(index.snapshot()))
    files = set(held.files)
    list(some_updates(index, 20, 60))
    assert listed(scan(held)) == was
    assert listed(search(held, 3)) == [row for row in was if row[0] == 3]
    del held
    list(some_updates(index, 60, 64))
    left = {path.name for path in tmp_path.iterdir()}
    assert not {name for name in files if name.endswith((".rows", ".keys"))} & left


@each_partitioning
@each_clustering
def test_a_state_can_be_gone_back_to(tmp_path: Path, partitioning: DoublyPartitioned, clustering: str) -> None:
    index = create(tmp_path, partitioning, clustering)
    list(some_updates(index, 0, 20))
    held, state = index.snapshot(), json.loads(json.dumps(index.state()))
    was = listed(scan(held))
    list(some_updates(index, 20, 22))
    then = listed(scan(index.snapshot()))
    again = LifetimeIndex.restore(tmp_path, state)
    assert (again.now, listed(scan(again.snapshot()))) == (18, was)
    list(some_updates(again, 20, 22))
    assert listed(scan(again.snapshot())) == then


def test_a_state_whose_files_are_gone_is_refused(tmp_path: Path) -> None:
    index = create(tmp_path, DoublyPartitioned(2, 2), "rebuild")
    list(some_updates(index, 0, 20))
    state = index.state()
    list(some_updates(index, 20, 60))
    with pytest.raises(CheckpointError, match="missing"):
        LifetimeIndex.restore(tmp_path, state)


class Crash(BaseException):
    pass


@contextmanager
def crash_at(number: int) -> Iterator[Callable[[], int]]:
    """Break off at the step of this number; the result counts the steps."""
    passed = 0

    def take_step(name: str) -> None:
        nonlocal passed
        passed += 1
        if passed == number:
            raise Crash(name)

    fault_points.on_fault_point.append(take_step)
    try:
        yield lambda: passed
    finally:
        fault_points.on_fault_point.remove(take_step)


@pytest.mark.slow
@pytest.mark.parametrize("partitioning", [wave_by_insertion(3), DoublyPartitioned(2, 2)])
@each_clustering
def test_a_crash_at_any_step_leaves_what_the_owner_has_committed(
    tmp_path: Path, partitioning: DoublyPartitioned, clustering: str
) -> None:
    index = create(tmp_path / "whole", partitioning, clustering)
    list(some_updates(index, 0, 20))
    before = listed(scan(index.snapshot()))
    with crash_at(0) as steps:
        list(some_updates(index, 20, 22))
    after = listed(scan(index.snapshot()))
    assert before != after
    assert steps() > 1
    for step in range(1, steps() + 1):
        index = create(tmp_path / str(step), partitioning, clustering)
        list(some_updates(index, 0, 20))
        committed, state = index.snapshot(), json.loads(json.dumps(index.state()))
        with crash_at(step), pytest.raises(Crash):
            list(some_updates(index, 20, 22))
        again = LifetimeIndex.restore(index.directory, state)
        assert listed(scan(again.snapshot())) == listed(scan(committed)) == before
        list(some_updates(again, 20, 22))
        assert listed(scan(again.snapshot())) == after
        list(some_updates(again, 22, 26))  # the first lets go of what was scanned
        assert {path.name for path in index.directory.iterdir()} == again.snapshot().files
