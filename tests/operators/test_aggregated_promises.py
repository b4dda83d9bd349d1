"""Aggregates over promising joins: a sample by hand, then the reference on random streams, budgets and steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.algebra.nodes import Node, Promising, nodes
from mullion.algebra.relation import Relation
from mullion.binding.relations import bind
from mullion.instants import THE_END
from mullion.language.parse import parse_query
from mullion.reference.promising import as_found, sampled_in_steps, told_in_steps
from networks import lives_of
from promising import STREAMS, Summary, events_of, steps, streams, world_of

Lives = list[tuple[tuple[Any, ...], int, int]]
Seen = dict[int, list[tuple[tuple[Any, ...], bool]]]


ON_KEY = Summary("s1", "k", granularity=4, rate=3)


def asked(
    items: str,
    preference: str,
    *,
    windows: tuple[str, str] = ("RANGE 10 us SLIDE 4 us", "RANGE 25 us"),
    rest: str = "",
    where: str = "",
    summary: Summary = ON_KEY,
) -> Relation:
    first, second = windows
    text = (
        f"SELECT {items} FROM s1 [{first}], s2 [{second}] WHERE s1.k = s2.k {where} {rest} WITH PREFERENCE {preference}"
    )
    return bind(parse_query(text), STREAMS, summaries=(summary,))


def join_of(root: Node) -> Promising:
    (found,) = (node for node in nodes(root) if isinstance(node, Promising))
    return found


def by_reference(relation: Relation, events: Any, nows: Sequence[int]) -> Lives:
    """What the groups are by definition, of what is told in steps."""
    world, node = world_of(relation.root, events), join_of(relation.root)  # type: ignore[arg-type]
    in_steps = sampled_in_steps if node.weighs else told_in_steps
    world.known[node] = as_found(in_steps(world, node, nows), nows)
    return [(row.values, row.start, row.end) for row in world.rows(relation.root)]


def at_each_time(relation: Relation, lives: Lives) -> Seen:
    """The rows at each time at which something changes, without marks, and whether they are marked as complete."""
    marked = relation.names.index("is_complete")
    plain = [i for i, name in enumerate(relation.names) if i != marked and not name.endswith("_bound")]

    def known(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(round(values[i], 6) if isinstance(values[i], float) else values[i] for i in plain)

    return {
        time: sorted([(known(v), bool(v[marked])) for v, start, end in lives if start <= time < end], key=repr)
        for time in range(-1, 80)
    }


def seen_at(found: Seen, wanted: Seen) -> Iterator[tuple[int, list[tuple[tuple[Any, ...], bool]]]]:
    """Each time with what is there. That of nothing there is one group too is for whoever asks: windows are empty."""
    for time, groups in found.items():
        if wanted[time] or any(values[0] for values, _ in groups):
            yield time, groups


FIGURE_1 = {
    "s2": events_of((0, 5), (0, 5), (0, 9), (0, 3)),
    "s1": events_of((10, 9), (10, 5), (10, 9), (10, 5), (10, 3), (10, 5)),
}
"""Nine pairs: six of 5, two of 9, one of 3."""
COUNT = "APPROX count(*) AS n"
WHOLE = ("RANGE 100 us SLIDE 20 us", "RANGE 100 us")


def test_a_sample_by_hand() -> None:
    """Three of nine pairs: each is drawn with a chance of a third, and stands for three. Which ones follows from the
    numbers of their rows."""
    relation = asked(COUNT, "WEIGHTED estimate(s1.k), estimate(s2.k) BUDGET 3 ROWS", windows=WHOLE)
    assert relation.names == ("n", "n_error", "kept_share", "is_complete")
    (n, error, share, complete), start, _ = lives_of(relation.root, FIGURE_1, [5, 30, THE_END])[0]
    drawn = n // 3
    assert start == 19 and n == 3 * drawn and not complete
    assert drawn and error == pytest.approx(np.sqrt(6 * drawn)) and share == pytest.approx(1 / 3)
    whole = asked(COUNT, "WEIGHTED estimate(s1.k), estimate(s2.k) BUDGET 9 ROWS", windows=WHOLE)
    assert lives_of(whole.root, FIGURE_1, [5, 30, THE_END])[0] == ((9, 0.0, 1.0, True), 19, 39)


def test_bounds_by_hand() -> None:
    """Nine pairs, four a step. DESC tells those of two 5s, then of the third, the 3 and a 9, then of the other."""
    items = "count(*) AS n, sum(abs(s1.v)) AS total, min(s1.k) AS low, max(s2.k) AS high"
    relation = asked(items, "DESC estimate(s1.k), estimate(s2.k) BUDGET 4 ROWS", windows=WHOLE)
    marks = ("n_bound", "total_bound", "low_bound", "high_bound", "is_complete")
    assert relation.names == ("n", "total", "low", "high", *marks)
    lives = lives_of(relation.root, FIGURE_1, [5, 30, 50, 90, THE_END])
    assert [(values, start) for values, start, _ in lives[:4]] == [
        ((4, 8, 5, 5, ">=", ">=", "<=", ">=", False), 19),
        ((8, 22, 3, 9, ">=", ">=", "<=", ">=", False), 39),
        ((9, 24, 3, 9, "=", "=", "=", "=", True), 59),
        ((9, 24, 3, 9, "=", "=", "=", "=", True), 79),
    ]


@pytest.mark.parametrize(
    ("keys", "complete"),
    [
        ("s1.k", {3: [True], 5: [True], 9: [False]}),
        ("s2.k, s1.v", {5: [True] * 3, 9: [False]}),
        ("s1.v", {1: [False], 4: [False]}),
    ],
    ids=["the key of the join", "with another", "another"],
)
def test_groups_of_the_key_say_for_themselves_what_is_missing(keys: str, complete: dict[int, list[bool]]) -> None:
    """Of nine pairs DESC tells eight in the first step: all of 5 and 3, and one of 9."""
    relation = asked(
        f"{keys}, count(*) AS n",
        "DESC estimate(s1.k), estimate(s2.k) BUDGET 8 ROWS",
        windows=WHOLE,
        rest=f"GROUP BY {keys}",
    )
    found: dict[int, list[bool]] = {}
    for values, start, _ in lives_of(relation.root, FIGURE_1, [5, 20, 21]):
        if start == 19:
            found.setdefault(values[0], []).append(values[-1])
    assert {key: found[key] for key in complete} == complete


KEYS = st.sampled_from(
    ("", "GROUP BY s1.k", "GROUP BY s1.v % 3", "GROUP BY s1.k HAVING count(*) > 1", "GROUP BY s2.v, s2.k")
)
RESIDUALS = st.sampled_from(("", "", "AND s1.v < s2.v"))
WINDOWS = st.sampled_from(
    (("RANGE 10 us SLIDE 4 us", "RANGE 25 us"), ("RANGE 6 us SLIDE 6 us", "RANGE 6 us"), ("RANGE 10 us", "RANGE 7 us"))
)
BY = st.sampled_from(("estimate(s1.k), estimate(s2.k)", "1", "s1.v, s2.v - 3"))
FADES = st.sampled_from(("", "FADE FACTOR 0.5"))
BOUNDS = "count(*) AS n, count(s1.v) AS c, sum(s2.v * s2.v) AS s, min(s1.v) AS low, max(s2.v) AS high"
ESTIMATES = "APPROX count(*) AS n, sum(s1.v) AS s, avg(s2.v) AS a, max(s1.v) AS m, count(s2.v) FILTER (WHERE s2.v > 2)"


@given(streams, streams, steps, WINDOWS, KEYS, RESIDUALS, st.sampled_from(("ASC", "DESC", "WEIGHTED")), BY, FADES,
       st.integers(1, 40), st.sampled_from(("ROWS", "EVENTS")), st.booleans())  # fmt: skip
def test_groups_are_those_of_what_is_told(
    s1: list, s2: list, nows: list[int], windows: tuple[str, str], keys: str, where: str, order: str, by: str,
    fade: str, many: int, unit: str, restarts: bool,
) -> None:  # fmt: skip
    """At every time the reference's, estimates and bounds; and what is marked as complete is."""
    items = ESTIMATES if order == "WEIGHTED" else BOUNDS
    preference = f"{order} {by} {fade} BUDGET {many if unit == 'ROWS' else 1 + many // 3} {unit}"
    relation = asked(items, preference, windows=windows, rest=keys, where=where)
    events = {"s1": s1, "s2": s2}
    found = at_each_time(relation, lives_of(relation.root, events, nows, restarts=restarts))
    wanted = at_each_time(relation, by_reference(relation, events, nows))
    for time, groups in seen_at(found, wanted):
        assert [values for values, _ in groups] == [values for values, _ in wanted[time]], time
        assert all(really for (_, told), (_, really) in zip(groups, wanted[time], strict=True) if told), time


