"""A folder of answers whose files become fewer without a reader seeing a row twice or not at all.

    DIRECTORY/total/                           a plain folder, until files are merged for the first time; then
    DIRECTORY/total -> .mullion/000002/total   a link to one generation of it
    DIRECTORY/.mullion/000001/total            the generation before, for readers that have resolved the link
    DIRECTORY/.mullion/new/total               the next one, being made

Files are added to the generation that readers see, each whole by one rename. Where several files become one, the next
generation is made aside, of new files and of hard links to the others, and one rename puts it in place. A reader lists
the names of one generation; if it opens one after the change it finds the same file or none, never rows that it also
has from another file. A crash leaves the old generation or the new one, which hold the same rows.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from mullion.sinks.files import AnswerFile, cut_back, files_in, write_table
from mullion.sinks.owner import OWN
from mullion.storage.exchange import exchange
from mullion.storage.fault_points import fault_point
from mullion.storage.marks import Mark
from mullion.storage.syncing import Syncing, sync_directory

EARLIER = "_earlier"
"""Where answers go when their query's name is given to another query."""
NEW = "new"


class Folder:
    """May be used from several threads. Shards write to `directory` by themselves while their batch is at work."""

    def __init__(self, out: Path, name: str) -> None:
        self.out, self.name = out, name
        self.link = out / name
        self.lock = threading.RLock()
        self._current: Path | None = None
        self._before: Path | None = None
        self._retired: Path | None = None
        self.left_alone = False
        """Its files cannot be merged."""

    @property
    def is_there(self) -> bool:
        return self._current is not None or self._seen_by_readers() is not None

    @property
    def directory(self) -> Path:
        """The generation that readers see; the first is made if there is none."""
        with self.lock:
            if self._current is None:
                self._current = self._seen_by_readers()
            if self._current is None:
                self.link.mkdir(parents=True)
                self._current = self.link
            return self._current

    @property
    def number(self) -> int:
        """Which generation readers see."""
        return 0 if self.directory == self.link else int(self.directory.parent.name)

    def _seen_by_readers(self) -> Path | None:
        """What is there of a run before this one. A link that was lost on the way to a change is made again."""
        if self.link.is_symlink():
            target = self.out / os.readlink(self.link)
            if target.is_dir() and target.parent.parent == self.out / OWN:
                return target
            self.link.unlink()
        if self.link.is_dir():
            return self.link
        generations = self._generations()
        if not generations:
            return None
        self._put_in_place(generations[-1])
        return generations[-1]

    def _generations(self) -> list[Path]:
        own = self.out / OWN
        numbered = sorted(own.glob("[0-9]*")) if own.is_dir() else []
        return [path / self.name for path in numbered if (path / self.name).is_dir()]

    def _generation(self, number: int) -> Path:
        return self.out / OWN / f"{number:06d}" / self.name

    # Files

    def files(self, stream: str | None = None) -> list[AnswerFile]:
        return files_in(self.directory, stream) if self.is_there else []

    def tables(self) -> list[pa.Table]:
        """Everything in it, oldest first, also while it changes."""
        while self.link.exists():
            directory = self.link.resolve()
            try:
                return [file.read() for file in files_in(directory)]
            except FileNotFoundError:
                if directory == self.link.resolve():
                    raise
        return []

    def add(self, name: str, table: pa.Table, later: Syncing | None = None) -> None:
        with self.lock:
            write_table(self.directory / name, table, later)

    def keep(self, until: Mark | None, stream: str | None = None) -> None:
        """Remove what was written after a commit, everything when there is none, and what was left half-written."""
        with self.lock:
            for file in self.files(stream):
                if until is None or file.first > until:
                    file.path.unlink(missing_ok=True)
                elif file.last > until:
                    cut_back(file, until)
            for left in self.directory.glob(".*.tmp") if self.is_there else ():
                left.unlink(missing_ok=True)

    # Generations

    def change(self, make: Callable[[Path], list[AnswerFile]]) -> None:
        """Go on to the next generation: `make` writes files into a folder and returns those that they stand for.

        The names of generations and the link need not be synced here: until the next change the old generation is
        there, and a power cut that loses them goes back to it. Call `sync` before.
        """
        with self.lock:
            old, new, next_ = self.directory, self.out / OWN / NEW / self.name, self._generation(self.number + 1)
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            fault_point("before compaction")
            replaced = {file.path.name for file in make(new)}
            for path in old.iterdir():
                if path.name not in replaced and path.is_file() and not path.name.endswith(".tmp"):
                    _link(path, new / path.name)
            sync_directory(new)
            fault_point("before swap")
            if next_.is_dir():
                self._retire(next_)
            next_.parent.mkdir(exist_ok=True)
            os.replace(new, next_)
            fault_point("between swaps")
            old = self._put_in_place(next_)
            fault_point("after swap")
            self._current, before, self._before = next_, self._before, old
            for path in old.iterdir():
                if path.is_dir():
                    os.rename(path, next_ / path.name)
            if before is not None:
                self._retire(before)

    def _put_in_place(self, generation: Path) -> Path:
        """Let readers see a generation, and return where the one is that they saw until now."""
        plain = self.link.is_dir() and not self.link.is_symlink()
        old = self._generation(0) if plain else self.directory if self.link.is_symlink() else generation
        fresh = old if plain else self.out / OWN / f"{uuid4().hex}.tmp"
        fresh.parent.mkdir(exist_ok=True)
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(generation.relative_to(self.out))
        if not plain:
            os.replace(fresh, self.link)
        elif not exchange(fresh, self.link):
            fresh.unlink()
            os.rename(self.link, old)
            self.link.symlink_to(generation.relative_to(self.out))
        return old

    def put_away(self) -> Path | None:
        """Begin anew. Returns where the files are from now on that were there, if there were any."""
        with self.lock:
            if not any(file.rows() for file in self.files()):
                self.keep(None)
                return None
            self._tidy()
            places = self.out / EARLIER / self.name
            places.mkdir(parents=True, exist_ok=True)
            place = places / f"{len(list(places.iterdir())):06d}"
            os.rename(self.directory, place)
            self.link.unlink(missing_ok=True)
            self._current = None
            _ = self.directory
            sync_directory(places)
            sync_directory(self.out)
            return place

    def retire(self) -> None:
        """Let go the generation before: readers that had resolved the link should be done."""
        with self.lock:
            if self._before is not None:
                self._retire(self._before)
                self._before = None
            self._discard()

    def release(self, generation: Path) -> None:
        """Remove a generation that a run before this one left, unless it is the one that readers see."""
        with self.lock:
            if generation != self.directory:
                self._retire(generation)
                self._discard()

    def _tidy(self) -> None:
        """Remove all other generations."""
        self._before = None
        for generation in self._generations():
            self.release(generation)

    def _retire(self, generation: Path) -> None:
        """Remove Mullion's files of a generation; those of others stay with the folder.

        The generation is first renamed, to a name that no reader has. Its files are removed with the next generation.
        So a reader that is just listing it finds all of the files or an error, and never takes a part for the whole.
        """
        self._discard()
        ours = {file.path.name for file in files_in(generation)}
        for path in generation.iterdir():
            place = self.directory / path.name
            if path.name in ours or path.name.endswith(".tmp"):
                continue
            if not place.exists():
                os.rename(path, place)
            elif not place.samefile(path):
                return  # two files of others with one name: both stay
        self._retired = self.out / OWN / f"retired-{uuid4().hex}.tmp"
        os.rename(generation, self._retired)
        with suppress(OSError):
            generation.parent.rmdir()

    def _discard(self) -> None:
        """Remove the files of the generation that was retired last."""
        if self._retired is not None:
            shutil.rmtree(self._retired, ignore_errors=True)
            self._retired = None

    def remove(self) -> None:
        """Remove Mullion's files, and the folder unless there are others in it."""
        with self.lock:
            if not self.is_there:
                return
            self._tidy()
            self.keep(None)
            if not any(self.directory.iterdir()):
                directory, self._current = self.directory, None
                directory.rmdir()
                if directory != self.link:
                    self.link.unlink()
                    with suppress(OSError):
                        directory.parent.rmdir()


def sync(folders: Iterable[Folder]) -> None:
    """Let the generations that readers see survive a power cut, before those before them are let go."""
    changed = list(folders)
    for parent in {folder.directory.parent for folder in changed} | {folder.out for folder in changed}:
        sync_directory(parent)


def _link(old: Path, new: Path) -> None:
    try:
        os.link(old, new)
    except FileNotFoundError:  # somebody has removed it
        return
    except OSError:  # a file system without hard links
        shutil.copy2(old, new)
