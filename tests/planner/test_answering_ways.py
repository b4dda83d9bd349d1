"""What EXPLAIN says of sweeps, synopses and kept windows is what answering does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import DOUBLE, INT, STRING, TIMESTAMP
from mullion.planner.answering_ways import IN_STACKS, kept_text, swept_templates
from mullion.planner.plan import Grouping, Plan
from mullion.planner.rules import make_plan
from mullion.planner.synopses import SharedSynopsis, shared_synopses
from mullion.slices import finalize
from mullion.slices.finalize import Work
from mullion.slices.interval import OPERATIONS
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.sweep import Sweep
from mullion.slices.tier import WindowTier

TRADES = Stream("trades", (("ts", TIMESTAMP), ("symbol", STRING), ("price", DOUBLE), ("volume", INT)), "ts")
COUNTED = "SELECT symbol, {} FROM trades [RANGE {} s SLIDE 1 s] {} GROUP BY symbol"


def plan(*texts: str) -> Plan:
    queries = [bind(parse_query(text, name=f"q{i}"), {"trades": TRADES}) for i, text in enumerate(texts)]
    return make_plan(TRADES, queries, axis=queries[0].axis)


def counting(number: int, where: str = "", what: str = "count(*) AS n") -> list[str]:
    return [COUNTED.format(what, 10 + i, where) for i in range(number)]


def states(made: Plan) -> dict[str, SharedSynopsis]:
    (grouping,) = made.answering
    return {s.name: own for s, own in zip(grouping.states, shared_synopses(made, grouping), strict=True)}


def sub_windows(grouping: Grouping, slices: int) -> PartialSubWindows:
    """One event of one symbol in every slice of a second."""
    metadata = {"grouping": grouping.name, "lanes": '[""]', "everyone": "true", "private": "false"}
    columns = {
        "slice": np.arange(slices) * 1_000_000,
        "lane": np.zeros(slices, np.int64),
        "key0": ["a"] * slices,
        "rows.0": np.ones(slices, np.int64),
        "count(*).0": np.ones(slices, np.int64),
    }
    return PartialSubWindows(pa.table(columns).replace_schema_metadata(metadata))


@pytest.mark.parametrize("number", [1, 4, 5])
def test_up_to_four_queries_of_a_predicate_are_swept_and_explain_says_so(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(*counting(number))
    (grouping,) = made.answering
    done = []
    sweep, look_up = Sweep.of, finalize.sequence_of
    monkeypatch.setattr(Sweep, "of", lambda *asked: done.append("swept") or sweep(*asked))
    monkeypatch.setattr(finalize, "sequence_of", lambda *asked: done.append("running") or look_up(*asked))
    tier = WindowTier()
    tier.absorb(sub_windows(grouping, 60))
    tier.add_slices(np.arange(60) * 1_000_000)
    due = tier.due(grouping, 0, 59_000_000, None)
    list(tier.answer(grouping, due.portions(len(due)), Work()))
    assert done == ["swept" if number <= 4 else "running"]
    assert {own.synopsis for own in states(made).values()} == set(done)


def test_a_synopsis_of_many_queries_is_not_built_where_few_are_due() -> None:
    text = states(plan(*counting(5)))["rows"].text
    assert text == "running synopsis: SS1 for 5 queries, swept where at most 4 queries of a predicate are due"


def test_queries_of_many_predicates_are_swept_unless_too_many_of_one_are_due() -> None:
    alone = [query for i in range(3) for query in counting(1, f"WHERE volume > {i}")]
    made = plan(*counting(5), *alone)
    assert list(swept_templates(made.answering[0]).values()) == [False]
    expected = "swept, no synopsis: SS1 for 8 queries, with a synopsis where more than 4 queries of a predicate are due"
    assert states(made)["rows"].text == expected


def test_a_state_may_be_swept_for_some_and_looked_up_for_others() -> None:
    made = plan(*counting(5), *counting(2, what="max(volume) AS m"))
    found = states(made)
    assert found["max(volume)"].text == "swept, no synopsis: SS1 for 2 queries"
    assert found["rows"].text.startswith("running synopsis: SS1 for 7 queries, swept for 2 of them")
    (reason,) = [r.text for r in made.reasons if r.rule == "choose_synopses"]
    assert "2 can be inverted, as prefixes, 2 are swept, since few queries read the same rows" in reason


def test_what_is_not_grouped_and_what_cannot_be_swept_have_synopses() -> None:
    alone = plan("SELECT count(*) AS n FROM trades [RANGE 10 s SLIDE 1 s]")
    assert states(alone)["rows"].text == "running synopsis: SS1 for 1 query"
    last = plan(*counting(1, what="last(price) AS l"))
    assert states(last)["last(price)"].text == "interval synopsis: SS1 for 1 query"


def test_averages_of_other_queries_are_not_computed_by_a_sweep() -> None:
    """Two queries go over the rows one after the other; one with both has them at once."""
    apart = plan(*(COUNTED.format(what, 10, "") for what in ("avg(volume) AS a", "sum(volume) AS s")))
    assert states(apart)["sum_integer(volume)"].rules == ("SS1", "SS2")
    assert "CS3" not in next(r.text for r in apart.reasons if r.rule == "choose_synopses")
    both = plan(*counting(1, what="avg(volume) AS a, sum(volume) AS s"))
    assert states(both)["sum_integer(volume)"].rules == ("SS1", "SS2", "CS3")


def test_windows_that_can_be_kept() -> None:
    made = plan(*counting(2))
    kept = "where few windows are due batch after batch, the last one is kept and slides"
    assert kept_text(made, made.answering[0]) == kept
    with_median = plan(*counting(2), *counting(1, what="median(price) AS m"))
    assert kept_text(with_median, with_median.answering[0]) == kept
    with_sketch = plan(*counting(2), *counting(1, what="approx_percentile(price, 0.5) AS m"))
    assert kept_text(with_sketch, with_sketch.answering[0]) == f"{kept}, but for 1 query whose windows cannot"
    sketch = plan(*counting(1, what="approx_percentile(price, 0.5) AS m"))
    assert kept_text(sketch, sketch.answering[0]) is None
    endless = plan("SELECT symbol, count(*) AS n FROM trades [RANGE UNBOUNDED SLIDE 1 s] GROUP BY symbol")
    assert kept_text(endless, endless.answering[0]) is None


def test_what_is_swept_by_stacks_has_an_operation() -> None:
    assert set(IN_STACKS) == set(OPERATIONS)