@given(streams, streams, steps, WINDOWS, KEYS, RESIDUALS, st.sampled_from(("ASC", "DESC", "WEIGHTED")), st.booleans(),
       st.sampled_from(("upa", "nt", "scan")))  # fmt: skip
def test_without_shortage_groups_are_those_of_the_join(
    s1: list, s2: list, nows: list[int], windows: tuple[str, str], keys: str, where: str, order: str, restarts: bool,
    strategy: str,
) -> None:  # fmt: skip
    items = ESTIMATES if order == "WEIGHTED" else BOUNDS
    for budget in ("10000 ROWS", "'1 h'"):
        relation = asked(items, f"{order} 1 BUDGET {budget}", windows=windows, rest=keys, where=where)
        events = {"s1": s1, "s2": s2}
        found = lives_of(relation.root, events, nows, restarts=restarts, strategy=strategy)
        whole = world_of(relation.root, events).rows(relation.root)  # type: ignore[arg-type]
        wanted = at_each_time(relation, [(row.values, row.start, row.end) for row in whole])
        for time, groups in seen_at(at_each_time(relation, found), wanted):
            assert groups == wanted[time]
            assert all(is_complete for _, is_complete in groups)


OTHERS = (
    "",
    "",
    ", s3 [RANGE 9 us] WHERE s1.k = s2.k AND s2.k = s3.k",
    ", s3 [RANGE 9 us] WHERE s1.k = s2.k AND s2.v = s3.k",
)


