"""The modules of Mullion as syntax trees, parsed once for all tests that look at them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import mullion

ROOT = Path(mullion.__file__).parent


@cache
def source_trees() -> dict[str, tuple[str, ast.Module]]:
    """Text and tree by the path below the package."""
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
    return {path: (text, ast.parse(text)) for path, text in texts.items()}
