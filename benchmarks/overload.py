"""A run that gets more than it can take: what `python -m benchmarks overload` measures.

| part | what |
|---|---|
| burst | five times the capacity, then calm: how old the newest answered event becomes, and when all is normal again |
| errors | estimates from 50, 10 and 1 % of the events: how often the truth lies within 1.96 standard errors |
| rest | what the monitor adds to a batch while nothing is wrong |

The burst is two minutes over a stream that sheds, and a quarter of a minute over one that waits, since to work it off
takes five times as long; how long it was is told. The whole takes about seven minutes. Capacity is measured first: it
is what this machine takes of these queries now.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import report
from benchmarks.course import warn_if_busy
from benchmarks.overload_burst import BURST, Course, Length, calm_rate, capacity, play, wrong_answers
from benchmarks.overload_errors import Errors, at_rest, errors, write
from benchmarks.plot import GROWTH, T1, pyplot, save
from benchmarks.report import Bar, Grid, Report
from mullion.spark.session import local_session

SHARES = (0.5, 0.1, 0.01)
TOLD, OFF = 95.0, 2.0
"""Percent of windows in which the truth is told to lie within the bound, and how far off this may be."""
AT_REST = 1.02
NORMAL = 2.0
"""Times `behind_after` that the newest answered event may be old when all is normal."""
BOUND = 6.0
"""Times `behind_after` that it may be old at all, where events are shed: twice until the run is behind, and twice as
long until what waited is worked off."""


@dataclass(frozen=True)
class Size:
    length: Length = field(default_factory=Length)
    trial: int = 3_000_000
    """Events that capacity is measured with."""
    windows: int = 1_500
    events: int = 20_000
    """Of a window."""
    files: int = 20


FULL = Size()
QUICK = Size(
    Length(burst=4.0, waiting=4.0, lead=2.0, calm=12.0, most_events=400_000, behind_after=1.0),
    trial=100_000,
    windows=40,
    events=1_000,
    files=4,
)


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries it on little and judges nothing."""
    size = QUICK if quick else FULL
    made, machine = Report(judged=not quick), report.machine()
    warn_if_busy(console, machine["load_average"])
    session = local_session(app_name="mullion-bench")
    with tempfile.TemporaryDirectory(prefix="mullion-bench-", ignore_cleanup_errors=True) as folder:
        base = Path(folder)
        found = _errors(console, made, session, base, size)
        rate, calm, courses = _burst(console, made, session, base, size.length, size.trial)
    made.facts = {
        "benchmark": "overload",
        "machine": machine,
        "versions": report.versions(),
        "size": asdict(size),
        "capacity": rate,
        "calm": calm,
        "errors": [asdict(one) for one in found],
        "courses": {name: course.points for name, course in courses.items()},
    }
    made.finish(console, json)
    if plot is not None:
        _draw(plot, courses, found, size.length)
        console.print(f"Picture: {plot}", highlight=False)
    return made


def _errors(console: Console, made: Report, session: Any, base: Path, size: Size) -> list[Errors]:
    console.print(f"estimates of {size.windows:,} windows of {size.events:,} events", highlight=False)
    values = write(base / "windows", size.windows, size.events, size.files)
    found = [errors(session, base / "windows", values, share) for share in SHARES]
    rows = []
    for one in found:
        for item, inside in one.inside.items():
            name = {"n": "count", "total": "sum", "mean": "avg"}[item]
            what = f"{name} from {100 * one.share:g} % of the events: windows within the told bound, off 95 % by"
            made.add(Bar(what, abs(100 * inside - TOLD), OFF, "<=", "%", f"{100 * inside:.1f} %"))
        figures = (f"{100 * one.relative[item]:.2f} %" for item in one.relative)
        rows.append((f"{100 * one.share:g} %", f"{one.windows:,}", *figures))
    made.grids.append(Grid(("kept", "windows", "mean error of count", "of sum", "of avg"), rows))
    console.print("the monitor at rest", highlight=False)
    ratio, batches = at_rest(session, base / "windows")
    made.add(Bar(f"a batch with its monitor at rest, {batches} batches", ratio, AT_REST, "<="))
    return found