@given(streams, streams, streams, steps, KEYS, st.sampled_from(("ASC", "DESC", "WEIGHTED")), st.integers(1, 20),
       st.sampled_from(("ROWS", "EVENTS")), st.sampled_from((None, 600, 1500)), st.sampled_from(OTHERS))  # fmt: skip
def test_groups_where_memory_is_short_and_of_three_streams(
    s1: list, s2: list, s3: list, nows: list[int], keys: str, order: str, many: int, unit: str, memory: int | None,
    others: str,
) -> None:  # fmt: skip
    """Rows are let go too, or are missing below. Bounds stay on their side of the whole; what says that it is complete
    is the whole; and restarts change nothing."""
    items = BOUNDS if order != "WEIGHTED" else "count(*) AS n, count(s1.v) AS c, sum(s2.v * s2.v) AS s"
    sources = f"s1 [RANGE 10 us SLIDE 4 us], s2 [RANGE 25 us]{others or ' WHERE s1.k = s2.k'}"
    text = f"SELECT {items} FROM {sources} {keys} WITH PREFERENCE {order} 1 BUDGET {many} {unit}"
    relation = bind(parse_query(text), STREAMS, summaries=(ON_KEY._replace(memory=memory),))
    events = {"s1": s1, "s2": s2, "s3": s3}
    rows_of = world_of(relation.root, events).rows(relation.root)  # type: ignore[arg-type]
    whole = at_each_time(relation, [(row.values, row.start, row.end) for row in rows_of])
    found = at_each_time(relation, lives_of(relation.root, events, nows))
    assert found == at_each_time(relation, lives_of(relation.root, events, nows, restarts=True))
    for time, groups in seen_at(found, whole):
        for values, is_complete in groups:
            there = [other for other, _ in whole[time]]
            assert order == "WEIGHTED" or any(_is_bound(values, other) for other in there), (time, values)
            assert not is_complete or values in there


def _is_bound(part: Sequence[Any], whole: Sequence[Any]) -> bool:
    """n, c, s and high are at most, low is at least."""
    n, c, s, low, high = part
    return (
        n <= whole[0]
        and c <= whole[1]
        and (s is None or s <= whole[2])
        and (low is None or low >= whole[3])
        and (high is None or high <= whole[4])
    )


