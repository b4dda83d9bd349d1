"""`mullion doctor`."""

from __future__ import annotations

import typer

from mullion.surface.exit_code import errors_to_exit_code


def doctor() -> None:
    """Check Python, Java, Spark, memory and ports, and show how to fix what is wrong."""
    with errors_to_exit_code():
        from rich.console import Console

        from mullion.surface.doctor import print_report

        well = print_report(Console())
    raise typer.Exit(0 if well else 1)
