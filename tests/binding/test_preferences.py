"""WITH PREFERENCE: what it becomes, and what is refused with its place and a hint."""

from __future__ import annotations

import re

import pytest

from any_relation import STREAMS, TABLES
from mullion.algebra.nodes import Filter, Promising, nodes, scans
from mullion.algebra.update_pattern import Pattern
from mullion.binding.relations import bind
from mullion.errors import TextError
from mullion.language.parse import parse_query
from mullion.language.query import Budget, Column
from mullion.language.render import render
from promising import Summary

ON_KEYS = (Summary("b", "w"), Summary("a", "k"))
JOIN = "SELECT a.k, b.w FROM a [RANGE 10 us], b [RANGE 10 us] WHERE a.k = b.k"


def bound(text: str) -> Promising:
    (found,) = (
        n for n in nodes(bind(parse_query(text), STREAMS, TABLES, summaries=ON_KEYS).root) if isinstance(n, Promising)
    )
    return found


def test_each_input_has_its_expression() -> None:
    node = bound(f"{JOIN} WITH PREFERENCE DESC estimate(b.k), estimate(a.k) * a.v FADE FACTOR 0.5 BUDGET '200 ms'")
    assert [render(promise) for promise in node.promises] == [
        "CAST(`#estimate` AS DOUBLE) * v",
        "CAST(`#estimate` AS DOUBLE)",
    ]
    assert (node.order, node.fade, node.budget) == ("desc", 0.5, Budget(time=200_000))
    assert node.ages == ((10, 50), (10, 50)), "granularities of 10, 40 and 160"
    assert node.explained == "PROMISING DESC estimate * v and estimate, fade 0.5, budget 200 ms a step"


def test_memory_is_that_of_the_summaries_on_its_keys() -> None:
    """Of both together, once where both are one; and rows go by their granularities."""
    text = f"{JOIN} WITH PREFERENCE DESC 1"
    a, b, other = Summary("a", "k", memory=500), Summary("b", "k", memory=300), Summary("a", "v", memory=9)
    found = {}
    for name, summaries in {"both": (a, b), "one": (other, b), "none": (other, Summary("a", "k"))}.items():
        (node,) = (
            n
            for n in nodes(bind(parse_query(text), STREAMS, TABLES, summaries=summaries).root)
            if isinstance(n, Promising)
        )
        found[name] = (node.memory, node.ages, node.fading_ages(0))
    ages = ((10, 50), (10, 50))
    assert found == {"both": (800, ages, ()), "one": (300, ages, ()), "none": (None, ((), ()), ())}


def test_the_papers_spelling() -> None:
    text = "SELECT a.k FROM a, b WHERE a.k = b.k WITH PREFERENCE {} FADE FACTOR 0.8 {}"
    theirs = bound(text.format("desc SUMMARY.Estimate.Count(a.k), Summary.estimate.count(b.k)", "WINDOW '1 min'"))
    ours = bound(text.replace(" b ", " b [RANGE 1 min] ").format("DESC estimate(a.k), estimate(b.k)", "WINDOW '1 min'"))
    assert theirs == ours and theirs.budget == Budget()
    assert [part.window.range for part in theirs.input.parts] == [60_000_000] * 2  # type: ignore[attr-defined]


def stacked(text: str) -> list[Promising]:
    root = bind(parse_query(text), STREAMS, TABLES, summaries=ON_KEYS).root
    return [node for node in nodes(root) if isinstance(node, Promising)]


def test_a_join_of_three_is_a_stack_that_divides_the_budget() -> None:
    """Conditions are asked where all of their columns are there."""
    three = "SELECT a.k, x FROM a [NOW], b [NOW], c [NOW] WHERE a.k = b.k AND b.k = c.k AND v < w AND v < x"
    upper, lower = stacked(f"{three} WITH PREFERENCE ASC estimate(a.k), b.w, estimate(c.k) BUDGET 9 ROWS")
    assert upper.parts[0] == lower and [scan.stream for scan in scans(upper)] == ["a", "b", "c"]
    assert lower.input.residual is not None and render(lower.input.residual) == "`0.v` < `1.w`"  # type: ignore[attr-defined]
    assert upper.input.residual is not None and render(upper.input.residual) == "`0.0.v` < `1.x`"  # type: ignore[attr-defined]
    assert (lower.budget, upper.budget, lower.joins, upper.joins) == (Budget(rows=4), Budget(rows=9), 1, 2)
    assert [render(promise) for promise in lower.promises] == ["CAST(`#estimate` AS DOUBLE)", "w"]
    estimate = "CAST(`#estimate` AS DOUBLE)"
    assert [render(promise) for promise in upper.promises] == [f"least({estimate}, `1.w`)", estimate]


