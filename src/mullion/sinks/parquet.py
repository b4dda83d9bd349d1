"""Answers as Parquet files: DIRECTORY/<query>/*.parquet, records put aside in DIRECTORY/_<kind>/*.parquet.

`files` says what the files are called, `folder` how they become fewer, `compaction` when, `owner` whose they are.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from mullion.runtime.sink import ASIDE, ShardWriter, Sink
from mullion.sinks.coded_columns import in_one
from mullion.sinks.compaction import compact
from mullion.sinks.files import AnswerFile, file_name, files_in, write_table
from mullion.sinks.folder import EARLIER, NEW, Folder, sync
from mullion.sinks.owner import OWN, Owner, is_owner, of_another, take_over
from mullion.slices.finalize import Answers
from mullion.storage.fault_points import fault_point
from mullion.storage.files import write_whole
from mullion.storage.marks import Mark
from mullion.storage.syncing import Syncing, sync_directory

log = logging.getLogger("mullion")

T = TypeVar("T")

TURNS = 8
"""After so many commits of a run every folder of it was looked at, whether it wants to be compacted."""


class ParquetSink(Sink):
    """One file for each query and batch that answers it, there whole or not at all; many become few as the run goes."""

    def __init__(self, directory: Path, *, compacting: bool = True) -> None:
        self.directory, self.compacting = directory, compacting
        self._folders: dict[str, Folder] = {}
        self._queries: dict[str, dict[str, str]] = {}
        """The queries of each run, with their texts."""
        self._committed: dict[str, Mark] = {}
        self._turn: dict[str, int] = {}
        self._syncing: dict[str, Syncing] = {}
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="mullion-answers")
        self._identities: dict[str, str] | None = None

    # Whose answers

    def claim(self, owner: Owner, *, overwrite: bool = False) -> None:
        """Let this run write here: where answers are of its owner, or there are none, or they may be removed."""
        if not is_owner(self.directory, owner):
            if self._has_answers():
                if not overwrite:
                    raise of_another(self.directory, owner)
                self._remove_all()
            take_over(self.directory, owner)
        for generation in sorted((self.directory / OWN).glob("[0-9]*/*")):
            self._folder(generation.name).release(generation)
        shutil.rmtree(self.directory / OWN / NEW, ignore_errors=True)
        for left in (self.directory / OWN).glob("*.tmp"):
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()

    def _has_answers(self) -> bool:
        return any(folder.files() for folder in self._on_disk()) or any(files_in(place) for place in self._put_away())

    def _remove_all(self) -> None:
        """Remove every file that a sink wrote, and the folders that hold nothing else."""
        for folder in self._on_disk():
            if folder.files():
                folder.remove()
        for place in self._put_away():
            for file in files_in(place):
                file.path.unlink()
            with suppress(OSError):
                place.rmdir()
                place.parent.rmdir()
        with suppress(OSError):
            (self.directory / EARLIER).rmdir()
        (self.directory / OWN / "queries.json").unlink(missing_ok=True)
        self._folders, self._identities = {}, None

    def _on_disk(self) -> Iterator[Folder]:
        """All folders that are there."""
        names = sorted(path.name for path in self.directory.iterdir()) if self.directory.is_dir() else []
        return (self._folder(name) for name in names if name not in (OWN, EARLIER) and self._is_folder(name))

    def _is_folder(self, name: str) -> bool:
        return (self.directory / name).is_dir()

    def _put_away(self) -> list[Path]:
        return [path for path in self.directory.glob(f"{EARLIER}/*/*") if path.is_dir()]

    def _folder(self, name: str) -> Folder:
        return self._folders.setdefault(name, Folder(self.directory, name))

    def _asides(self) -> list[Folder]:
        """The folders of records put aside."""
        return [folder for kind in ASIDE if (folder := self._folder(f"_{kind}")).is_there]

    # What a run writes

    def set_queries(self, stream: str, queries: Mapping[str, str]) -> None:
        """Where another query had one of the names, its answers are put away: never two meanings in a folder."""
        if self._queries.get(stream) == queries:
            return
        identities = self._known_identities()
        before = dict(identities)
        for name, text in queries.items():
            identity = _identity(stream, text)
            if identities.setdefault(name, identity) != identity:
                place = self._folder(name).put_away()
                if place is not None:
                    log.warning("answers of an earlier query '%s' are now in %s", name, place)
                identities[name] = identity
        if identities != before:
            write_whole(self.directory / OWN / "queries.json", json.dumps(identities).encode())
        new = [name for name in queries if not self._folder(name).is_there]
        for name in new:
            _ = self._folder(name).directory
        if new:
            sync_directory(self.directory)
        self._queries[stream] = dict(queries)

    def are_of(self, name: str, stream: str, text: str) -> bool:
        """Whether the answers under a name are of this query, and not of an earlier one that had the name."""
        return self._known_identities().get(name) in (None, _identity(stream, text))

    def _known_identities(self) -> dict[str, str]:
        """Which query each name stands for, as a digest of the run that it belongs to and its text."""
        if self._identities is None:
            self._identities = {}
            with suppress(OSError, ValueError):
                self._identities = json.loads((self.directory / OWN / "queries.json").read_bytes())
        return self._identities

    def write(self, stream: str, mark: Mark, answers: Sequence[Answers], part: int = 0) -> None:
        by_query: dict[str, list[pa.Table]] = {}
        for group in answers:
            for name, table in group.as_they_are():
                by_query.setdefault(name, []).append(table)
        fault_point("before answers")
        later = self._syncing.setdefault(stream, Syncing())
        tasks = [partial(self._write, name, mark, part, tables, later) for name, tables in by_query.items()]
        with _at_work(self._threads, tasks) as jobs:
            for job in jobs:
                job.result()
                fault_point("between answers")
        fault_point("after answers")

    def _write(self, name: str, mark: Mark, part: int, tables: list[pa.Table], later: Syncing) -> None:
        self._folder(name).add(file_name(mark, part=part), in_one(tables), later)

    def settle(self, stream: str) -> None:
        if stream in self._syncing:
            self._syncing[stream].settle()

    def aside(self, kind: str, stream: str, mark: Mark, rows: pa.Table) -> None:
        self._folder(f"_{kind}").add(file_name(mark, stream=stream), rows)

    def shard_writer(self) -> ShardWriter:
        names = [name for queries in self._queries.values() for name in queries]
        return _ShardWriter(self.directory, {name: self._folder(name).directory for name in names})

    def resume(self, stream: str, queries: Sequence[str], committed: Mark | None) -> None:
        for name in queries:
            self._folder(name).keep(committed)
        for folder in self._asides():
            folder.keep(committed, stream)
        if committed is not None:
            self._committed[stream] = committed

    def missing(self, rows: Mapping[str, int], committed: Mark) -> dict[str, int]:
        """How many of the rows that queries had answered up to a commit are not there any more. What was put away for
        another query of the name is there."""
        present = {name: sum(_rows(file, committed) for file in self._folder(name).files()) for name in rows}
        for place in self._put_away():
            if place.parent.name in present:
                present[place.parent.name] += sum(_rows(file, committed) for file in files_in(place))
        return {name: number - present[name] for name, number in rows.items() if present[name] < number}

    # Few files

    def committed(self, stream: str, mark: Mark) -> None:
        """Some of the folders are looked at after each commit, so that a batch of many queries bears a part only."""
        self._committed[stream] = mark
        names = list(self._queries.get(stream, ()))
        size = max(TURNS, -(-len(names) // TURNS))
        at = self._turn.get(stream, 0)
        self._turn[stream] = 0 if at + size >= len(names) else at + size
        self._compact(stream, names[at : at + size])

    def _compact(self, stream: str, names: Sequence[str], *, ended: bool = False) -> None:
        if not self.compacting:
            return
        mark = self._committed[stream]
        folders: list[tuple[Folder, str | None]] = [(self._folder(name), None) for name in names]
        folders += [(folder, stream) for folder in self._asides()]
        tasks = [partial(compact, folder, mark, of, ended=ended) for folder, of in folders]
        with _at_work(self._threads, tasks) as jobs:
            sync(folder for (folder, _), job in zip(folders, jobs, strict=True) if job.result())

    def finish(self, schemas: dict[str, pa.Schema]) -> None:
        """A query without answers gets an empty file, so that every query can be read."""
        for name, schema in schemas.items():
            folder = self._folder(name)
            if not folder.files():
                folder.add(file_name(Mark(0)), schema.empty_table())
        for stream in self._committed:
            self._compact(stream, list(self._queries.get(stream, ())), ended=True)
        for folder in self._folders.values():
            folder.retire()

    # Reading

    def tables(self, query: str) -> list[pa.Table]:
        """What was written for a query, oldest first."""
        return self._folder(query).tables()

    def aside_tables(self, kind: str) -> list[pa.Table]:
        return self._folder(f"_{kind}").tables()


@contextmanager
def _at_work(threads: ThreadPoolExecutor, tasks: Sequence[Callable[[], T]]) -> Iterator[list[Future[T]]]:
    """Tasks side by side. Afterwards, whatever happened, none is at work any more."""
    jobs = [threads.submit(task) for task in tasks]
    try:
        yield jobs
    finally:
        wait(jobs)


def _identity(stream: str, text: str) -> str:
    return sha256(f"{stream}\n{text}".encode()).hexdigest()[:16]


def _rows(file: AnswerFile, until: Mark) -> int:
    try:
        return file.rows(until)
    except (OSError, pa.ArrowException):  # gone, or no file of answers any more
        return 0


@dataclass(frozen=True)
class _ShardWriter:
    """Writes to the folders as they were when the batch began: a link may be seen late on another machine."""

    directory: Path
    folders: Mapping[str, Path]

    def __call__(self, mark: Mark, shard: int, query: str, rows: pa.Table, part: int = 0) -> Path:
        folder = self.folders.get(query, self.directory / query)
        path = folder / file_name(mark, shard=shard, part=part)
        write_table(path, rows)
        return path
