"""Which windows do not slide themselves, since what others hold that are due at the same instants covers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from mullion.expressions.arrays import Index
from mullion.planner.covers import Combining, combining
from mullion.planner.plan import Grouping, StateColumn, states_of
from mullion.planner.sliced import AnswerTemplate
from mullion.slices.window_runs import Due

COMBINED = 0.2
"""What combining a group of a window that covers another costs, against a row that enters or leaves."""
MOST_COMBINED = 32
"""Among so many kinds of windows it is looked for those that cover others: it takes a look at each in every batch."""
STEADY = 8
"""So often in a row a window must have been covered before it does not slide any more."""


class WindowKind(NamedTuple):
    """Windows of one slot and length, of whatever queries."""

    grouping: str
    slot: str
    range: int


class CoveringKinds(NamedTuple):
    """The kinds that cover another: the first ones are added, the others subtracted."""

    kinds: tuple[WindowKind, ...]
    added: int


class Slid(NamedTuple):
    """Rows of a kind that entered or left with its last windows, and the groups that these held."""

    moved: int
    held: int


class KeptCovers:
    """Chooses the kinds that are combined from others. It remembers how often in a row each could have been."""

    def __init__(self) -> None:
        self._steady: dict[WindowKind, int] = {}

    def choose(
        self,
        grouping: Grouping,
        due: Due,
        kinds: Mapping[WindowKind, Index],
        slid: Callable[[WindowKind], Slid | None],
    ) -> dict[WindowKind, CoveringKinds]:
        """The kinds that do not slide, and what covers them. `slid`: what is known of a kind that does."""
        if not 1 < len(kinds) <= MOST_COMBINED:
            return {}
        asked = {kind: _Asked.of(grouping, due, windows) for kind, windows in kinds.items()}
        found = {}
        for kind, own in asked.items():
            covering = _covering_kinds(grouping, asked, kind, own)
            if covering is None or not _is_cheaper(covering, [slid(other) for other in covering.kinds]):
                self._steady.pop(kind, None)
                continue
            self._steady[kind] = self._steady.get(kind, 0) + 1
            if slid(kind) is None or self._steady[kind] >= STEADY:
                found[kind] = covering
        return {kind: own for kind, own in found.items() if not any(other in found for other in own.kinds)}

    def forget(self, asked: set[WindowKind]) -> None:
        """Queries have gone: no other kinds are asked for."""
        self._steady = {kind: times for kind, times in self._steady.items() if kind in asked}


class _Asked(NamedTuple):
    """What is asked of the windows of a kind."""

    slot: int
    ends: frozenset[int]
    states: frozenset[StateColumn]
    combining: Combining | None

    @staticmethod
    def of(grouping: Grouping, due: Due, windows: Index) -> _Asked:
        codes, templates = grouping.templates
        queries = due.query[windows].tolist()
        asked = [templates[code] for code in {int(codes[query]) for query in queries}]
        states = frozenset[StateColumn]().union(*map(states_of_template, asked))
        kind = combining(aggregate for template in asked for aggregate in template.aggregates)
        return _Asked(int(grouping.slot_of[queries[0]]), frozenset(due.end[windows].tolist()), states, kind)


@lru_cache(maxsize=1 << 12)
def states_of_template(template: AnswerTemplate) -> frozenset[StateColumn]:
    return frozenset(state for aggregate in template.aggregates for state in states_of(aggregate))


def _covering_kinds(
    grouping: Grouping, asked: Mapping[WindowKind, _Asked], kind: WindowKind, own: _Asked
) -> CoveringKinds | None:
    """Kinds that cover this one, if all of them are due whenever it is, and have the states that it asks for."""
    cover = grouping.covers.of(own.combining).get(own.slot)
    if cover is None:
        return None
    others = tuple(kind._replace(slot=grouping.slot_names[slot]) for slot in cover.slots)
    known = [asked.get(other) for other in others]
    if any(state.partial.is_numbered for state in own.states):
        return None  # each window has numbers of its own
    if not all(other is not None and own.ends <= other.ends and own.states <= other.states for other in known):
        return None
    return CoveringKinds(others, len(cover.added))


def _is_cheaper(covering: CoveringKinds, known: list[Slid | None]) -> bool:
    """Whether their groups, as far as these are known, are combined sooner than as many rows enter and leave."""
    moved = sum(own.moved if i < covering.added else -own.moved for i, own in enumerate(known) if own)
    return COMBINED * sum(own.held for own in known if own) <= moved or not all(known)