def test_expressions_count_for_the_join_whose_key_they_are_about() -> None:
    """a and b are joined by k, and b and c by another column: what a promises says nothing of that."""
    chain = "SELECT a.k, x FROM a [NOW], b [NOW], c [NOW] WHERE a.k = b.k AND b.w = c.x"
    upper, lower = stacked(f"{chain} WITH PREFERENCE DESC estimate(a.k), estimate(b.k), estimate(b.w) + b.w, 2 * c.x")
    assert [len(node.keys[0]) for node in (upper, lower)] == [1, 1] and upper.parts[0] == lower
    assert [render(promise) for promise in lower.promises] == ["CAST(`#estimate` AS DOUBLE)"] * 2
    assert [render(promise) for promise in upper.promises] == [
        "CAST(`#estimate` AS DOUBLE) + `1.w`",
        "2.0D * x",
    ]


def test_a_selection_has_one_expression_and_counts_one_column() -> None:
    text = "SELECT v FROM a [RANGE 10 us] WHERE v > 1 WITH PREFERENCE {} estimate(k) * v + estimate(a.k) BUDGET 3 ROWS"
    node = bound(text.format("ASC"))
    assert [render(promise) for promise in node.promises] == [
        "CAST(`#estimate` AS DOUBLE) * v + CAST(`#estimate` AS DOUBLE)"
    ]
    assert isinstance(node.input, Filter) and node.keys == ((Column("k"),),) and node.parts == (node.input,)
    assert node.explained == "PROMISING ASC estimate(k) * v + estimate(k), budget 3 ROWS a step"
    assert node.pattern is Pattern.WEAK and node.life is None, "rows that waited come after younger ones"


def test_a_selection_fades_by_the_summary_of_what_it_counts_or_any_of_its_stream() -> None:
    """The first has granularities of 10, 40 and 160, and MEMORY; the second those of 5."""
    known = (Summary("a", "k", memory=900), Summary("a", "v", 5, 2, 3))
    found = {}
    for by in ("estimate(k)", "estimate(v)", "v"):
        text = f"SELECT v FROM a WITH PREFERENCE DESC {by} FADE FACTOR 0.5 WINDOW '1 min'"
        relation = bind(parse_query(text), STREAMS, TABLES, summaries=known)
        (node,) = (n for n in nodes(relation.root) if isinstance(n, Promising))
        found[by] = node.ages, node.memory, node.counted
    assert found == {
        "estimate(k)": (((10, 50),), 900, Column("k")),
        "estimate(v)": (((5, 15),), None, Column("v")),
        "v": (((10, 50),), 900, None),
    }


