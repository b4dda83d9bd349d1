"""Schedules of periodic queries: what `python -m benchmarks schedules` measures (golab 8.5, Figures 8.7 to 8.10).

Eight groups of top-k lists and quantiles, 5 to 30 queries each, over random headers at two rates. What executions take
is measured on sub-windows of counters (`schedules_lab`); the machine is simulated. It is as fast as hybrid scheduling
needs for 160 queries at the lower rate, so that everything beyond is overload. Needs no Spark.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.course import draw_to, warn_if_busy
from benchmarks.plot import pyplot, save
from benchmarks.report import Bar, Grid, Report
from benchmarks.schedules_lab import (
    KEYS,
    LONGEST,
    Costs,
    Outcome,
    measured_costs,
    packets,
    simulate,
    timetable,
    workload,
)
from benchmarks.schedules_rest import Rest, batches
from mullion.options import Schedule

SEED = 2006
RATES = {1500: 1, 3000: 2}
"""Headers a second, and how many times more different values than at first."""
WAYS = {
    "No-S": Schedule.EDF,
    "CS": Schedule.CONSERVATIVE,
    "HS": Schedule.HYBRID,
    "H-LS": Schedule.LATE_SHARING,
    "H-LP": Schedule.LATE_PENDING,
    "AS": Schedule.AGGRESSIVE,
}
FILLED = 20
"""Queries of each group with which hybrid scheduling fills the machine, at the lower rate."""
COLOURS = ("#8f8f8f", "#e8a33d", "#2a78b5", "#7fb2d9", "#1b4965", "#d1495b")

Outcomes = dict[tuple[int, int, str], Outcome]
"""By rate, number of queries and way."""


@dataclass(frozen=True)
class Sizes:
    each: tuple[int, ...] = (5, 10, 20, 30)
    samples: int = 30
    seconds: int = 600
    repeated: int = 3
    rest: Rest = field(default_factory=Rest)


FULL = Sizes()
QUICK = Sizes(each=(5, 20), samples=6, seconds=60, repeated=1, rest=Rest(queries=24, batches=12, events=2000))


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries it on little and judges nothing."""
    size = QUICK if quick else FULL
    made, machine = Report(judged=not quick), report.machine()
    warn_if_busy(console, machine["load_average"])
    costs = {rate: _costs(rate, size, console) for rate in RATES}
    filled = FILLED if FILLED in size.each else size.each[-1]
    capacity = timetable(Schedule.HYBRID, workload(filled, SEED), costs[min(RATES)]).load
    said = f"a machine with {1000 * capacity:.0f} ms of processor time between two updates, for {size.seconds} s"
    console.print(f"{said} of simulated time", highlight=False)
    found = {
        (rate, len(KEYS) * each, way): _outcome(schedule, each, costs[rate], capacity, size)
        for rate in RATES
        for each in size.each
        for way, schedule in WAYS.items()
    }
    judge(made, found, len(KEYS) * filled, len(KEYS) * size.each[-1])
    _at_rest(made, size)
    made.grids = [_grid(found, "throughput", "executions a second"), _grid(found, "latency", "updates late")]
    made.facts = {
        "benchmark": "schedules",
        "machine": machine,
        "versions": report.versions(),
        "size": asdict(size),
        "costs": {rate: {key: asdict(cost) for key, cost in own.items()} for rate, own in costs.items()},
        "capacity": capacity,
        "outcomes": [{"rate": r, "queries": n, "way": w, **asdict(o)} for (r, n, w), o in found.items()],
    }
    made.finish(console, json)
    draw_to(console, plot, partial(_draw, found))
    return made


WARM = 4
"""Executions of each key before any is measured: loops are compiled when they first meet the types of what they get."""


