"""What executions take on real synopses, and a machine in simulated time that runs them (golab 8.5).

Measured: the processor time of joint executions over sub-windows of value counts, one a second, by the code that
answers queries in a run: top-k lists and quantiles of keys. From samples follow three figures for each group: what any
execution takes, what an interval takes, and what a query takes. Simulated: the clock. The scheduler is that of
runs (`runtime.timetable`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.binding import relations
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, TIMESTAMP
from mullion.options import Schedule
from mullion.planner.physical import by_way
from mullion.planner.rules import make_plan
from mullion.planner.schedules.groups import GroupKey
from mullion.planner.schedules.schedulers import scheduler_of
from mullion.planner.schedules.tasks import Task
from mullion.runtime.timetable import PassedUpdates, Scheduled, Timetable
from mullion.slices.finalize import Work
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tier import WindowTier
from mullion.slices.window_runs import Due

SECOND = 1_000_000
LONGEST = 100
"""Intervals of the synopses."""
KEYS = ("source", "destination", "link", "protocol", "port", "service", "source_port", "destination_protocol")
"""One group of queries each: the six that the thesis lists, and two more, since it speaks of eight."""
DISTINCT = {"source": 1000, "destination": 1000, "protocol": 100, "port": 100}
STREAM = Stream("packets", (("ts", TIMESTAMP), *((key, BIGINT) for key in KEYS)), "ts")


@dataclass(frozen=True)
class Costs:
    """Seconds of processor time that an execution takes, that an interval takes, and that a query takes."""

    execution: float
    interval: float
    query: float

    def access(self, longest: int) -> float:
        return self.execution + self.interval * longest


def packets(second: int, rate: int, distinct: int, seed: int) -> pa.Table:
    """A second of headers; `distinct` times as many different values as the thesis begins with."""
    dice = np.random.default_rng((seed, second))
    times = np.sort(dice.integers(second * SECOND, (second + 1) * SECOND, rate))
    own = {name: dice.integers(0, number * distinct, rate) for name, number in DISTINCT.items()}
    columns: dict[str, npt.NDArray[np.int64]] = {
        **own,
        "link": own["source"] * 10_000 + own["destination"],
        "service": own["protocol"] * 10_000 + own["port"],
        "source_port": own["source"] * 10_000 + own["port"],
        "destination_protocol": own["destination"] * 10_000 + own["protocol"],
    }
    return pa.table({TIME: times, "ts": pa.array(times).cast(pa.timestamp("us", "UTC")), **columns})


def measured_costs(key: str, batches: Sequence[pa.Table], samples: int, seed: int) -> Costs:
    """Joint executions of random queries of one group, each over its own window, on their processor time."""
    dice = np.random.default_rng(seed)
    lengths = sorted(set(dice.integers(20, LONGEST + 1, 40).tolist()))
    items = [f"top_k({key}, 10)", f"percentile({key}, 0.9)"]
    texts = [f"SELECT {items[i % 2]} AS found FROM packets [RANGE {n} s SLIDE 1 s]" for i, n in enumerate(lengths)]
    bound = [relations.bind(parse_query(text, name=f"q{i}"), {"packets": STREAM}) for i, text in enumerate(texts)]
    plan = make_plan(STREAM, by_way(bound, {"packets": STREAM}).slices)
    windows = (plan.windows,) * len(plan.groupings)
    job = Job(plan.groupings, plan.methods, windows, Input(STREAM.types), plan.slicing)
    tier = WindowTier()
    for batch in batches:
        for made, grouping in zip(partials(batch, job), plan.groupings, strict=True):
            tier.absorb(PartialSubWindows.of(made, grouping))
    (grouping,) = plan.answering
    rows, seconds = [], []
    for i in range(samples + 2):
        number = (1, 16, 2, 8, 1, 4)[i % 6]
        chosen = np.sort(dice.choice(len(texts), min(number, len(texts)), replace=False))
        own = np.array(lengths)[chosen]
        end = np.full(len(chosen), LONGEST * SECOND)
        due = Due(chosen.astype(np.intp), end - own * SECOND, end)
        began = time.process_time()
        for _ in tier.answer(grouping, [due], Work(), plan.counting(grouping)):
            pass
        if i >= 2:
            seconds.append(time.process_time() - began)
            rows.append((1.0, float(own.max()), float(len(chosen))))
    fitted, *_ = np.linalg.lstsq(np.array(rows), np.array(seconds), rcond=None)
    return Costs(*(max(1e-9, float(figure)) for figure in fitted))


@dataclass(frozen=True)
class Query:
    key: str
    window: int
    slide: int


def workload(each: int, seed: int) -> list[Query]:
    """So many queries of each group: WINDOW uniform in 20 .. 100, SLIDE uniform in 1 .. WINDOW / 2."""
    dice = np.random.default_rng((seed, each))
    queries = []
    for key in KEYS:
        for _ in range(each):
            window = int(dice.integers(20, LONGEST + 1))
            queries.append(Query(key, window, int(dice.integers(1, window // 2 + 1))))
    return queries


def timetable(schedule: Schedule, queries: Sequence[Query], costs: dict[str, Costs]) -> Timetable:
    """The tasks of all groups, with what they take in seconds."""
    scheduler = scheduler_of(schedule)
    tasks = []
    for key in KEYS:
        by_slide: dict[int, list[int]] = {}
        for i, query in enumerate(queries):
            if query.key == key:
                by_slide.setdefault(query.slide, []).append(i)
        subgroups = [
            Task(
                tuple(str(i) for i in own),
                slide,
                costs[key].access(max(queries[i].window for i in own)),
                costs[key].query * len(own),
            )
            for slide, own in sorted(by_slide.items())
        ]
        group = GroupKey(key, "", "", 1, key, None)
        tasks += [Scheduled(group, task, 1, task.period) for task in scheduler.tasks(subgroups)]
    return Timetable(scheduler, tasks)


@dataclass(frozen=True)
class Outcome:
    throughput: float
    """Executions of queries a second."""
    latency: float
    """Updates between two executions beyond the period, on average over queries and executions."""
    tasks: int


def simulate(table: Timetable, queries: Sequence[Query], capacity: float, seconds: int) -> Outcome:
    """A machine that has `capacity` seconds of processor time between two updates, which come every second."""
    last = dict.fromkeys(range(len(queries)), 0)
    extra: dict[int, list[int]] = {i: [] for i in last}
    for second in range(1, seconds + 1):
        for instant, together in table.within(PassedUpdates(second - 1, second), capacity):
            for i in (int(name) for task in together for name in table.tasks[task].task.queries):
                extra[i].append(max(0, instant - last[i] - queries[i].slide))
                last[i] = instant
    executions = sum(len(own) for own in extra.values())
    late = {i: [*own, max(0, seconds - last[i] - queries[i].slide)] for i, own in extra.items()}
    latency = float(np.mean([np.mean(own) for own in late.values()]))
    return Outcome(executions / seconds, latency, len(table.tasks))
