"""Equal plans that cost less, and which of them is taken (golab 3.5.3)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mullion.aggregates import REGISTRY
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.lookups import Lookup
from mullion.algebra.nodes import (
    Aggregated,
    Difference,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    ResultWindow,
    TableLookup,
    Union,
)
from mullion.algebra.nodes import Scan as Window
from mullion.algebra.update_pattern import Pattern
from mullion.language.query import Column
from mullion.language.types import DOUBLE, INT, TIMESTAMP
from mullion.planner.operator_cost import CostModel
from mullion.planner.optimiser import all_plans, optimise_together
from mullion.planner.relation_stats import Stats
from mullion.planner.rewrites import ALTERNATIVES, SIMPLIFYING
from mullion.planner.rewrites.rule import everywhere
from relational_plans import (
    NEGATION_ABOVE,
    NEGATION_BELOW,
    S1,
    S2,
    column,
    join,
    optimise,
    scan,
    unless,
    where,
)

RULES = {rule.name: rule for rule in (*SIMPLIFYING, *ALTERNATIVES)}


def rates(s1: float, s2: float, s3: float, *, values: float, meeting: float = 1.0) -> Stats:
    seen = {"S1": s1, "S2": s2, "S3": s3}
    return Stats(seen, {(s, "a"): values for s in seen}, overlap={frozenset(("S1", "S2")): meeting})


FEW_RESULTS = rates(100, 100, 10, values=1e4, meeting=0.1)
MANY_RESULTS = rates(100, 100, 10, values=100)
NAMES = Lookup("names", ((Column("a"), Column("id")),), None, (("id", INT),))


def offers(name: str, node: Node) -> list[Node]:
    return list(everywhere(node, RULES[name]))


def pushed(node: Node) -> Node:
    """With selections as far down as they go, and nothing else."""
    while found := offers("push_selection", node):
        node = found[0]
    return node


def test_selections_sink_through_projections_by_what_these_compute() -> None:
    s = scan("s")
    doubled = Project(s, (("x", where(s, "a + b > 0").predicate.args[0], INT),))  # type: ignore[union-attr]
    assert pushed(where(doubled, "x > 7")) == Project(where(s, "a + b > 7"), doubled.items)


def test_selections_over_one_input_of_a_join_sink_into_it_and_others_become_part_of_it() -> None:
    joined = join(scan("r"), scan("s"))
    found = pushed(where(joined, "`0.b` > 1 AND `1.b` < 5 AND `0.b` < `1.b`"))
    assert isinstance(found, Join)
    assert found.parts == (where(scan("r"), "b > 1"), where(scan("s"), "b < 5"))
    assert found.residual == where(joined, "`0.b` < `1.b`").predicate


def test_a_residual_over_one_input_sinks_too() -> None:
    joined = join(scan("r"), scan("s"))
    residual = where(joined, "`0.b` < `1.b` AND `1.b` < 5").predicate
    found = pushed(Join(joined.parts, joined.keys, residual))
    assert found == Join((scan("r"), where(scan("s"), "b < 5")), joined.keys, where(joined, "`0.b` < `1.b`").predicate)


def test_selections_sink_through_distinct_union_difference_and_the_left_of_negation() -> None:
    r, s = scan("r"), scan("s")
    low = "b < 5"
    assert pushed(where(Distinct(s), low)) == Distinct(where(s, low))
    assert pushed(where(Union((r, s)), low)) == Union((where(r, low), where(s, low)))
    assert pushed(where(Difference(r, s), low)) == Difference(where(r, low), where(s, low))
    assert pushed(where(unless(r, s), low)) == unless(where(r, low), s)


def test_selections_sink_below_a_table_when_they_do_not_ask_it() -> None:
    looked_up = TableLookup(scan("s"), NAMES)
    name = NAMES.column("id")
    found = pushed(where(looked_up, f"b < 5 AND `{name}` > 3"))
    assert found == where(TableLookup(where(scan("s"), "b < 5"), NAMES), f"`{name}` > 3")
    assert pushed(where(looked_up, f"`{name}` > b")) == where(looked_up, f"`{name}` > b")


def test_selections_stay_above_windows_that_count_and_above_aggregates() -> None:
    counted = where(scan("s", "ROWS 10"), "b < 5")
    assert pushed(counted) == counted
    grouped = Aggregated(scan("s"), ((column("a"), INT),), ())
    assert pushed(where(grouped, "`#k0` > 1")) == where(grouped, "`#k0` > 1")


def test_selections_that_tell_zeros_apart_stay_above_distinct() -> None:
    """-0.0 and 0.0 are one value, and which of them stands for it depends on who came first."""
    doubles = Window("d", scan("s").window, (("x", DOUBLE), ("ts", TIMESTAMP)))
    by_value = where(Distinct(doubles), "x > 0")
    by_text = where(Distinct(doubles), "CAST(x AS STRING) = '0.0'")
    assert pushed(by_value) != by_value
    assert pushed(by_text) == by_text
    assert pushed(where(Difference(doubles, doubles), "CAST(x AS STRING) = '0.0'")) == where(
        Difference(doubles, doubles), "CAST(x AS STRING) = '0.0'"
    )


def test_not_exists_keeps_keys_only_and_needs_no_distinct() -> None:
    (narrow,) = offers("project_keys", unless(scan("r"), scan("s")))
    assert [name for name, _ in narrow.inputs[1].columns] == ["k0"]
    assert not offers("project_keys", narrow)
    assert offers("drop_idle_distinct", unless(scan("r"), Distinct(scan("s")))) == [unless(scan("r"), scan("s"))]
    assert offers("drop_idle_distinct", Distinct(Distinct(scan("s")))) == [Distinct(scan("s"))]


def test_negation_goes_up_and_down_between_the_plans_of_figure_3_5() -> None:
    assert offers("pull_up_negation", NEGATION_BELOW) == [NEGATION_ABOVE]
    assert NEGATION_BELOW in offers("push_down_negation", NEGATION_ABOVE)


def test_equal_keys_let_negation_go_to_either_input() -> None:
    to_first, to_second = offers("push_down_negation", NEGATION_ABOVE)
    assert to_first == NEGATION_BELOW
    assert to_second == join(S1, unless(S2, scan("S3")))


def test_negation_stays_where_its_keys_come_from_two_inputs() -> None:
    joined = join(scan("r"), scan("s"))
    both = unless(joined, scan("q"), on="0.b")
    assert len(offers("push_down_negation", both)) == 1
    mixed = type(both)(joined, scan("q"), (column("0.b"), column("1.b")), (column("a"), column("b")))
    assert not offers("push_down_negation", mixed)


def test_negation_stays_where_windows_are_internal() -> None:
    """Below the join it would see rows that never leave; above it, pairs of rows that met in their windows."""
    internal = scan("s", "RANGE 5 min INTERNAL")
    assert not offers("push_down_negation", unless(join(scan("r"), internal), scan("q"), on="0.a"))
    assert not offers("pull_up_negation", join(unless(scan("r"), scan("q")), internal))
    assert not offers("pull_up_negation", join(unless(internal, scan("q")), scan("r")))


def test_negation_comes_up_through_a_projection_that_keeps_its_keys() -> None:
    tested = unless(scan("r"), scan("q"))
    kept = Project(tested, (("k", column("a"), INT), ("b", column("b"), INT)))
    lost = Project(tested, (("k", column("b"), INT),))
    (found,) = offers("pull_up_negation", Join((kept, scan("s")), ((column("k"),), (column("a"),))))
    assert found.inputs[0].pattern is Pattern.WEAK
    renamed = Project(unless(scan("r"), scan("q"), on="b"), (("a", column("a"), INT), ("b", column("a"), INT)))
    assert not offers("pull_up_negation", join(renamed, scan("s")))
    assert not offers("pull_up_negation", Join((lost, scan("s")), ((column("k"),), (column("a"),))))


def test_negation_of_all_parts_comes_up_through_a_union() -> None:
    parts = tuple(unless(scan(name), scan("q")) for name in ("r", "s"))
    assert offers("pull_up_negation", Union(parts)) == [unless(Union((scan("r"), scan("s"))), scan("q"))]
    assert not offers("pull_up_negation", Union((parts[0], scan("s"))))


def test_no_rule_moves_a_table_through_a_negation() -> None:
    for retroactive in (False, True):
        above = TableLookup(unless(scan("r"), scan("s")), NAMES, retroactive)
        below = unless(TableLookup(scan("r"), NAMES, retroactive), scan("s"))
        for plan, order in ((above, [TableLookup, type(below)]), (below, [type(below), TableLookup])):
            for found in _reached(plan):
                kinds = [type(n) for n in _first_inputs(found) if isinstance(n, TableLookup | type(below))]
                assert kinds == order


def _reached(plan: Node) -> Iterator[Node]:
    known, waiting = {plan}, [plan]
    while waiting:
        node = waiting.pop()
        yield node
        new = {found for rule in RULES.values() for found in everywhere(node, rule)} - known
        known |= new
        waiting += new


def _first_inputs(node: Node) -> Iterator[Node]:
    yield node
    if node.inputs:
        yield from _first_inputs(node.inputs[0])


def test_distinct_goes_down_only_where_lifetimes_are_not_seen() -> None:
    weak, strict = join(scan("r"), scan("s")), join(unless(scan("r"), scan("q")), scan("s"))
    items = (("x", column("0.a"), INT),)
    assert not offers("push_distinct", Distinct(Project(weak, items)))
    (found,) = offers("push_distinct", Distinct(Project(strict, items)))
    assert found.pattern is Pattern.STRICT
    inner = found.inputs[0].inputs[0]
    assert isinstance(inner, Join) and all(isinstance(part, Distinct) for part in inner.parts)
    grouped = Aggregated(Distinct(Project(weak, items)), (), (), slide=60_000_000)
    assert len(offers("push_distinct", grouped)) == 1
    assert not offers("push_distinct", Aggregated(Distinct(Project(weak, items)), (), ()))


def test_distinct_stays_where_somebody_above_puts_rows_in_order() -> None:
    plan = Distinct(Project(join(unless(scan("r"), scan("q")), scan("s")), (("a", column("0.a"), INT),)))
    assert offers("push_distinct", where(plan, "a > 1"))
    assert not offers("push_distinct", ResultWindow(plan, scan("s", "ROWS 5").window))
    assert not offers("push_distinct", Difference(plan, plan))
    first = BoundAggregate("first", column("a"), INT, INT, REGISTRY["first"])
    count = BoundAggregate("count", None, None, INT, REGISTRY["count"])
    for aggregate, found in ((first, 0), (count, 2)):
        assert len(offers("push_distinct", Aggregated(plan, (), (aggregate,), slide=60_000_000))) == found


def test_negation_is_pulled_up_when_the_join_lets_little_through() -> None:
    chosen = optimise(NEGATION_BELOW, FEW_RESULTS)
    assert chosen.root.pattern is Pattern.STRICT and chosen.root.columns == NEGATION_BELOW.columns
    assert [type(n).__name__ for n in _first_inputs(chosen.root)][:2] == ["AntiJoin", "Join"]
    use = chosen.applied[-1]
    assert use.name == "pull_up_negation" and use.after < use.before
    assert chosen.cost == use.after == CostModel(FEW_RESULTS).plan(chosen.root)
    assert chosen.rejected[0][1] >= chosen.cost


def test_negation_is_pushed_down_when_the_join_gives_much() -> None:
    chosen = optimise(NEGATION_ABOVE, MANY_RESULTS)
    assert [type(n).__name__ for n in _first_inputs(chosen.root)][:1] == ["Join"]
    assert chosen.applied[-1].name in ("push_down_negation", "pull_up_negation")
    assert any(use.name == "push_down_negation" for use in chosen.applied)


@pytest.mark.parametrize("stats", [FEW_RESULTS, MANY_RESULTS])
def test_both_plans_of_figure_3_5_lead_to_the_same_choice(stats: Stats) -> None:
    assert optimise(NEGATION_ABOVE, stats).cost == optimise(NEGATION_BELOW, stats).cost


def test_there_are_inputs_for_which_only_upa_pulls_negation_up() -> None:
    """As in Figure 3.15: with negative tuples everywhere the negation had better go first."""
    stats = rates(100, 100, 30, values=1e4, meeting=0.01)
    upa, nt = CostModel(stats, "upa"), CostModel(stats, "nt")
    assert upa.plan(NEGATION_ABOVE) < upa.plan(NEGATION_BELOW)
    assert nt.plan(NEGATION_ABOVE) > nt.plan(NEGATION_BELOW)


def test_a_plan_that_is_best_already_is_left_as_it_is() -> None:
    chosen = optimise(scan("s"))
    assert (chosen.root, chosen.applied, chosen.rejected) == (scan("s"), (), ())


def test_queries_with_different_selections_share_their_join_when_that_is_cheaper() -> None:
    joined = join(scan("S1"), scan("S2"))
    many = [where(joined, f"`0.b` > {i}") for i in range(50)]
    together = optimise_together(many, FEW_RESULTS)
    assert {c.root.inputs[0] for c in together} == {joined}
    assert all(c.applied[-1].name == "share_below_selections" for c in together)
    (alone,) = optimise_together(many[:1], FEW_RESULTS)
    assert isinstance(alone.root, Join) and isinstance(alone.root.parts[0], Filter)
    others = optimise_together([many[0], where(scan("q"), "b > 1")], FEW_RESULTS)
    assert isinstance(others[0].root, Join)


@pytest.mark.slow
def test_a_plan_is_found_again_whatever_was_seen_since() -> None:
    """Also one that was chosen because others shared it, and one as cheap as another."""
    joined = unless(join(scan("S1"), scan("S2")), scan("S3"), on="1.a")
    many = [where(joined, f"`0.b` > {i}") for i in range(50)]
    plans = {root: set(all_plans(root)) for root in many}
    for stats in (FEW_RESULTS, MANY_RESULTS, Stats()):
        for roots in (many, many[:1]):
            for root, chosen in zip(roots, optimise_together(roots, stats), strict=True):
                assert {chosen.root, *(rejected for rejected, _ in chosen.rejected)} <= plans[root]