REFUSED = [
    (f"{JOIN} WITH PREFERENCE DESC estimate(a.k)", "has 0 expressions for the new rows of 'b'\n.*estimate(b.k)"),
    (f"{JOIN} WITH PREFERENCE DESC estimate(a.k), a.v, 1", "has 3 expressions for the new rows of 'a'"),
    (f"{JOIN} WITH PREFERENCE DESC «estimate(a.v)», 1", "estimate takes a key of the join\n.*estimate(a.k)"),
    (f"{JOIN} WITH PREFERENCE DESC «estimate(a.k, 1)», 1", "estimate takes one value"),
    (f"{JOIN} WITH PREFERENCE DESC «a.v + b.w»", "over the columns of several streams"),
    (f"{JOIN} WITH PREFERENCE DESC «'x'»", "a PREFERENCE is a number, and this is string"),
    (f"{JOIN} WITH PREFERENCE DESC «a.nix»", "unknown column"),
    (f"{JOIN} WITH PREFERENCE DESC «estimat(a.k)», 1", "unknown function 'estimat'\n.*did you mean 'estimate'"),
    (
        "SELECT k FROM a [NOW] WITH PREFERENCE DESC «estimat(k)»",
        "unknown function 'estimat'\n.*did you mean 'estimate'",
    ),
    ("SELECT k FROM a [NOW] WITH PREFERENCE DESC «estimate(v)»", "no summary counts 'v' of a\n.*ON a(v) WITH"),
    ("SELECT k FROM a [NOW] WITH PREFERENCE DESC «estimate(k + 1)»", "estimate takes a column of a stream"),
    ("SELECT k FROM a [NOW] WITH PREFERENCE DESC «estimate(k, v)»", "estimate takes one value"),
    ("SELECT k FROM a [NOW] WITH PREFERENCE DESC k, «v»", "several expressions for one row"),
    ("SELECT k FROM a [NOW] WITH PREFERENCE DESC «'x'»", "a PREFERENCE is a number, and this is string"),
    ("SELECT k FROM a [NOW] WITH PREFERENCE DESC «a.nix»", "unknown column"),
    ("SELECT k FROM a [ROWS 3] «WITH PREFERENCE DESC 1»", "a window with ROWS cannot be combined with"),
    ("SELECT DISTINCT k FROM a [NOW] «WITH PREFERENCE DESC 1»", "DISTINCT cannot be combined with"),
    ("SELECT k FROM a [NOW] UNION ALL SELECT k FROM b [NOW] «WITH PREFERENCE DESC 1»", "UNION ALL with a PREFERENCE"),
    (
        "SELECT k FROM (SELECT k, count(*) AS n FROM b [NOW] GROUP BY k) g «WITH PREFERENCE DESC 1»",
        "an aggregate in FROM cannot be combined with a PREFERENCE",
    ),
    (
        "SELECT k FROM a [NOW] WHERE NOT EXISTS (SELECT 1 FROM c [NOW] WHERE c.k = a.k) «WITH PREFERENCE DESC 1»",
        "NOT EXISTS cannot be combined with a PREFERENCE",
    ),
    (f"SELECT x.k FROM ({JOIN}) x «WITH PREFERENCE DESC x.k»", "WITH PREFERENCE over the result of a join"),
    (
        "SELECT x FROM c [NOW] «WITH PREFERENCE DESC 1 FADE FACTOR 0.5»",
        "FADE needs the granularities of a summary, and no summary is on a column of the selection\n.*CREATE SUMMARY",
    ),
    (f"{JOIN.replace('SELECT', 'SELECT DISTINCT')} «WITH PREFERENCE DESC 1»", "DISTINCT cannot be combined with"),
    (f"{JOIN} LIMIT 3 «WITH PREFERENCE DESC 1»", "LIMIT cannot be combined with"),
    (f"ISTREAM ({JOIN} «WITH PREFERENCE DESC 1»)", "ISTREAM cannot be combined with"),
    (f"WSTREAM ({JOIN} «WITH PREFERENCE DESC 1») [ROWS 3]", "WSTREAM cannot be combined with"),
    (f"CREATE QUERY q MATERIALIZED AS {JOIN} «WITH PREFERENCE DESC 1»", "MATERIALIZED cannot be combined with"),
    (f"{JOIN} EXCEPT ALL {JOIN} «WITH PREFERENCE DESC 1»", "EXCEPT ALL cannot be combined with"),
    (f"{JOIN} UNION ALL {JOIN} «WITH PREFERENCE DESC 1»", "UNION ALL with a PREFERENCE"),
    (f"{JOIN} UNION ALL ({JOIN} «WITH PREFERENCE DESC 1»)", "WITH PREFERENCE in a part of a union"),
    (f"SELECT s.k FROM ({JOIN} «WITH PREFERENCE DESC 1») s", "WITH PREFERENCE in a sub-query"),
    (
        f"{JOIN} AND NOT EXISTS (SELECT 1 FROM c [NOW] WHERE c.k = a.k) «WITH PREFERENCE DESC 1»",
        "NOT EXISTS cannot be combined with a PREFERENCE\n.*does not show",
    ),
    (
        f"{JOIN} AND EXISTS (SELECT 1 FROM c [NOW] WHERE c.k = a.k) «WITH PREFERENCE DESC 1»",
        "DISTINCT or EXISTS cannot",
    ),
    (f"{JOIN.replace('RANGE 10 us', 'ROWS 5')} «WITH PREFERENCE DESC 1»", "a window with ROWS cannot be combined with"),
    (f"{JOIN.replace('10 us]', '10 us INTERNAL]')} «WITH PREFERENCE DESC 1»", "a window with INTERNAL cannot"),
    (
        "SELECT a.k FROM a [NOW], (SELECT k, count(*) AS n FROM b [NOW] GROUP BY k) g WHERE a.k = g.k "
        "«WITH PREFERENCE DESC 1»",
        "an aggregate below the join cannot be combined with",
    ),
    (
        "SELECT c.k FROM c [NOW], b [NOW] WHERE c.k = b.k WITH PREFERENCE DESC «estimate(c.k)», estimate(b.k)",
        "no summary is on the key of the join\n.*CREATE SUMMARY name ON c(k)",
    ),
    (
        "SELECT c.k FROM c [NOW], b [NOW] WHERE c.k = b.k «WITH PREFERENCE DESC 1 FADE FACTOR 0.5»",
        "FADE needs the granularities of a summary, and no summary is on the key of the join\n.*CREATE SUMMARY",
    ),
]


@pytest.mark.parametrize(("text", "wanted"), REFUSED)
def test_what_is_refused_says_where_and_what_to_do(text: str, wanted: str) -> None:
    plain = text.replace("«", "").replace("»", "")
    with pytest.raises(TextError) as refused:
        bind(parse_query(plain), STREAMS, TABLES, summaries=ON_KEYS)
    assert re.search(wanted.replace("(", r"\(").replace(")", r"\)"), str(refused.value), re.DOTALL), refused.value
    place = refused.value.place
    assert place is not None
    if "«" in text:
        assert plain[place.start : place.end] == text[text.index("«") + 1 : text.index("»")]
