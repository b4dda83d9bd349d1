"""Write the pages that the code itself knows best: python docs/generate.py"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import typer

import mullion
from mullion.expressions.functions import FUNCTIONS
from mullion.surface.cli import app

DOCS = Path(__file__).parent
SOURCE = Path(mullion.__file__).parent
WIDTH = 100
NOT_RUN = ("multiway.py", "multiway_loops.py")
"""Algorithms that benchmarks compare and no query runs."""


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
        "These functions mean what they mean in Spark without ANSI mode, but a bad value (overflow, division by zero,",
        "a cast that does not fit) is always NULL, and counted. Functions that are not deterministic, or that read",
        "anything but their arguments, are not allowed.",
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
        "The cards above the algorithms in the code, for everything that queries run: what an algorithm does, what it",
        "requires, what it costs.",
        "Papers are cited by the keys of the [bibliography](bibliography.md).",
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
    """Of modules, classes and functions with a line `Time:`, in the order of files."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name in NOT_RUN:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                card = ast.get_docstring(node) or ""
                if "\nTime:" in card:
                    yield path, path.stem if isinstance(node, ast.Module) else node.name, card


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


ROOMS = "<!-- rooms: written by docs/generate.py -->\n", "<!-- end of rooms -->"


def contributing_page() -> str:
    """CONTRIBUTING as it is, with the rooms as the order of imports and their own documentation tell them."""
    before, rest = (DOCS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8").split(ROOMS[0])
    after = rest.split(ROOMS[1])[1]
    table = ["| room | holds |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in _rooms())]
    return before + ROOMS[0] + "\n".join(table) + "\n" + ROOMS[1] + after


def _rooms() -> Iterator[tuple[str, str]]:
    """Each package or module of the product, those that others may import first, with its first paragraph."""
    for layer in _layers():
        package = SOURCE / layer
        path = package / "__init__.py" if package.is_dir() else package.with_suffix(".py")
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        yield f"{layer}/" if package.is_dir() else path.name, " ".join(text.partition("\n\n")[0].split())


def _layers() -> list[str]:
    """The order of imports, as the test of it has it."""
    tree = ast.parse((DOCS.parent / "tests" / "test_imports.py").read_text(encoding="utf-8"))
    assigned = (node for node in tree.body if isinstance(node, ast.Assign))
    return next(ast.literal_eval(node.value) for node in assigned if ast.unparse(node.targets[0]) == "LAYERS")


def decisions_page() -> str:
    """Every decision by its title, with what took its place."""
    lines = [
        "# Decisions",
        "",
        "Why things are as they are. A decision that was given up stays, and says what took its place.",
        "",
    ]
    for path in sorted((DOCS / "decisions").glob("0*.md")):
        title, _, text = path.read_text(encoding="utf-8").partition("\n")
        number, _, what = title.removeprefix("# ").partition(". ")
        superseded = re.match(r"\s*Superseded by \[(\d+)\]", text)
        lines.append(f"- {number}: [{what}]({path.name})" + (f" (now {superseded[1]})" if superseded else ""))
    return "\n".join(lines) + "\n"


PAGES = {
    "decisions/README.md": decisions_page,
    "cli.md": cli_page,
    "functions.md": functions_page,
    "algorithms.md": algorithms_page,
    "../CONTRIBUTING.md": contributing_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
