"""The relations of an engine, by the streams that they read: relations over the same streams go in step."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from mullion.algebra.nodes.walk import tables_read
from mullion.algebra.relation import Relation
from mullion.operators.structures import Structures
from mullion.operators.unprobed import shed_probes
from mullion.options import Options
from mullion.planner.explain_operators import ComputedTogether, OperatorPlans
from mullion.runtime.explained_relations import explained_together
from mullion.runtime.lookup_tables import RunTables
from mullion.runtime.published import Published
from mullion.runtime.relation_run import RelationRun
from mullion.runtime.relation_shards import Sharding
from mullion.runtime.relation_state import run_name
from mullion.runtime.sink import Sink
from mullion.storage.journal import Journal, Standings
from mullion.storage.manifest import relations_noted

Streams = tuple[str, ...]
RunKey = tuple[Streams, str]
"""The streams of relations that go in step, and the tag of one that goes by itself."""


class RelationRuns:
    def __init__(
        self,
        sink: Sink,
        options: Options,
        *,
        checkpoint: Path | None,
        tables: Callable[[str], RunTables],
        sharding: Sharding | None = None,
        published: Published | None = None,
    ) -> None:
        """`tables` are those that a run sees, by its name. `published` tells questions of commits."""
        self._sink, self._options, self._checkpoint = sink, options, checkpoint
        self._tables, self._sharding = tables, sharding
        self._published = Published() if published is None else published
        self.runs: dict[RunKey, RelationRun] = {}

    def directory(self, streams: Streams, tag: str = "") -> Path | None:
        """Where the relations over these streams keep what a restart needs."""
        return None if self._checkpoint is None else self._checkpoint / run_name(streams, tag)

    def run_of(self, streams: Streams, tag: str = "") -> RelationRun:
        run = self.runs.get((streams, tag))
        if run is None:
            directory = self.directory(streams, tag)
            run = self.runs[streams, tag] = RelationRun(
                streams,
                self._sink,
                self._options,
                tag=tag,
                journal=None if directory is None else Journal(directory),
                tables=self._tables(run_name(streams, tag)),
                sharding=self._sharding,
                published=self._published,
                read_with=lambda stream, table, batch: self._tables(stream).read_with(table, batch),
            )
            run.restore()
        return run

    def went_by_itself(self, relation: Relation) -> bool:
        """Whether the checkpoint has the relation as one that entered with its past. If one of its name was at work
        just now, it was dropped."""
        directory = self.directory(relation.streams, relation.name)
        if (relation.streams, relation.name) in self.runs:
            self._forget_tagged(run.name for run in self.runs.values() if run.tag != relation.name)
        return directory is not None and directory.is_dir()

    def take_up(self) -> None:
        """Make the runs that the checkpoint knows, also those of relations that are there no more: one that comes again
        has missed what came meanwhile."""
        for streams in () if self._checkpoint is None else relations_noted(self._checkpoint):
            self.run_of(streams)

    def materialized(self, names: Iterable[str]) -> dict[str, RelationRun]:
        """The runs that show the kept results of materialised queries."""
        return {name: run for name in names for run in self.runs.values() if name in run.shown}

    def set_relations(self, relations: Iterable[Relation]) -> None:
        """All relations from now on."""
        by_key: dict[RunKey, list[Relation]] = {key: [] for key in self.runs}
        for relation in relations:
            by_key.setdefault((relation.streams, relation.tag), []).append(relation)
        for key, mine in by_key.items():
            self.run_of(*key).set_relations(mine)
        self._forget_tagged(run_name(*key) for key, mine in by_key.items() if mine)

    def _forget_tagged(self, at_work: Iterable[str]) -> None:
        """Remove what relations kept that went by themselves and were dropped: one of the same name begins anew."""
        names = set(at_work)
        self.runs = {key: run for key, run in self.runs.items() if not run.tag or run.name in names}
        folder = None if self._checkpoint is None else self._checkpoint / "relations"
        for directory in () if folder is None else folder.glob("*@*"):
            if f"relations/{directory.name}" not in names:
                shutil.rmtree(directory)

    def over(self, stream: str) -> list[RelationRun]:
        """Those that read a stream and have something to answer."""
        return [run for (streams, _), run in self.runs.items() if stream in streams and run.relations]

    def columns_needed(self, stream: str) -> frozenset[str] | None:
        """The columns of a stream that relations need; None when none reads it."""
        over = self.over(stream)
        return frozenset().union(*(run.columns_needed(stream) for run in over)) if over else None

    def tables_read(self, stream: str) -> tuple[str, ...]:
        """The tables that relations look events of a stream up in, as these are read."""
        plans = [plan for run in self.over(stream) for plan in run.plans.values()]
        return tuple(dict.fromkeys(name for plan in plans for name in tables_read(plan, stream)))

    def oldest_read(self, stream: str) -> int | None:
        """The oldest batch of a stream that relations have events of which they have not looked up yet."""
        batches = [run.oldest_read_of(stream) for run in self.over(stream)]
        return min((batch for batch in batches if batch is not None), default=None)

    def plans(self, relations: Sequence[Relation], only: str | None = None) -> OperatorPlans:
        """The plans at work, and for relations that are not yet at work those that would be chosen now. `only`: those
        of the relations that are computed with this one."""
        together: list[ComputedTogether] = []
        for key in dict.fromkeys((relation.streams, relation.tag) for relation in relations):
            own = [relation for relation in relations if (relation.streams, relation.tag) == key]
            if only is None or any(relation.name == only for relation in own):
                together += explained_together(own, self.runs.get(key), self._options, self._sharding, only)
        structures = Structures(self._options.expiry)
        return OperatorPlans(tuple(together), structures, self._options.expiry, self.promising, self.evicted)

    def observed(self) -> dict[str, dict[str, int]]:
        """What the relations over the same streams have done so far."""
        counted = {name: counts for name, counts in self.counts.items() if counts["steps"]}
        return {
            name: {n: c for n, c in counts.items() if n not in ("seconds", "bad_by_query", "promising", "let_go")}
            for name, counts in counted.items()
        }

    @property
    def counts(self) -> dict[str, dict[str, Any]]:
        """What --stats reports of the relations over the same streams."""
        return {" + ".join(run.incoming) + (run.tag and f" for {run.tag}"): run.facts for run in self.runs.values()}

    @property
    def bad(self) -> dict[str, int]:
        """How many bad values each relation met, taken as NULL."""
        return {name: number for run in self.runs.values() for name, number in run.counts.bad_by_query.items()}

    @property
    def promising(self) -> dict[str, dict[str, Any]]:
        """Of queries with a PREFERENCE, how many of their results were offered, told, wait, expired and were shed."""
        return {name: facts for run in self.runs.values() for name, facts in run.own.promising.items()}

    @property
    def evicted(self) -> dict[str, list[dict[str, Any]]]:
        """Of queries that join streams with MEMORY, how many rows they evicted from each window."""
        return {name: facts for run in self.runs.values() for name, facts in run.own.evicted.items()}

    @property
    def scheduled(self) -> dict[str, dict[str, int]]:
        """Of queries with SLIDE AT MOST, at how many instants they were executed, and how many were put off."""
        return {name: counted for run in self.runs.values() for name, counted in run.counts.scheduled.items()}

    def texts_over(self, stream: str) -> dict[str, str]:
        """The queries over a stream: names and texts."""
        return {name: relation.text for run in self.over(stream) for name, relation in run.relations.items()}

    def names_probing(self, stream: str) -> tuple[str, ...]:
        """The queries that look for the partners of a stream's events only as far as it does not shed probes."""
        plans = [(name, plan) for run in self.over(stream) for name, plan in run.plans.items()]
        return tuple(name for name, plan in plans if stream in shed_probes(plan))

    def stand(self, stream: str) -> Standings:
        """How far those over a stream are."""
        return {run.name: run.journal.standing() for run in self.over(stream) if run.journal is not None}

    def check_standings(self, then: Standings) -> None:
        """Raise where a journal of relations has lost what it had, so that they would take events that are gone."""
        for run in self.runs.values():
            if run.name in then and run.journal is not None:
                run.journal.check_standing(then[run.name])

    def taken(self, stream: str) -> int | None:
        """The event time before which every relation has taken what the stream handed on."""
        return min((run.now for run in self.over(stream)), default=None)
