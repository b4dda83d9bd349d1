"""Arrow files mapped into memory: what is not looked at is not read."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Mapped:
    """The rows of a file. It is unmapped with the last of them.

    Systems read far ahead of the first page that is looked at, megabytes of it: right for all rows, far too much for a
    few. A file mapped for `pieces` is read exactly where `piece` says, and there at once.
    """

    rows: pa.Table
    _map: mmap.mmap
    _address: int

    @staticmethod
    def whole(path: Path) -> pa.Table:
        """All rows, to be read from the first to the last."""
        return Mapped._open(path, "MADV_SEQUENTIAL").rows

    @staticmethod
    def pieces(path: Path) -> Mapped:
        """For some of the rows."""
        return Mapped._open(path, "MADV_RANDOM")

    @staticmethod
    def _open(path: Path, way: str) -> Mapped:
        with path.open("rb") as file:
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, way):
            mapping.madvise(getattr(mmap, way))
        buffer = pa.py_buffer(mapping)
        return Mapped(pa.ipc.open_file(pa.BufferReader(buffer)).read_all(), mapping, buffer.address)

    def piece(self, offset: int, length: int) -> pa.Table:
        """Some rows, which the system starts to read."""
        rows = self.rows.slice(offset, length)
        for column in rows.columns:
            for chunk in column.chunks:
                for address, size in _extents(chunk):
                    self._fetch(address, size)
        return rows

    def _fetch(self, address: int, size: int) -> None:
        if hasattr(mmap, "MADV_WILLNEED") and size:
            begin = (address - self._address) // mmap.PAGESIZE * mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, begin, address - self._address + size - begin)


def _extents(array: pa.Array) -> Iterator[tuple[int, int]]:
    """Where the values of an array are in memory. Those of lists and structs are left to be found when needed."""
    if pa.types.is_nested(array.type) or not len(array):
        return
    values = array.buffers()[-1]
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        yield array.buffers()[1].address + 4 * array.offset, 4 * (len(array) + 1)
        bounds = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
        if values is not None:
            yield values.address + int(bounds[0]), int(bounds[-1] - bounds[0])
    elif pa.types.is_primitive(array.type) or pa.types.is_fixed_size_binary(array.type):
        bits = array.type.bit_width
        yield values.address + array.offset * bits // 8, -(-len(array) * bits // 8)
