"""The log of batches: each in a file that commits name, found again after a restart, and gone when it is over."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from mullion.storage.event_log import EventLog
from mullion.storage.files import CommittedFiles
from mullion.storage.marks import Mark
from mullion.storage.scratch import Scratch


def events(*times: int) -> pa.Table:
    return pa.table({"#t": times, "x": [f"event at {time}" for time in times]})


def log_in(directory: Path | None, *, stays_open: bool = False) -> EventLog:
    return EventLog(None if directory is None else CommittedFiles(directory), "kept", "#t", stays_open=stays_open)


@pytest.mark.parametrize("stays_open", [False, True])
def test_a_restart_goes_on_with_the_batches_that_a_commit_names(tmp_path: Path, stays_open: bool) -> None:
    log = log_in(tmp_path, stays_open=stays_open)
    log.add(Mark(0), events(3, 1))
    log.add(Mark(1), events())
    log.add(Mark(1, end=True), events(9, 5, 7))
    named = [batch.saved() for batch in log.batches]
    log.add(Mark(2), events(20))
    for saved in (named, [name for name, *_ in named]):
        again = log_in(tmp_path, stays_open=stays_open)
        again.restore(saved)
        found = [(batch.mark, batch.rows, batch.oldest, batch.newest) for batch in again.batches]
        assert found == [(Mark(0), 2, 1, 3), (Mark(1, end=True), 3, 5, 9)]
        assert [batch.events.to_pydict() for batch in again.batches] == [
            events(3, 1).to_pydict(),
            events(9, 5, 7).to_pydict(),
        ]
        again.files.sweep(again.names)
        assert again.files.names("kept") == [name for name, *_ in named]


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_batch_that_is_played_again_takes_the_place_of_itself(tmp_path: Path, in_memory: bool) -> None:
    log = log_in(None if in_memory else tmp_path)
    log.add(Mark(0), events(1))
    log.add(Mark(1), events(2))
    log.add(Mark(1), events(2, 3))
    assert [(batch.mark.batch, batch.events["#t"].to_pylist()) for batch in log.batches] == [(0, [1]), (1, [2, 3])]
    assert len(log.names) == (0 if in_memory else 2)


def test_batches_leave_when_all_their_events_are_old(tmp_path: Path) -> None:
    log = log_in(tmp_path, stays_open=True)
    log.add(Mark(0), events(1, 10))
    log.add(Mark(1), events(4))
    (held, gone) = log.batches
    log.forget_before(10)
    assert log.batches == (held,)
    CommittedFiles(tmp_path).sweep(log.names)
    assert gone.events["#t"].to_pylist() == [4], "who has the batch still reads it"
    assert not (tmp_path / gone.name).exists()


def test_scratch_is_made_when_it_is_asked_for_and_removed() -> None:
    scratch = Scratch()
    assert not scratch
    path = scratch.path
    assert scratch and path.is_dir() and scratch.path == path
    scratch.discard()
    assert not path.exists() and not scratch
