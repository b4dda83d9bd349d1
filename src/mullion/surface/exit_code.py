"""From errors to a sentence on stderr and an exit code."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from mullion import __version__
from mullion.errors import MullionError

SIGNALLED = 128
"""The exit code after a signal is this and its number, as shells have it: 130 after Ctrl-C, 143 after SIGTERM."""

_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR)

FULL_DISK = "\n  make room for answers, checkpoint and temporary files; with --checkpoint the same command then goes on"


@contextmanager
def errors_to_exit_code() -> Iterator[None]:
    """Errors become sentences on stderr and an exit code."""
    try:
        yield
    except MullionError as error:
        say("error", "red", str(error))
        raise typer.Exit(1) from None
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        raise typer.Exit(SIGNALLED + signal.SIGINT) from None
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE:
            _report_bug(error)
        where = f"{error.filename}: " if error.filename else ""
        advice = FULL_DISK if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        say("error", "red", f"{where}{error.strerror}{advice}")
        raise typer.Exit(1) from None
    except Exception as error:
        _report_bug(error)


def say(kind: str, color: str, text: str) -> None:
    """Write a line to stderr after a coloured label."""
    label = f"{kind}:"
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        label = typer.style(label, fg=color, bold=True)
    typer.echo(f"{label} {text}", err=True)


def _report_bug(error: Exception) -> NoReturn:
    """Write the stack to a file, and name the file."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="mullion-bug-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write(f"mullion {__version__}\n{' '.join(sys.argv)}\n\n")
        traceback.print_exception(error, file=file)
    first = (str(error).strip().splitlines() or [""])[0]
    say("error", "red", f"this is a bug in Mullion: {type(error).__name__}: {first} (details in {file.name})")
    raise typer.Exit(1) from None
