"""Notes of what was decided of batches, written before anything is made of them: a batch that is played again finds its
own. Each is a file that commits name.

    shed/000000000007-<sum>.json    what was decided of batch 7
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from mullion.storage.files import CommittedFiles, label_of, read_checked


class Notable(Protocol):
    def noted(self) -> dict[str, Any]:
        """What `read` makes it of again."""
        ...


Note = TypeVar("Note", bound=Notable)


class BatchNotes(Generic[Note]):
    """Without files the notes are gone with the process."""

    def __init__(self, files: CommittedFiles | None, folder: str, read: Callable[..., Note]) -> None:
        self._files, self._folder = files, folder
        self.by_batch: dict[int, Note] = {}
        self._names: dict[int, str] = {}
        for name in () if files is None else files.names(folder):
            label = (label_of(name) or "").removeprefix(f"{folder}/")
            if files is not None and label.isdigit():
                self.by_batch[int(label)] = read(**json.loads(read_checked(files.path(name))))
                self._names[int(label)] = name

    @property
    def names(self) -> list[str]:
        """The files that a commit has to name."""
        return list(self._names.values())

    def of(self, batch: int) -> Note | None:
        return self.by_batch.get(batch)

    def note(self, batch: int, note: Note) -> None:
        self.by_batch[batch] = note
        if self._files is not None:
            content = json.dumps(note.noted()).encode()
            self._names[batch] = self._files.write(self._folder, f"{batch:012d}", content, ".json")

    def forget_before(self, batch: int) -> None:
        """Let go of notes that no commit names any more."""
        for old in [number for number in self.by_batch if number < batch]:
            del self.by_batch[old]
            if self._files is not None and (name := self._names.pop(old, None)) is not None:
                self._files.path(name).unlink(missing_ok=True)
