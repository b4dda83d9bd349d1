"""What the commit of a step records of the relations over some streams, and what a restart goes on from."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mullion.runtime.commit_course import CommitCourse
from mullion.runtime.incoming import Incoming
from mullion.runtime.past_read import PastRead
from mullion.runtime.relation_state import RelationState
from mullion.storage.journal import Commit, Journal
from mullion.storage.marks import Mark
from mullion.storage.state_files import files_of


class RelationCommits(CommitCourse[RelationState]):
    def commit_up_to(self, now: int, mark: Mark) -> None:
        """`now` holds for others only when the commit is there: streams let go what was taken before it."""
        self._now = now
        self.commit(mark)

    def _prepare(self, mark: Mark) -> None:
        state = self._state
        self._pasts_read = self._pasts_from(state.now)
        state.pace.settle()
        self._manifest = {} if state.state_files is None else state.state_files.save(state.own.state(), mark.text)

    def _record(self, mark: Mark, journal: Journal) -> Commit:
        state = self._state
        header = {
            "now": self._now,
            "incoming": {stream: incoming.snapshot() for stream, incoming in state.incoming.items()},
            "answers": state.counts.answers,
            "answered": state.counts.answers_by_query,
            "stopped": state.limits.snapshot(),
            "bad": state.counts.bad_by_query,
            "pace": state.pace.snapshot(),
            "scheduled": state.counts.scheduled,
            "state": self._manifest,
            "shards": None if state.shards is None else state.shards.snapshot(),
        }
        return Commit(mark, header, (), snapshot=True, files=self._files(mark))

    def _files(self, mark: Mark) -> tuple[str, ...]:
        state = self._state
        shards = () if state.shards is None else state.shards.named
        pasts = self._pasts_from(self._now)
        sharded = [f"shards/{name}" for name in shards]
        return (*files_of(self._manifest), *sharded, *pasts, *state.own.files, *state.tables.files(mark.batch))

    def _pasts_from(self, now: int) -> list[str]:
        """The files of pasts that reach beyond a time."""
        ahead = [past for past in self._state.pasts.values() if past is not None and now <= past.newest]
        return [name for past in ahead for name in past.files]

    def _read_files(self) -> Collection[str]:
        """What this step read of pasts stays until the next commit: a repair may make the step again."""
        return self._pasts_read

    def _hold(self) -> None:
        self._state.now, self._state.is_interrupted = self._now, False

    def show(self) -> None:
        """Let questions see what is kept now. What a step that failed has left is not shown."""
        state = self._state
        if not state.is_interrupted:
            shown = {name: kept.shown() for name, kept in state.own.materialized.items()}
            if shown or state.shown:
                state.published.publish(lambda: setattr(state, "shown", shown))

    def restore(self) -> None:
        state = self._state
        if state.journal is None:
            return
        state.known = {entry["name"]: entry for entry in state.journal.last_queries()}
        for entry in state.known.values():
            state.pasts = {s: past and PastRead(*past) for s, past in entry.get("pasts", {}).items()}
            state.entering = dict(entry.get("entering", {}))
        state.awaited |= state.pasts.keys()
        super().restore()

    def _restore(self, chain: Sequence[Commit]) -> None:
        state, counts, recorded = self._state, self._state.counts, chain[-1].state
        state.now, state.manifest, shards = recorded["now"], recorded["state"], recorded["shards"]
        counts.answers, counts.answers_by_query = recorded["answers"], recorded["answered"]
        counts.bad_by_query = recorded["bad"]
        counts.scheduled = recorded.get("scheduled", {})
        state.pace.restore(recorded.get("pace", state.pace.snapshot()))
        for stream, snapshot in recorded["incoming"].items():
            state.incoming[stream] = Incoming.restored(snapshot)
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
