"""What Spark notes of the files that a stream has read: `offsets` and `sources/0` of its checkpoint.

A batch takes the files between two offsets of its source. Spark writes down which these are, with the times at which
they were changed, before the batch begins, so a batch that is played again has the same files in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from mullion.errors import SourceError


@dataclass(frozen=True)
class ReadFile:
    path: str
    """As Spark spells it."""
    changed: int
    """When the file was last changed, as the stream found it (milliseconds)."""
    offset: int


@dataclass(frozen=True)
class SourceLog:
    directory: Path

    def offsets_of(self, batch: int) -> range:
        """The offsets of the source that a batch takes."""
        before = -1 if batch == 0 else self._offset(batch - 1)
        return range(before + 1, self._offset(batch) + 1)

    def files_of(self, batch: int) -> list[str]:
        """The files of a batch, in the order of the stream."""
        offsets = self.offsets_of(batch)
        return [file.path for offset in offsets for file in self._in_order(set(self._noted_at(offset)))]

    def files_up_to(self, batch: int, first: int = 0) -> Iterator[tuple[int, list[str]]]:
        """The files that the stream had read after the batch: those of each offset, in their order. Nobody needs those
        of batches before the `first`; of very old ones Spark no longer notes where they ended."""
        last = self._offset(batch)
        before = self._offset(first - 1) if (self.directory / "offsets" / str(first - 1)).exists() else -1
        notes = (file for entry in self._folder.iterdir() for file in _noted_in(entry))
        noted = {file for file in notes if before < file.offset <= last}
        by_offset: dict[int, list[str]] = {}
        for file in self._in_order(noted):
            by_offset.setdefault(file.offset, []).append(file.path)
        yield from by_offset.items()

    def all_files(self) -> set[str]:
        """The files that were ever noted."""
        if not self._folder.exists():
            return set()
        return {file.path for entry in self._folder.iterdir() for file in _noted_in(entry)}

    @staticmethod
    def _in_order(files: set[ReadFile]) -> list[ReadFile]:
        """By the offset, the time of the last change and the path: as Spark takes them."""
        return sorted(files, key=lambda file: (file.offset, file.changed, unquote(file.path)))

    @property
    def _folder(self) -> Path:
        return self.directory / "sources" / "0"

    def _offset(self, batch: int) -> int:
        path = self.directory / "offsets" / str(batch)
        if not path.exists() or not self._folder.exists():
            raise SourceError(f"there is no note of the files of batch {batch} in {self.directory}")
        return int(json.loads(path.read_text().splitlines()[-1])["logOffset"])

    def _noted_at(self, offset: int) -> Iterator[ReadFile]:
        for name in (str(offset), f"{offset}.compact"):
            if (self._folder / name).exists():
                return _noted_in(self._folder / name, offset)
        raise SourceError(f"there is no note of the files at offset {offset} in {self._folder}")


def _noted_in(entry: Path, offset: int | None = None) -> Iterator[ReadFile]:
    """The files of a note, perhaps those of one offset; a note that ends in .compact repeats all before it."""
    if entry.name.split(".")[0].isdigit() and not entry.name.endswith(".tmp"):
        for line in entry.read_text(encoding="utf-8").splitlines()[1:]:
            if offset is not None and not line.endswith(f":{offset}}}"):
                continue
            noted = json.loads(line)
            yield ReadFile(noted["path"], noted["timestamp"], noted["batchId"])
