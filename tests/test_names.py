"""One name, one meaning: no two modules define public classes of one name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping

from source_trees import source_trees


def named_twice(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """The names of public classes that several modules define, with these modules."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(path)
    return {name: paths for name, paths in modules.items() if len(paths) > 1}


def test_no_class_has_the_name_of_another() -> None:
    assert named_twice({path: tree for path, (_, tree) in source_trees().items()}) == {}


def test_the_check_itself() -> None:
    sources = {"a.py": "class Row: ...\nclass _Own: ...", "b.py": "class Row: ...\nclass _Own: ...", "c.py": "Row = 1"}
    assert named_twice({path: ast.parse(source) for path, source in sources.items()}) == {"Row": ["a.py", "b.py"]}
