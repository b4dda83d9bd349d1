"""What relational plans cost in a unit of time (golab 3.5.3)."""

from __future__ import annotations

import pytest

from mullion.algebra.costs import ENDLESS, window_flow
from mullion.algebra.nodes import Distinct, Project, Union
from mullion.options import Expiry
from mullion.planner.operator_cost import CostModel
from mullion.planner.relation_stats import ASSUMED_DISTINCT, NO_STATS, Stats
from relational_plans import (
    NEGATION_ABOVE,
    NEGATION_BELOW,
    column,
    join,
    keys_of,
    predicate,
    scan,
    unless,
    where,
    window,
)


def stats(s1: float, s2: float, s3: float, values: float, **more: object) -> Stats:
    rates = {"S1": s1, "S2": s2, "S3": s3}
    return Stats(rates, {(name, "a"): values for name in rates}, **more)  # type: ignore[arg-type]


def test_flows_follow_from_windows() -> None:
    model = CostModel(Stats({"s": 10.0}))
    assert model.flow(scan("s")).size == 6000
    assert model.flow(scan("s", "ROWS 50")).size == 50
    assert model.flow(scan("s", "RANGE UNBOUNDED")).life == ENDLESS
    assert model.flow(scan("s", "NOW")).life == 1e-6
    assert CostModel(Stats({"s": 0.0})).flow(scan("s", "ROWS 50")).size < 1e-3
    assert window_flow(window("ROWS 50"), 0.0).life == ENDLESS


def test_a_join_has_as_many_results_as_5_3_1_says() -> None:
    """Table 5.3: phi_12 = 200. Streams of 10 and 1 events, windows of 100, 500 and 50 values."""
    seen = Stats({"S1": 10.0, "S2": 1.0}, {("S1", "a"): 500.0, ("S2", "a"): 50.0})
    model = CostModel(seen)
    joined = join(scan("S1", "RANGE 100 s"), scan("S2", "RANGE 100 s"))
    assert model.flow(joined).size == pytest.approx(200)
    assert model.flow(joined).life < 100


def test_selectivities_are_observed_or_guessed_from_the_form() -> None:
    s = scan("s")
    observed = Stats(selectivities={("s", "b > 10"): 0.02})
    assert observed.selectivity(s, predicate(s, "b > 10")) == 0.02
    assert observed.selectivity(join(scan("r"), s), predicate(join(scan("r"), s), "`1.b` > 10")) == 0.02
    assert NO_STATS.selectivity(s, predicate(s, "b > 10")) == pytest.approx(1 / 3)
    assert NO_STATS.selectivity(s, predicate(s, "b = 10 AND a = 1")) == pytest.approx(0.01)
    assert NO_STATS.selectivity(s, predicate(s, "b = 10 OR a = 1")) == pytest.approx(0.19)
    assert NO_STATS.selectivity(s, predicate(s, "NOT b = 10")) == pytest.approx(0.9)


def test_different_values_are_found_through_projections_and_never_exceed_the_rows() -> None:
    s = scan("s")
    seen = Stats(distinct={("s", "a"): 40.0})
    renamed = Project(s, (("k", column("a"), s.types["a"]),))
    assert seen.different(renamed, [column("k")], 1000) == 40
    assert seen.different(renamed, [column("k")], 7) == 7
    assert seen.different(s, [column("b")], 1e9) == ASSUMED_DISTINCT
    assert seen.different(Union((s, s)), [column("a")], 1e9) == ASSUMED_DISTINCT


def test_delta_star_keeps_results_and_not_the_window() -> None:
    node = Distinct(keys_of(scan("S1")).input)
    seen = stats(100, 1, 1, 10)
    assert CostModel(seen, "upa").operator(node).state < CostModel(seen, "scan").operator(node).state / 100


def test_negative_tuples_double_the_work_of_a_selection_and_cost_nothing_where_there_are_none() -> None:
    node = where(scan("S1"), "b > 10")
    seen = stats(100, 1, 1, 10)
    assert CostModel(seen, "upa").operator(node).negatives == 0
    nt = CostModel(seen, "nt").operator(node)
    assert nt.negatives == nt.processing
    counted = where(scan("S1", "ROWS 100"), "b > 10")
    upa = CostModel(seen, "upa").operator(counted)
    assert upa.negatives == upa.processing


@pytest.mark.parametrize("plan", [NEGATION_ABOVE, NEGATION_BELOW])
def test_upa_never_costs_more_than_the_better_of_the_others(plan: object) -> None:
    for s2, s3, values in [(1, 1, 1e3), (100, 1, 1e4), (10, 100, 1e5)]:
        upa, nt, direct = (CostModel(stats(100, s2, s3, values), s).plan(plan) for s in Expiry)  # type: ignore[arg-type]
        assert upa <= min(nt, direct)


def test_negation_is_met_more_often_the_more_its_right_side_sends() -> None:
    shares = [
        CostModel(stats(1, 1, rate, 1e3)).flow(unless(scan("S1"), scan("S3"))).premature for rate in (0.01, 1, 99)
    ]
    assert shares == sorted(shares) and shares[0] < 0.1 and shares[2] > 0.9
    never = stats(1, 1, 99, 1e3, premature={"S3": 0.0})
    assert CostModel(never).flow(unless(scan("S1"), scan("S3"))).premature == 0


def test_few_premature_ends_leave_the_rest_without_negative_tuples() -> None:
    node = unless(scan("S1"), scan("S3"))
    rare, often = (CostModel(stats(1, 1, 1, 1e3, premature={"S3": share})) for share in (0.1, 0.8))
    assert rare.announced(node) == pytest.approx(0.1) and often.announced(node) == 1.0


def test_equal_parts_of_several_plans_cost_once() -> None:
    model = CostModel(stats(100, 100, 1, 100))
    joined = join(scan("S1"), scan("S2"))
    queries = [where(joined, f"`0.b` > {i}") for i in range(20)]
    assert model.together(queries) < 20 * model.plan(queries[0])
    assert model.together([joined, joined]) == model.plan(joined)
