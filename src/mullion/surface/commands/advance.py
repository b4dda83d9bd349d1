"""`mullion advance`."""

from __future__ import annotations

from typing import Annotated

import typer

from mullion.surface.exit_code import errors_to_exit_code


def advance(
    checkpoint: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of a run.")],
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream whose event time goes on.")],
    time: Annotated[str, typer.Argument(metavar="TIME", help="Such as '2024-01-01 12:00'; UTC unless it says a zone.")],
) -> None:
    """A heartbeat: nothing before TIME comes on the stream any more, so windows up to it can be answered.

    The request lies in the checkpoint. A run that follows the stream takes it between two batches, about a second
    later; otherwise the next run takes it, after it has read what is there. What comes afterwards and lies before TIME
    is late.
    """
    with errors_to_exit_code():
        from mullion.language.parse import parse_instant
        from mullion.service.requesting import request
        from mullion.storage.places import local_path

        request(local_path(checkpoint, "checkpoint").absolute(), stream, parse_instant(time))
        typer.echo(f"event time of {stream} goes on to {time} with the run that is at work, or the next one")
