"""Questions, EXPLAIN and help at the command line."""

from __future__ import annotations

import csv
import io
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mullion
from mullion.spark.results import OneAnswer
from mullion.surface.printing import print_answer
from mullion.surface.progress import Progress, warnings
from surface.shell import (
    ROOT,
    SCRIPT,
    STREAM,
    inside,
)
from without_spark import EngineOfFiles

QUESTION = (
    "SELECT symbol, max(price) AS highest, top_k(volume, 1) AS most FROM trades [RANGE '30 s'] "
    "GROUP BY symbol ORDER BY symbol"
)


@pytest.mark.spark
class TestAsk:
    """In this process, with the session that tests share."""

    def test_csv_for_a_pipe(self, here: Path, spark: object) -> None:
        result = inside("ask", "script.sql", QUESTION)
        assert result.code == 0, result.stderr
        assert result.stdout.splitlines() == [
            "window_start,window_end,symbol,highest,most",
            '2004-12-01 12:02:24Z,2004-12-01 12:02:54Z,A,208.0,"[{""item"": 6, ""count"": 1}]"',
            '2004-12-01 12:02:24Z,2004-12-01 12:02:54Z,B,209.0,"[{""item"": 5, ""count"": 1}]"',
        ]
        now = "answered up to 2004-12-01 12:02:54 UTC, the newest event, from the events that the stream keeps\n"
        assert result.stderr == now

    def test_json_and_text(self, here: Path, spark: object) -> None:
        question = "SELECT count(*) AS n, max(price) AS hi FROM trades [ROWS 4]"
        result = inside("ask", "script.sql", question, "--format", "json", "--quiet")
        assert (result.code, result.stderr) == (0, "")
        assert json.loads(result.stdout) == {
            "window_start": "2004-12-01 12:02:36Z",
            "window_end": "2004-12-01 12:02:54Z",
            "n": 4,
            "hi": 209.0,
        }
        shown = inside("ask", "script.sql", question, "--format", "text").stdout.splitlines()
        assert shown[0].startswith("answered up to 2004-12-01 12:02:54 UTC, the newest event")
        assert shown[1].split() == ["window_start", "┃", "window_end", "┃", "n", "┃", "hi"]
        assert shown[3].split("│")[-2:] == [" 4 ", " 209.0"]

    def test_a_stream_without_events(self, here: Path, spark: object) -> None:
        (here / "nothing").mkdir(exist_ok=True)
        (here / "empty.sql").write_text(STREAM.replace("'data'", "'nothing'"))
        result = inside("ask", "empty.sql", "SELECT count(*) AS n FROM trades [RANGE '1 min']")
        assert (result.code, result.stdout) == (0, "window_start,window_end,n\n")
        assert result.stderr == "answered before the first event\n"

    @pytest.mark.parametrize(
        ("question", "says", "caret"),
        [
            ("SELECT max(prise) AS m FROM trades [ROWS 2]", "unknown column 'prise'", "^^^^^"),
            ("SELECT max(price) FROM trade [ROWS 2]", "unknown stream 'trade'", "^^^^^"),
            ("SELECT max(price) FROM trades [ROWS two]", "", "^^^"),
            ("SELECT max(price FROM trades [ROWS 2]", "", "^"),
        ],
    )
    def test_a_typo_in_the_question(self, here: Path, question: str, says: str, caret: str) -> None:
        result = inside("ask", "script.sql", question)
        assert (result.code, result.stdout) == (1, "")
        lines = result.stderr.splitlines()
        assert lines[0].startswith("error: ") and says in lines[0]
        assert any(question in line for line in lines)
        assert caret in result.stderr and "bug" not in result.stderr


class TestExplain:
    def test_text(self, here: Path) -> None:
        result = inside("explain", "script.sql")
        assert (result.code, result.stderr) == (0, "")
        assert "query big: [RANGE 2 min SLIDE 1 min]" in result.stdout

    def test_json_from_standard_input(self, here: Path) -> None:
        result = inside("explain", "-", "--format", "json", stdin=SCRIPT)
        assert [plan["stream"] for plan in json.loads(result.stdout)["plans"]] == ["trades"]

    def test_svg_draws_the_plan(self, here: Path) -> None:
        result = inside("explain", "script.sql", "--format", "svg")
        assert (result.code, result.stderr) == (0, "")
        assert result.stdout.startswith("<svg") and "query big" in result.stdout


