"""Groupings with very many groups: their sub-windows stay where shards run, by group key.

    batch ---> partials --hash by key--> shard 0 | shard 1 | ..        each writes FOLDER/<shard>/<mark>
    due   ---> shard 0 | shard 1 | ..   each reads its own files, calls `slices.finalize`, writes or returns answers,
                                        for some groups after the others where memory asks for it (`shard_parts`)

Only tallies and windows travel through the driver. On a cluster the directory must be on shared storage: a machine that
does not see what another wrote would answer from a part of the events, so every reader looks whether it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mullion.errors import EnvironmentProblem, MullionError
from mullion.memory import TaskMemory, size_text
from mullion.planner.plan import Grouping
from mullion.runtime.counts import add_counts
from mullion.runtime.shard_parts import GroupParts, ShardFile, by_group
from mullion.runtime.sink import ShardWriter
from mullion.slices.arrange import arrange
from mullion.slices.finalize import Answers, Work, finalize
from mullion.slices.rows import SubWindowRows
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import Tally, tally
from mullion.slices.tier import by_readers
from mullion.slices.window_runs import Due
from mullion.storage.files import CommittedFiles, serialised
from mullion.storage.marks import Mark

WAITING = 8
"""Answers that wait to be written may take such a part of a task's room."""

ShardTask = Callable[[int], Any]
"""What is done for a shard, by its number. It can be sent to other machines."""


class Entry(NamedTuple):
    """What was written under a mark: by each shard that has something, one file."""

    mark: str
    newest: int
    """The newest slice."""
    files: dict[int, str]


@dataclass
class Shards:
    """The sharded sub-windows of one grouping, in a folder of the stream's files."""

    files: CommittedFiles
    folder: str
    count: int
    entries: list[Entry] = field(default_factory=list)

    def write(self, shard: int, partials: pa.Table, grouping: Grouping, mark: Mark) -> tuple[Tally, int, str]:
        """Write the partials of a batch that belong to a shard, where the shard runs."""
        content = serialised(by_group(PartialSubWindows.of(partials, grouping).table, grouping))
        return tally(partials, grouping), shard, self.write_entry(shard, mark.text, content)

    def write_entry(self, shard: int, name: str, content: pa.Buffer | bytes) -> str:
        return self.files.write(f"{self.folder}/{shard}", name, content)

    def absorb(self, written: Iterable[tuple[Tally, int, str]], mark: Mark) -> Tally:
        """Take in what shards have written under a mark, in place of what they wrote under it before."""
        total, files = Tally(), {}
        for part, shard, file in written:
            require_shared(self.files.path(file))
            total.add(part)
            files[shard] = file
        self.entries = [entry for entry in self.entries if entry.mark != mark.text]
        if len(total.slices):
            self.entries.append(Entry(mark.text, int(total.slices.max()), files))
        return total

    def adopt(self, entry: PartialSubWindows, name: str, files: dict[int, str]) -> None:
        """Take over sub-windows that were held on the driver and are in these files now."""
        for file in files.values():
            require_shared(self.files.path(file))
        self.entries.append(Entry(name, entry.newest, files))

    def by_shard(self) -> list[list[Path]]:
        """The files of each shard."""
        files = [entry.files for entry in self.entries]
        return [[self.files.path(some[shard]) for some in files if shard in some] for shard in range(self.count)]

    def forget(self, horizon: int) -> None:
        """Let go what ended before the horizon."""
        self.entries = [entry for entry in self.entries if entry.newest >= horizon]

    @property
    def names(self) -> list[str]:
        """The files that a commit has to name."""
        return [name for entry in self.entries for name in entry.files.values()]

    def snapshot(self) -> list[Any]:
        return [self.folder, self.count, [[e.mark, e.newest, list(e.files.items())] for e in self.entries]]

    @staticmethod
    def restored(files: CommittedFiles, state: list[Any]) -> Shards:
        folder, count, entries = state
        return Shards(files, folder, count, [Entry(mark, newest, dict(some)) for mark, newest, some in entries])


class ShardAnswers(NamedTuple):
    """What a shard answered by itself, and what comes back: answers that have an order or a limit across shards, and
    all of them without a writer."""

    work: Work
    back: list[Answers]
    file: Path | None


class TooMuch(NamedTuple):
    """Some groups of a shard need more than a task may take, and cannot be told apart further."""

    needed: int
    room: TaskMemory


