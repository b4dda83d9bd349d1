"""What a checkpoint is: CHECKPOINT/manifest.json, and where its parts lie.

    CHECKPOINT/
      manifest.json
      streams/<stream>/        a journal: the stream's commits and what they stand on; spark/ is Spark's own
      relations/<a+b>/         a journal: the relations over streams a and b

Streams and relations have folders of their own, and odd characters in names are quoted: no name clashes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from mullion.storage.files import damaged, missing, write_whole
from mullion.storage.journal import HEAD, VERSION, Journal, other_format

NAME = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    id: str
    """Tells checkpoints apart."""
    streams: dict[str, str]
    """What each stream reads, as text."""
    out: str | None
    """Where the answers go."""
    options: dict[str, str] = field(default_factory=dict)
    """The options that its state depends on."""

    def write(self, checkpoint: Path) -> None:
        content = {"version": VERSION, **asdict(self)}
        write_whole(checkpoint / NAME, json.dumps({**content, "checksum": _checksum(content)}, indent=2).encode())

    @staticmethod
    def read(checkpoint: Path) -> Manifest | None:
        """None for a checkpoint that is new."""
        path = checkpoint / NAME
        try:
            content = json.loads(path.read_bytes())
            checksum = content.pop("checksum", None)
            version = content.pop("version", 1)
        except FileNotFoundError:
            if next(journals(checkpoint), None) is not None:
                raise missing(path) from None
            return None
        except (ValueError, TypeError, AttributeError) as problem:
            raise damaged(path, str(problem)) from None
        if checksum is None and version == 1:
            raise other_format(checkpoint, version)
        if checksum != _checksum({"version": version, **content}):
            raise damaged(path, "its content is not what was written")
        if version != VERSION:
            raise other_format(checkpoint, version)
        return Manifest(**content)


def _checksum(content: dict[str, object]) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def stream_folder(stream: str) -> str:
    """
    >>> stream_folder("commits"), stream_folder("../a b/c")
    ('streams/commits', 'streams/%2E%2E%2Fa b%2Fc')
    """
    return f"streams/{quoted(stream)}"


def quoted(name: str) -> str:
    """A name that a folder can have."""
    return quote(name, safe=" ").replace(".", "%2E")


def journals(checkpoint: Path) -> Iterator[Journal]:
    """The journals in which something was committed."""
    for kind in ("streams", "relations"):
        for folder in _folders(checkpoint, kind):
            if any(folder.glob(f"{HEAD}*")) or (folder / "commits").is_dir():
                yield Journal(folder)


def queries_noted(checkpoint: Path, kind: str) -> Iterator[dict[str, Any]]:
    """The queries that took part last, according to the journals of "streams" or of "relations"."""
    for folder in _folders(checkpoint, kind):
        yield from Journal(folder).last_queries()


def relations_noted(checkpoint: Path) -> Iterator[tuple[str, ...]]:
    """The streams, as often as relations over the same ones went in step."""
    for folder in _folders(checkpoint, "relations"):
        if "@" not in folder.name:
            yield tuple(map(unquote, folder.name.split("+")))


def _folders(checkpoint: Path, kind: str) -> list[Path]:
    base = checkpoint / kind
    return sorted(folder for folder in base.iterdir() if folder.is_dir()) if base.is_dir() else []
