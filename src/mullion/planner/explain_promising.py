"""EXPLAIN of joins and selections that tell a part: what they do and why, what it costs, and how far they came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mullion.algebra.costs import Estimates
from mullion.algebra.nodes import Bounded, Join, Node, Promising, nodes
from mullion.language.query import Budget
from mullion.language.render import budget_text
from mullion.memory import size_text
from mullion.plural import plural

OF_A_JOIN = {"desc": "keys with the most pairs come first", "asc": "rare keys come first", "weighted": "a fair sample"}
OF_A_SELECTION = {
    "desc": "rows with the most frequent values come first",
    "asc": "rows with rare values come first",
    "weighted": "a sample by these weights",
}
BOUNDS = "bounds, of the pairs that are told; is_complete says where they are exact"
SCALED = "scaled by the chance with which a pair is drawn, by a hash of its rows; is_complete says where they are exact"
AGGREGATES = {"desc": BOUNDS, "asc": BOUNDS, "weighted": SCALED}
OF_A_WINDOW = {False: "those that leave soonest", True: "those with the fewest expected partners"}
LEAVING = {
    "desc": "beyond it the least promising rows of the oldest granularity go: those of the rarest keys, by estimates",
    "asc": "beyond it the least promising rows of the oldest granularity go: those of the most frequent keys",
    "weighted": "beyond it rows go by a hash, of all ages alike",
}


def promising_reasons(root: Node, estimates: Estimates, tally: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Why the join or selection of a plan tells what it does; `tally` is what became of its pairs or rows so far."""
    found = [node for node in nodes(root) if isinstance(node, Promising)]
    for node in found[:1]:
        yield {"rule": f"promising_{_kind(node)}", "text": _what_it_does(node, estimates)}
        if node.joins > 1:
            yield {"rule": "lower_joins", "text": _below(node)}
        yield {"rule": "exact_or_promising", "text": _costs(node, estimates, tally)}
        if node.aggregated:
            yield {"rule": "aggregates", "text": AGGREGATES[node.order]}
        if node.memory is not None:
            text = f"{size_text(node.joins * node.memory)} for rows and what waits: {LEAVING[node.order]}"
            yield {"rule": "memory", "text": text}
        if tally is not None and tally["offered"]:
            yield {"rule": "told_so_far", "text": tally_text(tally, is_join=_is_join(node))}
            if tally.get("last_step"):
                yield {"rule": "last_step", "text": last_text(tally, is_join=_is_join(node))}


def _below(node: Promising) -> str:
    """Of a join of more than two."""
    many = "one is promising too and has" if node.joins == 2 else f"{node.joins - 1} are promising too and have"
    text = f"{many} {node.joins - 1} of {node.joins} parts of the budget at the most; what is left is for the last one"
    return f"{text}. What waits or expires below counts as one pair each"


