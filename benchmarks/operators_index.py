"""An index of rows with different lifetimes on disk: golab's Figures 4.4 to 4.11.

| technique | what |
|---|---|
| R-ins n, D-ins n | waves of n sub-indices by insertion: written anew, or buckets |
| Rebuild GxE, NoRebuild GxE | doubly partitioned in turn: written anew, or buckets |
| .. chr | the same, partitioned in the order of time |

`lifetime_records` says what the records are and how times are taken. The small data set has 500 megabytes, the large
one 5 gigabytes, which the quick form leaves out; of its 36 updates the first 12 are measured.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from benchmarks import operators_index_plot
from benchmarks.lifetime_records import Measured, Technique, Workload
from benchmarks.lifetime_records import measure as measure_one
from benchmarks.operators_part import Part
from benchmarks.report import Bar, Grid
from mullion.errors import EnvironmentProblem

WAVES, DOUBLE = ("R-ins", "D-ins"), ("Rebuild", "NoRebuild")
CHRONOLOGICAL = ("Rebuild chr", "NoRebuild chr")
SHAPES = ((4, 4), (2, 8), (8, 2))
"""Of Figure 4.4."""
ROOM = 4
"""How many times the data must fit on the disk: a version, the next, and the buckets that are not full."""

Found = dict[str, Measured]
"""By the names of techniques."""


@dataclass(frozen=True)
class Size:
    small: Workload
    large: Workload | None
    roots: tuple[int, ...] = (2, 3, 4, 5)
    """G and E of doubly partitioned indices; waves have as many sub-indices."""


FULL = Size(Workload(500), Workload(5_000, scan_every=6, measured=12))
QUICK = Size(Workload(500, scan_every=6, measured=6), None, roots=(2, 4))


def measure(console: Console, *, quick: bool = False) -> Part:
    return measure_sizes(console, QUICK if quick else FULL)


def measure_sizes(console: Console, size: Size) -> Part:
    shapes = [Technique("Rebuild", g, e) for g, e in SHAPES]
    chronological = _doubles(CHRONOLOGICAL, size.roots)
    plain = [*_waves(size.roots), *_doubles(DOUBLE, size.roots)]
    varied = [t for t in plain if t.sub_indices in (size.roots[0] ** 2, size.roots[-1] ** 2)]
    fluctuating = replace(size.small, fluctuating=True)
    # Here and not in the place for temporary files, which may be in memory.
    with tempfile.TemporaryDirectory(prefix="mullion-bench-", dir=Path.cwd(), ignore_cleanup_errors=True) as folder:
        _check_room(Path(folder), size.large or size.small)
        small = _measure(console, {*shapes, *chronological, *plain}, size.small, Path(folder))
        bursts = _measure(console, varied, fluctuating, Path(folder))
        large = {} if size.large is None else _measure(console, plain, size.large, Path(folder))
    judged = large or small
    return Part(
        bars=_judge(judged, size.large or size.small),
        grids=[_grid(found) for found in (small, bursts, large) if found],
        facts={
            "small": [one.to_json() for one in small.values()],
            "fluctuating": [one.to_json() for one in bursts.values()],
            "large": [one.to_json() for one in large.values()],
        },
        pictures={"index": lambda path: operators_index_plot.draw(path, small, bursts, large)},
    )


def _waves(roots: Sequence[int]) -> list[Technique]:
    return [Technique(kind, root * root) for kind in WAVES for root in roots]


def _doubles(kinds: Sequence[str], roots: Sequence[int]) -> list[Technique]:
    return [Technique(kind, root, root) for kind in kinds for root in roots]


def _check_room(folder: Path, workload: Workload) -> None:
    needed, free = ROOM * workload.megabytes * 1_000_000, shutil.disk_usage(folder).free
    if free < needed:
        message = (
            f"the index needs {needed / 1e9:.0f} GB on the disk of {folder.parent}, where {free / 1e9:.0f} are free"
        )
        raise EnvironmentProblem(message, hint="start it in a directory on a larger disk")


def _measure(console: Console, techniques: Iterable[Technique], workload: Workload, folder: Path) -> Found:
    rate = ", fluctuating rate" if workload.fluctuating else ""
    console.print(
        f"  {workload.megabytes:,} MB, {workload.measured or workload.updates} updates{rate}", highlight=False
    )
    found: Found = {}
    for technique in sorted(techniques, key=lambda t: (t.kind, t.sub_indices, t.insertions)):
        one = found[technique.name] = measure_one(technique, workload, folder)
        console.print(f"    {one.told}", highlight=False)
    return found


def _judge(found: Found, workload: Workload) -> list[Bar]:
    """The fastest wave by insertion against the fastest doubly partitioned index that is clustered like it."""
    bars = []
    for wave, double in zip(WAVES, DOUBLE, strict=True):
        slow, fast = fastest(found, wave), fastest(found, double)
        what = f"updates of {workload.megabytes / 1000:g} GB, {wave} by {double}"
        note = f"{slow.technique.name} {slow.update:.2f} s, {fast.technique.name} {fast.update:.2f} s"
        bars.append(Bar(what, slow.update / fast.update, 2, ">=", note=note))
    return bars


def fastest(found: Mapping[str, Measured], kind: str) -> Measured:
    """Of the techniques of a kind the one with the fastest updates."""
    return min((one for one in found.values() if one.technique.kind == kind), key=lambda one: one.update)


def _grid(found: Found) -> Grid:
    first = next(iter(found.values())).workload
    name = f"{first.megabytes:,} MB{', fluctuating' if first.fluctuating else ''}"
    header = (name, "update", "probe", "scan", "touched", "read", "written", "sizes differ by")
    rows: list[tuple[str, ...]] = [
        (
            *(one.technique.name, f"{one.update:.3f} s", f"{1000 * one.probe:.1f} ms", f"{one.scan:.3f} s"),
            *(f"{one.touched:g}", f"{one.read / 1e6:,.0f} MB", f"{one.written / 1e6:,.0f} MB", f"{one.spread:.0%}"),
        )
        for one in found.values()
    ]
    return Grid(header, rows)
