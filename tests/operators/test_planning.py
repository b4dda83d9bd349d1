"""Plans at work stay, and say what would be chosen now."""

from __future__ import annotations

from mullion.algebra.relation import Relation
from mullion.operators.planning import plans_at_work
from mullion.options import Expiry
from mullion.planner.operator_cost import CostModel
from mullion.planner.optimiser import optimise_together
from mullion.planner.relation_stats import Stats
from relational_plans import NEGATION_BELOW, explained

SEEN = Stats(
    {"S1": 100.0, "S2": 100.0, "S3": 10.0},
    {(s, "a"): 1e4 for s in ("S1", "S2", "S3")},
    overlap={frozenset(("S1", "S2")): 0.1},
)
"""With these the negation goes above the join."""


def relation(name: str) -> Relation:
    return Relation(name, "", NEGATION_BELOW)


def test_a_plan_that_has_become_dear_stays_and_says_so() -> None:
    (best,) = optimise_together([NEGATION_BELOW], SEEN)
    assert best.root != NEGATION_BELOW
    (chosen,) = plans_at_work([relation("q")], {"q": NEGATION_BELOW}, SEEN, Expiry.PATTERN_AWARE)
    assert chosen.root == NEGATION_BELOW and chosen.rejected == ()
    now = chosen.cheaper_now
    assert now is not None and (now.root, now.queries) == (best.root, 1)
    assert now.cost < now.instead_of == chosen.cost == CostModel(SEEN).plan(NEGATION_BELOW)
    told = explained([relation("q")], SEEN, [chosen])
    assert f"a plan made now would cost {now.cost:,.0f} instead of {now.instead_of:,.0f}; it stays" in str(told)
    assert "rejected" not in str(told)
    (facts,) = told.to_dict()["plans"]
    assert facts["cheaper_now"]["operator"] == "Negation" and facts["operator"] == "Join"


def test_a_plan_that_is_still_the_best_says_nothing() -> None:
    (best,) = optimise_together([NEGATION_BELOW], SEEN)
    (chosen,) = plans_at_work([relation("q")], {"q": best.root}, SEEN, Expiry.PATTERN_AWARE)
    assert chosen == best and chosen.cheaper_now is None
    assert explained([relation("q")], SEEN, [chosen]).to_dict()["plans"][0]["cheaper_now"] is None


def test_several_queries_are_compared_as_a_whole() -> None:
    plans = plans_at_work(
        [relation("q"), relation("r")], {"q": NEGATION_BELOW, "r": NEGATION_BELOW}, SEEN, Expiry.PATTERN_AWARE
    )
    (now, _) = (plan.cheaper_now for plan in plans)
    assert now is not None and now.instead_of < 2 * plans[0].cost
    told = str(explained([relation("q"), relation("r")], SEEN, plans))
    assert "plans made now of the 2 queries that are computed together would cost" in told
