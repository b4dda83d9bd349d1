"""Write the pages that the code itself knows best: python docs/generate.py"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import typer

import mullion
from mullion.expressions.functions import FUNCTIONS
from mullion.surface.cli import app

DOCS = Path(__file__).parent
SOURCE = Path(mullion.__file__).parent
WIDTH = 100


def cli_page() -> str:
    """The help of every command."""
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


def functions_page() -> str:
    """Every scalar function, by the file that holds it."""
    lines = [
        "# Scalar functions",
        "",
        "Their meaning is Spark's without ANSI mode, but a bad value (overflow, division by zero, a cast that does not",
        "fit) is always NULL, and counted. Functions that are not deterministic or reach outside are not allowed.",
    ]
    by_file: dict[str, list[str]] = {}
    for function in FUNCTIONS.values():
        if not function.internal:
            others = f" ({', '.join(function.aliases)})" if function.aliases else ""
            by_file.setdefault(function.row.__module__.rpartition(".")[2], []).append(f"`{function.name}`{others}")
    for file, names in sorted(by_file.items()):
        lines += ["", f"**{file}**: {', '.join(sorted(names))}"]
    return "\n".join(lines) + "\n"


def algorithms_page() -> str:
    """The cards that stand above the algorithms: what each requires, its time and its space."""
    lines = [
        "# Algorithms",
        "",
        "Made from the cards in the code: what each does, what it requires, what it costs.",
        "",
        "| algorithm | what it does | card |",
        "|---|---|---|",
    ]
    for path, name, card in _cards():
        first, _, rest = card.partition("\n\n")
        facts = [line for line in _sentences(rest) if line.split(":")[0] in ("Requires", "Time", "Space", "Guarantee")]
        where = path.relative_to(SOURCE)
        summary = " ".join(first.split())
        lines.append(f"| [{name}](../src/mullion/{where}) | {summary} | {'<br>'.join(facts)} |")
    return "\n".join(lines) + "\n"


def _cards() -> Iterator[tuple[Path, str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                card = ast.get_docstring(node) or ""
                if "\nTime:" in card:
                    yield path, node.name, card


def _sentences(text: str) -> Iterator[str]:
    """Lines that begin with a fact's name, with what follows them."""
    fact = ""
    for line in text.splitlines():
        if line.startswith(("Requires:", "Time:", "Space:", "Guarantee:")):
            if fact:
                yield fact
            fact = line.strip()
        elif not line.strip() or line.startswith((" ", ">>>")):
            if fact:
                yield fact
            fact = ""
        elif fact:
            fact += " " + line.strip()
    if fact:
        yield fact


PAGES = {"cli.md": cli_page, "functions.md": functions_page, "algorithms.md": algorithms_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
