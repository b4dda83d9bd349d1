"""What was measured against what was promised: on the screen and as JSON."""

from __future__ import annotations

import json
import operator
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measuring import Timing
from mullion.memory import machine_bytes

_SENSES = {"<": operator.lt, "<=": operator.le, ">=": operator.ge, "==": operator.eq}

PACKAGES = ("mullion", "pyspark", "pyarrow", "numpy", "pandas", "numba", "datasketches", "polars", "duckdb")


@dataclass(frozen=True)
class Bar:
    """A figure and the bar that it must meet. Without a bar it is told for its own sake."""

    what: str
    measured: float
    bar: float | None = None
    sense: str = ""
    """'<', '<=', '>=' or '==': how the figure must stand to the bar."""
    unit: str = "x"
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.bar is None:
            return None
        return bool(_SENSES[self.sense](self.measured, self.bar))

    @property
    def measured_text(self) -> str:
        return _figure(self.measured, self.unit)

    @property
    def bar_text(self) -> str:
        return "" if self.bar is None else f"{self.sense} {_figure(self.bar, self.unit)}"


def _figure(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value:.3f} s"
    if unit == "%":
        return f"{value:.1f} %"
    if unit == "GiB":
        return f"{value:.2f} GiB"
    if unit == "x":
        return f"{value:.2f} x" if value < 100 else f"{value:,.0f} x"
    return f"{value:,.0f}{f' {unit}' if unit else ''}"


@dataclass(frozen=True)
class Grid:
    """Figures side by side."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for i, name in enumerate(self.header):
            table.add_column(name, justify="right" if i else "left")
        for row in self.rows:
            table.add_row(*row)
        return table


@dataclass
class Report:
    judged: bool = True
    """Small data meet no bars and miss none."""
    bars: list[Bar] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def add(self, *bars: Bar) -> None:
        self.bars += bars

    @property
    def passed(self) -> bool:
        return not self.judged or all(bar.met is not False for bar in self.bars)

    def finish(self, console: Console, path: Path | None) -> None:
        """Show it, and write it where the user names a file."""
        console.print()
        self.show(console)
        if path is not None:
            self.write(path)
            console.print(f"Figures: {path}", highlight=False)

    def show(self, console: Console) -> None:
        table = Table(title=None, box=None, pad_edge=False, header_style="bold")
        table.add_column("what")
        table.add_column("measured", justify="right", no_wrap=True)
        table.add_column("bar", justify="right", no_wrap=True)
        table.add_column("")
        for bar in self.bars:
            table.add_row(bar.what, bar.measured_text, bar.bar_text, self._verdict(bar))
        console.print(table)
        for grid in self.grids:
            console.print()
            console.print(grid.table())
        for text in self.left_out:
            console.print(f"Left out: {text}", markup=False)

    def _verdict(self, bar: Bar) -> str:
        note = f"[dim]{bar.note}[/dim]" if bar.note else ""
        if bar.met is None:
            return note
        if not self.judged:
            return "[dim]not judged[/dim]"
        verdict = "[green]met[/green]" if bar.met else "[bold red]missed[/bold red]"
        return f"{verdict}  {note}" if note else verdict

    def to_json(self) -> dict[str, Any]:
        return {
            **self.facts,
            "seconds": {name: timing.seconds for name, timing in self.timings.items()},
            "figures": [{**asdict(bar), "met": bar.met if self.judged else None} for bar in self.bars],
            "tables": [asdict(grid) for grid in self.grids],
            "left_out": self.left_out,
            "judged": self.judged,
            "passed": self.passed if self.judged else None,
        }

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_json(), indent=2) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """Where it was measured."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "memory_gigabytes": round(machine_bytes() / (1 << 30), 1),
        "system": platform.platform(),
        "load_average": os.getloadavg()[0],
    }


def versions(session: Any | None = None) -> dict[str, str]:
    """Of what was used; there is no Java without a session."""
    found = {"python": platform.python_version()} | ({} if session is None else {"java": _java(session)})
    return found | {name: text for name in PACKAGES if (text := _version(name))}


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())


def _java(session: Any) -> str:
    return str(session.sparkContext._jvm.System.getProperty("java.version"))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def counts_of(named: Mapping[str, Any], fields: Sequence[str]) -> dict[str, dict[str, int]]:
    """Chosen counts of several engines."""
    return {name: {f: getattr(counts, f) for f in fields} for name, counts in named.items()}
