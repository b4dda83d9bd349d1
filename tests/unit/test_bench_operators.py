"""The benchmark of operators: its parts measure what they say, and one that is not there is left out."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from mullion.benchmarks import operators, operators_joins
from mullion.benchmarks.operators_joins import FAST_FIRST, OPTIMAL, SELECTIVE, STREAMS, Size
from mullion.kernels.multiway import Joined, Mode
from mullion.planner.join_order import all_costs

TINY = Size(tuples=3_000, repeat=1)


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=120)


def test_streams_come_as_often_as_their_rates_and_have_as_many_values() -> None:
    arrivals = operators_joins.generate(13_000)
    for number, stream in enumerate(STREAMS):
        codes = arrivals.codes[arrivals.streams == number]
        assert len(codes) == pytest.approx(1000 * stream.rate, rel=0.1)
        assert len(np.unique(codes)) == stream.distinct


def test_every_order_compares_as_often_as_predicted() -> None:
    """The formulas of 5.3.1 hold for the algorithm that they were made for."""
    arrivals = operators_joins.generate(8_000)
    found = operators_joins.measure_orders(arrivals, [OPTIMAL, FAST_FIRST, SELECTIVE], TINY)
    costs = all_costs(STREAMS)
    for order in (OPTIMAL, FAST_FIRST, SELECTIVE):
        run = found[order, Mode.EAGER, 1]
        assert operators_joins.compared_in_a_unit(arrivals, order, run) == pytest.approx(costs[order], rel=0.1)


def test_algorithms_that_differ_end_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    right = operators_joins.join

    def forgetful(*given: object, **named: object) -> Joined:
        found = right(*given, **named)  # type: ignore[arg-type]
        if named["mode"] is Mode.RESTORE:
            object.__setattr__(found, "results", found.results - 1)
        return found

    monkeypatch.setattr(operators_joins, "join", forgetful)
    with pytest.raises(operators_joins.MullionError, match="differ"):
        operators_joins.measure_orders(operators_joins.generate(2_000), [OPTIMAL], TINY)


def test_the_report_tells_of_parts_and_of_those_left_out(
    console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators_joins, "QUICK", TINY)
    made = operators.run(console, json=tmp_path / "o.json", quick=True, parts=("joins", "nowhere"))
    assert made.left_out == ["nowhere, which is not part of this build"]
    written = json.loads((tmp_path / "o.json").read_text())
    groups = written["joins"]["figure_5_2"]
    assert len(groups) == 9 and all(len(times) == 4 for times in groups.values())
    assert groups["predicted"]["worst"] == pytest.approx(8.34, abs=0.01)
    assert set(written["joins"]["figure_5_3"]) == {"eager", "lazy", "lazyR"}
    assert len(written["joins"]["figure_5_4"]) == 6
    assert "Left out: nowhere" in console.file.getvalue()  # type: ignore[attr-defined]