@dataclass(frozen=True)
class AnswerTask:
    """Answers the due windows of a shard, for as many of its groups at once as there is room for."""

    grouping: Grouping
    due: Due
    mark: Mark
    write: ShardWriter | None
    files: list[list[Path]]
    counted: list[tuple[Grouping, list[list[Path]]]]
    room: TaskMemory

    def __call__(self, shard: int) -> ShardAnswers | TooMuch | Path | None:
        """A path is that of a file that this machine does not see; None: the shard has nothing."""
        needed = [*self.files[shard], *(path for _, others in self.counted for path in others[shard])]
        if unseen := [path for path in needed if not sees(path)]:
            return unseen[0]
        if not self.files[shard]:
            return None
        files = [ShardFile(path, self.grouping) for path in self.files[shard]]
        files += [ShardFile(path, other) for other, others in self.counted for path in others[shard]]
        parts = GroupParts.of(files, self.room.usual)
        if parts.largest > self.room.most:
            return TooMuch(parts.largest, self.room)
        work = Work(room=self.room.usual)
        answered = _Answered(self, shard, work)
        for part in range(parts.count):
            for answers in self._answers(parts.read(part), work):
                answered.add(answers)
        answered.finish()
        return ShardAnswers(work, answered.back, answered.file)

    def _answers(self, entries: list[PartialSubWindows], work: Work) -> Iterator[Answers]:
        for due, read in by_readers(entries, self.grouping, self.due):
            counted = {other.name: SubWindowRows(read, other) for other, _ in self.counted}
            yield from finalize(
                SubWindowRows(read, self.grouping), self.grouping, due, work, counted=counted, arranged=False
            )


class _Answered:
    """The answers of a shard on their way: what it may not write by itself comes back, the rest waits until it is worth
    a file, or takes too much of the room."""

    def __init__(self, task: AnswerTask, shard: int, work: Work) -> None:
        self._write: ShardWriter | None = task.write
        self._mark, self._shard, self._most, self._work = task.mark, shard, task.room.usual // WAITING, work
        self.back: list[Answers] = []
        self.file: Path | None = None
        self._waiting: dict[str, list[pa.Table]] = {}
        self._size = 0
        self._files: dict[str, int] = {}

    def add(self, answers: Answers) -> None:
        if self._write is None or any(n.startswith("#") for n in answers.table.schema.names):
            self.back.append(answers)
            return
        for name, answered in answers:
            self._waiting.setdefault(name, []).append(answered)
            self._size += answered.nbytes
        if self._size >= self._most:
            self.finish()

    def finish(self) -> None:
        """Write what waits."""
        write = self._write
        if write is None:
            return
        for name, tables in self._waiting.items():
            rows, part = pa.concat_tables(tables), self._files.get(name, 0)
            self.file = write(self._mark, self._shard, name, rows, part)
            self._files[name] = part + 1
            self._work.written[name] = self._work.written.get(name, 0) + len(rows)
        self._waiting, self._size = {}, 0


def answers_of_shards(
    results: Iterable[ShardAnswers | TooMuch | Path | None], work: Work, grouping: Grouping
) -> list[Answers]:
    """The answers that came back from all shards; the work that they did is added."""
    back: list[Answers] = []
    for result in results:
        if isinstance(result, Path):
            raise not_shared(result)
        if isinstance(result, TooMuch):
            raise _refused(result, grouping)
        if result is None:
            continue
        if result.file is not None:
            require_shared(result.file)
        work.final += result.work.final
        add_counts(work.written, result.work.written)
        add_counts(work.bad, result.work.bad)
        back += result.back
    return _arranged_across(back, grouping)


def _refused(found: TooMuch, grouping: Grouping) -> MullionError:
    query = max(grouping.queries, key=lambda query: query.window.range)
    beside = f", beside {len(grouping.queries) - 1} others of these groups" if len(grouping.queries) > 1 else ""
    needed, room = size_text(found.needed), found.room
    return MullionError(
        f"query '{query.name}'{beside}: some groups that cannot be split further need {needed} to be answered; "
        f"a task has {size_text(room.most)} of {size_text(room.limit)}",
        hint=f"at least --memory {room.limit_for(found.needed)} (Engine: memory); or shorten its window, lengthen its "
        "SLIDE, or group by more. With a checkpoint, the same run goes on",
    )


def _arranged_across(shards: Sequence[Answers], grouping: Grouping) -> list[Answers]:
    """Answers of many shards as one: ordered and cut to the limit again, now over all of them."""
    templates = {query.name: query.template for query in grouping.queries}
    by_query: dict[str, list[pa.Table]] = {}
    for answers in shards:
        for name, table in answers:
            by_query.setdefault(name, []).append(table)
    arranged = []
    for name, tables in by_query.items():
        whole = pa.concat_tables(tables)
        _, whole = arrange(np.zeros(len(whole), np.intp), whole, templates[name])
        arranged.append(Answers((name,), [0, len(whole)], whole))
    return arranged


def require_shared(path: Path) -> None:
    """Raise where this machine does not see what another wrote."""
    if not sees(path):
        raise not_shared(path)


def sees(path: Path) -> bool:
    with suppress(OSError):
        os.scandir(path.parent).close()  # a network file system looks again when a directory is opened
    return path.exists()


def not_shared(path: Path) -> EnvironmentProblem:
    hint = "put the checkpoint and the answers on storage that the driver and all executors share"
    return EnvironmentProblem(f"{path} was written on one machine and is not seen on another", hint=hint)
