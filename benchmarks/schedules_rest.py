"""What scheduling costs when there is nothing to decide: batches of queries with SLIDE AT MOST against plain SLIDE, at
the same instants. Processor time; commits left out."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.due import COLUMNS, SECOND, Size, events_of, sensors
from mullion.algebra.streams import Stream
from mullion.binding import relations
from mullion.language.parse import parse_query
from mullion.options import Options, Schedule
from mullion.planner.physical import by_way
from mullion.planner.rules import make_plan
from mullion.planner.schedules.steps import stepped
from mullion.runtime.scheduling import Scheduling
from mullion.runtime.sharing_set import SharingSet
from mullion.slices.due import InstantRun
from mullion.slices.finalize import Work
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import tally

STREAM = Stream("readings", COLUMNS, "ts")


@dataclass(frozen=True)
class Rest:
    queries: int = 240
    batches: int = 120
    events: int = 50_000
    groups: int = 200


def texts(queries: int, at_most: bool) -> list[str]:
    """Ranges of 20 to 100 s, slides of 5 to 30 s; no two alike, so that none takes the answers of another."""
    slide = "SLIDE AT MOST" if at_most else "SLIDE"
    return [
        f"SELECT sensor, max(volume) AS top{i} FROM readings [RANGE {20 + 5 * (i % 17)} s {slide} {5 + 5 * (i % 6)} s] "
        "GROUP BY sensor"
        for i in range(queries)
    ]


def batches(rest: Rest, *, at_most: bool) -> tuple[float, int]:
    """Processor seconds of all batches, and how many answers they gave."""
    written = [parse_query(text, name=f"q{i}") for i, text in enumerate(texts(rest.queries, at_most))]
    bound = [relations.bind(query, {"readings": STREAM}) for query in written]
    queries = stepped(by_way(bound, {"readings": STREAM}).slices)
    plan = make_plan(STREAM, queries, Options(schedule=Schedule.CONSERVATIVE))
    (grouping,) = plan.groupings
    job = Job((grouping,), plan.methods, (plan.windows,), Input(STREAM.types), plan.slicing)
    own, scheduling, work = SharingSet(frozenset(q.name for q in queries), plan=plan), Scheduling(), Work()
    size = Size(groups=rest.groups, events=rest.events)
    names, answers, spent = sensors(size), 0, 0.0
    for second in range(rest.batches):
        events = events_of(second, size, names)
        began = time.process_time()
        scheduling.set_queries(queries, None if second == 0 else second * SECOND - 1)
        (made,) = partials(events, job)
        own.tier.add_slices(tally(made, grouping).slices)
        own.tier.absorb(PartialSubWindows.of(made, grouping))
        watermark = (second + 1) * SECOND
        runs: dict[str, list[InstantRun]] = scheduling.due(
            {"": own}, 0, watermark - 1, watermark, waiting=frozenset(), schedule=Schedule.CONSERVATIVE
        ).runs
        due = own.tier.due(grouping, 0, watermark - 1, watermark, None, runs)
        answers += sum(len(some.table) for some in own.tier.answer(grouping, due.portions(10_000), work))
        own.tier.forget(plan, watermark)
        spent += time.process_time() - began
    return spent, answers
