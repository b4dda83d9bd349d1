"""Keys of sub-windows as dictionaries, plain, or both: the answers are the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.planner.rules import make_plan
from mullion.slices.finalize import Work
from mullion.slices.kernels.groups import Groups
from mullion.slices.subwindow import PartialSubWindows, merge_sub_windows
from mullion.slices.tier import WindowTier

SECOND = 1_000_000
TRADES = Stream("trades", (("ts", TIMESTAMP), ("sym", STRING), ("side", STRING), ("n", INT)), "ts")


def plan_of(text: str):
    query = bind(parse_query(text, name="q"), {"trades": TRADES})
    return make_plan(TRADES, [query], axis=query.axis)


def entry(grouping, slices: list[int], sym: pa.Array, side: pa.Array, n: list[int]) -> PartialSubWindows:
    columns = {"slice": np.array(slices) * SECOND, "lane": np.zeros(len(n), np.int32), "k0": sym, "k1": side}
    columns |= {"s0_0": np.array(n), "s1_0": np.array(n), "s2_0": np.ones(len(n), np.int64)}
    return PartialSubWindows.of(pa.table(columns), grouping)


def coded(items: list[str | None], width: int = 32) -> pa.Array:
    index = {8: pa.int8(), 32: pa.int32()}[width]
    return pa.array(items, pa.string()).dictionary_encode().cast(pa.dictionary(index, pa.string()))


TEXTS = (
    "SELECT sym, side, sum(n) AS total FROM trades [RANGE 2 s SLIDE 1 s] GROUP BY sym, side",
    "SELECT sym, side, sum(n) AS total FROM trades [RANGE 2 s SLIDE 1 s] GROUP BY sym, side HAVING sum(n) > 2",
    "SELECT side, sym, sum(n) AS total FROM trades [RANGE 2 s SLIDE 1 s] GROUP BY sym, side "
    "ORDER BY sym DESC, total LIMIT 2",
    "SELECT concat(sym, side) AS both, sum(n) AS total FROM trades [RANGE 3 s SLIDE 1 s] GROUP BY sym, side "
    "ORDER BY total DESC",
)


@pytest.mark.parametrize("text", TEXTS)
def test_codes_change_no_answer(text: str) -> None:
    plan = plan_of(text)
    (grouping,) = plan.groupings
    assert grouping.states[0].name == "rows" and len(grouping.states) == 3
    first = ["b", "a", None, "a"], ["x", "x", "y", None]
    second = ["c", "a", None], ["x", None, "y"]
    ways = []
    for kinds in ("pp", "cc", "cp", "pc", "cs"):
        make = [{"p": pa.array, "c": coded, "s": lambda items: coded(items, 8)}[kind] for kind in kinds]
        tier = WindowTier()
        tier.absorb(entry(grouping, [0, 0, 1, 2], *map(make[0], first), [1, 2, 3, 4]))
        tier.absorb(entry(grouping, [1, 2, 2], *map(make[1], second), [5, 6, 7]))
        for merged in (False, True):
            if merged:
                tier.entries = merge_sub_windows(tier.entries, grouping.states)
            tier.add_slices(np.arange(3) * SECOND)
            tier.cursors = {}
            due = tier.due(grouping, 0, 2 * SECOND, None)
            made = [table for a in tier.answer(grouping, due.portions(3), Work()) for _, table in a]
            ways.append(sorted_plain(pa.concat_tables(made), ordered="ORDER" in text))
    assert len(ways[0]) > 3
    assert all(way == ways[0] for way in ways)
    assert made[0].schema.field(2).type == pa.string()


def sorted_plain(table: pa.Table, *, ordered: bool) -> list[tuple[object, ...]]:
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return rows if ordered else sorted(rows, key=repr)


def test_a_merged_dictionary_forgets() -> None:
    """Values of rows that are gone leave the dictionary, or it would grow as long as the stream runs."""
    plan = plan_of(TEXTS[0])
    (grouping,) = plan.groupings
    names = [f"s{i}" for i in range(100)]
    old = entry(grouping, list(range(100)), coded(names), coded(["x"] * 100), [1] * 100)
    new = entry(grouping, [100], coded(["s0"]), coded(["x"]), [1])
    (merged,) = merge_sub_windows([old.since(98 * SECOND), new], grouping.states)
    column = merged.table.column("key0").combine_chunks()
    assert column.to_pylist() == ["s98", "s99", "s0"] and len(column.dictionary) == 3


@pytest.mark.parametrize("seed", range(8))
def test_groups_of_texts_in_pieces_are_those_of_all_of_them(seed: int) -> None:
    """NULLs, dictionaries that differ from piece to piece, have a value twice, or have one that does not occur."""
    dice = np.random.default_rng(seed)
    sizes = dice.integers(0, 9, dice.integers(1, 4)).tolist()
    keys = []
    for _ in range(dice.integers(1, 3)):
        texts = [dice.choice(["a", "b", "c", None], dice.integers(1, 6)).tolist() for _ in sizes]
        at = [dice.integers(0, len(own), size) for own, size in zip(texts, sizes, strict=True)]
        gone = [dice.random(size) < 0.2 for size in sizes]
        indices = [pa.array(own, mask=is_gone, type=pa.int32()) for own, is_gone in zip(at, gone, strict=True)]
        values = [pa.array(own, pa.string()) for own in texts]
        keys.append([pa.DictionaryArray.from_arrays(*own) for own in zip(indices, values, strict=True)])
    found = Groups.of_texts(keys)
    assert found is not None
    rows = list(zip(*([text for piece in key for text in piece.to_pylist()] for key in keys), strict=True))
    numbers = {row: i for i, row in enumerate(dict.fromkeys(rows))}
    assert found[0].codes.tolist() == [numbers[row] for row in rows] and found[0].size == len(numbers)
    assert [rows[at] for at in found[1].tolist()] == list(numbers)
