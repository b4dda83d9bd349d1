"""The command line as its users meet it: exit codes, what goes to which stream, stopping and continuing."""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import mullion
from mullion.surface import cli
from mullion.surface.progress import Progress, warnings

ROOT = Path(__file__).parents[2]
NOON = 1101902400_000_000
SECOND = 1_000_000
PATIENCE = 300

STREAM = """\
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
USING parquet OPTIONS (path 'data', maxFilesPerTrigger '1') TIMESTAMP BY ts;
"""
SCRIPT = f"""{STREAM}
CREATE QUERY total AS SELECT sum(volume) AS volume, count(*) AS n FROM trades [RANGE '1 min' SLIDE '1 min'];
CREATE QUERY big AS
SELECT symbol, max(price) AS highest FROM trades [RANGE '2 min' SLIDE '1 min'] WHERE volume > 5 GROUP BY symbol;
EXPLAIN;
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three minutes of trades, one file each; the last also holds a late trade and one without a time."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "data").mkdir()
    (folder / "script.sql").write_text(SCRIPT)
    for minute in range(3):
        times: list[int | None] = [NOON + (60 * minute + 6 * i) * SECOND for i in range(10)]
        if minute == 2:
            times += [NOON, None]
        length = len(times)
        table = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "symbol": ["AB"[i % 2] for i in range(length)],
                "price": [float(minute * 100 + i) for i in range(length)],
                "volume": pa.array(range(length), pa.int32()),
            }
        )
        file = folder / "data" / f"{minute}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1_000_000 + minute, 1_000_000 + minute))
    return folder


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(mullion.__file__).parents[1])}
    command = [sys.executable, "-m", "mullion", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def ended(process: subprocess.Popen[str]) -> Ended:
    try:
        stdout, stderr = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return Ended(process.returncode, stdout, stderr)


def inside(*arguments: str, stdin: str | None = None) -> Ended:
    """Within this process, for what needs no Spark."""
    result = CliRunner().invoke(cli.app, list(arguments), input=stdin, prog_name="mullion")
    return Ended(result.exit_code, result.stdout, result.stderr)


def answers(folder: Path, query: str) -> list[dict[str, object]]:
    rows = [row for file in sorted((folder / query).glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def assert_no_noise(stderr: str) -> None:
    for noise in ("Traceback", "java", "WARN", "py4j"):
        assert noise not in stderr, stderr


@pytest.fixture(scope="module")
def finished(world: Path) -> Ended:
    """A whole run, whose answers are in world/out and whose counts are in world/stats.json."""
    return ended(start(world, "run", "script.sql", "--out", "out", "--stats", "stats.json"))


@pytest.mark.spark
@pytest.mark.slow
class TestRun:
    def test_it_answers_and_ends_well(self, world: Path, finished: Ended) -> None:
        assert finished.code == 0, finished.stderr
        assert [(row["volume"], row["n"]) for row in answers(world / "out", "total")] == [(45, 10)] * 3
        highest = [(row["symbol"], row["highest"]) for row in answers(world / "out", "big")]
        assert sorted(highest) == sorted(
            [("A", 8.0), ("B", 9.0), ("A", 108.0), ("B", 109.0), ("A", 208.0), ("B", 209.0), ("A", 208.0), ("B", 209.0)]
        )

    def test_stdout_holds_what_explain_says_and_nothing_else(self, finished: Ended) -> None:
        assert finished.stdout.startswith("stream trades: 2 queries in one pass")

    def test_a_pipe_gets_a_line_for_each_batch_warnings_and_a_summary(self, finished: Ended) -> None:
        start, *batches, late, malformed, summary = finished.stderr.splitlines()
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC reading; Spark's log is .*spark-.*\.log$", start)
        told = [re.search(r" UTC batch (\d) of trades: 10 events, \d+ answers, ", line) for line in batches]
        assert [found and found[1] for found in told] == ["1", "2", "3"]
        assert re.search(r" UTC 2 queries, 30 events, 11 answers in [\d.]+ s; the answers are in out/<query>/", summary)
        assert start.rpartition(" is ")[2] == summary.rpartition(" is ")[2]
        assert late == "warning: 1 event of trades came too late (missed by total 1, big 1); kept in out/_late"
        assert malformed.startswith("warning: 1 record of trades did not parse or had no event time; kept in out/_mal")
        assert_no_noise(finished.stderr)

    def test_what_was_put_aside_is_there(self, world: Path, finished: Ended) -> None:
        assert len(answers(world / "out", "_late")) == 1
        assert len(answers(world / "out", "_malformed")) == 1

    def test_stats(self, world: Path, finished: Ended) -> None:
        found = json.loads((world / "stats.json").read_text())
        counts = found["streams"]["trades"]
        assert (counts["batches"], counts["events"], counts["late"], counts["malformed"]) == (3, 30, 1, 1)
        assert counts["answers"] == 3 + 8
        assert {"slices", "fragments", "groups", "partial_operations", "final_operations", "seconds"} <= counts.keys()
        assert [query["name"] for query in found["explanation"]["plans"][0]["queries"]] == ["total", "big"]

    def test_stopped_and_continued_it_answers_the_same(self, world: Path, finished: Ended) -> None:
        arguments = ("run", "script.sql", "--out", "continued", "--checkpoint", "checkpoint")
        process = start(world, *arguments, "--follow")
        wait_for(lambda: any((world / "continued").glob("total/*.parquet")), process)
        process.send_signal(signal.SIGTERM)
        stopped = ended(process)
        assert stopped.code == 143, stopped.stderr
        assert "stopped after batch " in stopped.stderr
        assert "run the same command again to continue" in stopped.stderr
        assert_no_noise(stopped.stderr)
        continued = ended(start(world, *arguments, "--close"))
        assert continued.code == 0, continued.stderr
        for query in ("total", "big", "_late", "_malformed"):
            assert answers(world / "continued", query) == answers(world / "out", query)

    def test_answers_of_another_run_are_not_touched(self, world: Path, finished: Ended) -> None:
        """By the command line of an earlier run; in this process it would share its session with other tests."""
        before = answers(world / "out", "total")
        refused = ended(start(world, "run", "script.sql", "--out", "out"))
        assert refused.code == 1
        assert "out holds answers of a run without checkpoint" in refused.stderr
        assert "--overwrite" in refused.stderr
        assert answers(world / "out", "total") == before

    def test_an_endless_source_for_some_time(self, tmp_path: Path) -> None:
        script = (
            "CREATE STREAM ticks USING rate OPTIONS (rowsPerSecond '20') TIMESTAMP BY timestamp;"
            "CREATE QUERY n AS SELECT count(*) AS n FROM ticks [RANGE '1 s' SLIDE '1 s'];"
        )
        options = ("--for", "3 s", "--every", "1 s", "--log", "json", "--stats", "stats.json")
        process = start(tmp_path, "run", "-", "--out", "out", *options)
        assert process.stdin is not None
        process.stdin.write(script)
        process.stdin.close()
        process.stdin = None
        result = ended(process)
        assert (result.code, result.stdout) == (0, "")
        first, *batches, last = [json.loads(line) for line in result.stderr.splitlines()]
        assert (first["event"], last["event"]) == ("start", "end") and first["spark_log"] == last["spark_log"]
        assert all(batch["event"] == "batch" and batch["stream"] == "ticks" for batch in batches)
        assert len(batches) <= 4
        assert last["events"] == sum(batch["events"] for batch in batches)
        assert json.loads((tmp_path / "stats.json").read_text())["seconds"] > 3

    def test_a_question_in_a_script_is_answered_at_the_end(self, world: Path) -> None:
        question = "SELECT count(*) AS n, min(price) AS lowest FROM trades [RANGE '1 min' SLIDE '1 min'];"
        (world / "asking.sql").write_text(f"{STREAM}{question}")
        result = ended(start(world, "run", "asking.sql", "--out", "asked"))
        assert result.code == 0, result.stderr
        assert result.stdout.splitlines() == [
            "window_start,window_end,n,lowest",
            "2004-12-01 12:01:00Z,2004-12-01 12:02:00Z,10,100.0",
        ]
        assert "\nanswered up to 2004-12-01 12:02:00 UTC, before the newest event at 2004-12-01 " in result.stderr
        assert_no_noise(result.stderr)

    def test_ctrl_c_while_spark_starts(self, world: Path) -> None:
        process = start(world, "run", "script.sql", "--out", "unused")
        assert process.stdout is not None
        assert process.stdout.readline().startswith("stream trades")
        process.send_signal(signal.SIGINT)
        result = ended(process)
        assert result.code == 130
        assert result.stderr == "stopped before any event was read\n"
        assert not (world / "unused").exists()

    def test_a_file_that_is_no_parquet(self, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "broken.parquet").write_text("this is not Parquet, however one looks at it")
        (tmp_path / "script.sql").write_text(SCRIPT)
        result = ended(start(tmp_path, "run", "script.sql", "--out", "out"))
        assert result.code == 1
        assert re.search(r"^error: trades.*broken\.parquet", result.stderr, re.MULTILINE), result.stderr
        assert "bug in Mullion" not in result.stderr
        assert "Traceback" not in result.stderr


def wait_for(there: object, process: subprocess.Popen[str]) -> None:
    assert callable(there)
    until = time.monotonic() + PATIENCE
    while not there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def here(world: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(world)
    yield world


class TestMistakes:
    def test_a_misspelt_column(self, here: Path) -> None:
        (here / "wrong.sql").write_text(SCRIPT.replace("max(price)", "max(prise)"))
        result = inside("run", "wrong.sql", "--out", "nothing")
        assert (result.code, result.stdout) == (1, "")
        lines = result.stderr.splitlines()
        assert lines[0] == "error: unknown column 'prise'"
        assert lines[3].strip() == "^^^^^"
        assert lines[4] == "  did you mean 'price'?"
        assert not (here / "nothing").exists()

    def test_all_of_a_script_are_told(self, here: Path) -> None:
        wrong = SCRIPT.replace("max(price)", "max(prise)") + ";\nCREATE QUERY more AS SELEC 1;\nDROP QUERY nobody;"
        (here / "wrong.sql").write_text(wrong)
        result = inside("run", "wrong.sql", "--out", "nothing")
        assert (result.code, result.stdout) == (1, "")
        assert result.stderr.startswith("error: 3 mistakes; nothing was done\n")
        for told in ("expected SELECT, found 'SELEC'", "unknown column 'prise'", "unknown query 'nobody'", "'price'?"):
            assert told in result.stderr
        assert result.stderr.count("^^^^^") >= 3
        assert not (here / "nothing").exists()

    def test_a_script_that_is_not_there(self, here: Path) -> None:
        result = inside("run", "scrip.sql", "--out", "nothing")
        assert (result.code, result.stderr) == (
            1,
            "error: there is no script scrip.sql\n  did you mean 'script.sql'?\n",
        )

    def test_a_directory_for_a_script(self, here: Path) -> None:
        assert inside("explain", "data").stderr == "error: data is a directory\n  name a script in it\n"

    def test_a_script_that_is_not_text(self, here: Path) -> None:
        (here / "bytes.sql").write_bytes(b"-- fine\n\xff")
        result = inside("explain", "bytes.sql")
        assert (result.code, result.stderr) == (1, "error: bytes.sql is not UTF-8 text (line 2)\n  save it as UTF-8\n")

    def test_a_duration_that_is_none(self, here: Path) -> None:
        result = inside("run", "script.sql", "--out", "nothing", "--for", "1 fortnight")
        assert result.code == 1
        assert "unknown unit 'fortnight'" in result.stderr

    @pytest.mark.parametrize(
        ("option", "value", "says"),
        [
            ("--out", "script.sql", "--out script.sql is a file"),
            ("--checkpoint", "script.sql", "--checkpoint script.sql is a file"),
            ("--out", "/proc/nope", "--out /proc/nope cannot be written: "),
            ("--checkpoint", "script.sql/below", "script.sql is a file"),
            ("--out", "s3a://bucket/answers", "--out s3a://bucket/answers is not a local path"),
            ("--checkpoint", "hdfs://host/state", "--checkpoint hdfs://host/state is not a local path"),
            ("--stats", "no/such/folder/stats.json", "--stats no/such/folder/stats.json cannot be written"),
        ],
    )
    def test_places_that_cannot_be_written(self, here: Path, option: str, value: str, says: str) -> None:
        arguments = {"--out": "nothing", option: value}
        result = inside("run", "script.sql", *(word for pair in arguments.items() for word in pair))
        assert result.code == 1
        assert says in result.stderr
        assert "bug in Mullion" not in result.stderr
        assert not (here / "s3a:").exists()

    def test_a_setting_that_is_none(self, here: Path) -> None:
        result = inside("run", "script.sql", "--out", "nothing", "--conf", "memory=2g")
        assert result.code == 1
        assert "error: --conf memory=2g is no setting" in result.stderr

    def test_misspelt_commands_and_options_are_recognised(self) -> None:
        assert "'explain'" in inside("explian").stderr
        assert "--sharing" in inside("run", "script.sql", "--out", "out", "--sharin", "on").stderr

    def test_what_nobody_foresaw_is_called_a_bug(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(name: str) -> str:
            raise KeyError("surprise")

        monkeypatch.setattr("mullion.surface.commands.explain.read_script", broken)
        result = inside("explain", "script.sql")
        assert result.code == 1
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: this is a bug in Mullion: KeyError: 'surprise' (details in ")
        details = Path(line.rsplit(" ", 1)[1].removesuffix(")"))
        assert "Traceback" in details.read_text()
        details.unlink()


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
    from mullion.runtime.counts import Counts

    counts = Counts(late=3, late_by_query={"a": 2, "b": 0}, malformed=1, bad_by_query={"a": 1, "b": 0})
    assert list(warnings({"trades": counts}, Path("out"))) == [
        "3 events of trades came too late (missed by a 2); kept in out/_late",
        "1 record of trades did not parse or had no event time; kept in out/_malformed",
        "query a met 1 bad value (overflow, division by zero or a failed cast), taken as NULL",
    ]
