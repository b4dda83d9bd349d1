"""Where the state of operators lies between two steps, so that a restart finds it.

    shelf/000000000007    the sub-windows that step 7 made, one Arrow stream after the other

State is made of immutable tables. One that is kept from step to step is written once, with all others that are new in
the same step: one file, one flush. A commit names the tables that it stands on by file and place; a file leaves when no
commit names any of it. Tables are read back memory-mapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from mullion.catalog.journal import serialised, write_whole
from mullion.operators.base import Parts


class Spot(NamedTuple):
    """Where a table lies."""

    file: str
    offset: int
    size: int


Manifest = dict[str, dict[str, list[Spot]]]
"""What a commit names: the tables of each part of each operator."""


@dataclass
class Shelf:
    directory: Path
    _lying: dict[int, tuple[pa.Table, Spot]] = field(default_factory=dict)
    """The tables of the last save by their identity. They are held, so that no other object can take it."""
    _named: set[str] = field(default_factory=set)

    def save(self, state: Mapping[str, Parts], name: str) -> Manifest:
        """Write what is new under a name, and tell where everything lies."""
        lying: dict[int, tuple[pa.Table, Spot]] = {}
        content: list[bytes] = []
        size = 0
        manifest: Manifest = {}
        for owner, parts in state.items():
            mine = manifest[owner] = {}
            for part, tables in parts.items():
                spots = mine[part] = []
                for table in tables:
                    known = lying.get(id(table)) or self._lying.get(id(table))
                    if known is None:
                        content.append(serialised(table))
                        known = table, Spot(name, size, len(content[-1]))
                        size += len(content[-1])
                    lying[id(table)] = known
                    spots.append(known[1])
        if content:
            write_whole(self.directory / name, b"".join(content))
        self._lying, self._named = lying, {spot.file for _, spot in lying.values()}
        return manifest

    def load(self, manifest: Mapping[str, Mapping[str, list[list[int | str]]]]) -> dict[str, Parts]:
        """The state that a commit names."""
        mapped: dict[str, pa.Buffer] = {}
        state: dict[str, Parts] = {}
        for owner, parts in manifest.items():
            found: dict[str, list[pa.Table]] = {}
            for part, spots in parts.items():
                found[part] = []
                for file, offset, size in spots:
                    spot = Spot(str(file), int(offset), int(size))
                    if spot.file not in mapped:
                        mapped[spot.file] = pa.memory_map(str(self.directory / spot.file)).read_buffer()
                    table = pa.ipc.open_stream(mapped[spot.file].slice(spot.offset, spot.size)).read_all()
                    self._lying[id(table)] = table, spot
                    found[part].append(table)
            state[owner] = found
        self._named = set(mapped)
        return state

    def sweep(self) -> None:
        """Remove the files that the last commit does not name."""
        if self.directory.exists():
            for path in self.directory.iterdir():
                if path.name not in self._named:
                    path.unlink(missing_ok=True)


__all__ = ["Manifest", "Shelf", "Spot"]
