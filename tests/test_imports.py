"""The direction of imports: a package uses only what stands before it, and only spark/ knows pyspark."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from source_trees import source_trees

LAYERS = (
    "errors",
    "plural",
    "instants",
    "lazy",
    "questions_first",
    "threads",
    "loops",
    "arguments",
    "memory",
    "allocation",
    "options",
    "closing",
    "language",
    "expressions",
    "aggregates",
    "storage",
    "algebra",
    "binding",
    "catalog",
    "reference",
    "planner",
    "kernels",
    "slices",
    "summaries",
    "operators",
    "runtime",
    "sinks",
    "spark",
    "testing",
    "service",
    "engine",
    "surface",
    "__main__",
)


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names of all imports, wherever in the file they stand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield "." * node.level
            elif node.module == "mullion":
                yield from (f"mullion.{alias.name}" for alias in node.names)
            else:
                yield str(node.module)


def violations(layer: str, tree: ast.Module) -> list[str]:
    """What a module of this layer imports and must not."""
    wrong = []
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    for name in imported(tree):
        top, _, rest = name.partition(".")
        inner = rest.partition(".")[0]
        if not top:
            wrong.append("a relative import")
        elif top == "pyspark" and layer != "spark":
            wrong.append(name)
        elif top == "mullion" and inner in LAYERS and inner not in allowed:
            wrong.append(name)
    return wrong


def test_imports_go_one_way() -> None:
    """All of the package but its front door, which stands above every layer."""
    wrong = {}
    for path, (_, tree) in source_trees().items():
        layer = path.partition("/")[0].removesuffix(".py")
        if path != "__init__.py":
            assert layer in LAYERS, f"{layer} has no place in LAYERS"
            wrong[path] = violations(layer, tree)
    assert not {path: names for path, names in wrong.items() if names}


def test_the_front_door_does_not_import_pyspark_itself() -> None:
    names = imported(source_trees()["__init__.py"][1])
    assert not [name for name in names if name.partition(".")[0] == "pyspark"]


@pytest.mark.parametrize(
    ("layer", "source", "wrong"),
    [
        ("planner", "from mullion.language.query import Query", []),
        ("planner", "from mullion.planner.plan import Plan", []),
        ("language", "from mullion.errors import ParseError", []),
        ("language", "from mullion.planner.plan import Plan", ["mullion.planner.plan"]),
        ("kernels", "def f():\n    from mullion import slices", ["mullion.slices"]),
        ("kernels", "import mullion.spark.session", ["mullion.spark.session"]),
        ("reference", "from mullion.planner import plan", ["mullion.planner"]),
        ("surface", "from pyspark.sql import DataFrame", ["pyspark.sql"]),
        ("spark", "from pyspark.sql import DataFrame", []),
        ("slices", "if TYPE_CHECKING:\n    import pyspark", ["pyspark"]),
        ("errors", "from . import language", ["a relative import"]),
    ],
)
def test_the_check_itself(layer: str, source: str, wrong: list[str]) -> None:
    assert violations(layer, ast.parse(source)) == wrong


def test_loops_are_compiled_in_one_place() -> None:
    """numba's own cache would go on running what a loop called before an upgrade."""
    named = (
        path for path, (_, tree) in source_trees().items() if any(name.startswith("numba") for name in imported(tree))
    )
    assert sorted(map(str, named)) == ["loops.py", "surface/compiling.py"]
