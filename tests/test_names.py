"""One name, one meaning: no two modules define public classes or types of one name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from source_trees import source_trees


def named_twice(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """The names of public classes and types that several modules define, with these modules."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for name in names_of_types(tree):
            modules[name].append(path)
    return {name: paths for name, paths in modules.items() if len(paths) > 1}


def names_of_types(tree: ast.Module) -> Iterator[str]:
    """Classes, and what is assigned to a name that is spelt like a class. Variables of types, such as T, belong to the
    signatures that they stand in."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and target.id[0].isupper() and not target.id.isupper():
                    yield target.id


def test_no_class_or_type_has_the_name_of_another() -> None:
    assert named_twice({path: tree for path, (_, tree) in source_trees().items()}) == {}


def test_the_check_itself() -> None:
    sources = {
        "a.py": "class Row: ...\nclass _Own: ...\nROOM = 1\nT = 1\nRows = list[Row]",
        "b.py": "class Row: ...\nclass _Own: ...\nROOM = 2\nT = 2",
        "c.py": "Rows: TypeAlias = tuple[int]\nrows = 1",
    }
    twice = {"Row": ["a.py", "b.py"], "Rows": ["a.py", "c.py"]}
    assert named_twice({path: ast.parse(source) for path, source in sources.items()}) == twice
