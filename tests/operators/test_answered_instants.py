"""Which instants a query over relations answers: from the first to the last at which one of its windows holds an event,
as a query over one stream does, whatever the steps and restarts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from any_relation import ORIGINS, STREAMS, TABLES, Example, events
from by_operators import bind_relation
from mullion import reference
from mullion.expressions.vector import Vector
from mullion.language.parse import parse_query
from mullion.operators.network import StepEvents
from mullion.operators.once import answer_now
from mullion.reference import answer
from operators.test_relations_differential import Manner, as_rows, assert_as_the_reference, manners, run
from strategies import timestamp


def created(dice: Random, origin: int) -> str:
    """A query that may begin and stop."""
    start, stop = dice.choice((None, None, -3, 0, 6)), dice.choice((None, None, 7, 12, 19, 60))
    lives = "" if start is None else f" START AT {timestamp(origin + start)}"
    return f"CREATE QUERY q{lives}{'' if stop is None else f' STOP AT {timestamp(origin + stop)}'} AS"


# The same windows as a query over one stream


@st.composite
def plain_questions(draw: Any) -> tuple[str, dict[str, list[dict[str, Any]]]]:
    """A query over one window, hopping as often as not, that may begin and stop."""
    dice, origin = Random(draw(st.integers(0, 2**32 - 1))), draw(st.sampled_from(ORIGINS))
    slide = dice.choice((3, 5, 7, 10))
    window = dice.choice((f"RANGE {dice.randrange(1, 2 * slide)} us", f"RANGE {dice.randrange(1, slide)} us"))
    if dice.random() < 0.15:
        window = "RANGE UNBOUNDED"
    items = dice.choice(("count(*) AS n, sum(v) AS s", "k, count(*) AS n", "max(v) AS m"))
    group = " GROUP BY k" if items.startswith("k") else ""
    where = dice.choice(("", " WHERE v > 0"))
    text = f"{created(dice, origin)} SELECT {items} FROM a [{window} SLIDE {slide} us]{where}{group}"
    return text, draw(events(most=6, origin=origin))


@given(plain_questions())
def test_a_relation_answers_the_instants_that_a_query_over_one_stream_does(
    question: tuple[str, dict[str, list[dict[str, Any]]]],
) -> None:
    text, happened = question
    query = parse_query(text)
    found = reference.answer(bind_relation(query, STREAMS, TABLES), STREAMS, happened)
    wanted = answer(query, STREAMS["a"], happened["a"])
    # Relations have no window_start where a window reaches back to where the query began.
    assert sorted(repr(row[1:]) for row in found.rows) == sorted(repr(row[1:]) for row in wanted.rows)


# Several windows, at work

TOTALS = (
    "SELECT count(*) AS n, sum(w) AS s FROM a {0}, b {1} WHERE a.k = b.k",
    "SELECT count(*) AS n FROM a {0} WHERE NOT EXISTS (SELECT 1 FROM b {1} WHERE b.k = a.k)",
    "SELECT count(*) AS n FROM (SELECT k FROM a {0} UNION ALL SELECT k FROM c {1}) u WHERE k > 0",
    "SELECT count(*) AS n, count(DISTINCT d.k) AS m FROM (SELECT DISTINCT k FROM b {0}) d",
    "SELECT s.n AS n, b.w AS w FROM (SELECT count(*) AS n FROM a {0} WHERE v > 0) s, b {1} WHERE s.n = b.k",
    "SELECT n FROM (SELECT count(*) AS n FROM a {0}) s UNION ALL SELECT k AS n FROM b {1}",
    "SELECT k, count(*) AS n FROM a {0} GROUP BY k UNION ALL SELECT k, count(*) AS n FROM b {1} GROUP BY k",
)
OUTPUTS = ("{}", "{}", "ISTREAM ({})", "DSTREAM ({})", "WSTREAM ({}) [RANGE 9 us]", "WSTREAM ({}) [ROWS 3]")


@st.composite
def totals(draw: Any) -> Example:
    """An aggregate without GROUP BY over several windows, most of them hopping."""
    dice, origin = Random(draw(st.integers(0, 2**32 - 1))), draw(st.sampled_from(ORIGINS))
    slide = dice.choice((None, 5, 7, 10, 10))
    sliding = "" if slide is None else f" SLIDE {slide} us"

    def window(choices: Sequence[str]) -> str:
        return dice.choice(choices).format(range=dice.randrange(1, slide or 8), slide=sliding)

    first = window(("[RANGE {range} us{slide}]", "[RANGE {range} us{slide}]", "[RANGE UNBOUNDED{slide}]"))
    second = window(("[RANGE {range} us]", "[RANGE {range} us]", "[ROWS 2]", "[RANGE UNBOUNDED]", "[NOW]"))
    text = dice.choice(OUTPUTS).format(dice.choice(TOTALS).format(first, second))
    return Example(f"{created(dice, origin)} {text}", draw(events(most=6, origin=origin)), {})


@given(totals(), manners())
def test_aggregates_over_several_windows_answer_as_the_reference_does(example: Example, manner: Manner) -> None:
    assert_as_the_reference(example, manner)


def test_hopping_windows_end_with_the_last_that_holds_an_event() -> None:
    """Events at 45 and 46 lie between two windows: the last that holds one is the one that ends at 20."""
    text = "SELECT count(*) AS n FROM a [RANGE 3 us SLIDE 10 us], b [RANGE 3 us] WHERE a.k = b.k"
    happened = {"a": [rows(8), rows(18), rows(45)], "b": [rows(9, "w"), rows(46, "w")], "c": []}
    for nows in ((), (19, 31, 45), (45,)):
        for restart in (False, True):
            relation = bind_relation(parse_query(text), STREAMS, TABLES)
            found = as_rows(run(relation, Example(text, happened, {}), Manner(nows, "upa", restart)))
            assert found == [(7, 10, 1), (17, 20, 0)]


def test_groups_of_what_never_leaves_are_not_told_gone_at_the_end() -> None:
    text = "DSTREAM (SELECT k, count(*) AS n FROM a [RANGE UNBOUNDED SLIDE 5 us] GROUP BY k)"
    happened = {"a": [rows(1, k=1), rows(7, k=1), rows(8, k=2)], "b": [], "c": []}
    relation = bind_relation(parse_query(text), STREAMS, TABLES)
    for nows in ((), (6,), (2, 7)):
        found = as_rows(run(relation, Example(text, happened, {}), Manner(nows)))
        assert found == [(None, 10, 1, 1)]


def rows(ts: int, value: str = "v", k: int = 1) -> dict[str, Any]:
    return {"ts": ts, "k": k, value: 1.0}


def test_a_question_asked_once_is_answered_where_no_window_holds_an_event() -> None:
    """It is about one instant, whatever the windows hold then."""
    text = "SELECT count(*) AS n FROM a [RANGE 3 us], b [RANGE 3 us] WHERE a.k = b.k"
    relation = bind_relation(parse_query(text), STREAMS, TABLES)
    events = {}
    for at, (name, value) in enumerate((("a", "v"), ("b", "w"))):
        happened = [rows(5 + at, value)]
        columns = {c: Vector.of(t, [one[c] for one in happened]).to_arrow() for c, t in STREAMS[name].columns}
        events[name] = StepEvents(pa.table(columns), np.array([5 + at]))
    for now, pairs in ((6, 1), (60, 0)):
        assert answer_now(relation, events, now, lambda name: pa.table({})).column("n").to_pylist() == [pairs]
