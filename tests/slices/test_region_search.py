"""Regions of values are those of a search, in codes of any size, and those that occur are noted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.expressions.arrays import Array
from mullion.expressions.vector import Vector
from mullion.kernels.columns import BatchColumns
from mullion.language.query import Column
from mullion.language.types import BIGINT, BOOLEAN, DOUBLE, INT, Type
from mullion.planner.fragments import Attribute
from mullion.slices.kernels.region_search import find_regions
from mullion.slices.kernels.regions import fill_regions
from mullion.slices.kernels.selection import Compared, Selection

CODES = (np.uint8, np.uint16, np.int32)


def searched(constants: Array, values: Array) -> Array:
    """The slow way. numpy puts NaN after all numbers, too."""
    at = np.searchsorted(constants, values)
    equal = [place < len(constants) and constants[place] == value for place, value in zip(at, values, strict=True)]
    return 2 * at + np.array(equal, np.int64)


@pytest.mark.parametrize("number", [0, 1, 6, 7, 40, 120])
@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("spread", ["even", "growing", "crowded"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
def test_regions_and_which_occur(number: int, codes: Any, spread: str, dtype: Any) -> None:
    random = np.random.default_rng(number)
    if spread == "even":
        pool = random.integers(-1000, 1000, 8 * number + 100)
    elif spread == "growing":
        pool = (2.0 ** random.uniform(0, 30, 8 * number + 100)).astype(np.int64)
    else:  # nearly all constants lie so close together that they share a bucket
        pool = np.append(random.integers(0, 300, 8 * number + 100), [0, 10**9])
    constants = np.unique(random.choice(pool, number)).astype(np.int64 if dtype != np.float64 else dtype)
    values = random.choice(np.append(pool, pool + 1), 5000).astype(dtype)
    if dtype == np.float64:
        values[::50], values[1::50], values[2::50], values[3::50] = np.nan, -np.nan, np.inf, -np.inf
    out, present = np.empty(len(values), codes), np.zeros(2 * len(constants) + 2, np.bool_)
    find_regions(constants, values, out, present)
    assert (out == searched(constants, values)).all()
    assert np.flatnonzero(present).tolist() == np.unique(out).tolist()


def test_the_ends_of_whole_numbers() -> None:
    ends = np.iinfo(np.int64)
    constants = np.array([ends.min, ends.min + 1, -1, 0, 1, 5, ends.max - 1, ends.max])
    values = np.append(constants, [2, ends.max - 2, -(2**53) - 1, 2**53 + 1])
    out = np.empty(len(values), np.int32)
    find_regions(constants, values, out)
    assert out.tolist() == searched(constants, values).tolist()


KINDS: tuple[tuple[Type, Any], ...] = (
    (BIGINT, st.integers(-20, 20)),
    (INT, st.integers(-20, 20)),
    (DOUBLE, st.floats(-20, 20)),
    (BOOLEAN, st.booleans()),
)


@given(st.sampled_from(KINDS), st.sampled_from(CODES), st.data())
def test_a_null_has_a_region_of_its_own(kind: tuple[Type, Any], codes: Any, data: st.DataObject) -> None:
    type_, of = kind
    constants = tuple(sorted(data.draw(st.sets(of, max_size=12))))
    values = data.draw(st.lists(st.one_of(st.none(), of), max_size=30))
    attribute = Attribute(Column("x"), constants)
    out, present = np.empty(len(values), codes), np.zeros(attribute.regions, np.bool_)
    fill_regions(attribute, Vector.of(type_, values), out, present)
    wanted = [
        attribute.unknown if value is None else int(searched(np.array(constants), np.array([value]))[0])
        for value in values
    ]
    assert out.tolist() == wanted
    assert np.flatnonzero(present).tolist() == sorted(set(wanted))


@given(
    st.lists(st.tuples(*[st.one_of(st.none(), st.integers(-3, 6))] * 3), max_size=30),
    st.tuples(*[st.sets(st.integers(-2, 5), min_size=1, max_size=3)] * 3),
    st.integers(1, 3),
)
def test_combinations_are_numbered_in_their_order(rows: list[Any], constants: Any, number: int) -> None:
    names = ("x", "y", "z")[:number]
    attributes = [Attribute(Column(name), tuple(sorted(own))) for name, own in zip(names, constants, strict=False)]
    events = pa.table({name: pa.array([row[i] for row in rows], pa.int64()) for i, name in enumerate(names)})
    columns = BatchColumns.of(events, dict.fromkeys(names, BIGINT))
    selection = Selection(Compared({own.expr: own for own in attributes}), columns)
    numbers, present = selection.numbered(attributes)
    places = np.zeros(len(rows), np.int64)
    for attribute in attributes:
        places = places * attribute.regions + selection.regions(attribute.expr).codes
    found, wanted = np.unique(places, return_inverse=True)
    assert np.flatnonzero(present).tolist() == found.tolist()
    assert numbers.tolist() == wanted.tolist()
    assert selection.numbered(attributes)[0] is numbers
