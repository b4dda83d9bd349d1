"""`mullion explain`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from mullion.surface.exit_code import errors_to_exit_code
from mullion.surface.scripts import Script, read_script


class Format(StrEnum):
    text = "text"
    json = "json"
    svg = "svg"


def explain(
    script: Script,
    format_: Annotated[Format, typer.Option("--format", help="For people, for programs, or a drawing.")] = Format.text,
) -> None:
    """Show the shared plan of a script's queries, with its reasons."""
    with errors_to_exit_code():
        text = read_script(script)
        from mullion.engine import Engine

        with Engine() as engine:
            engine.execute(text)
            explanation = engine.explain()
        forms = {Format.json: explanation.to_json, Format.svg: explanation.to_svg}
        typer.echo(forms.get(format_, explanation.__str__)())