def _burst(
    console: Console, made: Report, session: Any, base: Path, length: Length, trial: int
) -> tuple[float, float, dict[str, Course]]:
    rate = capacity(session, base, trial)
    calm = calm_rate(session, base, rate, length)
    console.print(f"capacity: {rate:,.0f} events a second; calm: {calm:,.0f}", highlight=False)
    courses = {}
    for name, behind in (("WAIT", "WAIT"), ("SHED RANDOM", "SHED RANDOM AT MOST 99 PERCENT")):
        console.print(f"a burst of {BURST:g} x capacity, {name}", highlight=False)
        courses[name] = play(session, base / name, behind, rate, calm, length)
    waited, shed = courses["WAIT"], courses["SHED RANDOM"]
    made.add(Bar("WAIT: answers that are wrong or missing", wrong_answers(waited, base / "WAIT"), 0, "==", ""))
    made.add(Bar("WAIT: events that were shed", waited.shed, 0, "==", ""))
    made.add(Bar(f"WAIT: the oldest, of a burst of {waited.burst:.0f} s", waited.oldest, None, "", "s"))
    bound = BOUND * length.behind_after
    made.add(Bar(f"SHED: the oldest, of a burst of {shed.burst:.0f} s", shed.oldest, bound, "<=", "s"))
    again = shed.normal_again(NORMAL * length.behind_after)
    after = length.calm if again is None else again
    note = "never" if again is None else ""
    made.add(
        Bar("SHED: normal again so long after the burst, without a restart", after, length.calm - 1, "<=", "s", note)
    )
    share = 100 * shed.shed / max(1, shed.shed + shed.events)
    made.add(Bar("SHED: events that were shed", share, None, "", "%"))
    return rate, calm, courses


def _draw(path: Path, courses: dict[str, Course], found: list[Errors], length: Length) -> None:
    """Ages over time, the share that was kept, and how often estimates were within their bounds."""
    figure, (ages, shares, bounds) = pyplot().subplots(3, 1, figsize=(9, 10))
    for (name, course), colour in zip(courses.items(), (GROWTH[2], GROWTH[0]), strict=True):
        times = [at for at, *_ in course.points]
        ages.plot(times, [age for _, age, _, _ in course.points], label=name, color=colour, marker="o", markersize=2)
        shares.plot(
            times, [100 * share for *_, share in course.points], label=name, color=colour, drawstyle="steps-post"
        )
        ages.axvspan(0, course.burst, color="#eeeeee", zorder=0)
    ages.axhline(BOUND * length.behind_after, color=T1, linestyle="--", linewidth=1)
    ages.set_ylabel("age of the newest answered event, s")
    ages.legend(frameon=False, fontsize=9)
    ages.set_title(f"A burst of {BURST:g} x capacity (grey), then calm", fontsize=11, loc="left")
    shares.set_ylabel("events kept, %")
    shares.set_xlabel("seconds")
    shares.set_ylim(0, 105)
    names = [f"{100 * one.share:g} %" for one in found]
    for i, (item, colour) in enumerate(zip(("n", "total", "mean"), (GROWTH[0], GROWTH[2], GROWTH[3]), strict=True)):
        places = [at + (i - 1) * 0.25 for at in range(len(found))]
        label = {"n": "count", "total": "sum", "mean": "avg"}[item]
        bounds.bar(places, [100 * one.inside[item] for one in found], 0.22, color=colour, label=label)
    bounds.set_xticks(range(len(found)), names)
    bounds.set_ylim(85, 100)
    bounds.axhspan(TOLD - OFF, TOLD + OFF, color="#eeeeee", zorder=0)
    bounds.set_ylabel("windows within the 95 % bound, %")
    bounds.set_xlabel("events that were kept")
    bounds.legend(frameon=False, fontsize=9, ncols=3)
    for axes in (ages, shares, bounds):
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)
