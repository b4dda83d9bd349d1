"""What a batch held, as a commit records it; and Spark's own notes of it, put right before Spark goes on from them.

    batch k --Spark notes, unsynced--> offsets/k   sources/0/<n>    what batch k takes
            --commit k, synced-------> the same, as the commit's input
            --Spark notes, unsynced--> commits/k                   batch k is done

A power cut may take Spark's newest notes and leave the commit. Spark would then plan batch k anew, with other files,
and the commit would say that it is done. So the commit records what Spark had noted, and before Spark starts its notes
up to the commit are made what they were. What Spark noted after the newest commit is kept if it is whole, and removed
if it is not: nothing was made of it. Notes far after the newest commit mean that commits were lost.

Spark keeps all files that a stream has read in the notes of its source, so as to read none twice. The newest are
recorded with their text, all of them together by a checksum.
"""

from __future__ import annotations

import json
import math
import shutil
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mullion.errors import CheckpointError
from mullion.runtime.batch_input import BatchInput
from mullion.storage.files import REPAIR, damaged, missing, write_whole
from mullion.storage.marks import Mark
from mullion.storage.syncing import Syncing

METADATA = "metadata"
COMPACT_EVERY = 10
"""Spark's own number: every so many notes of files, one repeats all before it."""
DONE = 'v1\n{"nextBatchWatermarkMs":0}'


@dataclass(frozen=True)
class NotesFolder:
    """One folder of Spark's: numbered texts, each with a checksum beside it."""

    folder: Path

    def names(self) -> dict[int, str]:
        names = [path.name for path in self.folder.iterdir() if path.is_file()] if self.folder.is_dir() else []
        return {_number(name): name for name in names if name.removesuffix(".compact").isdigit()}

    def read(self, name: str, *, summed: bool = True) -> list[str] | None:
        """The lines of a note; None when it is missing, cut or changed, as far as that can be seen. `summed`: by
        Spark's checksum too."""
        try:
            content = (self.folder / name).read_bytes()
            lines = content.decode().splitlines()
            noted = [json.loads(line) for line in lines[1:]]
        except (OSError, ValueError):
            return None
        whole = bool(noted) and lines[0].startswith("v") and all(isinstance(note, dict | int) for note in noted)
        return lines if whole and (not summed or self.is_as_summed(name, content)) else None

    def is_as_summed(self, name: str, content: bytes) -> bool:
        """Whether Spark's checksum agrees, if there is one: a CRC-32 of every so many bytes."""
        try:
            sums = (self.folder / f".{name}.crc").read_bytes()
        except OSError:
            return True
        if len(sums) < 8 or not sums.startswith(b"crc\0"):
            return False
        (size,) = struct.unpack_from(">I", sums, 4)
        expected = [zlib.crc32(content[at : at + size]) for at in range(0, len(content), size)] if size else []
        return sums[8:] == struct.pack(f">{len(expected)}I", *expected)

    def write(self, name: str, text: str) -> None:
        self.remove(f".{name}.crc")
        write_whole(self.folder / name, text.encode())

    def remove(self, name: str) -> None:
        for path in (self.folder / name, self.folder / f".{name}.crc"):
            with suppress(FileNotFoundError):
                path.unlink()

    def sweep(self) -> None:
        """Remove what a kill left of notes that were being written: Spark starts no first batch beside it."""
        if not self.folder.is_dir():
            return
        beside = {f".{name}.crc" for name in self.names().values()}
        for path in self.folder.glob(".*"):
            if path.name not in beside and path.suffix in (".tmp", ".crc") and path.is_file():
                path.unlink()


