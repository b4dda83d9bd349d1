"""The shape of the code: no file, class or function so large that it holds more than one idea."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source_trees import source_trees

LINES_OF_A_FILE, METHODS_OF_A_CLASS, LINES_OF_A_FUNCTION = 400, 25, 60


def too_large(source: str, tree: ast.Module) -> Iterator[str]:
    """What passes the limits. Loops that numba compiles may be long: they cannot call what they would be cut into as
    cheaply."""
    if source.count("\n") >= LINES_OF_A_FILE:
        yield f"{source.count(chr(10))} lines"
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(inner, ast.FunctionDef) for inner in node.body)
            if methods >= METHODS_OF_A_CLASS:
                yield f"class {node.name}: {methods} methods"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_compiled(node):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LINES_OF_A_FUNCTION:
                yield f"{node.name}: {lines} lines"


def _is_compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator) in ("loop", "inlined_loop") for decorator in function.decorator_list)


def test_nothing_is_too_large() -> None:
    wrong = {path: list(too_large(*source)) for path, source in source_trees().items()}
    assert not {path: found for path, found in wrong.items() if found}


def test_the_check_itself() -> None:
    def found(source: str) -> list[str]:
        return list(too_large(source, ast.parse(source)))

    long = "def f():\n" + "    pass\n" * 60
    assert found(long) == ["f: 61 lines"]
    assert found(f"@loop\n{long}") == []
    assert found("class A:\n" + "".join(f"    def f{i}(self): ...\n" for i in range(25))) == ["class A: 25 methods"]
    assert found("\n" * 400) == ["400 lines"]
