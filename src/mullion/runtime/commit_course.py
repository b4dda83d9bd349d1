"""One commit of a run: what it stands on is written, then its record, and only then is anything let go.

    files, answers --on the disk?--> record in the journal --> it holds --> published --> old files swept --> sink told

A crash before the record leaves the commit before in force, with all its files. These stay until the commit after
this one, so that a repair can go back by one. What a commit says holds for others only when its record is there: they
let go what it no longer stands on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Generic, TypeVar

from mullion.runtime.run_state import RunState
from mullion.storage.journal import Commit, Journal
from mullion.storage.marks import Mark

StateOfRun = TypeVar("StateOfRun", bound=RunState)


class CommitCourse(ABC, Generic[StateOfRun]):
    """What all commits have in common. Each kind of run says what it records, which files that names, what it shows."""

    def __init__(self, state: StateOfRun) -> None:
        self._state = state
        self._named_before: tuple[str, ...] = ()
        """The files that the commit before stands on."""

    def commit(self, mark: Mark) -> None:
        state, journal = self._state, self._state.journal
        self._prepare(mark)
        record = None if journal is None else self._record(mark, journal)
        files = self._files(mark) if record is None else record.files
        state.sink.settle(state.name)
        if journal is not None and record is not None:
            oldest = journal.commit(record)
            if oldest is not None:
                state.tables.forget(state.tables_from(oldest.batch))
        else:
            state.tables.forget(state.tables_from(mark.batch))
        state.committed = mark
        self._hold()
        self.show()
        if state.has_files:
            state.files.sweep({*files, *self._read_files(), *self._named_before})
        self._named_before = files if journal is not None else ()
        state.sink.committed(state.name, mark)

    def restore(self) -> None:
        """Go on from the last commit."""
        chain = [] if self._state.journal is None else self._state.journal.load()
        if chain:
            self._state.committed, self._named_before = chain[-1].at, chain[-1].files
            self._state.limits.restore(chain[-1].state["stopped"])
            self._restore(chain)

    @abstractmethod
    def _prepare(self, mark: Mark) -> None:
        """Write what the commit is to stand on, and let go what no later batch or step needs."""

    @abstractmethod
    def _record(self, mark: Mark, journal: Journal) -> Commit:
        """Everything that the next batch or step goes on from."""

    @abstractmethod
    def _files(self, mark: Mark) -> tuple[str, ...]:
        """The files that the commit stands on."""

    def _read_files(self) -> Collection[str]:
        """Other files that somebody still reads."""
        return ()

    def _hold(self) -> None:
        """The record is there: what it says holds for others."""

    @abstractmethod
    def show(self) -> None:
        """Let questions see what is there now."""

    @abstractmethod
    def _restore(self, chain: Sequence[Commit]) -> None:
        """Go on from commits, of which the first holds everything and the last is the newest."""
