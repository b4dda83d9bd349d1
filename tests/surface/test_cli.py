"""The command line as its users meet it: exit codes, what goes to which stream, stopping and continuing."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from surface.shell import (
    SCRIPT,
    STREAM,
    Ended,
    answers,
    assert_no_noise,
    ended,
    start,
    wait_for,
)


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
