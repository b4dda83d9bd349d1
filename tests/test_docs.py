"""What the documents say is true."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import runpy
from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mullion.aggregates import REGISTRY
from mullion.algebra.nodes import Node
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.binding.relations import bind
from mullion.catalog.summaries import StreamSummary, checked_summary
from mullion.engine import Engine
from mullion.language.dialect import AGGREGATES
from mullion.language.parse import parse_query, parse_script
from mullion.language.script import CreateQuery, CreateStream, CreateSummary, CreateTable
from mullion.language.types import DOUBLE, INT, STRING, TIMESTAMP
from mullion.options import Options
from mullion.summaries.kinds import DEFAULT, KINDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GENERATED = runpy.run_path(str(ROOT / "docs" / "generate.py"))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATED["PAGES"])
def test_generated_pages_are_up_to_date(name: str) -> None:
    page = GENERATED["PAGES"][name]()
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page, "run: python docs/generate.py"


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / "docs" / "language.md", ROOT / "docs" / "summaries.md"], ids=lambda p: p.name
)
def test_scripts_are_right(path: Path) -> None:
    scripts = blocks(path.read_text(encoding="utf-8"), "sql")
    assert scripts
    for script in scripts:
        streams, tables = {}, {}
        relations: dict[str, Relation] = {}
        summaries: list[StreamSummary] = []
        for statement in parse_script(script):
            if isinstance(statement, CreateStream):
                made_of = statement.name, statement.columns, statement.time_column
                streams[statement.name] = Stream(*made_of, shedding=statement.shedding).check()
            if isinstance(statement, CreateTable):
                made = Table(statement.name, statement.columns, statement.format, retroactive=statement.retroactive)
                tables[statement.name] = made
            if isinstance(statement, CreateSummary):
                summaries.append(checked_summary(statement, streams[statement.stream], KINDS, DEFAULT))
            if isinstance(statement, CreateQuery):
                bound = bind(statement.query, streams, tables, relations, summaries)
                if bound.materialized:
                    relations[bound.name] = bound


@pytest.fixture
def _aggregates() -> Iterator[None]:
    """What an example registers is gone after it."""
    known = set(REGISTRY)
    yield
    for name in set(REGISTRY) - known:
        del REGISTRY[name], AGGREGATES[name]


@pytest.mark.parametrize("name", ["README.md", "docs/python.md"])
def test_the_examples_print_what_they_say(
    name: str, spark: SparkSession, capsys: pytest.CaptureFixture[str], _aggregates: None
) -> None:
    """The blocks of a page are one program; where another block follows, it is what was printed."""
    page = (ROOT / name).read_text(encoding="utf-8")
    program: dict[str, object] = {"__name__": "__main__"}
    examples = blocks(page, "python")
    assert examples
    for example in examples:
        rest = page.partition(f"```python\n{example}```\n")[2]
        printed = rest.removeprefix("```\n").partition("```\n")[0] if rest.startswith("```\n") else ""
        exec(compile(example, name, "exec"), program)
        assert capsys.readouterr().out.rstrip("\n") == printed.rstrip("\n")


def test_every_link_leads_somewhere() -> None:
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_the_architecture_names_what_exists() -> None:
    """A name in backquotes whose first part is a room: a module, or what a module holds."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = [name for name in re.findall(r"`([a-z_]+(?:\.\w+)+)`", page) if not name.endswith(".py")]
    assert len(named) > 50
    assert [name for name in named if not exists(f"mullion.{name}")] == []


def test_the_queries_of_the_architecture_become_the_trees_that_it_names() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    columns = {
        "trades": (("ts", TIMESTAMP), ("symbol", STRING), ("price", DOUBLE), ("volume", INT)),
        "orders": (("ts", TIMESTAMP), ("id", INT)),
        "payments": (("ts", TIMESTAMP), ("order_id", INT), ("amount", DOUBLE)),
    }
    streams = {name: Stream(name, own, "ts") for name, own in columns.items()}
    trees = [tree(bind(parse_query(text, name="q"), streams).root) for text in blocks(page, "sql")]
    assert len(trees) == 2 and all(f"`{found}`" in page for found in trees), trees


def tree(node: Node) -> str:
    below = ", ".join(map(tree, node.inputs))
    return f"{type(node).__name__}({below})" if below else type(node).__name__


def exists(name: str) -> bool:
    """Whether the dotted name leads to a module, or from one to an attribute."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_the_glossary_has_each_word_once() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    words = [word.strip() for row in rows if row != "word" for word in row.split(",") if "[" not in row]
    assert len(words) > 50 and sorted(set(words)) == sorted(words)


CITATION = re.compile(r"\(([a-z][a-z-]+) (?:\d+\.\d|Figure|Table|Algorithm|Definition|inequality|formula)")
NO_PAPERS = {"section", "sections"}


def test_every_paper_that_is_cited_is_in_the_bibliography() -> None:
    """A citation is a key and a section, figure, table or algorithm, such as (golab 3.5.2)."""
    bibliography = (ROOT / "docs" / "bibliography.md").read_text(encoding="utf-8")
    keys = set(re.findall(r"^\| `([a-z-]+)` \|", bibliography, re.MULTILINE))
    cited = {
        (key, path.relative_to(ROOT).as_posix())
        for folder in ("src", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        for key in CITATION.findall(path.read_text(encoding="utf-8"))
    }
    assert {key for key, _ in cited} >= {"golab", "krishnamurthy", "li"}
    assert [(key, path) for key, path in sorted(cited) if key not in keys | NO_PAPERS] == []


def test_missed_bars_are_told() -> None:
    """Beside those that were met, with what was measured."""
    told = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")):
        for figure in json.loads(path.read_text(encoding="utf-8"))["figures"]:
            if figure["met"] is False:
                row = f"| {figure['what']} | {figure['measured']:.2f} {figure['unit']} |"
                assert row in told, f"{path.name}: {row}"


def test_every_aggregate_is_documented() -> None:
    language = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    assert [name for name in REGISTRY if name not in language] == []


def test_every_argument_of_the_engine_is_documented() -> None:
    """The options with their defaults, as strings that users may pass."""
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    for option in fields(Options):
        plain = ", ".join(option.default) if isinstance(option.default, tuple) else option.default
        default = f"{plain:,}" if type(plain) is int else str(plain)
        shown = f"`{default}`" if isinstance(plain, str) else default
        assert f"| `{option.name}` | {shown} |" in page
    options = {option.name for option in fields(Options)}
    for name in inspect.signature(Engine).parameters.keys() - options:
        assert f"| `{name}` |" in page
    for name in (choice for option in fields(Options) for choice in choices_of(option.default)):
        assert f"`{name}`" in page


def choices_of(default: object) -> list[str]:
    return [*type(default)] if isinstance(default, StrEnum) else []
