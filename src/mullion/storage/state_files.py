"""Where tables of a run's state lie between two commits, so that a restart finds it.

    shelf/000000000007.0    the sub-windows that step 7 made, one Arrow stream after the other

State is made of immutable tables. One that is kept from step to step is written once, with all others that are new in
the same step: one file, one flush. A commit names the tables that it stands on by file and place; a file leaves when no
commit names any of it. Tables are read back memory-mapped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from mullion.storage.files import CommittedFiles, serialised

Parts = Mapping[str, Sequence[pa.Table]]
"""The state of one owner, such as an operator: named lists of tables."""


class Location(NamedTuple):
    """Where a table lies."""

    file: str
    offset: int
    size: int


PartLocations = dict[str, dict[str, list[Location]]]
"""What a commit names: the tables of each part of each owner."""


@dataclass
class StateFiles:
    files: CommittedFiles
    folder: str = "shelf"
    _lying: dict[int, tuple[pa.Table, Location]] = field(default_factory=dict)
    """The tables of the last save by their identity. They are held, so that no other object can take it."""

    def save(self, state: Mapping[str, Parts], label: str) -> PartLocations:
        """Write what is new under a label, and return where everything lies."""
        tables = {
            id(table): table for parts in state.values() for part_tables in parts.values() for table in part_tables
        }
        fresh = {key: serialised(table) for key, table in tables.items() if key not in self._lying}
        lying = {key: self._lying[key] for key in tables if key in self._lying}
        if fresh:
            name, offset = self.files.write(self.folder, label, fresh.values()), 0
            for key, content in fresh.items():
                lying[key] = tables[key], Location(name, offset, len(content))
                offset += len(content)
        self._lying = lying
        return {
            owner: {part: [lying[id(table)][1] for table in own] for part, own in parts.items()}
            for owner, parts in state.items()
        }

    def load(self, manifest: Mapping[str, Mapping[str, list[list[int | str]]]]) -> dict[str, Parts]:
        """The state that a commit names."""
        mapped: dict[str, pa.Buffer] = {}
        state: dict[str, Parts] = {}
        for owner, parts in manifest.items():
            loaded: dict[str, list[pa.Table]] = {}
            for part, locations in parts.items():
                loaded[part] = []
                for file, offset, size in locations:
                    location = Location(str(file), int(offset), int(size))
                    if location.file not in mapped:
                        mapped[location.file] = self.files.buffer(location.file)
                    table = pa.ipc.open_stream(mapped[location.file].slice(location.offset, location.size)).read_all()
                    self._lying[id(table)] = table, location
                    loaded[part].append(table)
            state[owner] = loaded
        return state


def files_of(manifest: Mapping[str, Any]) -> set[str]:
    """The files in which the tables of a manifest lie."""
    return {location[0] for parts in manifest.values() for spots in parts.values() for location in spots}
