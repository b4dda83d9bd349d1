"""Write docs/cli.md from the command line's own help: python docs/generate.py"""

from __future__ import annotations

from pathlib import Path

import typer

from mullion.surface.cli import app

PAGE = Path(__file__).with_name("cli.md")
WIDTH = 100


def cli_page() -> str:
    """The help of every command as Markdown."""
    group = typer.main.get_command(app)
    settings = {**app.info.context_settings, "terminal_width": WIDTH}
    top = typer.Context(group, info_name="mullion", **settings)
    parts = ["# The command line", _block(group.get_help(top))]
    for name, command in group.commands.items():
        context = typer.Context(command, info_name=name, parent=top, **settings)
        parts += [f"## mullion {name}", _block(command.get_help(context))]
    return "\n\n".join(parts) + "\n"


def _block(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
    return f"```\n{lines}\n```"


if __name__ == "__main__":
    PAGE.write_text(cli_page(), encoding="utf-8")
