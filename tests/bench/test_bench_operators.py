"""The benchmark of operators: its parts measure what they say, and one that is not there is left out."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from benchmarks import operators, operators_joins
from benchmarks.all_join_orders import all_costs
from benchmarks.connections import UNIT, WINDOW, Connections, join_size
from benchmarks.operators_joins import FAST_FIRST, OPTIMAL, SELECTIVE, STREAMS, Size
from mullion.operators.kernels.multiway import Joined, Reevaluation

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


@pytest.mark.slow
def test_every_order_compares_as_often_as_predicted() -> None:
    """The formulas of 5.3.1 hold for the algorithm that they were made for."""
    arrivals = operators_joins.generate(8_000)
    found = operators_joins.measure_orders(arrivals, [OPTIMAL, FAST_FIRST, SELECTIVE], TINY)
    costs = all_costs(STREAMS)
    for order in (OPTIMAL, FAST_FIRST, SELECTIVE):
        run = found[order, Reevaluation.EAGER, 1]
        assert operators_joins.compared_in_a_unit(arrivals, order, run) == pytest.approx(costs[order], rel=0.1)


def test_algorithms_that_differ_end_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    right = operators_joins.join

    def forgetful(*given: object, **named: object) -> Joined:
        found = right(*given, **named)  # type: ignore[arg-type]
        if named["mode"] is Reevaluation.RESTORE:
            object.__setattr__(found, "results", found.results - 1)
        return found

    monkeypatch.setattr(operators_joins, "join", forgetful)
    with pytest.raises(operators_joins.MullionError, match="differ"):
        operators_joins.measure_orders(operators_joins.generate(2_000), [OPTIMAL], TINY)


@pytest.mark.slow
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


class TestConnections:
    """What golab 3.6 says of its trace holds of the generated one."""

    @pytest.fixture(scope="class")
    @staticmethod
    def links() -> list[pa.Table]:
        return [Connections().link(number, WINDOW) for number in range(2)]

    def test_telnet_joins_ten_times_as_often_as_ftp_and_ftp_as_often_as_there_are_connections(
        self, links: list[pa.Table]
    ) -> None:
        ftp, telnet = (join_size(*links, protocol) for protocol in ("ftp", "telnet"))
        assert ftp == pytest.approx(WINDOW, rel=0.2)
        assert telnet / ftp == pytest.approx(10, rel=0.2)

    def test_sources_are_skewed_and_have_about_ten_destinations_each(self, links: list[pa.Table]) -> None:
        for link in links:
            counts = np.bincount(link["source"].to_numpy(), minlength=1_647)
            assert len(counts) == 1_647 and (counts > 0).sum() > 1_500
            assert np.sort(counts)[-165:].sum() > 0.6 * WINDOW
            pairs = len(link.group_by(["source", "destination"]).aggregate([]))
            assert 8 < pairs / (counts > 0).sum() < 12

    def test_one_event_a_unit_in_the_order_of_time(self, links: list[pa.Table]) -> None:
        times = links[0]["ts"].cast(pa.int64()).to_numpy()
        assert (np.diff(times) >= 0).all()
        assert times[-1] / UNIT == pytest.approx(WINDOW, rel=0.01)

    def test_join_size_counts_pairs(self) -> None:
        left = pa.table({"protocol": ["ftp", "ftp", "http"], "source": [1, 2, 2]})
        right = pa.table({"protocol": ["ftp", "ftp", "ftp", "ftp"], "source": [2, 2, 0, 5]})
        assert join_size(left, right, "ftp") == 2
