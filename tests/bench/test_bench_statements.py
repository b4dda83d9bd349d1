"""The benchmark of statements: it runs, all queries differ, and a wrong answer is noticed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from benchmarks import statements
from mullion.errors import MullionError


@pytest.mark.slow
def test_a_quick_run_tells_all(tmp_path: Path) -> None:
    report = statements.run(Console(file=io.StringIO(), width=160), json=tmp_path / "it.json", quick=True)
    found = json.loads((tmp_path / "it.json").read_text())
    assert found["benchmark"] == "statements" and not found["judged"] and report.passed
    assert [figure["what"] for figure in found["figures"]] == [
        "20 queries added, windows and predicates",
        "20 queries added, the same with GROUP BY",
        "a question to ordered_sharing, median",
        "a question to timegram, median",
    ]


def test_queries_differ() -> None:
    assert len(set(statements.different_queries(500, "symbol"))) == 500


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("ordered_sharing", {"max(price)": 3.0}, {"max(price)": 9.0}),
        ("timegram", {"total_low": 4.0, "total_high": 6.0}, {"total_low": 6.0, "total_high": 7.0}),
    ],
)
def test_a_wrong_answer_is_noticed(name: str, right: dict[str, float], wrong: dict[str, float]) -> None:
    values = {"price": np.array([9.0, 1.0, 3.0]), "volume": np.array([7, 2, 3])}

    def answer(row: dict[str, float]) -> SimpleNamespace:
        return SimpleNamespace(to_arrow=lambda: pa.Table.from_pylist([row]))

    statements._check(name, values, 2, answer(right))
    with pytest.raises(MullionError, match="of 2 rows, where"):
        statements._check(name, values, 2, answer(wrong))
