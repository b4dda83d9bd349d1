"""What somebody asks of a run from outside: files in its checkpoint.

    streams/trades/advance/1101902400000000     event time of trades is at least that (microseconds since 1970)
    streams/orders/punctuate/8f14e45fceea167a   the key of orders in the file, a list of texts, is over

A request is there until its run has committed what was asked. Done twice it does nothing: event time only goes on, and
what is over is over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mullion.storage.syncing import sync_directory

FOLDER, KEYS = "advance", "punctuate"


@dataclass(frozen=True)
class Requests:
    """Those that were there when somebody looked."""

    folder: Path
    times: tuple[int, ...]

    @staticmethod
    def in_(directory: Path) -> Requests:
        """Those of a stream, by its folder."""
        folder = directory / FOLDER
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return Requests(folder, tuple(int(name) for name in names if name.lstrip("-").isdigit()))

    def remove(self) -> None:
        for time in self.times:
            with suppress(FileNotFoundError):
                (self.folder / str(time)).unlink()


def request_advance(directory: Path, time: int) -> None:
    """Ask the run of a stream, by its folder, to let event time go on."""
    folder = directory / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(time)).touch()
    sync_directory(folder)


def request_punctuation(directory: Path, key: Sequence[str]) -> None:
    """Tell the run of a stream, by its folder, that a key is over."""
    folder = directory / KEYS
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps(list(key)).encode()
    name = hashlib.sha256(content).hexdigest()[:16]
    written = folder / f"{name}.new"
    written.write_bytes(content)
    written.rename(folder / name)
    sync_directory(folder)


def ended_keys_requested(directory: Path) -> list[tuple[Path, list[str]]]:
    """The keys that were said to be over, with the files that say so."""
    folder = directory / KEYS
    files = sorted(path for path in folder.iterdir() if not path.suffix) if folder.is_dir() else []
    return [(path, json.loads(path.read_bytes())) for path in files]
