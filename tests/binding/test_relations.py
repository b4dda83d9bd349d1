"""Queries bound to the algebra of relations: the plans that they become, and what is refused."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from mullion.algebra.lookups import Lookup
from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Difference,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    ResultWindow,
    Scan,
    TableLookup,
    Union,
    nodes,
    scans,
)
from mullion.algebra.relation import Relation
from mullion.algebra.streams import Stream, Table
from mullion.binding.entering import entering_at
from mullion.binding.relations import bind
from mullion.errors import TextError
from mullion.expressions.typing import resolve, resolve_predicate
from mullion.language.parse import parse_expression, parse_query
from mullion.language.query import Column, Expr, Named, Window
from mullion.language.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP
from mullion.planner.answer_schema import answer_schema
from mullion.planner.physical import sliced

A = Stream("a", (("ts", TIMESTAMP), ("k", STRING), ("v", INT)), "ts")
B = Stream("b", (("ts", TIMESTAMP), ("k", STRING), ("v", BIGINT)), "ts")
C = Stream("c", (("ts", TIMESTAMP), ("k", STRING), ("j", INT)), "ts")
T = Table("t", (("k", STRING), ("cp", DOUBLE)), "csv")
R = Table("r", (("k", STRING), ("most", INT)), "csv", retroactive=True)
STREAMS = {stream.name: stream for stream in (A, B, C)}
TABLES = {table.name: table for table in (T, R)}
MINUTE = 60_000_000


def full(text: str) -> str:
    """[] stands for a periodic window, [c] for a continuous one."""
    return text.replace("[]", "[RANGE 10 min SLIDE 1 min]").replace("[c]", "[RANGE 10 min]")


def bound(text: str, **materialized: Relation) -> Relation:
    relation = bind(parse_query(full(text)), STREAMS, TABLES, materialized)
    assert sliced(relation, STREAMS) is None
    return relation


def root(text: str, **materialized: Relation) -> Node:
    return bound(text, **materialized).root


def window(text: str) -> Window:
    source = parse_query(f"SELECT k FROM a [{text}]").source
    assert isinstance(source, Named) and source.window is not None
    return source.window


def scan(stream: Stream, text: str = "RANGE 10 min") -> Scan:
    return Scan(stream.name, window(text), stream.columns)


def where(node: Node, text: str) -> Filter:
    return Filter(node, resolve_predicate(parse_expression(text), node.types))


def project(node: Node, *texts: str) -> Project:
    """Columns c0, c1, .. of a node; those of joins are written in backquotes."""
    found = [resolve(parse_expression(text), node.types) for text in texts]
    return Project(node, tuple((f"c{i}", *item) for i, item in enumerate(found)))


def keys(*columns: str) -> tuple[tuple[Column, ...], ...]:
    """One key for each part of a join."""
    return tuple((Column(name),) for name in columns)


def residual(join: Join, text: str) -> Join:
    return Join(join.parts, join.keys, resolve_predicate(parse_expression(text), join.types))


PAIR = Join((scan(A), scan(B)), keys("k", "k"))


@pytest.mark.parametrize(
    "sources",
    [
        "a [c], b [c] WHERE a.k = b.k",
        "b [c], a [c] WHERE a.k = b.k",
        "a [c] JOIN b [c] ON b.K = a.k",
        "a [c] JOIN b [c] USING (k)",
        "A [c] CROSS JOIN B [c] WHERE a.k = b.k",
        "a [RANGE 10 min WATTR ts] JOIN b [c] ON a.k = b.k AND a.k = b.k",
    ],
)
def test_all_ways_to_write_a_join_are_one(sources: str) -> None:
    assert root(f"SELECT a.v, b.v AS w FROM {sources}") == project(PAIR, "`0.v`", "`1.v`")


def test_a_join_does_not_depend_on_when_it_is_looked_at() -> None:
    periodic = bound("SELECT a.v FROM a [], b [RANGE 10 min] WHERE a.k = b.k")
    assert periodic.root == root("SELECT x.v AS other FROM a [c] x, b [c] WHERE x.k = b.k")
    assert (periodic.slide, periodic.offset, periodic.longest) == (MINUTE, 0, 10 * MINUTE)
    assert periodic.streams == ("a", "b") and periodic.names == ("v",)


def test_conditions_stand_as_low_as_they_can() -> None:
    low = Join((where(scan(A), "v < 3 AND v > 1"), scan(B)), keys("k", "k"))
    text = "SELECT a.v FROM a [c], b [c] WHERE a.v > 1 AND a.k = b.k AND a.v < b.v AND a.v < 3 AND 1 < a.v + b.v"
    expected = residual(low, "1 < `0.v` + `1.v` AND `0.v` < `1.v`")
    found = root(text)
    assert isinstance(found, Project) and isinstance(found.input, Join)
    assert found.input.parts == expected.parts and found.input.keys == expected.keys
    assert parts_of(found.input.residual) == parts_of(expected.residual)


def parts_of(predicate: Expr | None) -> set[Expr]:
    assert predicate is not None
    return set(getattr(predicate, "args", ()))


def test_one_attribute_joins_all_streams_at_once() -> None:
    expected = project(Join((scan(A), scan(B), scan(C)), keys("k", "k", "k")), "`2.j`")
    assert root("SELECT j FROM a [c], b [c], c [c] WHERE a.k = b.k AND b.k = c.k") == expected
    assert root("SELECT j FROM c [c], b [c], a [c] WHERE a.k = c.k AND a.k = b.k") == expected
    assert root("SELECT j FROM a [c] JOIN b [c] USING (k) JOIN c [c] USING (k)") == expected


def test_different_attributes_join_one_after_the_other() -> None:
    join = Join((PAIR, scan(C)), ((Column("0.v"),), (Column("j"),)))
    found = root("SELECT c.k FROM a [c], c [c], b [c] WHERE a.k = b.k AND c.j = a.v")
    assert found == project(join, "`1.k`")


def test_several_attributes_are_one_key_in_the_type_that_they_are_compared_in() -> None:
    found = root("SELECT a.k FROM a [c], b [c] WHERE a.k = b.k AND a.v = b.v")
    as_bigint = resolve(parse_expression("CAST(v AS BIGINT)"), A.types)[0]
    assert found == project(Join((scan(A), scan(B)), ((as_bigint, Column("k")), (Column("v"), Column("k")))), "`0.k`")


def test_an_equality_of_some_parts_alone_is_asked_of_the_whole() -> None:
    found = root("SELECT j FROM a [c], b [c], c [c] WHERE a.k = b.k AND b.k = c.k AND a.v = c.j")
    join = Join((scan(A), scan(B), scan(C)), keys("k", "k", "k"))
    assert found == project(residual(join, "`0.v` = `2.j`"), "`2.j`")


def test_columns_equal_to_one_elsewhere_are_equal_at_home() -> None:
    found = root(
        "SELECT a.k FROM a [c] x, a [c], c [c] WHERE x.v = c.j AND a.v = c.j AND a.v = x.v AND c.k = x.k AND c.k = x.k"
    )
    assert isinstance(found, Project) and isinstance(found.input, Join) and len(found.input.parts) == 3
    both = root("SELECT c.k FROM b [c], c [c] WHERE b.k = c.k AND b.k = upper(c.k)")
    assert isinstance(both, Project) and isinstance(both.input, Join)
    assert both.input.parts == (scan(B), where(scan(C), "k = upper(k)")) and len(both.input.keys[0]) == 1


def test_a_stream_joins_itself() -> None:
    found = bound("SELECT x.v, y.v AS w FROM a [RANGE 5 min] x, a [c] y WHERE x.k = y.k")
    short, long = scan(A, "RANGE 5 min"), scan(A)
    (join,) = [node for node in nodes(found.root) if isinstance(node, Join)]
    assert set(join.parts) == {short, long} and join.keys == keys("k", "k")
    first = join.parts.index(short)
    assert found.root == project(join, f"`{first}.v`", f"`{1 - first}.v`")
    assert found.longest == 10 * MINUTE


CLOSE = Lookup("t", ((Column("k"), Column("k")),), None, T.columns)
LIMITS = Lookup("r", ((Column("k"), Column("k")),), None, R.columns)


def test_tables_are_looked_up_by_the_stream_that_has_their_keys() -> None:
    found = root("SELECT a.k, cp, most FROM a [c], b [c], t, r WHERE a.k = b.k AND t.k = b.k AND r.k = a.k AND cp > 3")
    left = TableLookup(scan(A), LIMITS, retroactive=True)
    right = TableLookup(scan(B), CLOSE)
    join = Join(
        (Filter(left, Column(LIMITS.matched)), where(right, f"`{CLOSE.matched}` AND `{CLOSE.column('cp')}` > 3")),
        keys("k", "k"),
    )
    assert found == project(join, "`0.k`", f"`1.{CLOSE.column('cp')}`", f"`0.{LIMITS.column('most')}`")


def test_a_left_join_of_a_table_keeps_rows_that_find_none() -> None:
    found = root("SELECT a.k, cp FROM a [c] JOIN b [c] ON a.k = b.k LEFT JOIN t ON t.k = b.k")
    join = Join((scan(A), TableLookup(scan(B), CLOSE)), keys("k", "k"))
    assert found == project(join, "`0.k`", f"`1.{CLOSE.column('cp')}`")


def test_streams_joined_through_a_table() -> None:
    found = root("SELECT a.v FROM a [c], b [c], t WHERE t.k = a.k AND t.k = b.k")
    left = Filter(TableLookup(scan(A), CLOSE), Column(CLOSE.matched))
    assert found == project(Join((left, scan(B)), keys(CLOSE.column("k"), "k")), "`0.v`")


def test_operators_run_aggregates_with_a_retroactive_table() -> None:
    aggregated = root("SELECT max(most) AS m FROM a [], r WHERE a.k = r.k")
    assert [node.retroactive for node in nodes(aggregated) if isinstance(node, TableLookup)] == [True]


def test_distinct_is_over_the_items() -> None:
    found = bound("SELECT DISTINCT k, v + 1 AS w FROM a [c] ORDER BY w DESC")
    assert found.root == Distinct(project(scan(A), "k", "v + 1"))
    assert found.order_by == ((Column("c1"), True, False),)


def test_not_exists_is_negation() -> None:
    found = root(
        "SELECT v FROM a [c] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 5 min] WHERE b.k = a.k AND b.v > 3) AND v > 2"
    )
    right = where(scan(B, "RANGE 5 min"), "v > 3")
    assert found == project(AntiJoin(where(scan(A), "v > 2"), right, (Column("k"),), (Column("k"),)), "v")


def test_exists_joins_with_distinct_keys() -> None:
    found = root("SELECT v FROM a [c] WHERE EXISTS (SELECT * FROM b [c] WHERE a.k = b.k AND a.v = b.v)")
    as_bigint = resolve(parse_expression("CAST(v AS BIGINT)"), A.types)[0]
    distinct = Distinct(project(scan(B), "k", "v"))
    join = Join((scan(A), distinct), ((Column("k"), as_bigint), (Column("c0"), Column("c1"))))
    back = Project(join, tuple((name, Column(f"0.{name}"), type_) for name, type_ in A.columns))
    assert found == project(back, "v")


def test_existence_stands_above_joins_and_within_them() -> None:
    text = """SELECT a.v FROM a [c], b [c] WHERE a.k = b.k AND NOT EXISTS (
        SELECT 1 FROM c [c], b [c] z WHERE c.k = z.k AND z.k = a.k AND z.v = b.v
        AND NOT EXISTS (SELECT 1 FROM a [c] WHERE a.v = c.j))"""
    inner = Join((scan(B), scan(C)), keys("k", "k"))
    unpaid = AntiJoin(inner, scan(A), (Column("1.j"),), (Column("v"),))
    outer = AntiJoin(PAIR, unpaid, (Column("0.k"), Column("1.v")), (Column("0.k"), Column("0.v")))
    assert root(text) == project(outer, "`0.v`")


def test_a_join_over_a_negation() -> None:
    text = """SELECT b.v FROM (SELECT k FROM a [c] WHERE NOT EXISTS (SELECT 1 FROM c [c] WHERE c.k = a.k)) x, b [c]
        WHERE x.k = b.k"""
    negation = project(AntiJoin(scan(A), scan(C), (Column("k"),), (Column("k"),)), "k")
    found = root(text)
    assert isinstance(found, Project) and isinstance(found.input, Join)
    assert set(found.input.parts) == {negation, scan(B)}


def test_union_all_widens_types_by_position() -> None:
    found = bound("SELECT k, v FROM a [c] UNION ALL SELECT k AS other, v FROM b [c] ORDER BY v")
    left = Project(
        scan(A),
        tuple(
            zip(
                ("c0", "c1"),
                *zip(*[resolve(parse_expression(t), A.types) for t in ("k", "CAST(v AS BIGINT)")], strict=True),
                strict=True,
            )
        ),
    )
    assert found.root == Union((left, project(scan(B), "k", "v")))
    assert found.names == ("k", "v") and found.order_by == ((Column("c1"), False, True),)


def test_except_all_is_taken_away_from_the_union() -> None:
    found = root("SELECT k FROM a [c] UNION ALL SELECT k FROM b [c] EXCEPT ALL SELECT k FROM c [c]")
    united = Union((project(scan(A), "k"), project(scan(B), "k")))
    assert found == Difference(united, project(scan(C), "k"))


def test_aggregates_over_a_join() -> None:
    found = bound(
        "SELECT a.k, count(*) AS n, avg(b.v) FILTER (WHERE a.v > 1) AS m FROM a [], b [] WHERE a.k = b.k"
        " GROUP BY a.k HAVING n > 2 ORDER BY max(b.v), 1 LIMIT 5"
    )
    (aggregated,) = [node for node in nodes(found.root) if isinstance(node, Aggregated)]
    assert aggregated.input == PAIR and (aggregated.slide, aggregated.offset) == (MINUTE, 0)
    assert aggregated.keys == ((Column("0.k"), STRING),)
    assert [a.function for a in aggregated.aggregates] == ["count", "avg", "max"]
    assert aggregated.columns == (("#k0", STRING), ("#a0", BIGINT), ("#a1", DOUBLE), ("#a2", BIGINT))
    items = [
        (name, Column(column), aggregated.types[column])
        for name, column in (("c0", "#k0"), ("c1", "#a0"), ("c2", "#a1"), ("o0", "#a2"))
    ]
    assert found.root == Project(where(aggregated, "`#a0` > 2"), tuple(items))
    assert found.names == ("k", "n", "m") and found.limit == 5
    assert found.order_by == ((Column("o0"), False, True), (Column("c0"), False, True))


def test_grouping_by_names_of_the_answer_and_by_ordinals() -> None:
    by_name = root("SELECT upper(k) AS u, count(*) AS n FROM (SELECT DISTINCT k FROM a [c]) GROUP BY u")
    assert by_name == root("SELECT upper(x.k), count(*) FROM (SELECT DISTINCT k FROM a [c]) x GROUP BY 1")
    (aggregated,) = [node for node in nodes(by_name) if isinstance(node, Aggregated)]
    assert aggregated.slide is None and aggregated.input == Distinct(project(scan(A), "k"))


def test_a_sub_query_is_what_it_is_made_of() -> None:
    found = bound("SELECT x.k, n FROM (SELECT k, count(*) AS n FROM a [] GROUP BY k) x, b [RANGE 1 h] WHERE x.k = b.k")
    (aggregated,) = [node for node in nodes(found.root) if isinstance(node, Aggregated)]
    assert aggregated.slide == found.slide == MINUTE and found.longest == 60 * MINUTE
    assert found.names == ("k", "n") and found.output == "rstream"


@pytest.mark.parametrize(
    "results",
    [
        "(SELECT a.k FROM a [c], b [c] WHERE a.k = b.k) x [RANGE 1 h]",
        "(ISTREAM (SELECT a.k FROM a [c], b [c] WHERE a.k = b.k)) [RANGE 1 h]",
        "(WSTREAM (SELECT a.k FROM a [c], b [c] WHERE a.k = b.k)[RANGE 1 h]) AS y",
    ],
)
def test_a_window_over_results(results: str) -> None:
    found = bound(f"SELECT k FROM {results}")
    assert found.root == project(ResultWindow(project(PAIR, "`0.k`"), window("RANGE 1 h")), "c0")
    assert found.longest == 70 * MINUTE and found.output == "changes"


def test_a_window_over_results_has_a_clock_of_its_own() -> None:
    found = bound(
        "SELECT max(n) AS m FROM (SELECT count(*) AS n FROM a [RANGE 1 min SLIDE 1 min]) [RANGE 1 h SLIDE 10 min]"
    )
    outer, inner = [node for node in nodes(found.root) if isinstance(node, Aggregated)]
    assert (outer.slide, inner.slide, found.slide) == (10 * MINUTE, MINUTE, 10 * MINUTE)
    assert found.longest == 61 * MINUTE


@pytest.mark.parametrize(
    ("text", "output", "slide"),
    [
        ("SELECT k FROM a []", "rstream", MINUTE),
        ("SELECT k FROM a [c]", "changes", None),
        ("SELECT a.k FROM a [ROWS 5], b [] WHERE a.k = b.k", "rstream", MINUTE),
        ("SELECT count(*) AS n FROM a [c], b [c] WHERE a.k = b.k", "rstream", None),
        ("SELECT a.k FROM a [RANGE 1 h INTERNAL], b [c] WHERE a.k = b.k", "changes", None),
        ("SELECT a.k FROM a [RANGE 1 h INTERNAL], b [ROWS 5 INTERNAL] WHERE a.k = b.k", "istream", None),
        ("SELECT a.k FROM a [RANGE 1 h SLIDE 1 min INTERNAL]", "istream", MINUTE),
        ("SELECT k FROM a [RANGE 1 h INTERNAL] WHERE EXISTS (SELECT 1 FROM b [c] WHERE b.k = a.k)", "changes", None),
        ("ISTREAM (SELECT k FROM a [])", "istream", MINUTE),
        ("DSTREAM (SELECT count(*) AS n FROM a [])", "dstream", MINUTE),
        ("RSTREAM (SELECT k FROM a [c])", "rstream", None),
        ("WSTREAM (SELECT k FROM a [c])[RANGE 1 h SLIDE 1 min]", "wstream", MINUTE),
        ("WSTREAM (SELECT k FROM a [])[ROWS 3]", "wstream", MINUTE),
    ],
)
def test_what_is_told_and_when(text: str, output: str, slide: int | None) -> None:
    found = bound(text)
    assert (found.output, found.slide) == (output, slide)


def test_what_surrounds_a_query() -> None:
    windowed = bound("WSTREAM (SELECT k FROM a [c])[RANGE 1 h SLIDE 1 min]")
    assert windowed.output_window == window("RANGE 1 h") and windowed.longest == 70 * MINUTE
    assert bound("ISTREAM RESTORE (SELECT k FROM a [])").restore
    shifted = bound("SELECT k FROM a [RANGE 1 h SLIDE 5 min OFFSET -2 min]")
    assert (shifted.slide, shifted.offset) == (5 * MINUTE, 3 * MINUTE)
    named = bound("CREATE QUERY q STOP AT TIMESTAMP '1970-01-01 00:01:00' AS SELECT k FROM a [c]")
    assert (named.name, named.start, named.stop) == ("q", None, MINUTE)
    assert named.text == "CREATE QUERY q STOP AT TIMESTAMP '1970-01-01 00:01:00' AS SELECT k FROM a [RANGE '10 min']"


@pytest.mark.parametrize("text", ["ROWS 3", "PARTITION BY k ROWS 2", "RANGE UNBOUNDED", "NOW", "ROWS 5 SLIDE 2"])
def test_windows_without_a_length_hold_what_comes_after_the_query_does(text: str) -> None:
    query = (
        f"CREATE QUERY q START AT TIMESTAMP '1970-01-01 00:01:00' AS SELECT a.k FROM a [{text}], b [c] WHERE a.k = b.k"
    )
    found = bound(query)
    assert [scan.since for scan in scans(found.root)] == [MINUTE, None] and found.start == MINUTE
    later = entering_at(bound(f"SELECT a.k FROM a [{text}], b [c] WHERE a.k = b.k"), MINUTE)
    assert (later.root, later.start) == (found.root, MINUTE)


def test_partitions_are_resolved() -> None:
    (found,) = scans(root("SELECT k FROM a x [PARTITION BY x.K, v + 1 ROWS 2]"))
    by = Column("k"), resolve(parse_expression("v + 1"), A.types)[0]
    assert found.partition == found.window.partition_by == by


def test_stars_name_every_column_once() -> None:
    assert bound("SELECT * FROM a [c], c [c] WHERE a.k = c.k").names == ("ts", "k", "v", "c_ts", "c_k", "j")
    assert bound("SELECT y.*, x.k FROM a [c] x, a [c] y WHERE x.k = y.k").names == ("ts", "y_k", "v", "k")
    assert bound("SELECT *, window_end FROM (SELECT k, v FROM a [c])").names == ("k", "v")


def test_a_materialised_query_is_read_by_its_name() -> None:
    made = bound(
        "CREATE QUERY m MATERIALIZED START AT TIMESTAMP '1970-01-01 00:01:00' AS "
        "SELECT a.k, a.v AS w FROM a [ROWS 3], b [c] WHERE a.k = b.k"
    )
    assert made.materialized
    reader = bound("SELECT w + 1 AS more FROM M x WHERE x.k > 'a'", m=made)
    assert reader.root == project(where(made.root, "c0 > 'a'"), "c1 + 1")
    late = bound(
        "CREATE QUERY late START AT TIMESTAMP '1970-01-01 00:02:00' AS SELECT m.w FROM m, a [ROWS 2] WHERE m.k = a.k",
        m=made,
    )
    assert made.root in set(nodes(late.root))
    assert sorted(scan.since or 0 for scan in scans(late.root)) == [0, MINUTE, 2 * MINUTE]
    again = root("SELECT w FROM m [RANGE 1 h]", m=made)
    assert again == project(ResultWindow(made.root, window("RANGE 1 h")), "c1")


def test_a_materialised_aggregate_of_one_stream_is_a_relation() -> None:
    made = bound("CREATE QUERY m MATERIALIZED AS SELECT k, count(*) AS n FROM a [] GROUP BY k")
    reader = bound("SELECT b.v, n FROM m JOIN b [c] USING (k)", m=made)
    assert (reader.slide, reader.output) == (MINUTE, "rstream")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM a []",
        "RSTREAM (SELECT k, max(v) FROM a [] GROUP BY k)",
        "SELECT count(*) FROM a [RANGE 1 h SLIDE 1 min INTERNAL]",
        "SELECT max(cp) FROM a [], t WHERE a.k = t.k",
        "SELECT k FROM a [] GROUP BY k",
        "SELECT count(DISTINCT k) FROM a [ROWS 5]",
    ],
)
def test_slices_run_aggregates_over_one_stream(text: str) -> None:
    assert sliced(bind(parse_query(full(text)), STREAMS, TABLES), STREAMS) is not None


def test_the_columns_of_answers() -> None:
    time = pa.timestamp("us", tz="UTC")
    ends = [("window_start", time), ("window_end", time)]
    lives = [("inserted_at", time), ("expires_at", time)]
    assert answer_schema(bound("SELECT k, v AS w FROM a []")) == pa.schema(
        [*ends, ("k", pa.string()), ("w", pa.int32()), *lives]
    )
    assert answer_schema(bound("SELECT count(*) AS n FROM a [], b [] WHERE a.k = b.k ORDER BY max(a.v)")) == pa.schema(
        [*ends, ("n", pa.int64())]
    )
    negated = "SELECT k FROM a {} WHERE NOT EXISTS (SELECT 1 FROM b {} WHERE a.k = b.k)"
    told = answer_schema(bound(negated.format("[c]", "[c]"))).names
    assert told == ["window_start", "window_end", "k", "inserted_at", "expires_at", "sign"]
    assert answer_schema(bound(negated.format("[]", "[]"))).names == told[:-1]
    windowed = answer_schema(bound("WSTREAM (SELECT count(*) AS n FROM a [])[ROWS 3]"))
    assert windowed.names == ["window_start", "window_end", "n", "inserted_at", "expires_at"]


def test_a_window_over_results_decides_for_itself_what_expires() -> None:
    bound("SELECT DISTINCT k FROM (ISTREAM (SELECT k FROM a [RANGE 1 h INTERNAL])) [ROWS 5]")


REFUSED = [
    (
        "SELECT a.k FROM a [], «b []»",
        "nothing says which rows of 'b' belong to those of 'a'\n  join them by an equality, such as WHERE a.k = b.k",
    ),
    ("SELECT a.k FROM a [], b [], «c []» WHERE a.k = b.k", "nothing says which rows of 'c' belong to those of 'a'\n"),
    ("SELECT a.k FROM a [], «b []» WHERE a.v < b.v", "nothing says"),
    (
        "SELECT a.k FROM «a [] LEFT JOIN b [] ON a.k = b.k»",
        "a LEFT JOIN of two streams is not supported yet\n  write NOT EXISTS",
    ),
    ("SELECT a.k FROM «a [] FULL JOIN b [] ON a.k = b.k»", "a FULL JOIN of two streams"),
    ("SELECT a.k FROM «t RIGHT JOIN a [] ON a.k = t.k»", "RIGHT JOIN is not supported yet\n  write LEFT JOIN"),
    (
        "SELECT a.k FROM a [], b «[RANGE 1 min SLIDE 2 min]» WHERE a.k = b.k",
        "a query over windows of different SLIDEs .*\n  give all windows of the query the same SLIDE",
    ),
    ("SELECT a.k FROM a [], b «[RANGE 1 min SLIDE 1 min OFFSET 1 s]» WHERE a.k = b.k", ".* different SLIDEs"),
    (
        "SELECT k FROM a [] WHERE EXISTS (SELECT 1 FROM c «[RANGE 1 min SLIDE 2 min]» WHERE c.k = a.k)",
        ".* different SLIDEs",
    ),
    ("SELECT k FROM a [] UNION ALL SELECT k FROM b «[RANGE 1 min SLIDE 2 min]»", ".* different SLIDEs"),
    (
        "SELECT DISTINCT k FROM a «[RANGE 1 h INTERNAL]»",
        "what DISTINCT or EXISTS gives must expire, so its windows cannot be INTERNAL\n  leave INTERNAL out",
    ),
    (
        "SELECT k FROM a «[RANGE 1 h INTERNAL]» WHERE NOT EXISTS (SELECT 1 FROM b [c] WHERE b.k = a.k)",
        "what NOT EXISTS gives must expire",
    ),
    (
        "SELECT k FROM a [] WHERE NOT EXISTS (SELECT 1 FROM b «[ROWS 5 INTERNAL]» WHERE b.k = a.k)",
        "what NOT EXISTS gives",
    ),
    (
        "SELECT k FROM a [c] WHERE EXISTS (SELECT 1 FROM b «[RANGE 1 h INTERNAL]» WHERE b.k = a.k)",
        "what DISTINCT or EXISTS",
    ),
    ("SELECT k FROM a [c] EXCEPT ALL SELECT k FROM b «[ROWS 5 INTERNAL]»", "what EXCEPT ALL gives"),
    (
        "SELECT DISTINCT s.n FROM (SELECT k, count(*) AS n FROM a «[RANGE 1 h INTERNAL]» GROUP BY k) s",
        "what DISTINCT or EXISTS gives",
    ),
    ("SELECT k FROM «a»", "stream 'a' needs a window\n  write one after its name"),
    ("SELECT k FROM a «[RANGE 1 min SLIDE 5 TUPLES]»", "SLIDE by TUPLES in this query"),
    ("SELECT k FROM a «[PARTITION BY k ROWS 5 SLIDE 2]»", "PARTITION BY with SLIDE"),
    (
        "SELECT k FROM a «[RANGE 1 min WATTR v]»",
        "WATTR in this query .*\n  windows of rows and joins go over the event time, ts",
    ),
    ("SELECT k FROM a «[RANGE 1 min WATTR tss]»", "unknown column 'tss' in a\n  did you mean 'ts'"),
    ("SELECT k FROM (SELECT k FROM a [c]) «[PARTITION BY k ROWS 1]»", "PARTITION BY in a window over results"),
    ("SELECT k FROM «(SELECT k FROM a []) [RANGE 1 h]»", "a window over the rows of a query with SLIDE"),
    ("SELECT «kk» FROM a []", "unknown column 'kk'\n  did you mean 'k'"),
    ("SELECT «a.kk» FROM a [], b [] WHERE a.k = b.k", "unknown column 'kk' in a\n  did you mean 'k'"),
    ("SELECT «k» FROM a [], b [] WHERE a.k = b.k", "column 'k' is ambiguous\n  write a.k or b.k"),
    ("SELECT «aa.k» FROM a [], b [] WHERE a.k = b.k", "unknown stream, table or alias 'aa'\n  did you mean 'a'"),
    ("SELECT «aa.*» FROM a [], b [] WHERE a.k = b.k", "unknown stream, table or alias 'aa'\n  did you mean 'a'"),
    ("SELECT k FROM «bb [c]»", "unknown stream or table 'bb'\n  did you mean 'b'"),
    ("SELECT x.k FROM a [] x, «b [] x» WHERE x.k = x.k", "two sources are called 'x'"),
    ("SELECT a.k FROM a [], «t»", "nothing says which rows of table 't' belong to an event"),
    ("SELECT t.k FROM «t»", "'t' is a table, and a query needs a stream"),
    ("SELECT a.k FROM a [], t «[]» WHERE a.k = t.k", "'t' is a table and has no window"),
    (
        "SELECT x.k FROM (SELECT k FROM a [c]) x, «t» WHERE x.k = t.k",
        "a table joined to the result of a query .*\n  join the table to the stream within",
    ),
    (
        "SELECT k FROM a [] WHERE v > 1 OR «EXISTS (SELECT 1 FROM b [] WHERE b.k = a.k)»",
        "EXISTS within an expression .*\n  let it be a condition",
    ),
    (
        "SELECT k FROM a [] WHERE EXISTS (SELECT 1 FROM c [] WHERE «c.j < a.v»)",
        "this condition of EXISTS .*\n  compare with the query around by equalities",
    ),
    ("SELECT k FROM a [] WHERE EXISTS (SELECT 1 FROM c [] WHERE c.k = a.k AND «a.v > 1»)", "this condition of EXISTS"),
    ("SELECT k FROM a [] WHERE «EXISTS (SELECT 1 FROM c [])»", "nothing in this EXISTS belongs to a row"),
    (
        "SELECT k FROM a [] WHERE EXISTS (SELECT «jj» FROM c [] WHERE c.k = a.k)",
        "unknown column 'jj'\n  did you mean 'j'",
    ),
    (
        "SELECT k FROM a [] WHERE EXISTS («SELECT k FROM c [] WHERE c.k = a.k GROUP BY k»)",
        "an aggregate directly in EXISTS .*\n  group in FROM",
    ),
    ("SELECT k FROM a [] WHERE NOT EXISTS («SELECT k FROM c [] WHERE c.k = a.k LIMIT 1»)", "LIMIT directly in EXISTS"),
    ("SELECT k FROM a [] WHERE «initcap(k)» = 'X'", "initcap in this query"),
    ("SELECT «initcap(k)» AS i FROM a []", "initcap in this query"),
    ("SELECT count(*) FROM a [], b [] WHERE «initcap(a.k)» = b.k", "initcap in this query"),
    ("SELECT max(«initcap(a.k)») AS i FROM a [], b [] WHERE a.k = b.k", "initcap in this query"),
    ("SELECT «cout(k)» FROM a []", "unknown function 'cout'\n  did you mean 'count'"),
    (
        "SELECT «a.v», count(*) FROM a [], b [] WHERE a.k = b.k GROUP BY a.k",
        "column 'v' is neither grouped nor aggregated",
    ),
    ("SELECT a.k FROM a [], b [] WHERE a.k = b.k AND «count(*)» > 1", "an aggregate is not allowed in WHERE"),
    ("SELECT «*», count(*) FROM a [], b [] WHERE a.k = b.k", r"SELECT \* beside aggregates"),
    ("SELECT «window_end» + INTERVAL 1 MINUTE AS e FROM a []", "window_end in an expression of this query"),
    ("SELECT a.k, «b.k» FROM a [], b [] WHERE a.k = b.k", "two columns of the answer are called 'k'\n  give one an AS"),
    ("SELECT k, «v AS window_end» FROM a []", "a column of the answer cannot be called 'window_end'"),
    ("«SELECT v AS Sign FROM a []»", "a column of the answer cannot be called 'Sign'\n  it is one of inserted_at"),
    ("SELECT DISTINCT k FROM a [] ORDER BY «v»", "with DISTINCT, ORDER BY takes columns of the answer"),
    ("SELECT k FROM a [] UNION ALL «SELECT k, v FROM b []»", "this part has 2 columns, and the first part has 1"),
    (
        "«SELECT v FROM a [] UNION ALL SELECT ts FROM b []»",
        r"column 'v' has no type common to all parts \(int, timestamp\)\n  CAST it",
    ),
    (
        "SELECT k FROM a [] UNION ALL SELECT k FROM b [] ORDER BY «v»",
        "the parts' answer has no column 'v'\n  order by one of k",
    ),
    ("SELECT k FROM a [] UNION ALL (SELECT k FROM b [] ORDER BY «k»)", "ORDER BY in a part of a union"),
    ("SELECT k FROM a [] EXCEPT ALL («ISTREAM (SELECT k FROM b [])»)", "ISTREAM in a part of a union"),
    ("SELECT k FROM («SELECT k FROM a [] LIMIT 3»)", "LIMIT in a sub-query"),
    ("SELECT k FROM («ISTREAM (SELECT k FROM a [])»)", "ISTREAM in FROM .*\n  write "),
    ("SELECT k FROM («DSTREAM (SELECT k FROM a [c])») [RANGE 1 h]", "DSTREAM in FROM"),
    ("«SELECT k FROM a [c] LIMIT 3»", "LIMIT with a result that is told by its changes .*\n  write RSTREAM"),
    ("«ISTREAM RESTORE (SELECT k FROM a [c])»", "RESTORE needs windows with a SLIDE"),
    ("«RSTREAM RESTORE (SELECT count(*) FROM a [])»", "RESTORE is for rows"),
    ("CREATE QUERY q MATERIALIZED BACKFILL AS «SELECT k FROM a [c]»", "BACKFILL of this query .its result is kept"),
    ("CREATE QUERY q MATERIALIZED AS «ISTREAM (SELECT k FROM a [c])»", "MATERIALIZED with ISTREAM"),
    ("CREATE QUERY q MATERIALIZED AS «SELECT k FROM a [] LIMIT 3»", "LIMIT with MATERIALIZED"),
]


@pytest.mark.parametrize(("marked", "message"), REFUSED)
def test_what_is_refused_names_its_place(marked: str, message: str) -> None:
    before, _, rest = full(marked).partition("«")
    place, _, after = rest.partition("»")
    with pytest.raises(TextError) as refused:
        bind(parse_query(before + place + after), STREAMS, TABLES)
    error = refused.value
    assert re.match(message, error.message + (f"\n  {error.hint}" if error.hint else "")), str(error)
    assert error.place is not None and error.place.start == len(before)
    assert error.place.text[error.place.start : error.place.end] == place
