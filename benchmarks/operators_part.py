"""What a part of `python -m benchmarks operators` brings back.

A part is a module with `measure(console, *, quick) -> Part`; `benchmarks.operators` names them all and puts them
together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report import Bar, Grid

Draw = Callable[[Path], None]


@dataclass
class Part:
    """Figures with their bars, tables, what goes into the JSON, and pictures by the names of their files."""

    bars: list[Bar] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    pictures: dict[str, Draw] = field(default_factory=dict)
