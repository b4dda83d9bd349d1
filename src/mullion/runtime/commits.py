"""What the commit of a batch records of a stream, and what a restart goes on from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from mullion.catalog.closing import other_rows
from mullion.catalog.summaries import StreamStructure
from mullion.errors import CheckpointError
from mullion.runtime.batch import Batch
from mullion.runtime.batch_input import RECORDED, BatchInput, Notes
from mullion.runtime.column_structures import ColumnStructure
from mullion.runtime.commit_course import CommitCourse
from mullion.runtime.counts import StreamCounts
from mullion.runtime.holding import Holding
from mullion.runtime.intake import new_intake
from mullion.runtime.kept_events import Keeper
from mullion.runtime.ordered import restored_synopses
from mullion.runtime.sharing_set import SharingSet
from mullion.runtime.stream_state import StreamState
from mullion.runtime.view import SharedSubWindows, View
from mullion.slices.bounds import EVERYWHERE
from mullion.slices.kept_stretches import KeptStretches
from mullion.slices.shed_tally import ShedTally
from mullion.storage.files import REPAIR
from mullion.storage.journal import Commit, Journal
from mullion.storage.marks import Mark


class Commits(CommitCourse[StreamState]):
    # Before a batch

    def go_on_from(self, notes: Notes) -> None:
        """What the source has noted of the stream, as it is or as the last commit knows it."""
        state = self._state
        state.notes = notes
        if state.journal is not None:
            notes.put_right(state.inputs, state.committed, state.journal.directory / "commits")

    def check_replayed(self, number: int) -> None:
        """A batch that is played again holds what it held when it was committed."""
        state = self._state
        recorded = next((noted for noted in state.inputs if noted.batch == number and noted.offsets), None)
        if recorded is not None and state.notes is not None and not state.notes.has(recorded):
            message = f"batch {number} of stream '{state.stream.name}' is not the one that was committed"
            raise CheckpointError(f"{message}: see {state.notes.directory / 'offsets' / str(number)}", hint=REPAIR)

    def check_follows(self, number: int) -> None:
        """A batch that the source takes for done and that no commit knows would be lost."""
        state = self._state
        expected = state.next_number
        if state.journal is not None and number > expected:
            lost = f"batch {expected}" if number == expected + 1 else f"batches {expected} to {number - 1}"
            message = f"stream '{state.stream.name}' goes on with batch {number}, but there is no commit of {lost}"
            raise CheckpointError(f"{message} in {state.journal.directory / 'commits'}", hint=REPAIR)

    def check_rows(self, batch: Batch) -> None:
        """Nobody notes how far a static stream was read, so a restart must find the same one."""
        counted = batch.times(EVERYWHERE).taken
        rows = [counted.events, counted.malformed, counted.oldest, counted.newest]
        if self._state.rows_of_static not in (None, rows):
            raise other_rows(self._state.stream.name)
        self._state.rows_of_static = rows

    # After a batch

    def _prepare(self, mark: Mark) -> None:
        state = self._state
        state.scheduling.pace.settle()
        self._new = {name: sharing_set.tier.saved() for name, sharing_set in state.sets.items()}
        self._new_ordered = {name: axis_set.tier.saved() for name, axis_set in state.ordered.sets.items()}
        if state.keeper is not None and state.newest is not None:
            state.keeper.forget(state.newest)
        if state.punctuations is not None:
            state.punctuations.forget(state.watermark)
            state.punctuations.save(mark)

    def _record(self, mark: Mark, journal: Journal) -> Commit:
        state, snapshot, new = self._state, journal.wants_snapshot, self._new
        if snapshot:
            new = {name: sharing_set.tier.entries for name, sharing_set in state.sets.items()}
        tables = [_labelled(entry.table, f"set {name}") for name, entries in new.items() for entry in entries]
        tables += [_labelled(table, label) for label, table in state.ordered.tables(self._new_ordered, whole=snapshot)]
        recorded = {
            "oldest": state.oldest,
            "newest": state.newest,
            "newest_since": state.newest_since,
            "holding": state.holding.snapshot(),
            "shed": state.overload.tally.snapshot(),
            "heartbeat": [state.heartbeat, state.is_behind],
            "watermark": state.watermark,
            "ahead": state.stream.ahead,
            "counts": asdict(state.counts),
            "backfilled": sorted(state.backfilled),
            "rows": state.rows_of_static,
            "stopped": state.limits.snapshot(),
            "sets": {name: sharing_set.snapshot() for name, sharing_set in state.sets.items()},
            "clusters": state.clusters,
            "ordered": state.ordered.snapshot(),
            "schedule": state.scheduling.snapshot(),
            "kept": None if state.keeper is None else state.keeper.snapshot(),
            "closed": None if state.punctuations is None else state.punctuations.manifest,
            "punctuated": None if state.punctuations is None else state.punctuations.closed.columns,
            "intake": None if state.intake is None else state.intake.names,
            "relations": state.relations_stand(),
            "inputs": self._taken_in(mark, whole=snapshot),
        }
        return Commit(mark, recorded, tuple(tables), snapshot, self._files(mark))

    def _taken_in(self, mark: Mark, *, whole: bool) -> list[dict[str, Any]]:
        """What the batch held, for its commit; or what the last batches held."""
        state = self._state
        before = state.inputs[-1] if state.inputs else None
        fresh = None
        if state.notes is not None and (before is None or before.batch < mark.batch):
            fresh = state.notes.input_of(mark.batch, before)
        if fresh is not None:
            older = [*state.inputs[-RECORDED:-1], *([] if before is None else [before])]
            state.inputs = [*(replace(noted, offsets="") for noted in older[:-1]), *older[-1:], fresh]
        return [asdict(noted) for noted in (state.inputs if whole else [] if fresh is None else [fresh])]

    def _files(self, mark: Mark) -> tuple[str, ...]:
        state = self._state
        sharded = [shards for sharing_set in state.sets.values() for shards in sharing_set.shards.values()]
        kept_files = [] if state.keeper is None else state.keeper.names
        handed_files = [] if state.intake is None else state.intake.names
        names = [name for shards in sharded for name in shards.names]
        return (
            *names,
            *kept_files,
            *handed_files,
            *state.ahead.notes.names,
            *state.overload.notes.names,
            *(() if state.punctuations is None else state.punctuations.names),
            *state.tables.files(state.tables_from(mark.batch)),
        )

    def _read_files(self) -> Collection[str]:
        return () if self._state.keeper is None else self._state.keeper.held_files

    # A restart

    def _restore(self, chain: Sequence[Commit]) -> None:
        state, recorded = self._state, chain[-1].state
        tables = [table for link in chain for table in link.tables]
        state.relations_stood = recorded["relations"]
        state.inputs = [BatchInput(**noted) for link in chain for noted in link.state["inputs"]][-RECORDED:]
        state.is_restored = True
        state.oldest, state.newest = recorded["oldest"], recorded["newest"]
        state.newest_since = recorded.get("newest_since", 0)
        state.holding = Holding.restored(recorded.get("holding", (None, ())))
        state.overload.tally = ShedTally(*recorded.get("shed", ()))
        state.heartbeat, state.is_behind = recorded.get("heartbeat", (None, False))
        state.counts = StreamCounts(**recorded["counts"])
        state.backfilled = set(recorded["backfilled"])
        state.rows_of_static = recorded["rows"]
        if "schedule" in recorded:
            state.scheduling.restore(recorded["schedule"])
        labelled = [(table.schema.metadata[b"set"].decode(), table) for table in tables]
        state.restored_order = recorded["ordered"], labelled
        if recorded["kept"] is not None:
            state.keeper = Keeper(state.stream, state.files)
            state.keeper.restore(recorded["kept"])
        if recorded.get("intake") is not None:
            state.intake = new_intake(None if state.journal is None else state.journal.files)
            state.intake.restore(recorded["intake"])
        if state.punctuations is not None:
            state.punctuations.restore(recorded.get("closed") or {})
        state.clusters = recorded["clusters"]
        for name, own in recorded["sets"].items():
            sharing_set = state.sets.setdefault(name, SharingSet())
            sharing_set.restore(own, [table for label, table in labelled if label == f"set {name}"], state.files)
            sharing_set.kept_stretches = KeptStretches(None if state.newest is None else state.newest + 1)

    # What questions see

    def show(self) -> None:
        """Let questions see what is there now. Nothing of it is changed by a later batch."""
        state = self._state
        if state.newest is None:
            return
        whole = [s for s in state.sets.values() if not s.shards]
        sets = tuple((tuple(e for e in s.tier.entries if e.readers is None), s.kept_stretches.copy()) for s in whole)
        ordered = state.ordered
        self._publish(self._view(ordered.order.waiting, ordered.synopses, sets, state.lookups.rows))

    def show_restored(self, synopses: Sequence[StreamStructure]) -> None:
        """Let questions see what the last commit left, before the first batch comes. Where its sub-windows were cut is
        not known any more."""
        state = self._state
        if state.is_restored and state.newest is not None:
            restored, waiting = restored_synopses(synopses, *state.restored_order, state.newest)
            self._publish(self._view(waiting, restored))

    def _publish(self, view: View) -> None:
        state = self._state
        state.published.publish(lambda: setattr(state, "view", view))

    def _view(
        self,
        waiting: pa.Table | None,
        synopses: Mapping[str, ColumnStructure],
        sets: tuple[SharedSubWindows, ...] = (),
        tables: Mapping[str, pa.Table] | None = None,
    ) -> View:
        state = self._state
        assert state.newest is not None
        kept = None if state.keeper is None else state.keeper.shown()
        return View(state.stream, state.newest, state.counts.events, sets, kept, waiting, dict(synopses), tables or {})


def _labelled(table: pa.Table, name: str) -> pa.Table:
    return table.replace_schema_metadata({**(table.schema.metadata or {}), b"set": name.encode()})