RUNS, GROUPS = 10, 24
PAIRS = "s1 [RANGE 100 us SLIDE 100 us], s2 [RANGE 100 us] WHERE s1.k = s2.k"
TRIPLES = "s1 [RANGE 100 us SLIDE 100 us], s2 [RANGE 100 us], s3 [RANGE 100 us] WHERE s1.k = s2.k AND s2.k = s3.k"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sources", "weights", "budget", "memory", "groups", "count"),
    [
        (PAIRS, "estimate(s1.k), estimate(s2.k)", (320, "ROWS"), None, 24, 480),
        (PAIRS, "s1.v, s2.v", (320, "ROWS"), None, 24, 480),
        (PAIRS, "estimate(s1.k), estimate(s2.k)", (50, "EVENTS"), None, 4, 200),
        (PAIRS, "1", (90_000, "ROWS"), 16_000, 4, 200),
        (PAIRS, "1", (900, "ROWS"), 16_000, 4, 200),
        (TRIPLES, "1", (1500, "ROWS"), None, 3, 90),
    ],
    ids=["equal chances", "chances differ", "events", "memory", "rows and memory", "three streams"],
)
def test_estimates_are_right_in_the_mean_and_errors_are_honest(
    sources: str, weights: str, budget: tuple[int, str], memory: int | None, groups: int, count: int
) -> None:
    """Ten joins. All deviations together are within three of their standard errors; but for averages over weights that
    differ fifty-fold, which are ratios and lean. Two errors hold the truth in 88 to 99 of 100 trials where chances are
    equal (95 of a normal distribution), in 80 at least where they differ so. Where trials are few, the mean of squared
    deviations by errors is within three deviations of 1."""
    items = "APPROX s1.k, count(*) AS n, sum(s1.v) AS s, avg(s2.v) AS a, count(*) FILTER (WHERE s2.v > 20) AS f"
    text = f"SELECT {items} FROM {sources} GROUP BY s1.k WITH PREFERENCE WEIGHTED"
    off: dict[str, list[tuple[float, float]]] = {}
    for run in range(RUNS):
        random = np.random.default_rng(run)
        events = {name: _events(random, count, groups) for name in STREAMS}
        for told in _first_answer(f"{text} {weights} BUDGET {budget[0] + run} {budget[1]}", events, memory):
            assert not told["is_complete"]
            for name, truth in _truth(events, told["k"], is_of_three=sources == TRIPLES).items():
                off.setdefault(name, []).append((told[name] - truth, told[f"{name}_error"]))
    differ = weights == "s1.v, s2.v"
    for name, found in off.items():
        assert len(found) == RUNS * groups
        deviation, error = np.array(found).T
        together = deviation.sum() / np.sqrt((error**2).sum())
        assert abs(together) < (5 if differ and name == "a" else 3), (name, together)
        within, spread = np.mean(np.abs(deviation) < 2 * error), np.mean((deviation / error) ** 2)
        if groups == GROUPS:
            assert (0.8 if differ else 0.88) <= within <= 0.99, (name, within)
        else:
            assert abs(spread - 1) < 3 * np.sqrt(2 / len(found)), (name, spread)


@pytest.mark.slow
def test_two_errors_hold_the_truth_where_few_rows_of_three_streams_are_drawn() -> None:
    """About 80 of 3,400 combinations a group, of far fewer rows of the lower join: in about 95 of 100 trials. Without
    one more unit of each kind it was in 88."""
    items = "APPROX s1.k, count(*) AS n, sum(s1.v) AS s, avg(s2.v) AS a"
    within = []
    for run in range(15):
        random = np.random.default_rng(run)
        events = {name: _events(random, 90, 6) for name in STREAMS}
        text = f"SELECT {items} FROM {TRIPLES} GROUP BY s1.k WITH PREFERENCE WEIGHTED 1 BUDGET {300 + run % 7} ROWS"
        for told in _first_answer(text, events, None):
            truth = _truth(events, told["k"], is_of_three=True)
            within += [abs(told[name] - truth[name]) <= 2 * told[f"{name}_error"] for name in "nsa"]
    assert len(within) == 3 * 15 * 6 and 0.91 <= np.mean(within) <= 0.99, np.mean(within)


def _first_answer(text: str, events: Any, memory: int | None) -> list[dict[str, Any]]:
    relation = bind(parse_query(text), STREAMS, summaries=(ON_KEY._replace(memory=memory),))
    lives = lives_of(relation.root, events, [33, 66, THE_END])
    return [dict(zip(relation.names, values, strict=True)) for values, start, _ in lives if start == 99]


def _truth(events: Any, key: int, *, is_of_three: bool) -> dict[str, float]:
    """Of all pairs or triples of a key. All events are in the window."""
    first, second, third = ([row["v"] for row in events[name] if row["k"] == key] for name in STREAMS)
    others = len(third) if is_of_three else 1
    high = sum(value > 20 for value in second)
    return {
        "n": len(first) * len(second) * others,
        "s": sum(first) * len(second) * others,
        "a": sum(second) / len(second),
        "f": len(first) * high * others,
    }


def _events(random: np.random.Generator, count: int, groups: int) -> list[dict[str, Any]]:
    keys, times = random.integers(0, groups, count).tolist(), np.sort(random.integers(0, 100, count)).tolist()
    values = zip(keys, random.integers(1, 50, count).tolist(), times, strict=True)
    return [{"k": key, "v": value, "ts": at} for key, value, at in values]
