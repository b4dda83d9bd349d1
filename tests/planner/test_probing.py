"""From how many windows of an end on one walk takes less than a tree, and what the planner makes of it."""

from __future__ import annotations

from math import log2

import numpy as np
import pyarrow as pa
import pytest

from by_slices import bind
from mullion.aggregates import Partial
from mullion.aggregates.extremes import Largest
from mullion.aggregates.spread import Moments
from mullion.algebra.streams import Stream
from mullion.expressions.arrays import Index
from mullion.language.parse import parse_query
from mullion.language.query import Period
from mullion.language.types import DOUBLE, INT, STRING, TIMESTAMP
from mullion.planner.plan import Grouping, Plan
from mullion.planner.rules import make_plan
from mullion.planner.synopses import SharedSynopsis, ending_together, shared_synopses
from mullion.planner.synopsis_choice import LEAST_TOGETHER, fewest_by_accesses, fewest_by_time, walk_pays
from mullion.slices.basic_interval import BasicInterval
from mullion.slices.finalize import Work
from mullion.slices.interval import Interval
from mullion.slices.rows import SubWindowRows
from mullion.slices.running import Running
from mullion.slices.sequence import sequence_of
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tier import WindowTier

TRADES = Stream("trades", (("ts", TIMESTAMP), ("symbol", STRING), ("price", DOUBLE), ("volume", INT)), "ts")


def plan(*texts: str) -> Plan:
    queries = [bind(parse_query(text, name=f"q{i}"), {"trades": TRADES}) for i, text in enumerate(texts)]
    return make_plan(TRADES, queries, axis=queries[0].axis)


def shared(*texts: str) -> dict[str, SharedSynopsis]:
    made = plan(*texts)
    (grouping,) = made.answering
    return {s.name: one for s, one in zip(grouping.states, shared_synopses(made, grouping), strict=True)}


# The break-even


@pytest.mark.parametrize("intervals", [4, 8, 60, 360, 2400, 1 << 20])
def test_accesses_break_even(intervals: int) -> None:
    fewest = fewest_by_accesses(intervals)
    assert fewest * log2(intervals) >= intervals > (fewest - 1) * log2(intervals)


def test_a_low_tree_is_always_as_quick() -> None:
    assert fewest_by_time(16, Largest(INT)) is None
    assert fewest_by_time(1, Largest(INT)) is None
    assert fewest_by_time(0, Largest(INT)) is None


def test_states_that_take_more_need_more_windows() -> None:
    quick, slow = fewest_by_time(2400, Largest(DOUBLE)), fewest_by_time(2400, Moments(DOUBLE))
    assert quick is not None and slow is not None
    assert LEAST_TOGETHER < quick < slow


@pytest.mark.parametrize("partial", [Largest(DOUBLE), Moments(DOUBLE)])
def test_the_least_number_is_least(partial: Partial) -> None:
    found = [fewest_by_time(b, partial) for b in range(5000)]
    assert min(n for n in found if n is not None) > LEAST_TOGETHER


def ranges(lengths: Index, ends: Index) -> tuple[Index, Index]:
    high = np.repeat(ends, len(lengths))
    return np.maximum(high - np.tile(lengths, len(ends)), 0), high


def lengths(number: int, longest: int) -> Index:
    return np.linspace(1, longest, number + 1).astype(np.intp)[1:]


@pytest.mark.parametrize(
    ("number", "longest", "ends", "walks"),
    [
        (256, 600, 2400, True),
        (1000, 2400, 600, True),
        (48, 360, 5000, False),
        (1, 360, 720, False),
        (8, 360, 720, False),
        (8, 12, 50_000, False),
        (1, 100, 1_100_000, False),
        (256, 2400, 1, False),
    ],
)
def test_many_windows_of_an_end_walk(number: int, longest: int, ends: int, walks: bool) -> None:
    low, high = ranges(lengths(number, longest), np.arange(1, ends + 1))
    assert walk_pays(low, high, Largest(INT)) == walks