class FileNotes(NotesFolder):
    """The files that a source has read, by the number of the note; a compact note repeats all before it."""

    def lines(self, last: int, *, summed: bool = True) -> dict[int, list[str]]:
        """Those up to a number, from all notes that are whole."""
        by_number: dict[int, dict[str, None]] = {}
        for _, name in sorted(self.names().items()):
            for number, line in self._numbered(name, summed=summed):
                if number <= last:
                    by_number.setdefault(number, {})[line] = None
        return {number: list(by_number[number]) for number in sorted(by_number)}

    def at(self, number: int) -> list[str]:
        """The lines of one note."""
        lines = [line for of, line in self._numbered(self.names().get(number, str(number))) if of == number]
        if not lines:
            raise damaged(self.folder / str(number), "it is Spark's note of the files of a batch")
        return lines

    def can_be_read(self, every: int, *, up_to: int | None = None) -> bool:
        """Whether Spark finds all notes that it needs, and nothing is broken; `up_to`: were there none after it."""
        names = {number: name for number, name in self.names().items() if up_to is None or number <= up_to}
        top = max(names, default=-1)
        compact = _needed_from(top, every)
        there = all(number in names for number in range(max(compact, 0), top + 1))
        compacted = compact < 0 or names.get(compact) == f"{compact}.compact"
        return there and compacted and all(self.read(name) is not None for name in names.values())

    def is_as(self, lines: Mapping[int, list[str]], last: int, every: int) -> bool:
        """Whether Spark would find exactly these lines up to the last number, and can read everything after it."""
        return self.can_be_read(every) and max(self.names(), default=-1) >= last and self.lines(last) == lines

    def _numbered(self, name: str, *, summed: bool = True) -> Iterator[tuple[int, str]]:
        for line in (self.read(name, summed=summed) or [""])[1:]:
            noted = json.loads(line)
            if isinstance(noted, dict) and isinstance(noted.get("batchId"), int):
                yield noted["batchId"], line

    def remove_after(self, last: int, every: int) -> None:
        """Remove the notes after a number, unless Spark could not do without one that repeats older ones."""
        after = sorted((number for number in self.names() if number > last), reverse=True)
        if after and self.can_be_read(every, up_to=last):
            for number in after:
                self.remove(self.names()[number])

    def rewrite(self, lines: Mapping[int, list[str]], last: int, every: int) -> None:
        """Let Spark find these lines up to the last number, and nothing after it."""
        compact = _needed_from(last, every)
        for name in self.names().values():
            self.remove(name)
        if compact >= 0:
            self.write(f"{compact}.compact", _text(line for n in sorted(lines) if n <= compact for line in lines[n]))
        for number in range(compact + 1, last + 1):
            self.write(str(number), _text(lines.get(number, [])))


