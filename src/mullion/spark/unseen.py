"""Warnings of declared columns that no file has: a misspelt one would be NULL throughout.

Schemas grow, so it is enough that one file has a column. The files of the first batch are looked at, then the others
that lie there: for Parquet and ORC their footers, for JSON the first records of some files. Where these lack a column,
the batch is asked whether it has any value of it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
from py4j.protocol import Py4JError

from mullion.algebra.streams import Stream, Table
from mullion.errors import SourceError, closest

log = logging.getLogger("mullion")

FORMATS = ("parquet", "orc", "json")
MOST_FOOTERS, MOST_HEADS = 2000, 10
HEAD = 65536


class Unseen:
    """The declared columns of a stream or table that no file has had so far."""

    def __init__(self, source: Stream | Table, *, strict: bool = False) -> None:
        self.source, self.strict = source, strict
        self.left = {name for name, _ in source.columns} if source.format in FORMATS else set()
        self._others: set[str] = set()
        """Columns of files that are not declared."""

    def look(
        self,
        files: Iterable[str],
        *,
        head: Callable[[str], bytes],
        local: Callable[[str], str | None],
        has_values: Callable[[list[str]], Iterable[str]] = lambda columns: (),
    ) -> None:
        """Look into files, the sooner ones first, and tell once what none of them has. `files` are URIs, `head` gives a
        file's first bytes, and `has_values` those of some columns that are not NULL throughout."""
        looked = 0
        for uri in files:
            most = MOST_HEADS if self.source.format == "json" else MOST_FOOTERS
            if not self.left or looked == most:
                break
            names = self._names(uri, head, local(uri))
            if names is not None:
                looked += 1
                self._saw(names, unquote(uri))
        if self.left and looked and self.source.format == "json":
            self.left -= set(has_values(sorted(self.left)))
        if self.left and looked:
            self._warn()

    def _names(self, uri: str, head: Callable[[str], bytes], path: str | None) -> set[str] | None:
        """The columns of a file; None where that cannot be told."""
        try:
            if self.source.format == "json":
                encoding = dict(self.source.options).get("encoding", "utf-8")
                return names_in_json(head(uri).decode(encoding, "replace")) or None
            if path is None:
                return None
            if self.source.format == "parquet":
                return set(pq.read_schema(path).names)
            names = set(orc.ORCFile(path).schema.names)
            # Columns without names go by their place.
            return None if all(name.startswith("_col") for name in names) else names
        except (OSError, pa.ArrowException, LookupError, Py4JError):
            return None

    def _saw(self, names: set[str], path: str) -> None:
        """Spark finds columns without case, but for JSON."""
        exact = self.source.format == "json"
        known = names if exact else {name.lower() for name in names}
        self.left = {
            name for name in self.left if (name if exact else name.lower()) not in known and f"/{name}=" not in path
        }
        declared = {name if exact else name.lower() for name, _ in self.source.columns}
        self._others |= {name for name in names if (name if exact else name.lower()) not in declared}

    def _warn(self) -> None:
        kind = "stream" if isinstance(self.source, Stream) else "table"
        sentences = []
        for name in [name for name, _ in self.source.columns if name in self.left]:
            guess = closest(name, self._others)
            sentences.append(f"'{name}'" + (f" ({guess})" if guess else ""))
        self.left = set()
        columns = "a column" if len(sentences) == 1 else "columns"
        said = f"{kind} {self.source.name}: no file has {columns} {', '.join(sentences)}"
        if self.strict:
            raise SourceError(said, hint="correct the declared columns; without strict they would be NULL throughout")
        log.warning("%s; NULL throughout", said)


def names_in_json(text: str) -> set[str]:
    """The names of the fields of records, one after the other or in an array; the last may be cut off.

    >>> sorted(names_in_json('{"a": 1}\\n nonsense\\n[{"b": {"c": 2}}, {"d'))
    ['a', 'b']
    """
    names: set[str] = set()
    for record in _records(text):
        names |= record.keys()
    return names


def _records(text: str) -> Iterator[dict[str, object]]:
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at] in " \t\r\n[],\ufeff":
            at += 1
            continue
        try:
            record, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("\n", at)
            if at < 0:
                return
            continue
        if isinstance(record, dict):
            yield record
