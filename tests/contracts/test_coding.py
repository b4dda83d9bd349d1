"""All ways to code values agree on which are equal: NULL, NaN, zeros of either sign, dictionaries, several columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.expressions.arrays import Codes
from mullion.expressions.coding.code_table import CodeTable
from mullion.expressions.coding.dictionary import ordered_codes, row_codes
from mullion.expressions.coding.hashes import keys_of
from mullion.expressions.vector import arrow_type
from mullion.language.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, Type, decimal

NAN = float("nan")
VALUES: dict[Type, tuple[Any, ...]] = {
    BIGINT: (None, 0, 1, -(2**63), 2**63 - 1),
    DOUBLE: (None, 0.0, -0.0, NAN, -NAN, 1.5, float("inf")),
    BOOLEAN: (None, True, False),
    STRING: (None, "", "a", "aa", "null", "é"),
    DATE: (None, date(1, 1, 1), date(2024, 2, 29)),
    TIMESTAMP: (None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 12, tzinfo=UTC)),
    decimal(10, 2): (None, Decimal("0.00"), Decimal("-1.50"), Decimal("1.50")),
}


def canonical(value: Any) -> Any:
    """What makes two values equal, said in another way."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


def groups(codes: Codes) -> list[int]:
    """Codes by the order of their first occurrence."""
    seen: dict[int, int] = {}
    return [seen.setdefault(code, len(seen)) for code in codes.tolist()]


def by_hash(rows: pa.Table) -> Codes:
    keys = keys_of(rows.columns, len(rows), null_is_value=True)
    rank = np.argsort(keys.codes, kind="stable")
    assert (
        keys.take(rank[1:]).equals(keys.take(rank[:-1])).tolist() == np.equal(*_neighbours(keys.codes[rank])).tolist()
    )
    return keys.codes


def _neighbours(codes: Codes) -> tuple[Codes, Codes]:
    return codes[1:], codes[:-1]


WAYS: dict[str, Callable[[pa.Table], Codes]] = {
    "rows of a batch": row_codes,
    "hashes": by_hash,
    "code table": lambda rows: CodeTable(rows.schema).codes(rows),
}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=40)
@given(st.data())
def test_rows_are_equal_where_their_values_are(way: str, data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    length = data.draw(st.integers(0, 12))
    columns = [data.draw(st.lists(st.sampled_from(VALUES[t]), min_size=length, max_size=length)) for t in types]
    rows = pa.table({f"c{i}": pa.array(c, arrow_type(t)) for i, (c, t) in enumerate(zip(columns, types, strict=True))})
    wanted: dict[Any, int] = {}
    expected = [wanted.setdefault(tuple(map(canonical, row)), len(wanted)) for row in zip(*columns, strict=True)]
    assert groups(WAYS[way](rows)) == expected
    chunks = pa.concat_tables([rows.slice(0, length // 2), rows.slice(length // 2)])
    assert groups(WAYS[way](chunks)) == expected


@pytest.mark.parametrize("type_", list(VALUES), ids=str)
def test_codes_in_order_are_those_of_a_batch_but_for_null(type_: Type) -> None:
    column = pa.array(VALUES[type_] * 2, arrow_type(type_))
    codes, values = ordered_codes(column, type_)
    assert groups(codes) == groups(row_codes(pa.table({"x": column})))
    assert set(codes.tolist()) == {-1, *range(len(values))}


def test_a_code_table_gives_codes_that_were_forgotten_again() -> None:
    table = CodeTable(pa.schema([("x", pa.float64())]))
    first = table.codes(pa.table({"x": [NAN, 0.0, None]}))
    assert table.codes(pa.table({"x": [-0.0, None, -NAN]})).tolist() == first[[1, 2, 0]].tolist()
    table.forget(first[:1])
    (again,) = table.codes(pa.table({"x": [7.0]}))
    assert again == first[0] and table.rows(np.array([again]))["x"].to_pylist() == [7.0] and len(table) == 3