def _costs(rate: int, size: Sizes, console: Console) -> dict[str, Costs]:
    seconds = [packets(second, rate, RATES[rate], SEED) for second in range(LONGEST)]
    for key in KEYS if rate == min(RATES) else ():
        measured_costs(key, seconds, WARM, SEED)
    found = {key: measured_costs(key, seconds, size.samples, SEED) for key in KEYS}
    mean = sum(cost.access(60) for cost in found.values()) / len(found)
    console.print(f"  {rate:,} headers a second: an execution takes {1000 * mean:.1f} ms on average", highlight=False)
    return found


def _outcome(schedule: Schedule, each: int, costs: dict[str, Costs], capacity: float, size: Sizes) -> Outcome:
    """The average over several draws of queries."""
    outcomes = []
    for seed in range(SEED, SEED + size.repeated):
        queries = workload(each, seed)
        outcomes.append(simulate(timetable(schedule, queries, costs), queries, capacity, size.seconds))
    number = len(outcomes)
    return Outcome(
        sum(o.throughput for o in outcomes) / number,
        sum(o.latency for o in outcomes) / number,
        sum(o.tasks for o in outcomes) // number,
    )


def judge(made: Report, found: Outcomes, filled: int, most: int) -> None:
    low, high = min(RATES), max(RATES)
    hybrid, conservative = found[low, filled, "HS"], found[low, filled, "CS"]
    at = f"{filled} queries, {low:,}/s"
    made.add(Bar(f"throughput of HS against CS, {at}", hybrid.throughput / conservative.throughput, 2, ">="))
    share = hybrid.latency / conservative.latency if conservative.latency else 0.0
    made.add(Bar(f"latency of HS against CS, {at}", share, 0.1, "<="))
    over = found[high, most, "H-LP"].throughput / found[high, most, "HS"].throughput
    made.add(Bar(f"overload, throughput of H-LP against HS, {most} queries, {high:,}/s", over, 2, ">="))
    made.add(
        Bar(f"tasks of HS against sub-groups, {at}", hybrid.tasks / conservative.tasks, note="golab: about a half")
    )


def _at_rest(made: Report, size: Sizes) -> None:
    """Turn by turn, so that a busy machine hurts both alike."""
    plain, scheduled = [], []
    for _ in range(size.repeated):
        spent, answers = batches(size.rest, at_most=False)
        plain.append(spent)
        spent, same = batches(size.rest, at_most=True)
        scheduled.append(spent)
        assert answers == same, "plain SLIDE and SLIDE AT MOST answer the same instants here"
    what = f"at rest, batches of {size.rest.queries} queries with SLIDE AT MOST against plain SLIDE"
    made.add(Bar(what, min(scheduled) / min(plain), 1.02, "<=", note="processor time"))


def _grid(found: Outcomes, figure: str, what: str) -> Grid:
    header = (what, *WAYS)
    numbers = sorted({(rate, number) for rate, number, _ in found})
    rows = [
        (f"{rate:,}/s, {number} queries", *(f"{getattr(found[rate, number, way], figure):.2f}" for way in WAYS))
        for rate, number in numbers
    ]
    return Grid(header, rows)


def _draw(found: Outcomes, path: Path) -> None:
    figure, grid = pyplot().subplots(2, 2, figsize=(11, 8), sharex=True)
    for row, (name, what) in enumerate([("throughput", "executions a second"), ("latency", "updates late")]):
        for column, rate in enumerate(RATES):
            axes = grid[row, column]
            for way, colour in zip(WAYS, COLOURS, strict=True):
                line = {n: getattr(o, name) for (r, n, w), o in found.items() if (r, w) == (rate, way)}
                axes.plot(list(line), list(line.values()), label=way, color=colour, marker="o", markersize=3.5)
            if name == "latency":
                axes.set_yscale("symlog", linthresh=1)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(what)
            axes.set_title(
                f"{rate:,} headers a second (golab Figure 8.{7 + 2 * column + row})", fontsize=10, loc="left"
            )
            axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("queries")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.suptitle(
        "Schedules of periodic queries: measured executions, simulated clock", fontsize=11, x=0.06, ha="left"
    )
    save(figure, path, bottom=0.05)
