"""`mullion ask`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from mullion.options import DEFAULTS, Isolation
from mullion.surface.exit_code import errors_to_exit_code
from mullion.surface.scripts import Script, read_script

Question = Annotated[str, typer.Argument(metavar="SELECT", help="The question, such as SELECT ... FROM s [ROWS 3].")]


class Printed(StrEnum):
    auto = "auto"
    text = "text"
    csv = "csv"
    json = "json"


def ask(
    script: Script,
    question: Question,
    format_: Annotated[
        Printed, typer.Option("--format", help="How to print the answer; auto is text on a terminal, else CSV.")
    ] = Printed.auto,
    isolation: Annotated[
        Isolation, typer.Option(help="Of which moment the answer is, if the input is read on meanwhile.")
    ] = DEFAULTS.isolation,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the answer, if it holds up to the newest event.")
    ] = False,
) -> None:
    """Answer a one-time question after the script's input.

    The stream keeps the events that the question needs. Up to which event time the answer holds, and what it was made
    from, is said first: above the table, or on stderr for CSV and JSON.
    """
    with errors_to_exit_code():
        text = read_script(script)
        from mullion.language.parse import parse_query

        parse_query(question)
        from mullion.engine import Engine
        from mullion.surface.printing import print_answer

        with Engine() as engine:
            engine.execute(text)
            engine.questions.clear()
            engine.prepare(question)
            engine.run()
            print_answer(engine.ask(question, isolation=isolation), format_.value, quiet=quiet)
