"""Which synopsis each kept state has, and by which rules queries share it (golab 8.3.1).

| rule | what is shared |
|---|---|
| SS1 | one synopsis serves all queries that need the same data of an interval, whatever the length of their windows |
| SS2 | avg is answered from a sum and a count whose slices are the same |
| CS1 | queries over the same window probe a running or an interval synopsis once |
| CS2 | all windows of an end are answered on one walk over a basic interval synopsis |
| CS3 | avg divides the sum and the count that are computed for others |

Prefixes need an inverse; where there is none, it is a tree of intervals, or only the shortest ones where enough windows
end together. This is what the windows lead to expect; `slices/sequence.py` asks again with those that are due. Rows of
a slot that few queries read are swept, and have no synopsis (`planner/answering_ways.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from mullion.aggregates import Invertible
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.instants import EVERYTHING
from mullion.language.query import Period
from mullion.planner.answering_ways import MOST_SWEEPS, can_sweep, swept_templates
from mullion.planner.plan import EVENTS, Grouping, Plan, StateColumn, states_of
from mullion.planner.sliced import AnswerTemplate
from mullion.planner.slices import slices_of, window_table
from mullion.planner.synopsis_choice import LEAST_TOGETHER, fewest_by_accesses, fewest_by_time
from mullion.plural import plural

RUNNING, INTERVAL, BASIC_INTERVAL, VALUE_COUNTS = "running", "interval", "basic interval", "value counts"
SWEEP = "swept"

ONE_COMPUTATION = ("avg", "sum", "count")

MOST_INSTANTS = 8192
"""Ends of windows that are laid out to see how many coincide."""


@dataclass(frozen=True)
class Together:
    """How many windows of queries that are answered in one call end at one place, on average, and how many intervals
    the longest of them has."""

    windows: float
    intervals: int

    def pays(self, state: StateColumn) -> bool:
        fewest = fewest_by_time(self.intervals, state.partial)
        return fewest is not None and self.windows >= fewest

    def text(self, state: StateColumn) -> str:
        by_time = fewest_by_time(self.intervals, state.partial)
        crossover = "never by time" if by_time is None else f"{by_time:,} by time"
        return (
            f"{self.windows:.3g} windows end together, a walk pays from b / log2 b = "
            f"{fewest_by_accesses(self.intervals):,} ({crossover}) for b = {self.intervals:,}"
        )


@dataclass(frozen=True)
class SharedSynopsis:
    """The synopsis of a state, when all of its queries are due, and how it is shared."""

    synopsis: str
    rules: tuple[str, ...]
    """By name, the choice first."""
    text: str


def shared_synopses(plan: Plan, grouping: Grouping) -> tuple[SharedSynopsis, ...]:
    """One for each state of the grouping, in their order."""
    if grouping.counted:
        return (_counted(grouping),)
    together = together_of(plan, grouping, least=2)
    numbers: dict[object, int] = {}
    slots = grouping.slot_of.tolist()
    same = [numbers.setdefault((slot, q.frame), len(numbers)) for slot, q in zip(slots, grouping.queries, strict=True)]
    asking = _Asking(grouping)
    return tuple(_shared(asking, state, same, together) for state in grouping.states)


class _Asking:
    """The aggregates that read each state of a grouping, found in one pass over all templates or some of them."""

    def __init__(self, grouping: Grouping, templates: Iterable[int] | None = None) -> None:
        codes, self.templates = grouping.templates
        self._by_state: dict[StateColumn, dict[int, list[BoundAggregate]]] = {}
        for code in range(len(self.templates)) if templates is None else templates:
            for aggregate in (a for a in self.templates[code].aggregates if not a.values):
                for state in _states_of(aggregate):
                    self._by_state.setdefault(state, {}).setdefault(code, []).append(aggregate)
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(self.templates) + 1))
        self._queries: list[list[int]] = [order[low:high].tolist() for low, high in pairwise(bounds.tolist())]
        self.swept, self._has_keys = swept_templates(grouping), bool(grouping.keys)

    def aggregates(self, state: StateColumn) -> Mapping[int, list[BoundAggregate]]:
        """The aggregates that are made of a state, by the template that they are in."""
        return self._by_state.get(state, {})

    def templates_with(self, state: StateColumn) -> Sequence[int]:
        return range(len(self.templates)) if state == EVENTS else list(self.aggregates(state))

    def can_sweep(self, template: int) -> bool:
        """Whether the template is swept where few of its queries are due."""
        return self._has_keys and can_sweep(self.templates[template])

    def queries(self, template: int) -> Sequence[int]:
        """The queries of a template, by their number in the grouping."""
        return self._queries[template]


_states_of = lru_cache(maxsize=1 << 12)(states_of)
"""Plans are made anew whenever a query comes or goes, and ask again for those of the same aggregates."""


def _counted(grouping: Grouping) -> SharedSynopsis:
    values = list(grouping.values)
    served = sum([e for e, _ in a.values] == values for q in grouping.queries for a in q.template.aggregates)
    text = f"{VALUE_COUNTS}: SS1 for {plural(served, 'holistic aggregate')}"
    return SharedSynopsis(VALUE_COUNTS, ("SS1",), text)


def _shared(
    asking: _Asking, state: StateColumn, same: Sequence[object], together: dict[int, Together]
) -> SharedSynopsis:
    """`same` has one value for all queries with the same predicate and window."""
    templates = asking.templates_with(state)
    swept = [template for template in templates if template in asking.swept]
    looking_up = [template for template in templates if template not in asking.swept]
    queries = sum(len(asking.queries(template)) for template in templates)
    rules = {"SS1": f"SS1 for {plural(queries, 'query', 'queries')}"}
    rules |= _of_averages(asking, state, same)
    synopsis, why = SWEEP if not looking_up else state.synopsis, ""
    if synopsis == INTERVAL and (most_ending := _most_together(together, looking_up)) is not None:
        why = most_ending.text(state)
        synopsis = BASIC_INTERVAL if most_ending.pays(state) else INTERVAL
    if synopsis == BASIC_INTERVAL:
        rules["CS2"] = f"CS2: {why}"
    elif looking_up:
        members = Counter(same[i] for template in looking_up for i in asking.queries(template))
        most = max(members.values(), default=0)
        rules |= {"CS1": f"CS1 for {most:,} of one window"} if most > 1 else {}
        rules |= {"": f"not CS2: {why}"} if why else {}
    said = [*rules.values(), *_of_sweeps(asking, swept, looking_up)]
    name = "swept, no synopsis" if synopsis == SWEEP else f"{synopsis} synopsis"
    return SharedSynopsis(synopsis, tuple(name for name in rules if name), f"{name}: {', '.join(said)}")


def _of_sweeps(asking: _Asking, swept: Sequence[int], looking_up: Sequence[int]) -> Iterator[str]:
    """Which queries of a state that has a synopsis are swept all the same, and when one that is swept has one."""
    few = f"{MOST_SWEEPS} queries of a predicate are due"
    if looking_up and swept:
        yield f"swept for {sum(len(asking.queries(template)) for template in swept):,} of them"
    if any(asking.can_sweep(template) for template in looking_up):
        yield f"swept where at most {few}"
    if not all(asking.swept[template] for template in swept):
        yield f"with a synopsis where more than {few}"


def _of_averages(asking: _Asking, state: StateColumn, same: Sequence[object]) -> dict[str, str]:
    """SS2 and CS3, where they hold. A sweep computes for the queries of one template."""
    if not isinstance(state.partial, Invertible):
        return {}
    partners: dict[str, None] = {}
    by_template: dict[int, set[str]] = {}
    for template, aggregates in asking.aggregates(state).items():
        by_template[template] = {a.function for a in aggregates if a.function in ONE_COMPUTATION}
        averages = (a for a in aggregates if a.function == "avg")
        partners |= dict.fromkeys(other.name for a in averages for other in _running(a) if other != state)
    functions: dict[object, set[str]] = {}
    for template, own in by_template.items() if partners else ():
        sweep = template if template in asking.swept else None
        for i in asking.queries(template):
            functions.setdefault((same[i], sweep), set()).update(own)
    rules = {"SS2": f"SS2 with {', '.join(partners)}"} if partners else {}
    computed = [{f for f in ONE_COMPUTATION if f in own} for own in functions.values() if "avg" in own]
    if partners and any(len(own) > 1 for own in computed):
        names = [f for f in ONE_COMPUTATION if any(f in own for own in computed if len(own) > 1)]
        rules["CS3"] = f"CS3 for {' and '.join(names)} of one window"
    return rules


def _running(aggregate: BoundAggregate) -> Iterator[StateColumn]:
    return (state for state in _states_of(aggregate) if isinstance(state.partial, Invertible))


def _most_together(together: dict[int, Together], templates: Iterable[int]) -> Together | None:
    return max((together[code] for code in templates if code in together), key=lambda t: t.windows, default=None)


def together_of(plan: Plan, grouping: Grouping, least: int = LEAST_TOGETHER) -> dict[int, Together]:
    """For each template, by its number: the windows that end together, of its queries with the same predicate.

    Templates with fewer than `least` such queries are left out, as are windows that are no ranges of slices.
    """
    if plan.axis.kind in ("events", "partitions") or len(grouping.queries) < least:
        return {}
    codes = grouping.templates[0] * len(grouping.slots) + grouping.slot_of
    present, counts = np.unique(codes, return_counts=True)
    largest: dict[int, tuple[int, int]] = {}
    for code, number in zip(present.tolist(), counts.tolist(), strict=True):
        template = code // len(grouping.slots)
        if number >= max(least, largest.get(template, (0, 0))[0] + 1):
            largest[template] = number, code
    together = {}
    for template, (_, code) in largest.items():
        windows = [grouping.queries[i].window for i in np.flatnonzero(codes == code)]
        longest = max((w.range for w in windows if w.range != EVERYTHING), default=0)
        if longest:
            intervals = _intervals(plan.windows, longest, plan.slicing)
            together[template] = Together(ending_together(windows), intervals)
    return together


@lru_cache(maxsize=1024)
def _intervals(windows: tuple[Period, ...], longest: int, slicing: str) -> int:
    return slices_of(windows, 0, longest, slicing)


def ending_together(windows: Sequence[Period]) -> float:
    """How many of the windows end at one place, on average over the places where one does.

    >>> ending_together([Period(60, 10), Period(30, 10), Period(20, 20)])
    2.5
    """
    _, slide, offset = window_table(windows).T
    stretch = int(MOST_INSTANTS / (1 / slide).sum())
    stretch -= stretch % int(slide.max()) if stretch >= slide.max() else 0
    first = (offset - 1) % slide + 1
    counts = np.maximum((stretch - first) // slide + 1, 0)
    step = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    ends = np.repeat(first, counts) + step * np.repeat(slide, counts)
    return len(ends) / max(1, len(np.unique(ends)))


def synopses_text(plan: Plan) -> str:
    """The choices of the whole plan, without going through all queries."""
    groupings = [g for g in plan.groupings if not g.counted]
    kinds: Counter[str] = Counter()
    averages: set[str] = set()
    for grouping in groupings:
        templates = grouping.templates[1]
        swept = swept_templates(grouping)
        looking_up = [template for code, template in enumerate(templates) if code not in swept]
        looked_up = {s for t in looking_up for a in t.aggregates if not a.values for s in _states_of(a)}
        looked_up |= {EVENTS} if looking_up else set()
        together = {code: own for code, own in together_of(plan, grouping).items() if code not in swept}
        asking = _Asking(grouping, together) if together else None
        for state in grouping.states:
            kind = state.synopsis if state in looked_up else SWEEP
            if kind == INTERVAL and asking is not None:
                most_ending = _most_together(together, asking.aggregates(state))
                kind = BASIC_INTERVAL if most_ending is not None and most_ending.pays(state) else INTERVAL
            kinds[kind] += 1
        for computed in [looking_up, *([templates[code]] for code in swept)]:
            averages |= _rules_of_averages(computed)
    counted = len(plan.groupings) - len(groupings)
    text = f"SS1, each state serves all its queries: {', '.join(_kinds_text(kinds))}"
    text += f"; {plural(counted, 'table')} of value counts" if counted else ""
    text += "; SS2, averages from sums and counts" if "SS2" in averages else ""
    text += "; CS3, averages and their sums and counts at once over one window" if "CS3" in averages else ""
    return text


def _kinds_text(kinds: Mapping[str, int]) -> Iterator[str]:
    if number := kinds[RUNNING]:
        yield f"{number} can be inverted, as prefixes"
    if number := kinds[INTERVAL]:
        yield f"{number} {'needs' if number == 1 else 'need'} a tree"
    if number := kinds["folded"]:
        yield f"{number} {'is a sketch' if number == 1 else 'are sketches'}, merged in one go"
    if number := kinds[BASIC_INTERVAL]:
        yield f"over {number} one walk answers all windows of an end (CS2)"
    if number := kinds[SWEEP]:
        yield f"{number} {'is' if number == 1 else 'are'} swept, since few queries read the same rows"


def _rules_of_averages(templates: Iterable[AnswerTemplate]) -> set[str]:
    """Those that hold of queries which are computed together."""
    plain = {(a.function, a.argument) for s in templates for a in s.aggregates if not a.values}
    averages = {argument for function, argument in plain if function == "avg"}
    both = any({("sum", argument), ("count", argument)} & plain for argument in averages)
    return ({"SS2"} if averages else set()) | ({"CS3"} if both else set())
