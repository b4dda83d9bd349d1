"""The benchmark of overload: what it calls normal, wrong, and within bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from benchmarks.overload_burst import KEYS, SECOND, Course, script, write, wrong_answers
from benchmarks.overload_errors import at_rest, errors
from benchmarks.overload_errors import write as write_windows
from mullion.language.parse import parse_script


def test_normal_again_is_when_nothing_is_old_or_shed_any_more() -> None:
    course = Course(points=[(1, 0.5, 0, 1.0), (6, 9.0, 8, 0.25), (9, 1.0, 0, 0.5), (12, 1.0, 0, 1.0)], burst=5.0)
    assert (course.oldest, course.normal_again(2.0)) == (9.0, 7.0)
    course.points.pop()
    assert course.normal_again(2.0) is None


@pytest.mark.parametrize("behind", ["WAIT", "SHED RANDOM AT MOST 99 PERCENT"])
def test_the_scripts_are_right(behind: str, tmp_path: Path) -> None:
    assert len(parse_script(script(tmp_path, behind))) == 10


def test_wrong_answers_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "s", [300, 300], 0.5)
    import pyarrow.parquet as pq

    events = pa.concat_tables([pq.read_table(path) for path in sorted((tmp_path / "s").iterdir())])
    keys, values = np.asarray(events.column("k")), np.asarray(events.column("x"))
    counts, sums = np.bincount(keys, minlength=KEYS), np.bincount(keys, values, minlength=KEYS)
    (present,) = counts.nonzero()
    times = pa.array(np.zeros(len(present), np.int64)).cast(pa.timestamp("us", "UTC"))
    ends = pa.array(np.full(len(present), SECOND)).cast(pa.timestamp("us", "UTC"))
    columns = {"window_start": times, "window_end": ends, "k": present, "n": counts[present], "s": sums[present]}
    right = pa.table(columns)
    assert wrong_answers(Course(answers={"counts": right}), tmp_path) == 0
    assert wrong_answers(Course(answers={"counts": right.slice(1)}), tmp_path) == 1
    off = pa.table({**columns, "n": counts[present] + 1})
    assert wrong_answers(Course(answers={"counts": off}), tmp_path) == len(present)


def test_estimates_and_rest(spark: SparkSession, tmp_path: Path) -> None:
    values = write_windows(tmp_path / "s", 30, 500, 3)
    found = errors(spark, tmp_path / "s", values, 0.5)
    assert found.windows == 30 and all(inside > 0.7 for inside in found.inside.values())
    ratio, batches = at_rest(spark, tmp_path / "s")
    assert batches == 3 and 1.0 < ratio < 2.0
