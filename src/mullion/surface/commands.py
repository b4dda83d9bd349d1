"""The commands of `mullion` but `run`. Heavy modules are imported when a command runs, so that help comes at once."""

from __future__ import annotations

import time
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from mullion.options import DEFAULTS, Isolation, Schedule
from mullion.surface.exit_code import errors_to_exit_code, say
from mullion.surface.scripts import Script, script_text
from mullion.surface.starting import imported_engine
from mullion.surface.warned import Warned, listening


class Format(StrEnum):
    text = "text"
    json = "json"
    svg = "svg"


def explain(
    script: Script,
    format_: Annotated[
        Format, typer.Option("--format", help="Text for people, JSON for programs, or a drawing.")
    ] = Format.text,
    schedule: Annotated[
        Schedule, typer.Option(help="When queries with SLIDE AT MOST would be answered, and which together.")
    ] = DEFAULTS.schedule,
) -> None:
    """Show the shared plan of a script's queries, with a reason for each choice."""
    with errors_to_exit_code():
        text = script_text(script)
        with imported_engine()(schedule=schedule) as engine, listening(Warned(partial(say, "warning", "yellow"))):
            engine.execute(text)
            explanation = engine.explain()
        forms = {Format.json: explanation.to_json, Format.svg: explanation.to_svg}
        typer.echo(forms.get(format_, explanation.__str__)())


QuestionText = Annotated[
    str, typer.Argument(metavar="SELECT", help="The question, such as SELECT ... FROM s [ROWS 3].")
]


class Printed(StrEnum):
    auto = "auto"
    text = "text"
    csv = "csv"
    json = "json"


def ask(
    script: Script,
    question: QuestionText,
    format_: Annotated[
        Printed, typer.Option("--format", help="How to print the answer; auto is text on a terminal, else CSV.")
    ] = Printed.auto,
    isolation: Annotated[
        Isolation, typer.Option(help="Which moment the answer reflects, if more input is read meanwhile.")
    ] = DEFAULTS.isolation,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the answer, if it holds up to the newest event.")
    ] = False,
) -> None:
    """Answer a one-time question after the script's input.

    The stream keeps the events that the question needs. The first line says up to which event time the answer holds
    and what it was made from. It stands above the table, or on stderr for CSV and JSON.
    """
    with errors_to_exit_code():
        text = script_text(script)
        from mullion.language.parse import parse_query

        parse_query(question)
        engine_class = imported_engine()
        from mullion.surface.printing import print_answer

        with engine_class() as engine, listening(Warned(partial(say, "warning", "yellow"))):
            engine.execute(text)
            engine.questions.clear()
            engine.prepare(question)
            engine.run()
            print_answer(engine.ask(question, isolation=isolation), format_.value, quiet=quiet)


def advance(
    checkpoint: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of a run.")],
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream whose event time moves.")],
    time: Annotated[str, typer.Argument(metavar="TIME", help="Such as '2024-01-01 12:00'; UTC unless it has a zone.")],
) -> None:
    """Move event time of a stream to TIME: no earlier event will come.

    The windows up to TIME can then be answered. The request is stored in the checkpoint. A run that follows the stream
    takes it between two batches, about a second later. Otherwise the next run takes it, after that run has read what is
    there. An event before TIME that comes afterwards is late.
    """
    with errors_to_exit_code():
        from mullion.language.parse import parse_instant
        from mullion.service.requesting import request
        from mullion.storage.places import local_path

        request(local_path(checkpoint, "checkpoint").absolute(), stream, parse_instant(time))
        typer.echo(f"the run that is active, or the next one, will move event time of {stream} to {time}")


def punctuate(
    checkpoint: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of a run.")],
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream that the key belongs to.")],
    key: Annotated[
        list[str], typer.Argument(metavar="VALUE...", help="The key: a value for each column after PUNCTUATE ON.")
    ],
) -> None:
    """End a key of a stream: no event of the key will come any more.

    State that waits for the key can then go. The request is stored in the checkpoint. A run that follows the stream
    takes it between two batches, about a second later. Otherwise the next run takes it, after that run has read what is
    there. Events of the key that come afterwards are set aside.
    """
    with errors_to_exit_code():
        from mullion.service.requesting import request_end
        from mullion.storage.places import local_path

        request_end(local_path(checkpoint, "checkpoint").absolute(), stream, key)
        typer.echo(f"the run that is active, or the next one, will end the key {', '.join(key)} of {stream}")


def demo(
    seconds: Annotated[
        float | None, typer.Option(min=1, help="How long events flow; by default the whole demo takes under a minute.")
    ] = None,
) -> None:
    """Watch 100 standing queries over generated trades, beside one query alone."""
    began = time.monotonic()
    with errors_to_exit_code():
        from rich.console import Console

        imported_engine()
        from mullion.surface.demo import show

        show(Console(), began=began, seconds=seconds)


def repair(
    checkpoint: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of a run.")],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing: say what is wrong and how to fix it.")
    ] = False,
) -> None:
    """Find damage in a checkpoint, and go back to its last intact commit.

    This needs input after that commit that can be read again. The next run writes the answers after the commit again.
    Files that are in the way are moved, not deleted.
    """
    with errors_to_exit_code():
        from mullion.spark.repair import Repair
        from mullion.storage.lock import Lock
        from mullion.storage.places import local_path

        place = local_path(checkpoint, "checkpoint").absolute()
        lock = Lock(place / ".lock", place, "the checkpoint")
        at_work = Repair(place)
        if place.is_dir():
            lock.acquire()
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


def doctor() -> None:
    """Check Python, Java, Spark, memory and ports, and show how to fix what is wrong."""
    with errors_to_exit_code():
        from rich.console import Console

        from mullion.surface.doctor import print_report

        well = print_report(Console())
    raise typer.Exit(0 if well else 1)
