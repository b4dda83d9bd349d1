"""The command line: `mullion` and its commands."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Annotated

import typer

from mullion import __version__
from mullion.surface.commands import advance, ask, demo, doctor, explain, punctuate, repair
from mullion.surface.run_command import run
from mullion.surface.starting import begin_alone

app = typer.Typer(
    name="mullion",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    suggest_commands=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main() -> None:
    """The `mullion` command."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    # A failure is told once, by us; the bridge to Java would print it as a stack trace as well.
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    begin_alone()
    app(prog_name="mullion")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mullion {__version__}")
        raise typer.Exit


@app.callback()
def _mullion(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Answer many standing sliding-window SQL queries over a stream, for about the price of one."""


for command in (run, explain, ask, advance, punctuate, demo, repair, doctor):
    app.command()(command)


if __name__ == "__main__":
    main()