@dataclass(frozen=True)
class SparkCheckpoint:
    """Spark's checkpoint of one stream."""

    directory: Path

    @property
    def offsets(self) -> NotesFolder:
        return NotesFolder(self.directory / "offsets")

    @property
    def commits(self) -> NotesFolder:
        return NotesFolder(self.directory / "commits")

    def files(self, source: str) -> FileNotes:
        return FileNotes(self.directory / "sources" / source)

    def input_of(self, batch: int, before: BatchInput | None) -> BatchInput | None:
        """What a batch holds, after what the one before it held. The notes are on the disk then. None where the source
        is no stream of Spark's."""
        lines = self.offsets.read(str(batch))
        if lines is None:
            return None
        syncing = Syncing()
        syncing.begin(self.offsets.folder / str(batch))
        offsets, files, seen = "\n".join(lines), {}, {}
        for source, end in _ends(offsets).items():
            start = -1 if before is None else _ends(before.offsets).get(source, -1)
            notes = self.files(source)
            names = notes.names()
            files[source] = {names.get(n, str(n)): notes.at(n) for n in range(start + 1, end + 1)}
            for name in files[source]:
                syncing.begin(notes.folder / name)
            seen[source] = _summed(files[source].values(), 0 if before is None else before.seen.get(source, 0))
        syncing.settle()
        return BatchInput(batch, offsets, files, seen, self._query() or "")

    def has(self, recorded: BatchInput) -> bool:
        """Whether Spark's note of a batch is the one that was recorded."""
        return self.offsets.read(str(recorded.batch)) == recorded.offsets.splitlines()

    def put_right(self, inputs: Sequence[BatchInput], committed: Mark | None, commits: Path) -> None:
        """Make Spark's notes up to the newest commit what they were then. `inputs` are the last that were recorded,
        `commits` is where commits are."""
        done = -1 if committed is None else committed.batch
        if done >= 0 and (not inputs or inputs[-1].batch != done):
            return  # what was read was no stream of Spark's
        self.check(inputs, committed, commits)
        planned = max(self.offsets.names(), default=-1)
        if inputs:
            self._put_right(inputs)
        elif self._query() is None and self.directory.is_dir():
            shutil.rmtree(self.directory)
        if not self._can_go_on(planned if planned > done else None, inputs):
            self._forget_after(inputs)
        self._forget_unplanned(inputs)
        for notes in (self.offsets, self.commits, *self._sources()):
            notes.sweep()

    def check(self, inputs: Sequence[BatchInput], committed: Mark | None, commits: Path) -> None:
        """Raise where Spark's notes cannot be put right."""
        done = -1 if committed is None else committed.batch
        planned, committed_by_spark = (max(notes.names(), default=-1) for notes in (self.offsets, self.commits))
        if committed_by_spark > done or planned > done + 1:
            have = "no commit at all" if committed is None else f"no commit after batch {done}"
            done_by_spark = f"Spark has done batch {max(committed_by_spark, planned - 1)} of {self.directory}"
            raise CheckpointError(f"{done_by_spark}, but there is {have} in {commits}", hint=REPAIR)
        self.check_files(inputs)

    def check_files(self, inputs: Sequence[BatchInput]) -> None:
        """Raise where it can no longer be known which files were read."""
        for source in _ends(inputs[-1].offsets) if inputs else ():
            self._lines(source, inputs)

    def _lines(self, source: str, inputs: Sequence[BatchInput]) -> dict[int, list[str]]:
        """The notes of a source as they were at the newest commit."""
        notes, end = self.files(source), _ends(inputs[-1].offsets)[source]
        known = {_number(name): lines for recorded in inputs for name, lines in recorded.files.get(source, {}).items()}
        for summed in (True, False):
            right = {**notes.lines(end, summed=summed), **known}
            if _summed((right[number] for number in sorted(right)), 0) == inputs[-1].seen[source]:
                return right
        raise self._culprit(notes, right, end)

    def _put_right(self, inputs: Sequence[BatchInput]) -> None:
        last = inputs[-1]
        if self._query() != last.query:
            NotesFolder(self.directory).write(METADATA, last.query)
        for recorded in inputs[-2:]:
            if recorded.offsets and not self.has(recorded):
                self.offsets.write(str(recorded.batch), recorded.offsets)
        if self.commits.read(str(last.batch)) is None:
            self.commits.write(str(last.batch), DONE)
        for source, end in _ends(last.offsets).items():
            notes, right = self.files(source), self._lines(source, inputs)
            every = _compact_every(notes, inputs)
            if not notes.is_as(right, end, every):
                notes.rewrite(right, end, every)

    def _query(self) -> str | None:
        """Spark's name of the query, as it wrote it; None where it is missing, cut or changed."""
        try:
            content = (self.directory / METADATA).read_bytes()
            metadata = json.loads(content)
        except (OSError, ValueError):
            return None
        whole = (
            isinstance(metadata, dict)
            and "id" in metadata
            and NotesFolder(self.directory).is_as_summed(METADATA, content)
        )
        return content.decode() if whole else None

    @staticmethod
    def _culprit(notes: FileNotes, lines: Mapping[int, object], end: int) -> CheckpointError:
        """Which note it is that Spark would take for something else than it was."""
        for _, name in sorted(notes.names().items(), reverse=True):
            if notes.read(name) is None:
                return damaged(notes.folder / name, "it is Spark's note of the files that were read")
        lost = [number for number in range(end + 1) if number not in lines]
        if lost:
            return missing(notes.folder / str(lost[0]))
        return damaged(notes.folder, "it is not what Spark had noted of the files that were read")

    def _can_go_on(self, planned: int | None, inputs: Sequence[BatchInput]) -> bool:
        """Whether Spark can read its notes, and play a batch that it has planned and no commit knows."""
        lines = ["v1"] if planned is None else self.offsets.read(str(planned))
        if lines is None:
            return False
        readable = (notes.can_be_read(_compact_every(notes, inputs)) for notes in self._sources())
        ends = _ends("\n".join(lines))
        return all(readable) and all(end <= max(self.files(s).names(), default=-1) for s, end in ends.items())

    def _sources(self) -> list[FileNotes]:
        base = self.directory / "sources"
        return [FileNotes(folder) for folder in base.iterdir() if folder.is_dir()] if base.is_dir() else []

    def _forget_after(self, inputs: Sequence[BatchInput]) -> None:
        """Let Spark plan anew what comes after the last batch that is recorded."""
        last = inputs[-1] if inputs else None
        done = -1 if last is None else last.batch
        for number, name in self.offsets.names().items():
            if number > done:
                self.offsets.remove(name)
        for notes in self._sources():
            end = -1 if last is None else _ends(last.offsets).get(notes.folder.name)
            if end is not None:
                lines = {} if end < 0 else self._lines(notes.folder.name, inputs)
                notes.rewrite(lines, end, _compact_every(notes, inputs))

    def _forget_unplanned(self, inputs: Sequence[BatchInput]) -> None:
        """Remove notes of files that Spark found for a batch and was stopped before it planned the batch. It would
        put them into one batch with the next files, however few files a batch may have."""
        planned = self.offsets.read(str(max(self.offsets.names(), default=-1)))
        ends = {} if planned is None else _ends("\n".join(planned))
        for notes in self._sources():
            notes.remove_after(ends.get(notes.folder.name, -1), _compact_every(notes, inputs))

    def cannot_read_again(self, inputs: Sequence[BatchInput]) -> str | None:
        """Why the source cannot be read again after the last batch that is recorded; None when it can."""
        lines = [lines for batch in self.offsets.names() if (lines := self.offsets.read(str(batch))) is not None]
        if any(len(noted) - 2 != len(_ends("\n".join(noted))) for noted in lines):
            return "nobody knows whether its source, which is not files, still has what it had"
        for notes in self._sources():
            end = _ends(inputs[-1].offsets).get(notes.folder.name, -1) if inputs else -1
            top = max(notes.names(), default=-1)
            for number, noted in notes.lines(top, summed=False).items():
                for line in noted if number > end else ():
                    path = unquote(urlsplit(json.loads(line)["path"]).path)
                    if not Path(path).exists():
                        return f"the file {path} that it had read is gone"
        return None

    def go_back(self, inputs: Sequence[BatchInput]) -> None:
        """Let Spark go on after the last batch that is recorded, as if it had done nothing since."""
        done = inputs[-1].batch if inputs else -1
        for number, name in self.commits.names().items():
            if number > done:
                self.commits.remove(name)
        self._forget_after(inputs)


