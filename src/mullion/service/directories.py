"""Where an engine writes: answers, a checkpoint, and scratch files for this run alone; with the locks on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mullion.arguments import require
from mullion.catalog.catalog import Catalog
from mullion.catalog.restart import check_manifest, stream_text
from mullion.options import Options
from mullion.sinks.owner import Owner, lock_of
from mullion.storage.lock import Lock, take_all
from mullion.storage.manifest import Manifest, stream_folder
from mullion.storage.places import local_path
from mullion.storage.scratch import Scratch


class Directories:
    def __init__(
        self, out: str | Path | None, checkpoint: str | Path | None, catalog: Catalog, options: Options
    ) -> None:
        require("out", out, (str, Path), "a path", none=True)
        require("checkpoint", checkpoint, (str, Path), "a path", none=True)
        self.out = None if out is None else local_path(out, "out")
        self.checkpoint = None if checkpoint is None else local_path(checkpoint, "checkpoint")
        self._catalog, self._options = catalog, options
        state = None if self.checkpoint is None else self.checkpoint.absolute()
        self._locks = [] if state is None else [Lock(state / ".lock", state, "the checkpoint")]
        self._locks += [] if self.out is None else [lock_of(self.out.absolute())]
        self.owner = Owner(checkpoint=None if state is None else str(state))
        """The owner of the answers."""
        self._scratch = Scratch()

    def take_locks(self) -> None:
        take_all(self._locks)

    def manifest(self) -> Manifest | None:
        """What the checkpoint will say of this run, if that agrees with what it says already."""
        if self.checkpoint is None:
            return None
        out = None if self.out is None else str(self.out.resolve())
        streams = {name: stream_text(stream) for name, stream in self._catalog.streams.items()}
        now = Manifest(self.owner.id, streams, out, self._options.of_state)
        then = Manifest.read(self.checkpoint)
        if then is None:
            return now
        check_manifest(then, now, self.checkpoint)
        self.owner = replace(self.owner, id=then.id)
        return replace(now, id=then.id)

    def directory(self, run: str) -> Path | None:
        """Where a stream, or the relations over some, keep what a restart needs."""
        folder = stream_folder(run) if run in self._catalog.streams else run
        return None if self.checkpoint is None else self.checkpoint.absolute() / folder

    def notes_of_spark(self, stream: str) -> Path:
        """Where Spark notes how far it has read: in the checkpoint, or in scratch files."""
        directory = self.directory(stream)
        if directory is not None:
            return directory / "spark"
        return self._scratch.path / stream

    def release_locks(self) -> None:
        for lock in self._locks:
            lock.release()

    def discard(self) -> None:
        """Remove the scratch files."""
        self._scratch.discard()
