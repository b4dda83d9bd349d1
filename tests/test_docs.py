"""What the documents say is true."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mullion.aggregates import REGISTRY
from mullion.catalog.algebra import Relation
from mullion.catalog.queries import bind
from mullion.catalog.relations import bind_relation, is_relational
from mullion.catalog.streams import Stream, Table
from mullion.language.parse import parse_script
from mullion.language.query import CreateQuery, CreateStream, CreateTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GENERATED = runpy.run_path(str(ROOT / "docs" / "generate.py"))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", GENERATED["PAGES"])
def test_generated_pages_are_up_to_date(name: str) -> None:
    page = GENERATED["PAGES"][name]()
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page, "run: python docs/generate.py"


@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "docs" / "language.md"], ids=lambda p: p.name)
def test_scripts_are_right(path: Path) -> None:
    scripts = blocks(path.read_text(encoding="utf-8"), "sql")
    assert scripts
    for script in scripts:
        streams, tables = {}, {}
        relations: dict[str, Relation] = {}
        for statement in parse_script(script):
            if isinstance(statement, CreateStream):
                streams[statement.name] = Stream(statement.name, statement.columns, statement.time_column).check()
            if isinstance(statement, CreateTable):
                made = Table(statement.name, statement.columns, statement.format, retroactive=statement.retroactive)
                tables[statement.name] = made
            if isinstance(statement, CreateQuery):
                query = statement.query
                if is_relational(query, streams, tables, relations):
                    relations[str(query.name)] = bind_relation(query, streams, tables, relations)
                else:
                    bind(query, streams, tables)


def test_the_example_prints_what_it_says(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks(README, "python")
    printed = README.partition(example)[2].split("```\n")[2].rstrip("\n")
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out.rstrip("\n") == printed


def test_every_link_leads_somewhere() -> None:
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_aggregate_is_documented() -> None:
    language = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    assert [name for name in REGISTRY if name not in language] == []
