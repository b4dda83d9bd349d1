"""Queries bound to the algebra of relations: the plans that they become."""

from __future__ import annotations

import pyarrow as pa
import pytest

from binding.plans import MINUTE, PAIR, STREAMS, TABLES, A, B, C, bound, full, keys, project, root, scan, where, window
from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Difference,
    Distinct,
    Join,
    Project,
    ResultWindow,
    Union,
    nodes,
    scans,
)
from mullion.binding.entering import entering_at
from mullion.binding.relations import bind
from mullion.expressions.typing import resolve
from mullion.language.parse import parse_expression, parse_query
from mullion.language.query import Column
from mullion.language.types import BIGINT, DOUBLE, STRING
from mullion.planner.answer_schema import answer_schema
from mullion.planner.physical import sliced


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
    assert bound("SELECT * FROM a [c] JOIN c [c] USING (k)").names == ("k", "ts", "v", "c_ts", "j")
    twice = "a [c] JOIN b [c] USING (k, v) JOIN c [c] USING (k)"
    assert bound(f"SELECT * FROM {twice}").names == ("k", "v", "ts", "b_ts", "c_ts", "j")
    assert bound(f"SELECT b.* FROM {twice}").names == ("ts", "k", "v")
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