class TestHelp:
    def test_it_lists_the_commands(self) -> None:
        result = inside("--help")
        assert result.code == 0
        for command in ("run", "explain", "demo", "doctor"):
            assert f"\n  {command} " in result.stdout

    def test_version(self) -> None:
        assert inside("--version").stdout == f"mullion {mullion.__version__}\n"

    def test_the_page_in_docs_is_up_to_date(self) -> None:
        page = runpy.run_path(str(ROOT / "docs" / "generate.py"))["cli_page"]()
        assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == page, "run: python docs/generate.py"

    def test_help_loads_nothing_heavy(self) -> None:
        program = (
            "import sys, mullion.surface.cli; print([m for m in ('pyspark', 'pyarrow', 'numpy') if m in sys.modules])"
        )
        environment = {**os.environ, "PYTHONPATH": str(Path(mullion.__file__).parents[1])}
        output = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert output.stdout.strip() == "[]", output.stderr


def test_the_engine_is_at_the_front_door() -> None:
    from mullion import Engine

    assert Engine.__module__ == "mullion.engine"
    with pytest.raises(AttributeError, match="no attribute 'Motor'"):
        _ = mullion.Motor


def test_progress_shows_nothing_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    progress = Progress(Console(stderr=True))
    progress.show("reading")
    progress.hide()
    assert capsys.readouterr() == ("", "")


def test_warnings_name_the_queries() -> None:
    from mullion.runtime.counts import StreamCounts

    counts = StreamCounts(late=3, late_by_query={"a": 2, "b": 0}, malformed=1, bad_by_query={"a": 1, "b": 0})
    assert list(warnings({"trades": counts}, Path("out"))) == [
        "3 events of trades came too late (missed by a 2); kept in out/_late",
        "1 record of trades did not parse or had no event time; kept in out/_malformed",
        "query a met 1 bad value (overflow, division by zero or a failed cast), taken as NULL",
    ]


def test_queries_that_were_answered_late_are_told_of() -> None:
    from mullion.runtime.counts import StreamCounts

    scheduled = {"a": {"executions": 1200, "late": 7, "worst_lateness": 90_000_000}, "b": {"executions": 5, "late": 0}}
    assert list(warnings({"trades": StreamCounts(scheduled=scheduled)}, Path("out"))) == [
        "queries with SLIDE AT MOST over trades were answered after their period was over "
        "(a 7 of 1,200 times, by 90 s at worst)"
    ]


class TestPrinted:
    """What is printed can be read back: no value is taken for another one, or for an instruction."""

    ANSWER = OneAnswer(
        pa.table(
            {
                "k": ["[red]a[/]", ":smile:", "", None, 'say "x",\ny'],
                "v": [float("nan"), float("-inf"), 1.5, None, 2.0],
                "[top]": [[{"item": float("nan"), "count": 1}], [], [], [], []],
            }
        ),
        None,
        "kept events",
        0,
        0,
    )

    def test_csv(self, capsys: pytest.CaptureFixture[str]) -> None:
        """NULL is an empty field, and a text without characters is one in quotes."""
        print_answer(self.ANSWER, "csv", quiet=True)
        text = capsys.readouterr().out
        assert text.splitlines()[1:5] == [
            '[red]a[/],NaN,"[{""item"": ""NaN"", ""count"": 1}]"',
            ":smile:,-Infinity,[]",
            '"",1.5,[]',
            ",,[]",
        ]
        assert [row[0] for row in csv.reader(io.StringIO(text))] == ["k", "[red]a[/]", ":smile:", "", "", 'say "x",\ny']

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        def refused(name: str) -> None:
            raise AssertionError(f"{name} is no JSON")

        print_answer(self.ANSWER, "json", quiet=True)
        rows = [json.loads(line, parse_constant=refused) for line in capsys.readouterr().out.splitlines()]
        assert [row["v"] for row in rows] == ["NaN", "-Infinity", 1.5, None, 2.0]
        assert [row["k"] for row in rows] == self.ANSWER.to_arrow()["k"].to_pylist()

    def test_text(self, capsys: pytest.CaptureFixture[str]) -> None:
        print_answer(self.ANSWER, "text", quiet=True)
        head, _, *rows = capsys.readouterr().out.splitlines()
        assert head.split() == ["k", "┃", "v", "┃", "[top]"]
        assert [row.split("│")[0].strip() for row in rows[:2]] == ["[red]a[/]", ":smile:"]


@pytest.mark.parametrize("how", [["--quiet"], ["--log", "text"]])
def test_a_warning_is_told_once(how: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mullion.engine.Engine", EngineOfFiles)
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"ts": pa.array([1, 2], pa.timestamp("us", "UTC"))}), tmp_path / "data" / "a.parquet")
    (tmp_path / "script.sql").write_text(
        f"CREATE STREAM s (ts TIMESTAMP) USING parquet OPTIONS (path '{tmp_path / 'data'}') TIMESTAMP BY ts;"
        "CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]"
    )
    result = inside("run", str(tmp_path / "script.sql"), "--out", str(tmp_path / "out"), *how)
    assert result.code == 0, result.stderr
    told = [line for line in result.stderr.splitlines() if "before 1971" in line]
    assert len(told) == 1 and told[0].startswith("warning: event times of s lie"), result.stderr
