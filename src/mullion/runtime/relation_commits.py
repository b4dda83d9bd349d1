"""The commits of the relations over some streams, and what a restart goes on from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mullion.operators.state_files import files_of
from mullion.runtime.incoming import Incoming
from mullion.runtime.past_read import PastRead
from mullion.runtime.relation_state import RelationState
from mullion.storage.journal import Commit, Journal
from mullion.storage.marks import Mark


class RelationCommits:
    def __init__(self, state: RelationState) -> None:
        self._state = state

    def commit(self, mark: Mark, now: int) -> None:
        """`now` and the mark hold for others only when the commit is there: streams let go what was taken before it."""
        state = self._state
        manifest = {} if state.state_files is None else state.state_files.save(state.own.state(), mark.text)
        files = self._files(mark, manifest, now)
        state.sink.settle(state.name)
        if state.journal is not None:
            self._record(mark, now, state.journal, manifest, files)
            state.tables.forget(mark.batch)
        state.committed, state.now = mark, now
        if state.has_files:
            state.files.sweep(files)

    def _record(
        self, mark: Mark, now: int, journal: Journal, manifest: Mapping[str, Any], files: tuple[str, ...]
    ) -> None:
        state = self._state
        header = {
            "now": now,
            "incoming": {stream: incoming.snapshot() for stream, incoming in state.incoming.items()},
            "answers": state.counts.answers,
            "answered": state.counts.answers_by_query,
            "stopped": state.limits.snapshot(),
            "bad": state.counts.bad_by_query,
            "state": manifest,
            "shards": None if state.shards is None else state.shards.snapshot(),
        }
        journal.commit(Commit(mark, header, (), snapshot=True, files=files))

    def _files(self, mark: Mark, manifest: Mapping[str, Any], now: int) -> tuple[str, ...]:
        """The files that a commit stands on."""
        state = self._state
        shards = () if state.shards is None else state.shards.named
        ahead = [past for past in state.pasts.values() if past is not None and now <= past.newest]
        pasts = [name for past in ahead for name in past.files]
        sharded = [f"shards/{name}" for name in shards]
        return (*files_of(manifest), *sharded, *pasts, *state.own.files, *state.tables.files(mark.batch))

    def restore(self) -> None:
        """Go on from the last commit."""
        state = self._state
        if state.journal is None:
            return
        state.known = {entry["name"]: entry for entry in state.journal.last_queries()}
        for entry in state.known.values():
            state.pasts = {s: past and PastRead(*past) for s, past in entry.get("pasts", {}).items()}
            state.entering = dict(entry.get("entering", {}))
        state.awaited |= state.pasts.keys()
        chain = state.journal.load()
        if not chain:
            return
        commit = chain[-1]
        state.committed, state.now, counts = commit.at, commit.state["now"], state.counts
        counts.answers, counts.answers_by_query = commit.state["answers"], commit.state["answered"]
        counts.bad_by_query = commit.state["bad"]
        state.limits.restore(commit.state["stopped"])
        for stream, snapshot in commit.state["incoming"].items():
            state.incoming[stream] = Incoming.restored(snapshot)
        state.manifest = commit.state["state"]
        shards = commit.state["shards"]
        if shards is not None:
            assert state.sharding is not None, "relations in shards go on in shards"
            state.begin_shards(state.sharding).restore(shards)

    def restore_operators(self) -> None:
        """Give relations the state that the last commit left. One that entered since may have the name of another."""
        state = self._state
        manifest, state.manifest = state.manifest, None
        if manifest is not None and state.state_files is not None:
            new = [name for name in state.relations if name not in state.known]
            others = {f"{kind} {name}" for kind in ("result", "materialized") for name in new}
            left = state.state_files.load(manifest)
            state.own.restore({owner: parts for owner, parts in left.items() if owner not in others})
