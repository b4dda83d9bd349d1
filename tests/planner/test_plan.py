"""What the planner decides, and what EXPLAIN says of it."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import pytest

from by_slices import bind
from mullion.algebra.streams import Stream, Table
from mullion.language.parse import parse_query
from mullion.language.query import Period
from mullion.language.types import DOUBLE, INT, STRING, TIMESTAMP
from mullion.options import Options, Way
from mullion.planner.cost import least_rate_to_share
from mullion.planner.explain import Explanation
from mullion.planner.observed import Observed
from mullion.planner.plan import FRAGMENTS, ROWS, Plan
from mullion.planner.rules import make_plan, reconsider
from mullion.planner.sliced import SlicedAggregation

GOLDEN = Path(__file__).parents[1] / "golden" / "explain.txt"
TRADES = Stream(
    "trades", (("ts", TIMESTAMP), ("symbol", STRING), ("price", DOUBLE), ("volume", INT)), "ts", lateness=5_000_000
)


def queries(*texts: str) -> list[SlicedAggregation]:
    return [bind(parse_query(text, name=f"q{i}"), {"trades": TRADES}) for i, text in enumerate(texts)]


def plan(*texts: str, seen: Observed | None = None) -> Plan:
    made = make_plan(TRADES, queries(*texts))
    return made if seen is None else reconsider([made], [seen])[0]


def test_explain_reads_like_this() -> None:
    made = plan(
        "SELECT sum(price * volume) AS total, avg(price) AS mean FROM trades [RANGE '12 min' SLIDE '5 min']",
        "SELECT symbol, max(price) AS top FROM trades [RANGE 1 h SLIDE 10 s] WHERE volume > 500 GROUP BY symbol",
        "SELECT symbol, sum(volume * 2) AS n FROM trades [RANGE 1 min SLIDE 1 min] WHERE volume > 500 GROUP BY symbol",
    )
    assert str(Explanation((made,), "auto")) + "\n" == GOLDEN.read_text(encoding="utf-8")


def test_explain_as_json_names_the_way_and_the_reasons() -> None:
    told = json.loads(Explanation((plan("SELECT count(*) AS n FROM trades [RANGE 18 s SLIDE 15 s]"),), "on").to_json())
    (only,) = told["plans"]
    assert only["way"] == "native"
    assert only["queries"][0]["paired_slices"] == ["12 s", "3 s"]
    assert {reason["rule"] for reason in only["reasons"]} >= {"choose_way", "compose_slices", "choose_synopses"}


def test_sharing_pays_above_this_rate_where_slides_divide_ranges() -> None:
    """krishnamurthy 3.2.2, by hand: W[3600,10] and W[60,60] have an edge every 10 s together, one slice a period each.

    Shared, every second 0.1 slices are added up for 360 + 1 windows; alone 360 slices every 10 s and one every 60 s.
    """
    second = 1_000_000
    windows = [Period(3600 * second, 10 * second), Period(60 * second, 60 * second)]
    rate = least_rate_to_share(windows, 360, 3600 * second)
    assert rate == pytest.approx(0.1 * (360 + 1) - 360 / 10 - 1 / 60)
    assert round(rate, 3) == 0.083


def test_sharing_pays_above_this_rate_where_windows_have_two_slices() -> None:
    """W[18,15] and W[12,9]: 12 slices in the common period of 45 s; alone two slices a period each."""
    second = 1_000_000
    windows = [Period(18 * second, 15 * second), Period(12 * second, 9 * second)]
    by_hand = 12 / 45 * (18 / 15 + 12 / 9) - 2 * 18 / 15**2 - 2 * 12 / 9**2
    assert least_rate_to_share(windows, 12, 45 * second) == pytest.approx(by_hand)


def test_one_window_has_nothing_to_share() -> None:
    assert least_rate_to_share([Period(18, 15)], 12, 45) == inf


def test_explain_tells_the_rate_above_which_sharing_pays() -> None:
    made = plan(
        "SELECT max(price) AS top FROM trades [RANGE 1 h SLIDE 10 s]",
        "SELECT max(price) AS top FROM trades [RANGE 1 min SLIDE 1 min]",
    )
    told = json.loads(Explanation((made,), "on").to_json())
    assert told["plans"][0]["sharing_pays_above_events_a_second"] == 0.083


def test_equal_things_are_kept_once() -> None:
    made = plan(*["SELECT sum(price) AS a, avg(price) AS b, count(price) AS c FROM trades [RANGE 1 h SLIDE 1 s]"] * 5)
    (grouping,) = made.groupings
    assert [s.name for s in grouping.states] == ["rows", "sum_coarse(price)", "sum_residue(price)", "count(price)"]
    assert len(made.windows) == 1
    assert len({id(q.template) for q in made.queries}) == 1


def test_predicates_become_bits_and_key_sets_groupings() -> None:
    made = plan(
        "SELECT count(*) AS n FROM trades [RANGE 1 s SLIDE 1 s] WHERE volume > 1",
        "SELECT count(*) AS n FROM trades [RANGE 2 s SLIDE 1 s] WHERE volume > 1",
        "SELECT count(*) AS n FROM trades [RANGE 2 s SLIDE 1 s] WHERE volume > 2",
        "SELECT count(*) AS n FROM trades [RANGE 2 s SLIDE 1 s] GROUP BY symbol",
    )
    assert [(len(g.predicates), g.selective) for g in made.groupings] == [(2, True), (0, False)]


WHOLE = "SELECT sum(price) AS s FROM trades [RANGE {} s SLIDE {} s]"


def test_a_common_grid_goes_native_and_none_to_the_kernel() -> None:
    assert plan(*[WHOLE.format(600 + i, 300 + i) for i in range(50)]).way == "native"
    assert plan(*[WHOLE.format(f"{600 + i}.{i:06d}", f"{300 + i}.{7 * i:06d}") for i in range(1, 50)]).way == "kernel"


def test_many_predicates_go_to_the_kernel() -> None:
    text = "SELECT sum(price) AS s FROM trades [RANGE 10 s SLIDE 10 s] WHERE volume > {}"
    assert plan(*[text.format(i) for i in range(16)]).way == "native"
    assert plan(*[text.format(i) for i in range(17)]).way == "kernel"


@pytest.mark.parametrize(("events", "way"), [(100, "kernel"), (10_000_000, "native")])
def test_the_way_follows_what_was_seen(events: int, way: str) -> None:
    """Steps of a millisecond pay when many events share one."""
    seen = Observed(events=events, span=1_000_000)
    made = plan("SELECT sum(price) AS s FROM trades [RANGE 10 ms SLIDE 7 ms]", seen=seen)
    assert made.way == way
    assert [r.rule for r in made.reasons].count("choose_way") == 1


def test_a_way_that_was_left_open_is_chosen_as_one_that_was_not() -> None:
    seen = Observed(events=10_000, span=60_000_000)
    asked = queries(*[WHOLE.format(60 + i, 30) for i in range(3)])
    (chosen,) = reconsider([make_plan(TRADES, asked, with_way=False)], [seen])
    (again,) = reconsider([make_plan(TRADES, asked)], [seen])
    assert chosen == again
    assert [reason.text for reason in chosen.reasons] == [reason.text for reason in again.reasons]


def test_sketches_are_left_to_the_kernel_and_shared() -> None:
    made = plan(
        "SELECT approx_percentile(price, 0.5) AS p FROM trades [RANGE 1 h SLIDE 10 s]",
        "SELECT percentile_approx(price, 0.9) p, approx_count_distinct(price) n FROM trades [RANGE 1 h SLIDE 10 s]",
        "SELECT frequent(symbol, 0.01) AS f, frequent(symbol, 0.1, 5) AS g FROM trades [RANGE 1 h SLIDE 10 s]",
    )
    (grouping,) = made.groupings
    names = ["rows", "kll269(price)", "hll12(price)", "frequent10(symbol)", "top5(symbol)"]
    assert [state.name for state in grouping.states] == names
    assert made.way == "kernel" and made.methods == (FRAGMENTS,)
    reasons = {reason.rule: reason.text for reason in made.reasons}
    assert "only the kernel makes the state kll" in reasons["choose_way"]
    assert reasons["choose_synopses"].endswith("1 can be inverted, as prefixes, 4 are sketches, merged in one go")


def test_what_cannot_be_had_is_left_to_the_kernel() -> None:
    close = Table("close", (("symbol", STRING), ("cp", DOUBLE)), "csv")
    text = "SELECT sum(cp) AS s FROM trades [RANGE 10 s SLIDE 10 s] t JOIN close c ON t.symbol = c.symbol"
    joined = [bind(parse_query(text), {"trades": TRADES}, {"close": close})]
    assert make_plan(TRADES, joined, Options(way=Way.NATIVE)).way == "kernel"
    assert make_plan(TRADES, joined, Options(way=Way.DIRECT)).way == "kernel"
    assert make_plan(TRADES, joined, Options(way=Way.DIRECT), files=True).way == "direct"


MANY = [f"SELECT sum(price) AS s FROM trades [RANGE 10 s SLIDE 10 s] WHERE volume >= {i}" for i in range(300)]


@pytest.mark.parametrize(("fragments", "method"), [(10, FRAGMENTS), (299, ROWS), (99_000, ROWS)])
def test_the_method_follows_the_fragments_that_were_seen(fragments: int, method: str) -> None:
    seen = Observed(events=100_000, span=60_000_000, fragments=fragments, alpha=90.0, beta=90.0)
    made = plan(*MANY, seen=seen)
    assert made.methods == (method,)
    (reason,) = [r.text for r in made.reasons if r.rule == "choose_way"]
    assert f"{'fragments by hash' if method == FRAGMENTS else 'dense rows'} by ()" in reason
    assert f"k seen {fragments:,} fragments of 100,000 events, alpha 90, beta 90" in reason


def test_the_users_method_is_taken_where_it_is_possible() -> None:
    few, many = (Observed(1000, 60_000_000, fragments=k, alpha=90.0, beta=90.0) for k in (3, 1000))
    for method, seen in ((ROWS, few), (FRAGMENTS, many)):
        (made,) = reconsider([make_plan(TRADES, queries(*MANY), Options.of(method=method))], [seen])
        assert made.methods == (method,)
    text = "SELECT var_pop(price) AS v FROM trades [RANGE 10 s SLIDE 10 s] WHERE volume > 1"
    assert make_plan(TRADES, queries(text), Options.of(method=ROWS)).methods == (FRAGMENTS,)