def _number(name: str) -> int:
    return int(name.removesuffix(".compact"))


def _compact_every(notes: FileNotes, inputs: Sequence[BatchInput]) -> int:
    """How often a source's notes are compact, from what is there and what is recorded."""
    recorded = [name for recorded_input in inputs for name in recorded_input.files.get(notes.folder.name, {})]
    compact = [_number(name) + 1 for name in (*recorded, *notes.names().values()) if name.endswith(".compact")]
    return math.gcd(*compact) if compact else COMPACT_EVERY


def _needed_from(last: int, every: int) -> int:
    """The newest compact note; what is before it, it repeats. -1: there is none yet."""
    return (last + 1) // every * every - 1


def _ends(offsets: str) -> dict[str, int]:
    """The last note of each source that is files, from a text of Spark's offsets."""
    ends = {}
    for source, line in enumerate(offsets.splitlines()[2:]):
        with suppress(ValueError):
            noted = json.loads(line)
            if isinstance(noted, dict) and "logOffset" in noted:
                ends[str(source)] = int(noted["logOffset"])
    return ends


def last_note(checkpoint: SparkCheckpoint, batch: int) -> int | None:
    """The last note of files that a batch takes; None where that cannot be told."""
    return _ends("\n".join(checkpoint.offsets.read(str(batch)) or ())).get("0")


def _summed(notes: Iterable[list[str]], checksum: int) -> int:
    for lines in notes:
        for line in lines:
            checksum = zlib.crc32(line.encode() + b"\n", checksum)
    return checksum


def _text(lines: Iterable[str]) -> str:
    return "\n".join(["v1", *lines])
