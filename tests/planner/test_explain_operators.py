"""EXPLAIN of relational plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mullion.aggregates import REGISTRY
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.lookups import Lookup
from mullion.algebra.nodes import Aggregated, Difference, Distinct, Join, Node, ResultWindow, TableLookup, Union
from mullion.algebra.relation import Relation
from mullion.language.query import Column
from mullion.language.types import BIGINT, INT
from mullion.operators.structures import Structures
from mullion.options import Expiry
from mullion.planner.relation_stats import Stats
from relational_plans import (
    NEGATION_ABOVE,
    NEGATION_BELOW,
    as_written,
    column,
    explained,
    join,
    keys_of,
    scan,
    unless,
    where,
    window,
)


def state_of(node: Node, expiry: Expiry = Expiry.PATTERN_AWARE) -> dict[str, str]:
    return Structures(expiry).of(node)


GOLDEN = Path(__file__).parents[1] / "golden"
MINUTE = 60_000_000
SEEN = Stats(
    {"S1": 100.0, "S2": 100.0, "S3": 10.0},
    {(s, "a"): 1e4 for s in ("S1", "S2", "S3")},
    overlap={frozenset(("S1", "S2")): 0.1},
)
COUNT = BoundAggregate("count", None, None, BIGINT, REGISTRY["count"])


def relation(name: str, root: Node, **more: object) -> Relation:
    return Relation(name, "", root, **more)  # type: ignore[arg-type]


def golden(name: str) -> str:
    return (GOLDEN / name).read_text(encoding="utf-8")


def test_the_left_plan_of_figure_3_5_reads_like_this() -> None:
    told = as_written([relation("left", NEGATION_ABOVE)], SEEN)
    assert str(told) + "\n" == golden("figure_3_5_left.txt")


def test_the_right_plan_of_figure_3_5_reads_like_this() -> None:
    told = as_written([relation("right", NEGATION_BELOW)], SEEN)
    assert str(told) + "\n" == golden("figure_3_5_right.txt")


def many_kinds() -> list[Relation]:
    """Queries that share a join, and one of every operator."""
    r, s = scan("S1"), scan("S2")
    joined = join(r, s)
    names = Lookup("names", ((column("a"), column("id")),), None, (("id", INT),))
    three = join(r, s, scan("S3", "ROWS 100"))
    return [
        relation("unpaid", NEGATION_BELOW, slide=MINUTE),
        *(relation(f"above_{i}", where(joined, f"`0.b` > {i}"), output="istream", slide=MINUTE) for i in range(4)),
        relation("grouped", Aggregated(joined, ((Column("0.a"), INT),), (COUNT,), slide=MINUTE), slide=MINUTE),
        relation("three", where(three, "`0.b` < `2.b`"), output="changes"),
        relation("seen", Join((r, keys_of(s)), ((column("a"),), (column("k0"),)))),
        relation("all_but", Difference(r, s), output="changes"),
        relation("named", TableLookup(Union((r, s)), names, retroactive=True), output="dstream", slide=MINUTE),
        relation("last", ResultWindow(joined, window("ROWS 10")), output="wstream", output_window=window("ROWS 10")),
        relation(
            "kept", join(scan("S1", "RANGE 5 min INTERNAL"), scan("S2", "RANGE 5 min INTERNAL")), output="changes"
        ),
    ]


def test_explain_of_relations_reads_like_this() -> None:
    told = explained(many_kinds(), SEEN, observed={"S1": {"events": 12000, "late": 3}})
    assert str(told) + "\n" == golden("explain_relations.txt")


def test_json_tells_the_same() -> None:
    told = json.loads(explained([relation("unpaid", NEGATION_BELOW)], SEEN).to_json())
    (unpaid,) = told["plans"]
    assert told["expiry"] == "upa"
    assert [query["name"] for query in unpaid["queries"]] == ["unpaid"]
    assert (unpaid["pattern"], unpaid["operator"]) == ("strict", "Negation")
    assert unpaid["state"] == {"left": "array or hash by key", "right": "end of each key, heap of ends"}
    assert [below["pattern"] for below in unpaid["inputs"]] == ["weak", "weakest"]
    assert not unpaid["negative_tuples"]
    assert [reason["rule"] for reason in unpaid["reasons"]] == ["choose_operators", "project_keys", "pull_up_negation"]
    assert unpaid["reasons"][-1]["after"] == unpaid["cost"] < unpaid["rejected"][0]["cost"]
    assert unpaid["rejected"][0]["operator"] == "Join" and unpaid["rejected"][0]["negative_tuples"]


def test_json_counts_the_queries_that_share_a_node() -> None:
    plans = {plan["queries"][0]["name"]: plan for plan in explained(many_kinds(), SEEN).to_dict()["plans"]}
    assert {plans[name]["inputs"][0]["shared_by"] for name in plans if name.startswith("above")} == {6}


@pytest.mark.parametrize(
    ("expiry", "join_state", "distinct_state"),
    [
        (
            Expiry.PATTERN_AWARE,
            ["FIFO queue", "calendar queue", "hash by id"],
            {"results": "delta* in a hash by value, heap of ends"},
        ),
        (Expiry.NEGATIVE_TUPLES, ["hash by id"] * 3, {"input": "hash by key and id", "results": "hash by value"}),
        (Expiry.SCAN, ["list"] * 3, {"input": "list", "results": "hash by value"}),
    ],
)
def test_state_follows_pattern_and_expiry(
    expiry: Expiry, join_state: list[str], distinct_state: dict[str, str]
) -> None:
    """3.5.2: FIFO for weakest, calendar queue for weak, hash for strict; delta* unless the input is strict."""
    r, s = scan("r"), scan("s")
    assert list(state_of(join(r, join(r, s), unless(r, s)), expiry).values()) == join_state
    assert state_of(Distinct(r), expiry) == distinct_state
    counted = "counts, list" if expiry is Expiry.SCAN else "counts, hash by id, heap of ends"
    assert state_of(Distinct(unless(r, s)), expiry) == {"values": counted}
    assert state_of(where(r, "b > 1"), expiry) == {}


def test_not_exists_keeps_coverage_where_ends_are_known_and_counts_where_not() -> None:
    r, s, counted = scan("r"), scan("s"), scan("s", "ROWS 5")
    assert state_of(unless(r, s))["right"] == "end of each key, heap of ends"
    for counts in (state_of(unless(r, counted)), state_of(unless(r, s), Expiry.NEGATIVE_TUPLES)):
        assert counts["right"] == "counts, hash by id, heap of ends"
    assert state_of(unless(counted, s))["left"] == "hash by key and id"
    assert state_of(unless(r, s), Expiry.SCAN)["left"] == "list"


def test_only_negative_tuples_materialise_windows_of_time() -> None:
    assert state_of(scan("s"), Expiry.PATTERN_AWARE) == state_of(scan("s"), Expiry.SCAN) == {}
    assert state_of(scan("s"), Expiry.NEGATIVE_TUPLES) == {"window": "FIFO queue of ids"}
    assert state_of(scan("s", "ROWS 5"), Expiry.PATTERN_AWARE) == {"window": "FIFO queue of ids"}


def test_many_queries_are_counted_and_not_drawn() -> None:
    queries = [relation(f"q{i}", where(scan("s"), f"b > {i}")) for i in range(25)]
    told = explained(queries)
    assert str(told).count("\nquery ") + 1 == 20 and "and 5 more queries over relations" in str(told)
    assert len(told.to_dict()["plans"]) == 25
    assert str(explained([])) == "no standing queries"


def test_columns_of_joins_are_written_without_quotes() -> None:
    joined = join(scan("r"), scan("s"))
    assert where(joined, "`0.b` > `1.b`").explained == "WHERE 0.b > 1.b"
    assert joined.explained == "JOIN 0.a = 1.a"
