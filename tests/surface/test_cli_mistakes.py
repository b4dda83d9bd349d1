"""What the command line says to mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mullion.spark.own_session import OwnSession
from surface.shell import (
    SCRIPT,
    inside,
)


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

    @pytest.mark.parametrize("more", [(), ("--follow",), ("--checkpoint", "state")])
    def test_a_stream_with_nothing_at_its_path(
        self, here: Path, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(OwnSession, "get", lambda own: pytest.fail("Spark was started"))
        (here / "wrong.sql").write_text(SCRIPT.replace("path 'data'", "path 'date'").replace("EXPLAIN;", ""))
        result = inside("run", "wrong.sql", "--out", "nothing", *more)
        assert (result.code, result.stdout) == (1, "")
        lines = result.stderr.splitlines()
        assert lines[:2] == [f"error: trades: there is nothing at {here / 'date'}", "  line 2, column 24"]
        assert lines[3:] == [" " * 27 + "^^^^^^^^^^^", "  check the path in OPTIONS"]
        assert not (here / "nothing").exists() and not (here / "state").exists()

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
        assert "error: --conf memory=2g is not a setting of Spark" in result.stderr

    def test_misspelt_commands_and_options_are_recognised(self) -> None:
        assert "'explain'" in inside("explian").stderr
        assert "--sharing" in inside("run", "script.sql", "--out", "out", "--sharin", "on").stderr

    def test_what_nobody_foresaw_is_called_a_bug(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(name: str) -> str:
            raise KeyError("surprise")

        monkeypatch.setattr("mullion.surface.commands.script_text", broken)
        result = inside("explain", "script.sql")
        assert result.code == 1
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: this is a bug in Mullion: KeyError: 'surprise' (details in ")
        details = Path(line.rsplit(" ", 1)[1].removesuffix(")"))
        assert "Traceback" in details.read_text()
        details.unlink()
