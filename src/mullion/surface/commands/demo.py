"""`mullion demo`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from mullion.surface.exit_code import errors_to_exit_code


def demo(
    seconds: Annotated[
        float | None, typer.Option(min=1, help="How long events flow; without it the whole demo takes under a minute.")
    ] = None,
) -> None:
    """Watch 100 standing queries over generated trades, beside one query alone."""
    began = time.monotonic()
    with errors_to_exit_code():
        from rich.console import Console

        from mullion.surface.demo import show

        show(Console(), began=began, seconds=seconds)
