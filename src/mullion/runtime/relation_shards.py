"""Relations whose state lies in shards: the driver's side. It hands the events of a step to the tasks as files, takes
their answers, and remembers where each shard stands.

    shards/events/<mark>-a      the events of stream a in this step; gone with the commit
    shards/tables/<mark>-<n>-t  a version of a table in which rows are looked up, until no event needs it
    shards/<i>/<mark>-<id>      what shard i wrote in a step, as long as its state names it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Node
from mullion.algebra.nodes.walk import tables_read
from mullion.algebra.relation import Relation
from mullion.kernels.table_versions import batches_read
from mullion.operators.answering import Answering, TablesRead
from mullion.operators.network import StepEvents
from mullion.options import Options
from mullion.planner.relation_stats import Stats
from mullion.runtime.counts import add_counts
from mullion.runtime.shard_step import (
    RelationGroup,
    ShardedStep,
    ShardOutcome,
    ShardState,
    TableAtReading,
    events_as_table,
    grouped,
)
from mullion.runtime.sink import ShardWriter
from mullion.slices.finalize import Answers
from mullion.storage.files import CommittedFiles, serialised
from mullion.storage.marks import Mark

Tasks = Callable[[ShardedStep, ShardWriter | None], Sequence[ShardOutcome]]
"""Runs the tasks of a step, one for each shard; what they made, in the order of the shards."""


SHARDS = 8


def no_writer() -> ShardWriter | None:
    return None


@dataclass(frozen=True)
class Sharding:
    """Relations go to shards when their first step has more than so many events, and stay there."""

    tasks: Tasks
    above: Callable[[], int]
    count: int = SHARDS
    writer: Callable[[], ShardWriter | None] = no_writer
    """What shards write their answers with by themselves, if anything."""


class InShards:
    def __init__(self, sharding: Sharding, directory: Path, options: Options) -> None:
        self.sharding, self.options = sharding, options
        self.files = CommittedFiles(directory)
        self.standing: list[ShardState | None] = [None] * sharding.count
        self.groups: list[RelationGroup] = []
        self.rows_held = 0
        self._seen: dict[int, Stats] = {}
        """What the operators of each shard showed last."""
        self._bad: list[Mapping[str, int]] = []
        self._columns: dict[str, set[str]] = {}
        self._tables: dict[int, tuple[pa.Table, str]] = {}
        """The versions of tables that the last step handed to shards, and their files."""

    @property
    def names(self) -> list[str]:
        """The relations that are here."""
        return [relation.name for group in self.groups for relation in group.relations]

    def text_of(self, name: str) -> str:
        """How the events of a relation are split, for EXPLAIN; nothing of one that is not here."""
        keys = [group.name for group in self.groups if any(relation.name == name for relation in group.relations)]
        return f"in {self.sharding.count} shards, {keys[0]}" if keys else ""

    @property
    def computed_together(self) -> list[list[str]]:
        """The relations that each network of a shard computes."""
        groups = [[relation.name for relation in group.relations] for group in self.groups]
        return groups if self.options.is_shared else [[name] for group in groups for name in group]

    def set_relations(self, relations: Sequence[Relation], plans: Mapping[str, Node]) -> None:
        """Of these relations, from now on, those that can be computed in shards."""
        self.groups = grouped(relations, plans)
        for group in self.groups:
            idle = Answering(self.options.expiry, shared=self.options.is_shared)
            idle.set_relations(group.relations, group.plans)
            for stream in group.keys:
                self._columns.setdefault(stream, set()).update(idle.columns_needed(stream))

    def columns_needed(self, stream: str) -> set[str]:
        """Also those that relations needed before: the state of shards has them."""
        return self._columns.get(stream, set()) if self.groups else set()

    def step(
        self,
        settled: Mapping[str, StepEvents],
        since: int,
        now: int,
        mark: Mark,
        table: TablesRead,
        newest: int | None,
        stretch: int = 1,
    ) -> tuple[list[Answers], dict[str, int]]:
        """Go on from `since` to `now`; answers that shards did not write by themselves, and how many rows of each query
        there are of either."""
        step = ShardedStep(
            directory=self.files.directory,
            before=tuple(self.standing),
            mark=mark,
            since=since,
            now=now,
            newest=newest,
            groups=tuple(self.groups),
            events={stream: self._handed(stream, events, mark) for stream, events in settled.items()},
            tables=self._handed_tables(settled, table, mark),
            ended={stream: events.ended for stream, events in settled.items() if events.ended is not None},
            expiry=self.options.expiry,
            shared=self.options.is_shared,
            stretch=stretch,
        )
        outcomes = self.sharding.tasks(step, self.sharding.writer())
        self.standing = [outcome.standing for outcome in outcomes]
        self.rows_held = sum(outcome.rows_held for outcome in outcomes)
        self._bad += [outcome.bad for outcome in outcomes]
        self._seen |= {i: outcome.seen for i, outcome in enumerate(outcomes) if outcome.seen is not None}
        rows_of: dict[str, int] = {}
        for outcome in outcomes:
            add_counts(rows_of, outcome.answer_rows)
        return _together([answers for outcome in outcomes for answers in outcome.answers]), rows_of

    @property
    def stats(self) -> Stats:
        """What was seen of the streams."""
        return Stats.of_shards(list(self._seen.values()))

    def take_bad(self) -> list[Mapping[str, int]]:
        """The bad values that relations met since this was asked before, by shards and steps."""
        bad, self._bad = self._bad, []
        return bad

    def _handed(self, stream: str, events: StepEvents, mark: Mark) -> Path:
        label = f"{mark.text}-{quote(stream, safe='')}"
        return self.files.path(self.files.write("events", label, serialised(events_as_table(events))))

    def _handed_tables(
        self, settled: Mapping[str, StepEvents], table: TablesRead, mark: Mark
    ) -> dict[TableAtReading, Path]:
        """The tables that events are looked up in, as these found them; each version is written once."""
        plans = [plan for group in self.groups for plan in group.plans.values()]
        before = self._tables
        handed: dict[int, tuple[pa.Table, str]] = {}
        files: dict[TableAtReading, Path] = {}
        for stream, events in settled.items():
            batches = sorted(set(batches_read(events.rows).tolist()))
            for name in dict.fromkeys(name for plan in plans for name in tables_read(plan, stream)):
                for batch in batches:
                    rows = table(stream, name, batch)
                    known = before.get(id(rows)) or handed.get(id(rows))
                    if known is None:
                        label = f"{mark.text}-{len(handed)}-{quote(name, safe='')}"
                        known = rows, self.files.write("tables", label, serialised(rows))
                    handed[id(rows)] = known
                    files[stream, name, batch] = self.files.path(known[1])
        self._tables = handed or before
        return files

    # What a restart needs

    def snapshot(self) -> dict[str, Any]:
        columns = {stream: sorted(names) for stream, names in self._columns.items()}
        return {"standing": self.standing, "columns": columns}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.standing = [None if shard is None else ShardState(*shard) for shard in state["standing"]]
        self._columns = {stream: set(names) for stream, names in state["columns"].items()}

    @property
    def named(self) -> set[str]:
        """The files that a commit has to name, relative to the directory of all shards."""
        standing = {file for shard in self.standing if shard is not None for file in shard.files}
        return standing | {file for _, file in self._tables.values()}


def _together(answers: Sequence[Answers]) -> list[Answers]:
    """The answers of all shards, for each query in the order of time."""
    by_query: dict[str, list[pa.Table]] = {}
    for of_shard in answers:
        for name, rows in of_shard:
            by_query.setdefault(name, []).append(rows)
    together = []
    for name, tables in by_query.items():
        rows = pa.concat_tables(tables)
        ends = rows.column("window_end").cast(pa.int64()).to_numpy()
        together.append(Answers((name,), [0, len(rows)], rows.take(pa.array(np.argsort(ends, kind="stable")))))
    return together
