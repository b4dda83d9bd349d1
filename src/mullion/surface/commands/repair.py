"""`mullion repair`."""

from __future__ import annotations

from typing import Annotated

import typer

from mullion.surface.exit_code import errors_to_exit_code


def repair(
    checkpoint: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of a run.")],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing: say what is wrong and how to fix it.")
    ] = False,
) -> None:
    """Look for damage in a checkpoint, and go back to the last commit that is whole where the input can be read again.

    Answers that came after it are written again by the next run. Files that are in the way are moved, not deleted.
    """
    with errors_to_exit_code():
        from mullion.spark.repair import Repair
        from mullion.storage.lock import Lock
        from mullion.storage.places import local_path

        place = local_path(checkpoint, "checkpoint").absolute()
        lock = Lock(place / ".lock", place, "the checkpoint")
        at_work = Repair(place)
        if place.is_dir():
            lock.take()
        try:
            findings = at_work.findings() if check else at_work.mend()
        finally:
            lock.release()
        for finding in findings:
            typer.echo(f"{finding.part}: {finding.problem.message}\n  {finding.advice}")
        if not findings:
            typer.echo(f"{checkpoint} is whole")
        elif check or any(finding.cannot for finding in findings):
            typer.echo("nothing was changed", err=True)
            raise typer.Exit(1)
        else:
            moved = "" if at_work.aside is None else f"; what was in the way is in {at_work.aside}"
            typer.echo(f"went back{moved}; start the run again to go on")
