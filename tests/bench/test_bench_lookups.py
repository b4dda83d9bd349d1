"""The benchmark of lookups: every way answers right, wrong answers are found, and the report tells all."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import lookups
from benchmarks.lookup_ways import (
    ByInterval,
    ByOrderedSharing,
    ByTimeGram,
    CompiledNaive,
    Course,
    GrowingInterval,
    Naive,
    NaiveSum,
    Way,
)
from benchmarks.lookups import QUICK, SKEWED, UNIFORM, Lab, check
from benchmarks.measuring import Stopwatch
from benchmarks.report import Report
from mullion.errors import MullionError


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(QUICK, Stopwatch(Console(file=io.StringIO())), Report())


@pytest.mark.parametrize("way", [Naive, CompiledNaive, ByTimeGram, ByOrderedSharing, ByInterval])
@pytest.mark.parametrize(("data", "ratio", "batch"), [(UNIFORM, 1, 100), (SKEWED, 7, 30), (SKEWED, 1, 1)])
@pytest.mark.parametrize("everyone", [False, True])
def test_every_way_answers_right(lab: Lab, way: type[Way], data: str, ratio: int, batch: int, everyone: bool) -> None:
    course = lab.course(data, 15, ratio, 600, batch, everyone=everyone)
    told = way(course).run()
    assert sum(len(low) for low, _ in told) == 600 // ratio * (15 if everyone else 1)
    check("way", course, told)
    assert way is ByTimeGram or all(np.array_equal(low, high) for low, high in told)


def test_sums_are_right(lab: Lab) -> None:
    course = lab.course(UNIFORM, 15, 2, 600, 100)
    check("naive", course, NaiveSum(course).run(), sums=True)
    check("timegram", course, ByTimeGram(course, "sum").run(), sums=True)


def test_a_wrong_answer_ends_the_benchmark(lab: Lab) -> None:
    course = lab.course(UNIFORM, 15, 1, 300, 100)
    told = Naive(course).run()
    for wrong in (0.001, -0.001):
        low, high = told[1]
        with pytest.raises(MullionError, match="rows after row 301 gave"):
            check("naive", course, [told[0], (low + wrong, high + wrong), told[2]])
    with pytest.raises(MullionError, match="2 batches were answered instead of 3"):
        check("naive", course, told[:2])
    with pytest.raises(MullionError, match="99 windows were answered instead of 100"):
        check("naive", course, [told[0], (told[1][0][:99], told[1][1][:99]), told[2]])


def test_some_batches_stand_for_all(lab: Lab) -> None:
    course = replace(lab.course(UNIFORM, 15, 1, 600, 100), told=4)
    told = Naive(course).run()
    assert len(told) == 2
    check("naive", course, told)


def test_windows_are_full_before_time_is_taken(lab: Lab) -> None:
    course: Course = lab.course(UNIFORM, 15, 1, 100, 10)
    assert len(course.before) == course.sizes.max() == QUICK.largest
    naive = Naive(course)
    for size, queue in naive._queries:
        newest = course.before[-size:]
        assert queue[0] == (newest.max(), len(course.before) - size + 1 + int(np.argmax(newest)))
        assert queue[-1] == (newest[-1], len(course.before))


def test_the_growing_tree_moves_when_it_is_full() -> None:
    tree, values = GrowingInterval(10, 5), np.random.default_rng(1).integers(0, 1000, 500)
    moved = 0
    for begin in range(0, 500, 5):
        before = tree.held
        tree.append(values[begin : begin + 5])
        moved += tree.held < before
        sizes = np.arange(1, min(10, begin + 5) + 1)
        (found,) = tree.between(tree.held - sizes, np.full(len(sizes), tree.held))
        assert found.tolist() == [values[begin + 5 - size : begin + 5].max() for size in sizes]
    assert moved > 3


@pytest.mark.slow
def test_the_quick_form(tmp_path: Path) -> None:
    out = io.StringIO()
    report = lookups.run(Console(file=out, width=160), json=tmp_path / "lookups.json", quick=True)
    assert not report.judged
    found = json.loads((tmp_path / "lookups.json").read_text())
    assert found["benchmark"] == "lookups"
    assert [list(panel) for panel in found["series"].values()] == [
        ["naive", "TimeGram", "OrderedSharing", "interval synopsis"]
    ] * 4
    for line in found["series"]["a lookup after every row, skewed data"].values():
        assert list(line) == ["1", "10", "200"]
    assert found["scaled_by"]["naive, 200 windows, uniform"] == 20
    assert "java" not in found["versions"]
    assert "TimeGram, 20 windows, 1:1, uniform: faster than naive by" in out.getvalue()


@pytest.mark.slow
def test_the_picture(tmp_path: Path, lab: Lab) -> None:
    pytest.importorskip("matplotlib")
    line = {"naive": {1: 0.5, 10: 5.0}, "TimeGram": {1: 0.1, 10: 0.1}}
    drawn = Lab(QUICK, lab.watch, lab.report, series=dict.fromkeys("ABCD", line))
    lookups._draw(drawn, tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 10_000
