"""Rows with what they find in a table that changes: by hand, and against the reference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.algebra.lookups import Lookup
from mullion.algebra.nodes import Join, Project, Scan, TableLookup
from mullion.algebra.streams import Table
from mullion.language.query import Column, Window
from mullion.language.types import BIGINT, STRING
from networks import lives_of, reference_lives, same

COLUMNS = (("ts", BIGINT), ("k", BIGINT))
LOOKUP = Lookup("t", ((Column("k"), Column("id")),), None, (("id", BIGINT), ("name", STRING)))
NAME = LOOKUP.column("name")
EVER_BEFORE = -(1 << 60)
STRATEGIES = ("upa", "nt", "scan")


def looked_up(window: Window, *, retroactive: bool) -> TableLookup:
    return TableLookup(Scan("s", window, COLUMNS), LOOKUP, retroactive)


def names(node: Any) -> Project:
    return Project(node, (("ts", Column("ts"), BIGINT), ("name", Column(NAME), STRING)))


def table(*names: str) -> list[dict[str, Any]]:
    return [{"id": 1, "name": name} for name in names]


EVENTS = {"s": [{"ts": 0, "k": 1}, {"ts": 6, "k": 1}, {"ts": 6, "k": None}]}
VERSIONS = [(EVER_BEFORE, table("a")), (5, table("a", "b")), (8, table("b"))]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_a_row_found_stays(strategy: str) -> None:
    found = lives_of(
        names(looked_up(Window(range=10), retroactive=False)), EVENTS, [5, 8, 50], strategy=strategy, versions=VERSIONS
    )
    assert sorted(found, key=repr) == [((0, "a"), 0, 10), ((6, "a"), 6, 16), ((6, "b"), 6, 16), ((6, None), 6, 16)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("times", [[50], [5, 8, 50], list(range(1, 50))])
def test_a_change_brings_and_ends_rows_where_it_is_retroactive(strategy: str, times: list[int]) -> None:
    plan = names(looked_up(Window(range=10), retroactive=True))
    found = lives_of(plan, EVENTS, times, strategy=strategy, versions=VERSIONS)
    expected = [((0, "a"), 0, 8), ((0, "b"), 5, 10), ((6, "a"), 6, 8), ((6, "b"), 6, 16), ((6, None), 6, 16)]
    assert sorted(found, key=repr) == expected


rows = st.lists(
    st.fixed_dictionaries({"id": st.sampled_from([1, 2, None]), "name": st.sampled_from(["a", "b", None])}), max_size=4
)
events = st.lists(
    st.fixed_dictionaries({"ts": st.integers(0, 20), "k": st.sampled_from([1, 2, 3, None])}), max_size=8
).map(lambda found: {"s": sorted(found, key=lambda row: row["ts"])})
changes = st.dictionaries(st.integers(0, 30), rows, max_size=3).map(lambda found: sorted(found.items()))
windows = st.one_of(
    st.builds(Window, range=st.integers(1, 15), internal=st.booleans()),
    st.builds(Window, rows=st.integers(1, 3), slide_rows=st.integers(1, 2)),
)
STEPS = st.sets(st.integers(1, 40), max_size=8)


@given(windows, events, rows, changes, STEPS, st.booleans(), st.sampled_from(STRATEGIES), st.booleans(), st.booleans())
def test_lookups_give_what_the_reference_says(
    window: Window,
    events: Any,
    first: Any,
    changes: Any,
    steps: set[int],
    retroactive: bool,
    strategy: str,
    restarts: bool,
    joined: bool,
) -> None:
    plan: Any = looked_up(window, retroactive=retroactive)
    if joined:
        plan = Join((plan, Scan("s", Window(range=5), COLUMNS)), ((Column("k"),), (Column("k"),)))
    # Rows that keep what they found look at the table as it is when their step begins.
    steps = steps if retroactive else steps | {at for at, _ in changes}
    expected = reference_lives(plan, events, {"t": (Table("t", LOOKUP.columns, "frame"), first)}, {"t": changes})
    found = lives_of(
        plan,
        events,
        [*sorted(steps - {0}), 100],
        strategy=strategy,
        restarts=restarts,
        versions=[(EVER_BEFORE, first), *changes],
    )
    assert same(found) == same(expected)
