"""Relations in shards answer as the reference does: whatever the steps, and whichever tasks die, are run twice, or find
their state in memory or on disk."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_relation import STREAMS as ANY_STREAMS
from any_relation import TABLES as ANY_TABLES
from any_relation import Example, examples
from by_operators import bind_relation
from mullion import reference
from mullion.expressions.vector import Vector
from mullion.instants import EVER_BEFORE, THE_END
from mullion.language.parse import parse_query
from mullion.operators.network import StepEvents
from mullion.options import Options, Sharing
from mullion.planner.partitioning import relation_keys
from mullion.reference.aggregates import canonical_value
from mullion.runtime import shard_step
from mullion.runtime.relation_run import RelationRun
from mullion.runtime.relation_shards import InShards, Sharding
from mullion.runtime.shard_step import ShardedStep, ShardOutcome
from mullion.runtime.sink import ShardWriter
from mullion.storage.journal import Journal
from mullion.storage.marks import Mark
from mullion.testing import Crash
from operators.test_signed_changes import late
from relation_runs import TEXTS, Source, Store, batches, check_one_that_enters_late, expected, started
from without_spark import in_turn

SHARDED = {"pairs", "alone", "leaving", "counts", "new"}
"""`keys` reads the last rows of a stream, whichever keys these have."""


@dataclass
class Tasks:
    """Tasks that meet with accidents."""

    dice: random.Random
    twice: float = 0.0
    dies: float = 0.0
    elsewhere: float = 0.0
    """The share of tasks that run in a process which has no state in memory."""
    done: list[ShardOutcome] = field(default_factory=list)

    def __call__(self, step: ShardedStep, write: ShardWriter | None) -> Sequence[ShardOutcome]:
        shards = list(range(step.count))
        self.dice.shuffle(shards)
        found = {}
        for shard in shards:
            if self.dice.random() < self.dies:
                raise Crash
            if self.dice.random() < self.elsewhere:
                shard_step._in_memory.clear()
            attempts = [step.run(shard, write) for _ in range(1 + (self.dice.random() < self.twice))]
            found[shard] = self.dice.choice(attempts)
        self.done += found.values()
        return [found[shard] for shard in range(step.count)]


def in_shards(tasks: Any = in_turn, above: int = -1) -> Sharding:
    return Sharding(tasks, lambda: above, count=3)


def answered(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    return {name: store.rows(name) for name in TEXTS}


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_shards_answer_as_the_reference_does(seed: int, shared: bool, tmp_path: Path) -> None:
    batches_, store, tasks = batches(seed), Store(), Tasks(random.Random(seed))
    options = Options(sharing=Sharing.ON if shared else Sharing.OFF)
    run = started(store, None, options, sharding=in_shards(tasks))
    Source(tmp_path, batches_).run(run)
    assert answered(store) == expected(batches_)
    assert run.shards is not None and len(run.shards.standing) == 3 and set(run.shards.names) == SHARDED
    assert run.counts.answers == sum(len(rows) for rows in answered(store).values())
    assert not any(done.loaded for done in tasks.done), "the same process finds its state in memory"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_accidents_change_nothing(seed: int, tmp_path: Path) -> None:
    batches_ = batches(seed, number=20)
    store, source = Store(), Source(tmp_path, batches_)
    tasks = Tasks(random.Random(seed), twice=0.2, dies=0.03, elsewhere=0.3)
    for _ in range(60):
        run = started(store, tmp_path / "journal", sharding=in_shards(tasks))
        try:
            source.run(run)
        except Crash:
            continue
        break
    else:
        pytest.fail("it never came to an end")
    assert answered(store) == expected(batches_)
    assert any(done.loaded for done in tasks.done) and not all(done.loaded for done in tasks.done)


def test_only_what_the_last_two_commits_name_is_kept(tmp_path: Path) -> None:
    source, tasks = Source(tmp_path, batches(2, number=20)), Tasks(random.Random(2), twice=0.5)
    run = started(Store(), tmp_path / "journal", sharding=in_shards(tasks))
    for _ in range(15):
        source.deliver(run)
        if run.committed is not None:
            journal = Journal(tmp_path / "journal")
            commits = [journal.read(name) for _, name in journal.commits()]
            assert len(commits) == min(2, run.next_number)
            named = {file for commit in commits for file in commit.files if file.startswith("shards/")}
            assert set(journal.files.names("shards")) == named
    assert run.committed is not None


def test_a_first_step_with_little_to_do_stays_on_the_driver(tmp_path: Path) -> None:
    batches_, store = batches(1), Store()
    run = started(store, tmp_path / "journal", sharding=in_shards(above=1000))
    Source(tmp_path, batches_).run(run)
    assert answered(store) == expected(batches_)
    assert run.shards is None


def test_a_run_in_shards_stays_there(tmp_path: Path) -> None:
    """A restart goes on in shards, also when it would not go there by itself."""
    batches_, store = batches(4, number=20), Store()
    source, run = Source(tmp_path, batches_), started(store, tmp_path / "journal", sharding=in_shards())
    while run.committed is None:
        source.deliver(run)
    again = started(store, tmp_path / "journal", sharding=in_shards(above=1000))
    assert again.shards is not None and set(again.shards.names) == SHARDED
    source.run(again)
    assert answered(store) == expected(batches_)


def test_a_relation_that_joins_late_goes_to_the_shards_too(tmp_path: Path) -> None:
    store, source = Store(), Source(tmp_path, batches(3, number=30))
    run = RelationRun(("a", "b"), store, sharding=in_shards())
    check_one_that_enters_late(run, store, source)
    assert run.shards is not None and "late" in run.shards.names


def test_shards_write_by_themselves_where_they_can(tmp_path: Path) -> None:
    batches_, store = batches(1), Store()
    written: dict[tuple[Mark, int, str], pa.Table] = {}

    def write(mark: Mark, shard: int, query: str, rows: pa.Table) -> Path:
        written[mark, shard, query] = rows
        return tmp_path

    run = started(store, None, sharding=Sharding(in_turn, lambda: -1, 3, lambda: write))
    Source(tmp_path, batches_).run(run)
    assert {name for name in TEXTS if store.rows(name)} == {"keys"}
    assert sum(map(len, written.values())) + len(store.rows("keys")) == run.counts.answers
    assert sum(len(rows) for (_, _, name), rows in written.items() if name == "pairs") == len(
        expected(batches_)["pairs"]
    )


# Any relation that can be split


def answers_in_steps(example: Example, nows: Sequence[int], directory: Path) -> pa.Table:
    relation = bind_relation(parse_query(example.text), ANY_STREAMS, ANY_TABLES)
    shards = InShards(in_shards(), directory, Options())
    shards.set_relations([relation], {relation.name: relation.plan})
    table, rows = example.tables["named"]
    looked_up = pa.table({name: Vector.of(t, [row[name] for row in rows]).to_arrow() for name, t in table.columns})
    times = [e["ts"] for name in relation.streams for e in example.events[name] if e["ts"] is not None]
    found, since = [], EVER_BEFORE
    for number, now in enumerate([*nows, THE_END]):
        events = {name: events_of(example, name, since, now) for name in relation.streams}
        mark = Mark(number, end=now == THE_END)
        newest = max(times, default=None)
        answers, _ = shards.step(events, since, now, mark, lambda *read: looked_up, newest)
        found += [rows for some in answers for _, rows in some]
        since = now
    return pa.concat_tables(found) if found else pa.table({})


def events_of(example: Example, name: str, since: int, now: int) -> StepEvents:
    timed = sorted((e for e in example.events[name] if e["ts"] is not None), key=lambda event: event["ts"])
    mine = [i for i, event in enumerate(timed) if since <= event["ts"] < now]
    columns = ANY_STREAMS[name].columns
    rows = pa.table({c: Vector.of(t, [timed[i][c] for i in mine]).to_arrow() for c, t in columns})
    return StepEvents(rows, np.array([timed[i]["ts"] for i in mine], np.int64), np.array(mine, np.int64))


def can_be_split(example: Example) -> bool:
    return relation_keys(bind_relation(parse_query(example.text), ANY_STREAMS, ANY_TABLES)) is not None


def multiset(rows: Sequence[Sequence[Any]]) -> Counter[Any]:
    return Counter(
        tuple(round(v, 9) + 0.0 if isinstance(v, float) and v == v else canonical_value(v) for v in r) for r in rows
    )


@settings(max_examples=30)
@given((examples() | late()).filter(can_be_split), st.lists(st.integers(0, 25), max_size=4, unique=True))
def test_any_relation_that_can_be_split(example: Example, steps: list[int]) -> None:
    relation = bind_relation(parse_query(example.text), ANY_STREAMS, ANY_TABLES)
    wanted = reference.answer(relation, ANY_STREAMS, example.events, example.tables)
    times = [[e["ts"] for e in example.events[n] if e["ts"] is not None] for n in relation.streams]
    nows = [min(map(min, times)) + step for step in sorted(steps)] if all(times) else []
    with TemporaryDirectory() as directory:
        table = answers_in_steps(example, [now for now in nows if now <= min(map(max, times))], Path(directory))
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    found = list(zip(*(c.to_pylist() for c in columns), strict=True))
    assert multiset(found) == multiset(wanted.rows)


@pytest.mark.slow
def test_a_hot_key(tmp_path: Path) -> None:
    """Nine in ten rows have one key: its shard has more to do, and all of it at once."""
    dice = np.random.default_rng(5)
    number = 20_000
    keys = np.where(dice.random(number) < 0.9, 0, dice.integers(1, 500, number))
    streams = {name: ANY_STREAMS[name] for name in "ab"}
    text = (
        "SELECT count(*) AS n, a.k AS k FROM a [RANGE 20 us SLIDE 20 us], b [RANGE 20 us] WHERE a.k = b.k GROUP BY a.k"
    )
    relation = bind_relation(parse_query(text, name="q"), streams, {})
    tasks = Tasks(random.Random(1))
    shards = InShards(in_shards(tasks), tmp_path, Options())
    shards.set_relations([relation], {"q": relation.plan})
    times = np.arange(number)
    ones = pa.array(np.ones(number))
    events = {
        "a": StepEvents(pa.table({"ts": times, "k": keys.astype(np.int32), "v": ones}), times, times),
        "b": StepEvents(pa.table({"ts": times, "k": keys.astype(np.int32), "w": ones}), times, times),
    }
    (answers,), told = shards.step(events, EVER_BEFORE, THE_END, Mark(0, end=True), lambda name: ones, number - 1)
    rows_of_tasks = sorted(sum(done.answer_rows.values()) for done in tasks.done)
    assert told == {"q": len(answers.table)} and len(answers.table) == sum(rows_of_tasks) and rows_of_tasks[0] > 0
    windows = {}
    for low in range(0, number, 20):
        counts = Counter(keys[low : low + 20].tolist())
        windows.update({(low + 20, key): n * n for key, n in counts.items()})
    table = answers.table
    ends = table.column("window_end").cast(pa.int64()).to_pylist()
    found = dict(zip(zip(ends, table.column("k").to_pylist(), strict=True), table.column("n").to_pylist(), strict=True))
    assert found == windows
