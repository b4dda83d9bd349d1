"""What somebody asks of a run from outside: files in its checkpoint, whose names say all.

    streams/trades/advance/1101902400000000     event time of trades is at least that (microseconds since 1970)

A request is there until its run has committed what was asked. Done twice it does nothing: event time only goes on.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mullion.storage.files import sync_directory

FOLDER = "advance"


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