def test_equal_windows_are_one_stop() -> None:
    """After the last event many windows end at the same place, and a walk halts once for those of one length."""
    low, high = ranges(lengths(256, 600), np.arange(1, 2401))
    after = np.repeat(lengths(256, 600), 600)
    assert walk_pays(np.append(low, 2400 - after), np.append(high, np.full(len(after), 2400)), Moments(DOUBLE))


def test_empty_windows_need_no_answer() -> None:
    nothing = np.zeros(0, np.intp)
    assert not walk_pays(nothing, nothing, Largest(INT))
    assert not walk_pays(np.full(5000, 9), np.full(5000, 9), Largest(INT))
    assert not walk_pays(np.full(5000, 9), np.full(5000, 3), Largest(INT))


# What is answered from which

SLICES = 720


def sub_windows(grouping: Grouping, tops: Index) -> PartialSubWindows:
    """One event in every slice of a second, whose volume is given."""
    metadata = {"grouping": grouping.name, "lanes": '[""]', "everyone": "true", "private": "false"}
    columns = {
        "slice": np.arange(len(tops)) * 1_000_000,
        "lane": np.zeros(len(tops), np.int64),
        "rows.0": np.ones(len(tops), np.int64),
        "max(volume).0": tops.astype(np.int32),
        "count(volume).0": np.ones(len(tops), np.int64),
    }
    return PartialSubWindows(pa.table(columns).replace_schema_metadata(metadata))


def queries_of(number: int) -> list[str]:
    text = "SELECT max(volume) AS top, count(volume) AS n FROM trades [RANGE {} s SLIDE 1 s]"
    return [text.format(int(length)) for length in lengths(number, 360)]


def test_the_due_windows_choose() -> None:
    """Few windows of an end go through the tree, many are answered on a walk, and what can be inverted always runs."""
    (grouping,) = plan(*queries_of(2)).groupings
    rows = SubWindowRows([sub_windows(grouping, np.arange(2400))], grouping)
    sequence = sequence_of(rows, grouping, np.zeros(1, np.intp))
    states = {state.name: state for state in grouping.states}
    for number, kind in ((2, Interval), (256, BasicInterval)):
        asked = ranges(lengths(number, 600), np.arange(1, 2401))
        assert type(sequence.synopsis(states["max(volume)"], *asked)) is kind
        assert type(sequence.synopsis(states["count(volume)"], *asked)) is Running
        assert sequence.answer(states["max(volume)"], *asked)[0].to_list() == (asked[1] - 1).tolist()


def test_the_same_question_is_answered_once() -> None:
    (grouping,) = plan(*queries_of(2)).groupings
    rows = SubWindowRows([sub_windows(grouping, np.arange(SLICES))], grouping)
    sequence = sequence_of(rows, grouping, np.zeros(1, np.intp))
    state = grouping.states[-1]
    low, high = ranges(lengths(2, 360), np.arange(1, SLICES + 1))
    first = sequence.answer(state, low, high)
    once = sequence.operations()
    assert sequence.answer(state, low.copy(), high.copy()) is first
    assert sequence.operations() == once
    other = sequence.answer(state, low[:1], high[:1])
    assert other[0].to_list() == first[0].to_list()[:1]
    assert sequence.operations() > once


