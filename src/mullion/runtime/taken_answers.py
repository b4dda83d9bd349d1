"""The same query with a longer period takes the answers of the other one, which are made once (golab 8.4.3, CS8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mullion.runtime.executions import Decided
from mullion.runtime.sharing_set import SharingSet
from mullion.slices.due import Cursor
from mullion.slices.finalize import Answers, Work

Takers = Mapping[str, list[str]]
"""By the name of a query, those that take its answers."""


def takers(decided: Decided, own: SharingSet) -> Takers:
    """Who takes whose answers in this batch: those that were given the very same instants, and stand where the other
    stands. Shards write their answers by themselves, and queries that brought sub-windows along read others."""
    by_leader: dict[str, list[str]] = {}
    tier = own.tier
    if not decided.followers or own.shards or any(entry.readers is not None for entry in tier.entries):
        return by_leader
    for name, leader in decided.followers.items():
        is_here = name in own.members and name in decided.runs and name not in tier.inherited
        cursors = [tier.cursors.setdefault(who, Cursor()) for who in (name, leader)] if is_here else []
        if is_here and decided.runs[name] == decided.runs.get(leader) and cursors[0].begun == cursors[1].begun:
            by_leader.setdefault(leader, []).append(name)
    return by_leader


def with_taken(answers: Iterable[Answers], taking: Takers, own: SharingSet, work: Work) -> Iterator[Answers]:
    """The answers, and after each those that others take of them."""
    for some in answers:
        yield some
        for name, table in some if taking else ():
            for taker in taking.get(name, ()):
                yield Answers((taker,), [0, len(table)], table)
    for leader, names in taking.items():
        for name in names:
            own.tier.cursors[name].begun = own.tier.cursors[leader].begun
            if leader in work.bad:
                work.bad[name] = work.bad[leader]
