"""Which column is which in a CSV file: what its header says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.errors import SourceError
from mullion.language.types import DOUBLE, INT, TIMESTAMP
from mullion.spark.headers import has_header, in_order_of_header

COLUMNS = (("ts", TIMESTAMP), ("Price", DOUBLE), ("volume", INT))


@given(st.permutations(COLUMNS), st.booleans())
def test_the_order_is_the_headers(order: list[tuple[str, object]], upper: bool) -> None:
    header = [name.upper() if upper else name for name, _ in order]
    assert in_order_of_header("trades", "a.csv", header, COLUMNS) == tuple(order)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (["ts", "price"], ["not in the header: volume"]),
        (["ts", "price", "volum"], ["not in the header: volume", "not declared: volum", "did you mean 'volume'?"]),
        (["ts", "price", "volume", "extra"], ["not declared: extra"]),
        (["ts", "price", "volume", "Volume"], ["twice in the header: Volume, volume"]),
        (["ts", "price", "volume", "_c3"], ["not declared: _c3"]),
    ],
)
def test_other_names_are_an_error_that_lists_both(header: list[str], said: list[str]) -> None:
    with pytest.raises(SourceError) as error:
        in_order_of_header("trades", "/data/a.csv", header, COLUMNS)
    told = str(error.value)
    assert "trades" in told and "/data/a.csv" in told
    assert f"header:   {', '.join(header)}" in told
    assert "declared: ts, Price, volume" in told
    for sentence in said:
        assert sentence in told


def test_when_there_is_a_header() -> None:
    assert has_header("csv", {"header": "TRUE"}) and has_header("csv", {"header": "true"})
    assert not has_header("csv", {}) and not has_header("csv", {"header": "False"})
    assert not has_header("json", {"header": "true"})