@pytest.mark.parametrize("number", [2, 10, 200])
def test_answers_do_not_depend_on_the_choice(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (grouping,) = plan(*queries_of(number)).groupings
    values = np.random.default_rng(number).integers(0, 1 << 30, SLICES)
    operations, answers = [], []
    for walks in (True, False):
        monkeypatch.setattr("mullion.slices.sequence.walk_pays", lambda *_, walks=walks: walks)
        work, tier = Work(), WindowTier()
        tier.absorb(sub_windows(grouping, values))
        tier.add_slices(np.arange(SLICES) * 1_000_000)
        due = tier.due(grouping, 0, (SLICES - 1) * 1_000_000, None)
        found = {name: table for made in tier.answer(grouping, due.portions(len(due)), work) for name, table in made}
        operations.append(work.final)
        answers.append(found)
    assert answers[0] == answers[1]
    assert len(answers[0]) == number
    last = answers[0][f"q{number - 1}"].to_pylist()
    assert last[359]["top"] == values[:360].max()
    assert (operations[0] < operations[1]) == (number >= fewest_by_accesses(360))


# What the planner expects

MOST = "SELECT {} FROM trades [RANGE {} s SLIDE 10 s]"


def test_what_ends_together() -> None:
    assert ending_together([Period(60, 10)]) == 1
    assert ending_together([Period(60, 10), Period(30, 10, 5)]) == 1
    assert ending_together([Period(60, 10)] * 3 + [Period(30, 10)]) == 4
    assert ending_together([Period(1 << 61, 3_600_000_000), Period(60, 3_600_000_000)]) == 2


def test_invertible_states_run_and_others_need_intervals() -> None:
    found = shared("SELECT sum(volume) AS s, max(volume) AS m, stddev_pop(price) AS d FROM trades [ROWS 10]")
    kinds = {name: one.synopsis for name, one in found.items()}
    assert kinds == {
        "rows": "running",
        "sum_integer(volume)": "running",
        "count(volume)": "running",
        "max(volume)": "interval",
        "moments(price)": "interval",
    }
    assert all(one.rules == ("SS1",) for one in found.values())


@pytest.mark.parametrize(("number", "kind"), [(1, "interval"), (95, "interval"), (96, "basic interval")])
def test_enough_windows_of_an_end_walk(number: int, kind: str) -> None:
    found = shared(*(MOST.format("max(price) AS m", 3600 - 10 * i) for i in range(number)))
    assert found["max(price)"].synopsis == kind
    assert ("CS2" in found["max(price)"].rules) == (kind == "basic interval")
    assert found["count(price)"].synopsis == "running"
    if number > 1:
        assert "b / log2 b = 43 (96 by time) for b = 360" in found["max(price)"].text


def test_windows_that_end_elsewhere_do_not_walk() -> None:
    """The queries are as many, but their ends do not coincide, or their predicates differ."""
    apart = "SELECT max(price) AS m FROM trades [RANGE 1 h SLIDE 100 s OFFSET {} s]"
    assert shared(*(apart.format(i) for i in range(100)))["max(price)"].synopsis == "interval"
    chosen = MOST.format("max(price) AS m", 3600) + " WHERE volume > {}"
    assert shared(*(chosen.format(i) for i in range(100)))["max(price)"].synopsis == "interval"


def test_the_reason_counts_the_same_synopses() -> None:
    made = plan(*(MOST.format("max(price) AS m, avg(price) AS a", 3600 - 10 * i) for i in range(100)))
    (reason,) = [r.text for r in made.reasons if r.rule == "choose_synopses"]
    assert "3 can be inverted, as prefixes, over 2 one walk answers all windows of an end (CS2)" in reason


def test_averages_share_sums_and_counts() -> None:
    found = shared(
        "SELECT avg(volume) AS a FROM trades [RANGE 1 h SLIDE 1 min]",
        "SELECT sum(volume) AS s FROM trades [RANGE 1 h SLIDE 1 min]",
        "SELECT count(volume) AS c FROM trades [RANGE 2 h SLIDE 1 min]",
    )
    assert found["sum_integer(volume)"].rules == ("SS1", "SS2", "CS3", "CS1")
    assert "SS2 with count(volume)" in found["sum_integer(volume)"].text
    assert "CS3 for avg and sum of one window" in found["count(volume)"].text


def test_averages_alone_over_a_window_have_nobody_to_divide_for() -> None:
    found = shared(
        "SELECT avg(volume) AS a FROM trades [RANGE 1 h SLIDE 1 min]",
        "SELECT sum(volume) AS s FROM trades [RANGE 2 h SLIDE 1 min]",
        "SELECT count(DISTINCT volume) AS c FROM trades [RANGE 1 h SLIDE 1 min]",
    )
    assert found["sum_integer(volume)"].rules == ("SS1", "SS2")
    assert found["count(volume)"].rules == ("SS1", "SS2")


def test_queries_of_one_window_probe_once() -> None:
    found = shared(*[MOST.format("max(price) AS m", 3600)] * 3, MOST.format("max(price) AS m", 60))
    assert found["max(price)"].rules == ("SS1", "CS1")
    assert found["max(price)"].text.startswith("interval synopsis: SS1 for 4 queries, CS1 for 3 of one window, not CS2")
