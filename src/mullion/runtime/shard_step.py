"""A step of relations in shards: each shard takes the events whose keys fall to it, and goes on with its own state.

    events of a step (files) ---> shard 0: state of step 6 -> events of its keys -> answers, state of step 7
                             '--> shard 1: state of step 6 -> events of its keys -> answers, state of step 7
                             '--> ...

A shard is the unit of work and of state: what one task reads, changes and writes. Rows meet only within a shard (see
`planner.partitioning`), so the answers are those of all shards together.

A task may be run twice, anywhere, and may die at any moment. It only reads what the commit before names, and writes a
file under a name of its own. The next commit says which of these files count. A process that made the step before
still has the state in memory and need not read it. The files of events are for one step alone: until its commit the
events are in the logs of their streams too, so they need no `EventLog` of their own.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mullion.algebra.column_names import names_in
from mullion.algebra.nodes import Node, scans
from mullion.algebra.relation import Relation
from mullion.algebra.splitting import KeyExpressions
from mullion.expressions.arrays import Index
from mullion.expressions.vector import arrow_type
from mullion.language.types import Type
from mullion.operators.answering import Answering
from mullion.operators.expressions import key_function
from mullion.operators.network import StepEvents
from mullion.options import Expiry
from mullion.planner.partitioning import describe_keys, relation_keys
from mullion.planner.relation_stats import Stats
from mullion.runtime.counts import add_counts
from mullion.runtime.sink import ShardWriter
from mullion.slices.finalize import Answers
from mullion.storage.files import CommittedFiles, mapped
from mullion.storage.marks import Mark
from mullion.storage.state_files import StateFiles, files_of

TIMES, NUMBERS = "#times", "#numbers"
"""Columns of files of events: their times, and their numbers in the stream."""

TableAtReading = tuple[str, str, int]
"""A table as a batch of a stream saw it: the stream, the table, and the number of the batch."""

"""Writes the answers of a query from a shard: mark, shard, query, rows. Returns the file."""


@dataclass(frozen=True)
class RelationGroup:
    """Relations whose events are split by the same keys."""

    keys: Mapping[str, KeyExpressions]
    relations: tuple[Relation, ...]
    plans: Mapping[str, Node]

    @cached_property
    def name(self) -> str:
        return describe_keys(self.keys)

    @cached_property
    def types(self) -> dict[str, dict[str, Type]]:
        """The columns of each stream."""
        return {scan.stream: scan.types for plan in self.plans.values() for scan in scans(plan)}


def grouped(relations: Sequence[Relation], plans: Mapping[str, Node]) -> list[RelationGroup]:
    """The relations that can be computed in shards, by how their events are split."""
    groups: dict[str, RelationGroup] = {}
    for relation in relations:
        plan = plans[relation.name]
        keys = relation_keys(replace(relation, root=plan))
        if keys is not None:
            group = groups.get(describe_keys(keys)) or RelationGroup(keys, (), {})
            groups[group.name] = RelationGroup(keys, (*group.relations, relation), {**group.plans, relation.name: plan})
    return list(groups.values())


class ShardState(NamedTuple):
    """The state of a shard after a step: the name under which it was saved, and where everything lies."""

    name: str
    manifest: Mapping[str, Any]

    @property
    def files(self) -> set[str]:
        """Relative to the directory of all shards."""
        return files_of(self.manifest)


class ShardOutcome(NamedTuple):
    """What a shard has made of a step."""

    standing: ShardState
    answers: list[Answers]
    """What it did not write by itself."""
    written: list[Path]
    answer_rows: dict[str, int]
    """The rows of its answers, by query."""
    rows_held: int
    loaded: bool
    """Whether it had to read its state."""
    bad: Mapping[str, int] = {}
    """How many bad values each relation met in this step."""
    seen: Stats | None = None
    """What its operators show of their streams, at some steps."""


@dataclass(frozen=True)
class ShardedStep:
    """What the tasks of a step have in common."""

    directory: Path
    before: tuple[ShardState | None, ...]
    """Where each shard stands; None: at the beginning."""
    mark: Mark
    since: int
    """Up to when everything was known before."""
    now: int
    newest: int | None
    groups: tuple[RelationGroup, ...]
    events: Mapping[str, Path]
    """Those of all shards, by stream."""
    tables: Mapping[TableAtReading, Path]
    ended: Mapping[str, pa.Table] = field(default_factory=dict)
    """Keys of streams that somebody said are over: they are few, and all shards hear of all of them."""
    expiry: Expiry = Expiry.PATTERN_AWARE
    shared: bool = True
    stretch: int = 1
    """Of how many instants of SLIDE AT MOST one is answered."""

    @property
    def count(self) -> int:
        return len(self.before)

    def run(self, shard: int, write: ShardWriter | None = None) -> ShardOutcome:
        """The task of one shard."""
        directory, before = self.directory / str(shard), self.before[shard]
        in_memory = _taken_from_memory(directory, before)
        own = in_memory or _Shard(StateFiles(CommittedFiles(self.directory), str(shard)))
        own.prepare(self)
        if in_memory is None and before is not None:
            own.load(before.manifest)
        answers = own.step(self, shard)
        standing = own.save(self)
        if not self.mark.end:
            _keep(directory, self.mark, standing, own)
        answer_rows: dict[str, int] = {}
        for some in answers:
            add_counts(answer_rows, some.rows_by_query())
        written = []
        if write is not None:
            written = [write(self.mark, shard, name, rows) for of_query in answers for name, rows in of_query]
            answers = []
        loaded = in_memory is None and before is not None
        return ShardOutcome(standing, answers, written, answer_rows, own.rows_held, loaded, own.take_bad(), own.seen())


@dataclass
class _Shard:
    """The relations of one shard at work, in the memory of a process."""

    state_files: StateFiles
    groups: dict[str, Answering] = field(default_factory=dict)
    tables: dict[Path, pa.Table] = field(default_factory=dict)

    @property
    def rows_held(self) -> int:
        return sum(answering.rows_held for answering in self.groups.values())

    def prepare(self, step: ShardedStep) -> None:
        def begun() -> Answering:
            return Answering(step.expiry, shared=step.shared)

        self.groups = {group.name: self.groups.get(group.name) or begun() for group in step.groups}
        for group in step.groups:
            self.groups[group.name].set_relations(group.relations, group.plans)
        self.tables = {path: self.tables.get(path) or mapped(path) for path in step.tables.values()}

    def step(self, step: ShardedStep, shard: int) -> list[Answers]:
        def read_with(stream: str, name: str, batch: int) -> pa.Table:
            return self.tables[step.tables[stream, name, batch]]

        arrived = {stream: mapped(path) for stream, path in step.events.items()}
        answers = []
        for group in step.groups:
            settled = {}
            for stream, keys in group.keys.items():
                if stream in arrived:
                    mine = fallen_to(shard, step.count, arrived[stream], keys, group.types[stream])
                    if len(mine) or stream in step.ended:
                        events = _events(arrived[stream].take(pa.array(mine)))
                        settled[stream] = replace(events, ended=step.ended.get(stream))
            answers += self.groups[group.name].step(
                settled,
                step.since,
                step.now,
                _no_table,
                newest=step.newest,
                ended=step.mark.end,
                read_with=read_with,
                stretch=step.stretch,
            )
        return answers

    def seen(self) -> Stats | None:
        """What operators show of their streams; None at steps that do not look."""
        looked = [answering.stats for answering in self.groups.values() if answering.observing.reconsiders]
        return reduce(Stats.together, looked) if looked else None

    def take_bad(self) -> dict[str, int]:
        return {name: number for group in self.groups.values() for name, number in group.take_bad().items()}

    def save(self, step: ShardedStep) -> ShardState:
        state = {
            f"{name}\n{owner}": parts
            for name, answering in self.groups.items()
            for owner, parts in answering.state().items()
        }
        name = f"{step.mark.text}-{uuid.uuid4().hex[:12]}"
        return ShardState(name, self.state_files.save(state, name))

    def load(self, manifest: Mapping[str, Any]) -> None:
        state = self.state_files.load(manifest)
        for name, answering in self.groups.items():
            prefix = f"{name}\n"
            mine = {owner.removeprefix(prefix): parts for owner, parts in state.items() if owner.startswith(prefix)}
            answering.restore(mine)


def fallen_to(shard: int, count: int, rows: pa.Table, keys: KeyExpressions, types: Mapping[str, Type]) -> Index:
    """The rows that belong to a shard. Equal keys belong to the same, in every process.

    >>> from mullion.language.query import Column
    >>> from mullion.language.types import DOUBLE
    >>> rows = pa.table({"x": [0.0, 5.0, -0.0, None, float("nan"), None, float("nan")]})
    >>> [fallen_to(shard, 3, rows, (Column("x"),), {"x": DOUBLE}).tolist() for shard in range(3)]
    [[0, 2], [1, 4, 6], [3, 5]]
    """
    names = sorted(names_in(*keys))
    columns = [rows.column(name).cast(arrow_type(types[name])) for name in names]
    codes = key_function(keys, types, null_is_value=True)(pa.Table.from_arrays(columns, names=names)).codes
    return np.flatnonzero(codes.view(np.uint64) % np.uint64(count) == shard)


def _no_table(name: str) -> pa.Table:
    raise AssertionError(f"what follows the table '{name}' does not run in shards")


def events_as_table(events: StepEvents) -> pa.Table:
    """Events as a file holds them."""
    assert events.numbers is not None
    timed = events.rows.append_column(TIMES, pa.array(events.times))
    return timed.append_column(NUMBERS, pa.array(events.numbers))


def _events(table: pa.Table) -> StepEvents:
    rows = table.drop_columns([TIMES, NUMBERS])
    return StepEvents(rows, table.column(TIMES).to_numpy(), table.column(NUMBERS).to_numpy())


# What this process has in memory

MOST_KEPT = 16
"""Shards that a process keeps in memory; those of runs that have ended go when others come."""
_in_memory: dict[Path, tuple[Mark, str, _Shard]] = {}
"""By directory the shard as it was after a step: the step, and the name of its state. The oldest come first."""


def _taken_from_memory(directory: Path, before: ShardState | None) -> _Shard | None:
    """The shard as it was saved under that name. It is about to change, so it is taken out of memory."""
    kept = _in_memory.pop(directory, None)
    return kept[2] if kept is not None and before is not None and kept[1] == before.name else None


def _keep(directory: Path, mark: Mark, standing: ShardState, shard: _Shard) -> None:
    """Keep a shard for the next step, and let go those of its run that another process has taken further."""
    behind = [d for d, (at, _, _) in _in_memory.items() if d.parent == directory.parent and at.batch < mark.batch - 1]
    for other in behind:
        del _in_memory[other]
    _in_memory[directory] = mark, standing.name, shard
    while len(_in_memory) > MOST_KEPT:
        del _in_memory[next(iter(_in_memory))]
