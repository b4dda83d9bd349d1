"""Batches of files that lie there, cut and noted here instead of by a query of Spark's (docs/decisions/0050).

A run that ends and has no checkpoint asks Spark only which files lie in a folder. Its query takes as long for that as
the kernel does for a million events. So where nothing can be meant but one file or the files of one folder of this
machine, they are listed here, in the order in which Spark would take them, and noted as Spark notes them: a run that
follows the folder afterwards, with the same engine, goes on from these notes by Spark.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from mullion.algebra.streams import Stream
from mullion.spark.backlog import WaitingFile, files_in_order
from mullion.spark.files import MOST_FILES, local
from mullion.spark.plain_paths import PLAIN_PATH, plain_path
from mullion.spark.progress import COMPACT_EVERY, DONE, METADATA, SparkCheckpoint, last_note


def plain_files(stream: Stream) -> list[WaitingFile] | None:
    """The files of a stream in the order in which Spark takes them; None where Spark had better say which they are."""
    files = files_in_order(stream) if plain_path(stream.format, dict(stream.options)) is not None else None
    if files is None or len(files) > MOST_FILES or not all(PLAIN_PATH.fullmatch(file.path) for file in files):
        return None
    return sorted(files, key=lambda file: (file.changed, file.path))


@dataclass(frozen=True)
class FilesInBatches:
    """Files that were not read yet, as batches take them."""

    notes: Path
    """Where Spark would note how far it has read."""
    files: Sequence[WaitingFile]
    most: int | None
    """Bytes of files for a batch; one file may have more."""

    def batches(self) -> Iterator[int]:
        """The number of each batch, once it is noted what it takes. Who asks for the next one is done with it."""
        checkpoint = SparkCheckpoint(self.notes)
        number = max(checkpoint.offsets.names(), default=-1) + 1
        offset = max(checkpoint.files("0").names(), default=-1) + 1
        if not (self.notes / METADATA).exists():
            _write(self.notes / METADATA, json.dumps({"id": str(uuid4())}))
        for files in self._in_batches():
            self._note(checkpoint, offset, files)
            planned = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": {}}
            _write(checkpoint.offsets.folder / str(number), _text([planned, {"logOffset": offset}]))
            yield number
            _write(checkpoint.commits.folder / str(number), DONE)
            number, offset = number + 1, offset + 1

    def ends_with(self, taken: Collection[str]) -> bool:
        """Whether the last of the files is among those that a batch took."""
        return bool(self.files) and self.files[-1].path in map(local, taken)

    def _in_batches(self) -> Iterator[list[WaitingFile]]:
        batch: list[WaitingFile] = []
        for file in self.files:
            if batch and self.most is not None and sum(taken.size for taken in batch) + file.size > self.most:
                yield batch
                batch = []
            batch.append(file)
        if batch:
            yield batch

    @staticmethod
    def _note(checkpoint: SparkCheckpoint, offset: int, files: Sequence[WaitingFile]) -> None:
        """Note the files of an offset; every so many notes, one repeats all before it."""
        notes = checkpoint.files("0")
        lines: list[object] = [
            {"path": Path(file.path).as_uri(), "timestamp": file.changed, "batchId": offset} for file in files
        ]
        if (offset + 1) % COMPACT_EVERY:
            _write(notes.folder / str(offset), _text(lines))
            return
        before = [json.loads(line) for some in notes.lines(offset - 1).values() for line in some]
        _write(notes.folder / f"{offset}.compact", _text([*before, *lines]))


def can_go_on(notes: Path) -> bool:
    """Whether all that was noted is done: otherwise Spark plays again what it, or a run before, had planned."""
    checkpoint = SparkCheckpoint(notes)
    planned, done = (max(folder.names(), default=-1) for folder in (checkpoint.offsets, checkpoint.commits))
    noted = max(checkpoint.files("0").names(), default=-1)
    return planned == done and noted == (-1 if planned < 0 else last_note(checkpoint, planned))


class OwnQuery:
    """Plays batches in a thread, and answers what is asked of a query of Spark's."""

    def __init__(self, play: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=play, name="mullion-files", daemon=True)
        self._thread.start()

    def awaitTermination(self, timeout: float | None = None) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Whoever stops it has seen to it that no other batch begins."""
        self._thread.join()

    @property
    def status(self) -> dict[str, bool]:
        return {"isDataAvailable": self._thread.is_alive()}

    lastProgress = None


def _text(lines: Sequence[object]) -> str:
    return "\n".join(["v1", *(json.dumps(line, separators=(",", ":")) for line in lines)])


def _write(path: Path, text: str) -> None:
    """Scratch files end with the run, so nobody waits until they are on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
