"""Probing a prepared table gives the rows that comparing every event with every row gives."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_slices import bind
from mullion.algebra.lookups import Lookup
from mullion.algebra.streams import Table
from mullion.expressions.evaluate import evaluate
from mullion.expressions.vector import Vector
from mullion.kernels.lookup import Attached, prepare, rows_found
from mullion.language.parse import parse_query
from strategies import PRICES, TRADES, Draw, Event, event_lists, settings_of_time

ITEMS = Table("items", TRADES.columns, "csv")
KEYS = {name: f"t.{name} = i.{name}" for name in TRADES.types}
KEYS |= {"mixed": "t.volume = i.big", "real": "t.volume = i.price", "upper": "upper(t.symbol) = i.symbol"}


def lookup_of(keys: list[str], where: str | None = None) -> Lookup:
    on = " AND ".join([KEYS[key] for key in keys] + ([where] if where else []))
    text = f"SELECT count(*) FROM trades [RANGE 5 s SLIDE 5 s] t LEFT JOIN items i ON {on}"
    return bind(parse_query(text), {"trades": TRADES}, {"items": ITEMS}).lookups[0]


def columns_of(rows: list[Event]) -> dict[str, Vector]:
    return {name: Vector.of(type_, [row[name] for row in rows]) for name, type_ in TRADES.columns}


def table_of(rows: list[Event]) -> pa.Table:
    return pa.table({name: vector.to_arrow() for name, vector in columns_of(rows).items()})


def same(a: Any, b: Any) -> bool:
    return a is not None and b is not None and bool(a == b or (a != a and b != b))


def compared(lookup: Lookup, events: list[Event], rows: list[Event]) -> list[tuple[int, list[Any] | None]]:
    """Every event with every row that it finds, the row as its values."""
    event_keys = [evaluate(key, columns_of(events), len(events)).to_list() for key, _ in lookup.keys]
    row_keys = [evaluate(key, columns_of(rows), len(rows)).to_list() for _, key in lookup.keys]
    wheres = [True] * len(rows)
    if lookup.where is not None:
        wheres = evaluate(lookup.where, columns_of(rows), len(rows)).to_list()
    found: list[tuple[int, list[Any] | None]] = []
    for e in range(len(events)):
        hits = [
            r
            for r in range(len(rows))
            if wheres[r] is True and all(same(k[e], o[r]) for k, o in zip(event_keys, row_keys, strict=True))
        ]
        found += [(e, list(rows[r].values())) for r in hits] or [(e, None)]
    return found


def in_form(vector: Vector, form: str) -> Any:
    if form == "vector":
        return vector
    array = vector.to_arrow()
    if form == "dictionary":
        return array.dictionary_encode()
    if form == "chunks":
        return pa.chunked_array([array[:3], array[3:]])
    return array


@st.composite
def cases(draw: Draw[Any]) -> tuple[Lookup, list[Event], list[Event], list[str]]:
    setting = draw(settings_of_time)
    keys = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3, unique=True))
    where = draw(st.sampled_from((None, None, "i.volume > 0", "(i.symbol = 'A' OR i.flag)")))
    forms = draw(st.lists(st.sampled_from(("vector", "array", "chunks", "dictionary")), min_size=3, max_size=3))
    events = draw(event_lists(setting, prices=PRICES, most=20))
    rows = draw(event_lists(setting, prices=PRICES, most=20)) + draw(st.sampled_from((events[:5], [])))
    return lookup_of(keys, where), events, rows, forms


@settings(max_examples=80)
@given(cases())
def test_probing_is_comparing(case: tuple[Lookup, list[Event], list[Event], list[str]]) -> None:
    lookup, events, rows, forms = case
    prepared = pickle.loads(pickle.dumps(prepare(lookup, table_of(rows))))
    vectors = [evaluate(key, columns_of(events), len(events)) for key, _ in lookup.keys]
    keys = [in_form(v, forms[i]) for i, v in enumerate(vectors)]
    index, found = rows_found(prepared, keys, len(events))
    assert (index is None) == prepared.unique
    events_found = list(range(len(events))) if index is None else index.tolist()
    given_ = Attached(prepared, found)
    matched = given_[lookup.matched].to_list()
    values = [given_[lookup.column(name)].to_list() for name in TRADES.types]
    got = [
        (event, list(row) if is_there else None)
        for event, is_there, *row in zip(events_found, matched, *values, strict=True)
    ]
    assert all(
        v is None for (_, row), values in zip(got, zip(*values, strict=True), strict=True) if not row for v in values
    )
    assert sorted(map(repr, got)) == sorted(map(repr, compared(lookup, events, rows)))
    assert events_found == sorted(events_found)


ROWS = [dict.fromkeys(TRADES.types) | {"symbol": s, "price": p} for s, p in (("A", 1.0), ("B", math.nan), (None, 2.0))]


def test_only_what_is_needed_is_kept() -> None:
    lookup = lookup_of(["symbol"])
    prepared = prepare(lookup, table_of(ROWS), [lookup.column("price"), lookup.matched, "volume"])
    assert prepared.rows.column_names == [lookup.column("price")] and prepared.rows.num_rows == 2
    with pytest.raises(KeyError):
        Attached(prepared, np.array([0]))[lookup.column("volume")]
    assert list(Attached(prepared, np.array([0]))) == [lookup.matched, lookup.column("price")]


def test_an_empty_table_and_no_events() -> None:
    lookup = lookup_of(["symbol", "volume"])
    empty = prepare(lookup, table_of([]))
    keys = [evaluate(key, columns_of(ROWS), 3) for key, _ in lookup.keys]
    assert rows_found(empty, keys, 3)[1].tolist() == [-1, -1, -1]
    assert Attached(empty, np.array([-1, -1]))[lookup.column("price")].to_list() == [None, None]
    nothing = [evaluate(key, columns_of([]), 0) for key, _ in lookup.keys]
    assert rows_found(prepare(lookup, table_of(ROWS)), nothing, 0)[1].tolist() == []


def test_numbers_far_apart() -> None:
    lookup = lookup_of(["big"])
    rows = [dict.fromkeys(TRADES.types) | {"big": b} for b in (-(2**63), 2**63 - 1, 0, 10**15)]
    events = [dict.fromkeys(TRADES.types) | {"big": b} for b in (0, None, 2**63 - 1, -(2**63), 7, 10**15)]
    prepared = prepare(lookup, table_of(rows))
    _, found = rows_found(prepared, [columns_of(events)["big"]], len(events))
    assert Attached(prepared, found)[lookup.column("big")].to_list() == [0, None, 2**63 - 1, -(2**63), None, 10**15]


def test_a_lookup_is_hashed_anew_in_another_process() -> None:
    lookup = lookup_of(["symbol"])
    assert {lookup: 1}[lookup_of(["symbol"])] == 1
    again = pickle.loads(pickle.dumps(lookup))
    assert "_hash" in vars(lookup) and "_hash" not in vars(again)
    assert again == lookup and hash(again) == hash(lookup)
