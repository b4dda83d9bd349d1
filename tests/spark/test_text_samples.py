"""What CSV and JSON files hold, as far as lines from all over them tell; no Spark."""

from __future__ import annotations

import csv
import gzip
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from by_slices import bind
from mullion.algebra.streams import Stream
from mullion.expressions.functions.formatting import format_timestamp
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, STRING, TIMESTAMP
from mullion.planner.rules import make_plan
from mullion.planner.statistics import SAMPLE, SIZES
from mullion.slices.kernels.events import TIME
from mullion.spark.statistics import of_files_now
from mullion.spark.text_samples import BLOCK, MOST_BLOCKS, sample_of_text

COLUMNS = (("ts", TIMESTAMP), ("k", STRING), ("x", BIGINT), ("y", DOUBLE))
NAMES = [name for name, _ in COLUMNS]
SECOND = 1_000_000
Row = tuple[int | None, str | None, int | None, float | None]


def stream(path: Path, format_: str = "csv", **options: str) -> Stream:
    return Stream("s", COLUMNS, "ts", format=format_, options=(("path", str(path)), *options.items()))


def text(value: object) -> str:
    return "" if value is None else str(value)


def csv_text(rows: list[Row], *, header: bool, order: list[int]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow([NAMES[at].upper() for at in order])
    for ts, *others in rows:
        fields = ["" if ts is None else format_timestamp(ts), *map(text, others)]
        writer.writerow([fields[at] for at in order])
    return out.getvalue()


def json_text(rows: list[Row]) -> str:
    lines = []
    for ts, *others in rows:
        record = dict(zip(NAMES, (None if ts is None else format_timestamp(ts), *others), strict=True))
        lines.append(json.dumps(record))
    return "".join(line + "\n" for line in lines)


times = st.integers(-(10**15), 4 * 10**15)
rows_of_files = st.lists(
    st.tuples(
        st.none() | times,
        st.none() | st.text(st.sampled_from("ab,\"' é\x85\u2028"), min_size=1, max_size=5),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
    ),
    max_size=30,
)


@given(rows_of_files, st.sampled_from(["csv", "header", "json"]), st.permutations(range(4)))
def test_small_files_are_read_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], form: str, order: list[int]
) -> None:
    path = tmp_path_factory.mktemp("files") / "part.txt"
    options = {"header": "true"} if form == "header" else {}
    if form == "json":
        path.write_text(json_text(rows))
    else:
        path.write_text(csv_text(rows, header=form == "header", order=order if options else list(range(4))))
    sample = sample_of_text([str(path)], stream(path, "json" if form == "json" else "csv", **options), NAMES)
    known = [ts for ts, *_ in rows if ts is not None]
    if not known:
        assert sample is None
        return
    assert sample is not None
    assert (sample.oldest, sample.newest) == (min(known), max(known))
    assert [tuple(row[name] for name in (TIME, "k", "x", "y")) for row in sample.rows.to_pylist()] == rows
    if not options:
        assert sample.records == len(rows)


def test_large_files_are_sampled_from_their_first_to_their_last_line(tmp_path: Path) -> None:
    line = "x" * 80
    lines = [f"{format_timestamp(at * SECOND)},{line},{at % 7},0.5" for at in range(40_000)]
    for number in range(2):
        own = lines[number * 20_000 : (number + 1) * 20_000]
        (tmp_path / f"{number}.csv").write_text("\n".join(own) + "\n")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > MOST_BLOCKS * BLOCK * 4
    paths = sorted(str(path) for path in tmp_path.iterdir())
    sample = sample_of_text(paths, stream(tmp_path), ["x"])
    assert sample is not None
    assert (sample.oldest, sample.newest) == (0, 39_999 * SECOND)
    assert sample.records == pytest.approx(40_000, rel=0.05)
    assert MOST_BLOCKS * BLOCK / 2 < len(sample.rows) * len(lines[0]) <= MOST_BLOCKS * BLOCK


@pytest.mark.parametrize(
    ("content", "format_", "options"),
    [
        (b"", "csv", {}),
        (b"\n\n", "json", {}),
        (b"not a time,a,1,1\n", "csv", {}),
        (b"{]\n", "json", {}),
        (b"\xff\xfe\x00", "csv", {}),
        (gzip.compress(b"1970-01-01 00:00:00,a,1,1\n"), "csv", {}),
        (b"1970-01-01 00:00:00;a;1;1\n", "csv", {"sep": ";"}),
        (b"1970-01-01 00:00:00,a,1,1\n", "csv", {"multiline": "true"}),
        (b"01/01/1970,a,1,1\n", "csv", {"timestampformat": "dd/MM/yyyy"}),
    ],
)
def test_what_only_spark_can_read_is_left_to_it(
    tmp_path: Path, content: bytes, format_: str, options: dict[str, str]
) -> None:
    path = tmp_path / "part"
    path.write_bytes(content)
    assert sample_of_text([str(path)], stream(path, format_, **options), NAMES) is None


def test_lines_that_do_not_fit_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "part.csv"
    path.write_text("1970-01-01 00:00:03,a,1,1\nbroken\n1970-01-01 00:00:05,b,much,1\n")
    sample = sample_of_text([str(path)], stream(path), ["k", "x"])
    assert sample is not None
    assert sample.rows.select(["k", "x"]).to_pylist() == [{"k": "a", "x": 1}, {"k": "b", "x": None}]
    assert (sample.oldest, sample.newest) == (3 * SECOND, 5 * SECOND)


def test_explain_knows_rates_and_groups_of_text_files(tmp_path: Path) -> None:
    path = tmp_path / "part.csv"
    start = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    path.write_text("".join(f"{format_timestamp((start + i) * SECOND)},k{i % 5},{i},1\n" for i in range(3600)))
    query = "SELECT k, count(*) AS n FROM s [RANGE 1 min SLIDE 1 min] WHERE x >= 5 GROUP BY k"
    s = stream(path)
    (grouping,) = make_plan(s, [bind(parse_query(query, name="q"), {"s": s})]).groupings
    known = of_files_now(s, [grouping])
    assert known.events == pytest.approx(3600, rel=0.05)
    assert (known.oldest, known.newest) == (start * SECOND, (start + 3599) * SECOND)
    assert (known.events_from, known.times_from) == (SIZES, SAMPLE)
    (groups,) = known.groups.values()
    assert groups.number == 5
