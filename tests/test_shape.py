"""The shape of the code: no file, class or function so large that it holds more than one idea."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import mullion

ROOT = Path(mullion.__file__).parent
LINES_OF_A_FILE, METHODS_OF_A_CLASS, LINES_OF_A_FUNCTION = 400, 25, 60


def too_large(source: str) -> Iterator[str]:
    """What passes the limits. Loops that numba compiles may be long: they cannot call what they would be cut into as
    cheaply."""
    if source.count("\n") >= LINES_OF_A_FILE:
        yield f"{source.count(chr(10))} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(inner, ast.FunctionDef) for inner in node.body)
            if methods >= METHODS_OF_A_CLASS:
                yield f"class {node.name}: {methods} methods"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_compiled(node):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LINES_OF_A_FUNCTION:
                yield f"{node.name}: {lines} lines"


def _is_compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        "njit" in ast.unparse(decorator) or "compiled" in ast.unparse(decorator)
        for decorator in function.decorator_list
    )


def test_nothing_is_too_large() -> None:
    wrong = {path: list(too_large(path.read_text(encoding="utf-8"))) for path in ROOT.rglob("*.py")}
    assert not {str(path.relative_to(ROOT)): found for path, found in wrong.items() if found}


def test_the_check_itself() -> None:
    long = "def f():\n" + "    pass\n" * 60
    assert list(too_large(long)) == ["f: 61 lines"]
    assert list(too_large(f"@njit\n{long}")) == []
    assert list(too_large("class A:\n" + "".join(f"    def f{i}(self): ...\n" for i in range(25)))) == [
        "class A: 25 methods"
    ]
    assert list(too_large("\n" * 400)) == ["400 lines"]
