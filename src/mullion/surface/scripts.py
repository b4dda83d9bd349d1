"""Scripts that users name on the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mullion.errors import MullionError, closest

Script = Annotated[str, typer.Argument(metavar="SCRIPT.sql", help="A script of Mullion SQL; - reads standard input.")]


def script_text(name: str) -> str:
    """The text of a script, or a sentence about why it cannot be read."""
    if name == "-":
        return _decoded(sys.stdin.buffer.read(), "standard input")
    path = Path(name)
    try:
        return _decoded(path.read_bytes(), name)
    except FileNotFoundError:
        folder = path.parent
        near = closest(path.name, [p.name for p in folder.iterdir() if p.is_file()]) if folder.is_dir() else None
        raise MullionError(f"there is no script {name}", hint=near or f"looked in {folder.resolve()}") from None
    except IsADirectoryError:
        raise MullionError(f"{name} is a directory", hint="name a script in it") from None
    except OSError as error:
        raise MullionError(f"the script {name} cannot be read: {error.strerror}") from None


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MullionError(f"{name} is not UTF-8 text (line {line})", hint="save it as UTF-8") from None
