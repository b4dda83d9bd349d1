"""Sub-windows of one layout, side by side in one table."""

from __future__ import annotations

import pyarrow as pa

from mullion.aggregates.count import Count
from mullion.language.types import BOOLEAN
from mullion.planner.plan import StateColumn
from mullion.slices.subwindow import PartialSubWindows, as_one


def entry(slices: list[int], keys: list[str], states: str = "a") -> PartialSubWindows:
    columns = {"slice": pa.array(slices), "key0": pa.array(keys).dictionary_encode(), f"{states}.0": pa.array(slices)}
    return PartialSubWindows(pa.table(columns).replace_schema_metadata({b"grouping": b"g"}))


def test_neighbours_of_one_layout_become_one() -> None:
    entries = [entry([1, 2], ["x", "y"]), entry([3], ["z"]), entry([4], ["x"], "b"), entry([5], ["y"])]
    states = {"g": [StateColumn(name, Count(BOOLEAN), None) for name in "ab"]}
    found = as_one(entries, states)
    assert [part.slices.tolist() for part in found] == [[1, 2, 3], [4], [5]]
    assert found[0].table.column("key0").to_pylist() == ["x", "y", "z"]
    assert found[0].table.schema.equals(entries[0].table.schema, check_metadata=True)
    assert as_one([], states) == []
    (without,) = as_one(entries[:2], {"g": states["g"][1:]})
    assert without.table.schema.names == ["slice", "key0"], "what nobody asks for is not copied"
