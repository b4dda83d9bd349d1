"""The most promising part of a join under budgets: what `python -m benchmarks promising` measures (ali 6).

| part | what | in the paper |
|---|---|---|
| no shortage | the promising join against the join, interleaved, on processor time | - |
| events | shares of the output when 5 to 100 % of the events may probe | Figures 11, 13a |
| weighted | Hist-MSE against that of a random sample | Figure 13b |
| rare | how many of the told pairs are of rare items | Figure 14 |
| fade | how far apart the rows of a pair are, over the whole stream | Figure 12 |
| time | how long steps take under budgets of time | - |
| memory | a window of a day in an eighth of the memory that it needs | - |
| many | selections and aggregates of 20 to 200 queries, exact and shared | Figures 15, 16 |

All without Spark, by the operators of a run. Times are those of the processor.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import report
from benchmarks.course import draw_to, warn_if_busy
from benchmarks.plot import GROWTH, T1, pyplot, save
from benchmarks.promising_joins import (
    ANY,
    Arrived,
    Load,
    Told,
    dropping,
    histogram_errors,
    join,
    outliers,
    play,
    promising,
    share_of_outliers,
    smaller,
    streams,
)
from benchmarks.promising_memory import SCALE, Day, measured
from benchmarks.promising_selections import Selections, asking, selections
from benchmarks.report import Bar, Grid, Report
from mullion.allocation import keep_freed_memory
from mullion.language.query import Budget
from mullion.memory import MB

SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
FIFTH = 0.2
"""The share of the events that may probe, where it is judged."""
RARE = 0.01
"""Of the pairs, what ASC may tell."""
FADE = 0.8
NEVER_SHORT = Budget(rows=1_000_000_000)


@dataclass(frozen=True)
class Size:
    load: Load = field(default_factory=Load)
    endless: Load = field(default_factory=lambda: Load(seconds=360, rate=60, window=None, change=180))
    shares: tuple[float, ...] = SHARES
    queries: tuple[int, ...] = (20, 50, 80, 100, 150, 200)
    events: int = 600_000
    repeat: int = 3
    rows: int = 215_000
    """Of each stream in a window of a day."""


FULL = Size()
QUICK = Size(smaller(FULL.load), smaller(FULL.endless), (0.2, 1.0), (20, 40), 20_000, 1, 4_000)


@dataclass
class Found:
    """What is drawn."""

    by_events: dict[str, dict[float, float]] = field(default_factory=dict)
    """Percent of the output, by the percent of events that may probe."""
    errors: dict[str, dict[float, float]] = field(default_factory=dict)
    """Hist-MSE, by the percent of pairs that are told."""
    apart: dict[str, float] = field(default_factory=dict)
    many: list[Selections] = field(default_factory=list)
    summarize: float = 0.0
    day: Day | None = None


def run(console: Console, *, json: Path | None = None, plot: Path | None = None, quick: bool = False) -> Report:
    """Measure everything; `quick` tries it on little and judges nothing."""
    keep_freed_memory()  # as every engine does: without it, much of what operators take is new pages
    size = QUICK if quick else FULL
    made, machine, found = Report(judged=not quick), report.machine(), Found()
    warn_if_busy(console, machine["load_average"])
    arrived = streams(size.load)
    whole = _no_shortage(console, made, arrived, size)
    _events(console, made, arrived, size, whole, found)
    _samples(console, made, arrived, size, whole, found)
    _rare(console, made, arrived, size, whole)
    _time(console, made, arrived, size, whole)
    _fading(console, made, size, found)
    _memory(console, made, size, found)
    _many(console, made, size, found)
    made.facts = {
        "benchmark": "promising",
        "machine": machine,
        "versions": report.versions(),
        "size": asdict(size),
        "pairs": whole.pairs,
        "output_by_events": found.by_events,
        "hist_mse_by_pairs": found.errors,
        "seconds_apart": found.apart,
        "day": asdict(found.day) if found.day else None,
        "many": [asdict(one) for one in found.many],
    }
    made.finish(console, json)
    draw_to(console, plot, lambda path: _draw(path, found))
    return made


def _no_shortage(console: Console, made: Report, arrived: dict[str, Arrived], size: Size) -> Told:
    load = size.load
    console.print(f"{load.seconds} s of two streams of {load.rate} events a second, window {load.window} s")
    whole = play(join(load), arrived, load)
    most = max(int(pairs.sum()) for pairs in whole.by_step)
    plans = {
        "join": join(load),
        "never short": promising(load, "desc", NEVER_SHORT),
        "just enough": promising(load, "desc", Budget(rows=2 * most)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in plans}
    for _ in range(size.repeat):
        for name, plan in plans.items():
            seconds[name].append(play(plan, arrived, load, details=False).seconds)
    best = {name: min(some) for name, some in seconds.items()}
    console.print(f"  {whole.pairs:,} pairs; the join takes {best['join']:.2f} s", highlight=False)
    for name in ("never short", "just enough"):
        told = play(plans[name], arrived, load)
        differs = abs(told.checksum - whole.checksum) + abs(told.pairs - whole.pairs)
        made.add(Bar(f"no shortage, {name}: differences to the join", differs, 0, "==", ""))
        made.add(Bar(f"no shortage, {name}: time against the join", best[name] / best["join"], 1.2, "<="))
    return whole


def _events(console: Console, made: Report, arrived: dict[str, Arrived], size: Size, whole: Told, found: Found) -> None:
    load, rows = size.load, []
    lines: dict[str, Any] = {
        "DESC": lambda share: promising(load, "desc", _probing(load, share)),
        "WEIGHTED": lambda share: promising(load, "weighted", _probing(load, share)),
        "random events": lambda share: promising(load, "weighted", _probing(load, share), by=ANY),
    }
    for share in size.shares:
        told = {name: play(line(share), arrived, load, details=False) for name, line in lines.items()}
        told["plain, drops tuples"] = play(join(load), dropping(arrived, share), load, details=False)
        for name, own in told.items():
            found.by_events.setdefault(name, {})[100 * share] = 100 * own.pairs / whole.pairs
        figures = (f"{100 * own.pairs / whole.pairs:.1f} % ({own.seconds:.1f} s)" for own in told.values())
        rows.append((f"{100 * share:g} %", *figures))
        console.print("  " + "  ".join(rows[-1]), highlight=False)
    made.grids.append(Grid(("events that probe", *found.by_events), rows))
    fifth = {name: line.get(100 * FIFTH, 0.0) for name, line in found.by_events.items()}
    made.add(Bar("DESC, 20 % of events probe: output", fifth["DESC"], 60, ">=", "%"))
    made.add(Bar("random, 20 % of events probe: output", fifth["random events"], None, "", "%"))
    more = fifth["WEIGHTED"] / max(fifth["plain, drops tuples"], 1e-9)
    note = f"{fifth['WEIGHTED']:.0f} % against {fifth['plain, drops tuples']:.0f} %"
    made.add(Bar("WEIGHTED, 20 % of events: output against a plain join that drops tuples", more, 1, ">=", "x", note))


def _probing(load: Load, share: float) -> Budget:
    return Budget(events=max(1, round(load.events_a_step * share)))


def _samples(
    console: Console, made: Report, arrived: dict[str, Arrived], size: Size, whole: Told, found: Found
) -> None:
    load, mean = size.load, whole.pairs / size.load.steps
    for order in ("weighted", "desc"):
        for share in (share for share in size.shares if share < 1):
            told = play(promising(load, order, Budget(rows=max(1, int(mean * share)))), arrived, load)
            error, drawn = histogram_errors(whole, told)
            found.errors.setdefault(order.upper(), {})[100 * share] = error
            found.errors.setdefault("a random sample", {})[100 * share] = drawn
            if share == FIFTH and order == "weighted":
                what = "WEIGHTED, 20 % of the pairs: Hist-MSE against a random sample's"
                made.add(Bar(what, error / max(drawn, 1e-12), 1, "<=", "x", f"{error:.2g}"))
                made.add(Bar("WEIGHTED, 20 % of the pairs: time", told.seconds, None, "", "s"))
    console.print("  Hist-MSE measured", highlight=False)


def _rare(console: Console, made: Report, arrived: dict[str, Arrived], size: Size, whole: Told) -> None:
    load = size.load
    rare = outliers(arrived, load, whole.by_period)
    rows = max(1, int(RARE * whole.pairs / load.steps))
    told = play(promising(load, "asc", Budget(rows=rows)), arrived, load)
    share = 100 * share_of_outliers(told, rare)
    note = f"of all pairs {100 * share_of_outliers(whole, rare):.1f} %"
    made.add(Bar("ASC, 1 % of the pairs: true outliers among them", share, 90, ">=", "%", note))
    console.print("  rare items measured", highlight=False)


def _time(console: Console, made: Report, arrived: dict[str, Arrived], size: Size, whole: Told) -> None:
    """A budget of half of what the fullest steps of the join take."""
    load = size.load
    plain = play(join(load), arrived, load, details=False)
    half = 0.5 * plain.seconds / load.steps
    told = play(promising(load, "desc", Budget(time=max(1, int(1e6 * half)))), arrived, load, details=False)
    spent = told.seconds / load.steps / half
    note = f"budget {1000 * half:.1f} ms a step, slowest {1000 * told.slowest:.0f} ms, output {told.tally['share']:.0%}"
    made.add(Bar("DESC, half of the join's time: time a step against the budget", spent, None, "", "x", note))
    console.print("  budgets of time measured", highlight=False)


def _fading(console: Console, made: Report, size: Size, found: Found) -> None:
    load = size.endless
    arrived = streams(load)
    whole = play(join(load), arrived, load)
    budget = Budget(rows=max(1, int(FIFTH * whole.pairs / load.steps)))
    fading = play(promising(load, "desc", budget, fade=FADE), arrived, load)
    lasting = play(promising(load, "desc", budget), arrived, load)
    found.apart = {"the join": whole.mean_apart, "DESC": lasting.mean_apart, "DESC, FADE 0.8": fading.mean_apart}
    ratio = fading.mean_apart / whole.mean_apart
    note = f"{fading.mean_apart:.1f} s against {whole.mean_apart:.1f} s; without FADE {lasting.mean_apart:.1f} s"
    made.add(
        Bar("whole stream, FADE 0.8, 20 % of the pairs: mean |ts1 - ts2| against the join", ratio, 0.5, "<=", "x", note)
    )
    console.print("  fading measured", highlight=False)


def _memory(console: Console, made: Report, size: Size, found: Found) -> None:
    found.day = day = measured(size.rows)
    text = f"  a day needs {day.needed / MB:.1f} MB: {day.pairs:,} pairs in {day.seconds:.1f} s"
    console.print(f"{text}, a {SCALE}th of 2 GB", highlight=False)
    for kept in day.kept:
        what = f"a day in an eighth of its memory, {kept.order.upper()}"
        note = f"{kept.most / MB:.2f} of {kept.memory / MB:.2f} MB, {kept.seconds:.1f} s"
        made.add(Bar(f"{what}: memory against the limit", kept.most / kept.memory, 1, "<=", "x", note))
        note = f"told: {100 * kept.told_share:.1f} %"
        made.add(Bar(f"{what}: pairs found", 100 * kept.share, None, "", "%", note))


def _many(console: Console, made: Report, size: Size, found: Found) -> None:
    load = replace(size.load, seconds=600, rate=max(1, size.events // 600))
    found.many = [selections(load, number, size.repeat) for number in size.queries]
    asked = asking(size.events, size.repeat)
    found.summarize = asked.summarize
    rows: list[tuple[str, ...]] = [
        (f"{one.queries}", f"{one.shared:.3f} s", f"{one.alone:.3f} s") for one in found.many
    ]
    made.grids.append(Grid(("queries over a million events", "exact, shared", "a scan for each"), rows))
    made.add(Bar("summarising by a count-sketch: events a second", 1 / asked.summarize, 2.0, ">=", "M"))
    note = f"{1000 * asked.count:.0f} ns a key against {1000 * asked.estimate:.0f} ns"
    made.add(
        Bar(
            "counting keys in sorted rows against estimates of a sketch",
            asked.count / asked.estimate,
            None,
            "",
            "x",
            note,
        )
    )
    crossover = next((one.queries for one in found.many if one.shared < one.alone), None)
    note = "a scan for each is dearer from then on; shared, more queries cost no more"
    made.add(Bar("many selections: shared is cheaper from so many queries on", crossover or 0, None, "", "", note))


def _draw(path: Path, found: Found) -> None:
    """Output by events, Hist-MSE by pairs, how far apart pairs are, and what many queries take."""
    figure, grid = pyplot().subplots(2, 2, figsize=(11, 8))
    output, errors, apart, many = grid.flat
    for (name, line), colour in zip(found.by_events.items(), GROWTH, strict=False):
        output.plot(list(line), list(line.values()), label=name, color=colour, marker="o", markersize=3.5)
    output.set_xlabel("events that may probe, %")
    output.set_ylabel("output, %")
    for (name, line), colour in zip(found.errors.items(), (GROWTH[1], T1, GROWTH[0]), strict=False):
        errors.plot(list(line), list(line.values()), label=name, color=colour, marker="o", markersize=3.5)
    errors.set_yscale("log")
    errors.set_xlabel("pairs that are told, %")
    errors.set_ylabel("Hist-MSE of a step")
    apart.bar(list(found.apart), list(found.apart.values()), color=GROWTH[0], width=0.5)
    apart.set_ylabel("mean |ts1 - ts2|, s, whole stream")
    numbers = [one.queries for one in found.many]
    many.plot(numbers, [one.shared for one in found.many], label="exact, shared", color=GROWTH[0], marker="o")
    many.plot(numbers, [one.alone for one in found.many], label="a scan for each", color=GROWTH[2], marker="o")
    many.axhline(found.summarize, color=T1, linestyle="--", linewidth=1, label="summarising alone")
    many.set_xlabel("queries over one stream")
    many.set_ylabel("seconds for a million events")
    for axes in (output, errors, many):
        axes.legend(frameon=False, fontsize=9)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)
