"""Networks: what is shared, what is read, and plans that come and go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from by_operators import bind_relation
from mullion.algebra.nodes import Filter, Join, JoinView, Project, Scan
from mullion.algebra.streams import Stream
from mullion.expressions.typing import resolve_predicate
from mullion.language.parse import parse_expression, parse_query
from mullion.language.query import Column, Window
from mullion.language.types import BIGINT, TIMESTAMP
from mullion.operators.join import JoinOperator
from mullion.operators.network import Network
from mullion.planner.shared_joins import share_joins
from networks import Patient, columns_of, lives_of, reference_lives, same

COLUMNS = (("ts", BIGINT), ("k", BIGINT), ("v", BIGINT), ("unread", BIGINT))
STREAMS = {"a": COLUMNS, "b": COLUMNS}


def where(node: Any, text: str | None) -> Any:
    return node if text is None else Filter(node, resolve_predicate(parse_expression(text), node.types))


def join(*lengths: int, left: str | None = None, right: str | None = None, residual: str | None = None) -> Join:
    parts = (
        where(Scan("a", Window(range=lengths[0]), COLUMNS), left),
        where(Scan("b", Window(range=lengths[1]), COLUMNS), right),
    )
    plain = Join(parts, ((Column("k"),), (Column("k"),)))
    if residual is None:
        return plain
    return Join(parts, plain.keys, resolve_predicate(parse_expression(residual), plain.types))


def values(node: Any) -> Project:
    return Project(node, tuple((name, Column(name), BIGINT) for name in ("0.ts", "1.ts", "0.v", "1.v")))


def joins_in(network: Network) -> list[JoinOperator]:
    return [w.operator for w in network.working.values() if isinstance(w.operator, JoinOperator)]


def test_only_what_somebody_reads_is_asked_of_streams() -> None:
    network = Network()
    network.set_roots([Project(join(10, 10, left="v > 1"), (("x", Column("1.ts"), BIGINT),))])
    assert {stream: set(names) for stream, names in network.columns_needed().items()} == {
        "a": {"k", "v"},
        "b": {"k", "ts"},
    }


def test_equal_relations_are_one_and_joins_of_one_shape_too() -> None:
    plans = [values(join(10, 10)), values(join(20, 5, left="v > 1")), values(join(5, 8, residual="`0.v` < `1.v`"))]
    network = Network()
    network.set_roots([*plans, values(join(10, 10))])
    (operator,) = joins_in(network)
    assert len(network.roots) == 3
    assert operator.node.parts == join(20, 10).parts


def test_the_join_of_one_query_is_as_it_is_written() -> None:
    plan = values(join(10, 5, left="v > 1", right="v < 7", residual="`0.v` < `1.v`"))
    shared = share_joins([plan, plan])
    assert shared.plans == {plan: plan}


def test_only_rows_that_somebody_wants_are_joined() -> None:
    shared = share_joins([join(10, 10, left="v = 1"), join(10, 10, left="v = 2")])
    assert set(shared.shapes) == {join(10, 10, left="v = 1 OR v = 2")}
    views = list(shared.plans.values())
    assert [type(view) for view in views] == [Filter, Filter]


def test_shorter_windows_are_a_view_of_longer_ones() -> None:
    wide, narrow = join(10, 10), join(10, 5)
    assert share_joins([wide, narrow]).plans[narrow] == JoinView(wide, (10, 5))
    assert JoinView(wide, (10, 5)).meaning == narrow


def test_names_tell_different_relations_apart() -> None:
    plans = [join(10, 10), join(10, 11), join(10, 10, left="v = 1"), join(10, 10, residual="`0.v` = 1")]
    assert len({plan.name for plan in plans}) == len(plans)
    assert join(10, 10).name == join(10, 10).name
    assert join(2_000_000, 1, left="v = 1").text.startswith("join(filter(scan(a(ts bigint, k bigint,")


@st.composite
def plans(draw: st.DrawFn) -> Any:
    lengths = draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    predicates = st.sampled_from([None, None, "v > 1", "v < 3", "v = 2"])
    residual = draw(st.sampled_from([None, None, "`0.v` < `1.v`", "`0.v` <> 3"]))
    return values(join(*lengths, left=draw(predicates), right=draw(predicates), residual=residual))


event = st.fixed_dictionaries(
    {"ts": st.integers(0, 30), "k": st.sampled_from([1, 2, None]), "v": st.integers(0, 4), "unread": st.just(0)}
)
events = st.fixed_dictionaries({name: st.lists(event, max_size=10) for name in "ab"}).map(
    lambda found: {name: sorted(own, key=lambda row: row["ts"]) for name, own in found.items()}
)
STRATEGIES = st.sampled_from(["upa", "upa", "nt", "scan"])


def restarted(network: Network, roots: Any) -> Network:
    parts, again = network.parts(), Network(network.expiry)
    again.set_roots(roots)
    again.restore(parts)
    return again


@pytest.mark.slow
@given(
    st.lists(plans(), min_size=1, max_size=5, unique=True),
    events,
    st.sets(st.integers(1, 40)),
    STRATEGIES,
    st.booleans(),
)
def test_queries_that_share_a_join_have_their_own_answers(
    roots: Any, events: Any, times: set[int], strategy: str, restarts: bool
) -> None:
    network = Network(strategy)
    network.set_roots(roots)
    heard, before = {root: Patient() for root in roots}, -1
    for now in [*sorted(times), 100]:
        told = network.advance({name: columns_of(STREAMS, events, name, before, now) for name in STREAMS}, now)
        for root in roots:
            heard[root].hear(told[root])
        before = now
        network = restarted(network, roots) if restarts else network
    for root in roots:
        assert same(heard[root].lives) == same(reference_lives(root, events))


@pytest.mark.slow
@given(
    st.lists(st.tuples(plans(), st.integers(0, 20), st.integers(21, 60)), min_size=2, max_size=5),
    events,
    STRATEGIES,
    st.booleans(),
)
def test_plans_come_and_go(queries: Any, events: Any, strategy: str, restarts: bool) -> None:
    """A query that enters at a time sees all results of rows that came later, until it leaves."""
    network = Network(strategy)
    heard = [Patient() for _ in queries]
    for now in range(1, 40):
        running = [(i, root) for i, (root, come, go) in enumerate(queries) if come < now <= go]
        roots = [root for _, root in running]
        if restarts and now % 3 == 0:
            network = restarted(network, roots)
        else:
            network.set_roots(roots)
        told = network.advance({name: columns_of(STREAMS, events, name, now - 1, now) for name in STREAMS}, now)
        for i, root in running:
            heard[i].before = max(heard[i].before, now - 1)
            heard[i].hear(told[root])
    for own, (root, come, go) in zip(heard, queries, strict=True):
        expected = [life for life in reference_lives(root, events) if min(life[0][:2]) >= come and life[1] < go]
        found = [life for life in own.lives if min(life[0][:2]) >= come]
        assert same([_until(life, go) for life in found]) == same([_until(life, go) for life in expected])


TIMED = (("ts", TIMESTAMP), *COLUMNS[1:])
SQL_COLUMNS = {"a": TIMED, "b": TIMED}
OTHER = "SELECT a.v AS x FROM a [RANGE ? us], b [RANGE ? us]"
SQL_STREAMS = {name: Stream(name, TIMED, "ts") for name in "ab"}


def over_a_join(text: str, length: int) -> Any:
    """A plan over the join of two windows of a length, `?` in the text."""
    query = parse_query(text.replace("?", str(length)) + " WHERE a.k = b.k" + " GROUP BY a.k" * ("count" in text))
    return bind_relation(query, SQL_STREAMS, {}).plan


@pytest.mark.slow
@given(
    st.sampled_from(
        [
            "SELECT a.k AS k, count(*) AS n, max(b.v) AS m FROM a [RANGE ? us SLIDE 2 us], b [RANGE ? us SLIDE 2 us]",
            "SELECT a.k AS k, count(*) AS n FROM a [RANGE ? us], b [RANGE ? us]",
            "SELECT DISTINCT a.v AS x, b.v AS y FROM a [RANGE ? us], b [RANGE ? us]",
        ]
    ),
    st.integers(3, 9),
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 20), st.integers(10, 40)), min_size=1, max_size=3),
    events,
    st.booleans(),
)
def test_what_stands_on_a_join_goes_on_when_other_joins_come_and_go(
    text: str, length: int, others: Any, events: Any, restarts: bool
) -> None:
    """The join below it becomes another one with them; its own state does not."""
    root, network, heard = over_a_join(text, length), Network(), Patient()
    visitors = [(over_a_join(OTHER, other), come, go) for other, come, go in others]
    for now in range(3, 48, 3):
        roots = [root, *(other for other, come, go in visitors if come < now <= go)]
        if restarts and now % 2 == 0:
            network = restarted(network, roots)
        else:
            network.set_roots(roots)
        told = network.advance({n: columns_of(SQL_COLUMNS, events, n, now - 3, now) for n in SQL_COLUMNS}, now)
        heard.hear(told[root])
    assert same(heard.lives) == same(reference_lives(root, events))


def test_rows_that_only_others_wanted_are_not_joined_when_these_have_left() -> None:
    """The join was over all rows, and is then over those with v > 1, without looking at its results again."""
    everything, some = values(join(5, 5)), values(join(20, 20, left="v > 1"))
    rows = [{"ts": 1, "k": 1, "v": v, "unread": 0} for v in (1, 2)]
    network = Network()
    network.set_roots([everything, some])
    network.advance({"a": columns_of(STREAMS, {"a": rows}, "a", 0, 3)}, 3)
    network.set_roots([some])
    later = {"b": [{"ts": 4, "k": 1, "v": 0, "unread": 0}]}
    (told,) = network.advance({"b": columns_of(STREAMS, later, "b", 3, 5)}, 5).values()
    assert told.fresh.rows["0.v"].to_pylist() == [2]
    assert told.fresh.end.tolist() == [21]


def _until(life: Any, time: int) -> Any:
    """What a query that leaves at a time has heard of a row by then: nobody tells of negative tuples after it."""
    values, start, end = life
    return values, start, min(end, time, 39)


@pytest.mark.parametrize("strategy", ["upa", "nt", "scan"])
@pytest.mark.slow
def test_what_has_left_its_window_is_not_held(strategy: str) -> None:
    events = {name: [{"ts": i, "k": i % 3, "v": 0, "unread": 0} for i in range(400)] for name in "ab"}
    held = []
    lives_of(
        values(join(20, 20)),
        events,
        list(range(5, 400, 5)),
        strategy=strategy,
        watch=lambda n: held.append(n.rows_held()),
    )
    assert max(sum(own.values()) for own in held) < 200