def bounded_reasons(root: Node, evicted: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What the windows of joins keep within MEMORY; `evicted` how many rows went so far."""
    for node in nodes(root):
        if isinstance(node, Bounded):
            goes = [OF_A_WINDOW[rare] for most, rare in zip(node.most, node.rarest, strict=True) if most]
            so_far = [f"; {fact['rows']:,} went so far" if fact["rows"] else "" for fact in evicted] or [""] * len(goes)
            limits = [(node.window(i).explained, most) for i, most in enumerate(node.most) if most is not None]
            for (window, most), first, went in zip(limits, goes, so_far, strict=True):
                yield {"rule": "memory", "text": f"{plural(most, 'row')} of {window}: beyond it {first} go first{went}"}
            if node.aggregated:
                yield {"rule": "aggregates", "text": BOUNDS.replace("told", "found")}


def _is_join(node: Promising) -> bool:
    return isinstance(node.input, Join)


def _kind(node: Promising) -> str:
    return "join" if _is_join(node) else "selection"


def _what_it_does(node: Promising, estimates: Estimates) -> str:
    rate, unit = estimates.flow(node.input).rate, "pairs" if _is_join(node) else "rows"
    firsts = OF_A_JOIN if _is_join(node) else OF_A_SELECTION
    first = firsts[node.order] if node.asks_estimates else "the order is that of the expression"
    text = f"about {rate:,.0f} {unit} a second, {budget_text(node.budget)} a step: the exact {_kind(node)} while that "
    counted = "Counts are exact, from rows sorted by key; " if node.asks_estimates else ""
    return f"{text}reaches; where it does not, {first}. {counted}on the driver, since an order is one of all {unit}"


def _costs(node: Promising, estimates: Estimates, tally: Mapping[str, Any] | None) -> str:
    """What the exact one costs, and the choice; of the last step, how far the budget reached."""
    exact, choice = estimates.flow(node.input).rate, node.cost(estimates).total
    if _is_join(node):
        exact = node.input.cost(estimates).total
    text = (
        f"the exact {_kind(node)} costs {exact:,.0f} accesses a second, and that there is a choice adds {choice:,.0f}"
    )
    last = None if tally is None else tally.get("last_step")
    needed = None if tally is None or last is None else _needed(node.budget, last, tally["pair_seconds"])
    if needed is None:
        return f"{text}; whether there is one is decided in each step, by what it offers"
    amount, times = needed
    if times <= 1:
        return f"{text}; the last step offered {amount}, {times:.2g} x the budget: it was exact"
    return f"{text}; the last step offered {amount}, {times:.1f} x the budget: it was not"


def _needed(budget: Budget, last: Mapping[str, Any], pair_seconds: float) -> tuple[str, float] | None:
    """What all of a step would have taken, and how many budgets that is; None where there was time for everything."""
    if budget.rows is not None:
        return f"{last['offered']:,} rows", last["offered"] / budget.rows
    if budget.events is not None:
        return f"{last['events']:,} events", last["events"] / budget.events
    allowed = last["allowed"] if budget.time is None else budget.time / 1e6
    if allowed is None:
        return None
    seconds = last["offered"] * pair_seconds
    return f"{1000 * seconds:,.3g} ms of work (observed)", seconds / max(allowed, 1e-6)


def tally_text(tally: Mapping[str, Any], *, is_join: bool = True) -> str:
    """
    >>> tally = {"offered": 131000, "told": 84210, "waiting": 46790, "expired": 0, "shed": 0, "rows_shed": 0}
    >>> tally_text({**tally, "freshness": 2.5})
    '84,210 of 131,000 pairs (64 %); 46,790 wait, 0 expired unseen, 0 shed; the rows of a pair are 2.5 s apart'
    >>> tally_text({**tally, "freshness": 2.5}, is_join=False)
    '84,210 of 131,000 rows (64 %); 46,790 wait, 0 expired unseen, 0 shed; rows were told after 2.5 s'
    >>> tally_text({**tally, "shed": 46790, "waiting": 0, "rows_shed": 900, "bytes": 9 << 20, "freshness": None})
    '84,210 of about 131,000 pairs (64 %); 0 wait, 0 expired unseen, 46,790 shed; 900 rows shed, 9 MB are kept'
    """
    share, unit = 100 * tally["told"] / tally["offered"], "pairs" if is_join else "rows"
    about = "about " if tally["rows_shed"] and is_join else ""
    text = f"{tally['told']:,} of {about}{tally['offered']:,} {unit} ({share:.0f} %); {tally['waiting']:,} wait, "
    text += f"{tally['expired']:,} expired unseen, {tally['shed']:,} shed"
    if tally["rows_shed"]:
        text += f"; {plural(tally['rows_shed'], 'row')} shed, {size_text(tally['bytes'])} are kept"
    fresh = tally["freshness"]
    if fresh is None:
        return text
    return f"{text}; " + (
        f"the rows of a pair are {fresh:g} s apart" if is_join else f"rows were told after {fresh:g} s"
    )


def last_text(tally: Mapping[str, Any], *, is_join: bool = True) -> str:
    """
    >>> step = {"offered": 131000, "told": 84210, "expired": 0, "shed": 0, "oldest": 38.0, "seconds": 0.19}
    >>> text = last_text({"waiting": 46790, "pair_seconds": 2e-7, "last_step": {**step, "looking": 0.03}})
    >>> print(text.replace("; ", "\\n", 1))
    84,210 of 131,000 pairs (64 %) in 190 ms, of which 30 ms to see what there was, 0.2 us a pair
    46,790 wait, the oldest for 38 s; 0 expired unseen, 0 shed
    """
    last, unit = tally["last_step"], "pairs" if is_join else "rows"
    share = f" ({100 * last['told'] / last['offered']:.0f} %)" if last["offered"] else ""
    oldest = "" if last["oldest"] is None else f", the oldest for {last['oldest']:g} s"
    looking = "" if last["looking"] is None else f"of which {1000 * last['looking']:.3g} ms to see what there was, "
    text = f"{last['told']:,} of {last['offered']:,} {unit}{share} in {1000 * last['seconds']:.3g} ms, {looking}"
    text += f"{1e6 * tally['pair_seconds']:.2g} us a {unit[:-1]}; {tally['waiting']:,} wait{oldest}; "
    return f"{text}{last['expired']:,} expired unseen, {last['shed']:,} shed"
