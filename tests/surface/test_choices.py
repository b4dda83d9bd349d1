"""Options: one list of them, offered by the engine and by the command line."""

from __future__ import annotations

import inspect
from dataclasses import fields
from enum import StrEnum
from typing import get_type_hints

import pytest
from typer.testing import CliRunner

from mullion.engine import Engine
from mullion.errors import MullionError
from mullion.options import Expiry, Options, Relief, Sharing, Way
from mullion.surface.cli import app
from mullion.surface.run_command import run

DEFAULTS = {option.name: option.default for option in fields(Options)}


def test_the_engine_takes_them_all() -> None:
    taken = inspect.signature(Engine).parameters
    assert {name: taken[name].default for name in DEFAULTS} == DEFAULTS


def test_the_command_line_offers_all_that_make_sense_there() -> None:
    offered = inspect.signature(run).parameters
    wanted = {name: default for name, default in DEFAULTS.items() if name != "keep_answers"}
    wanted["relief"] = "stretch, enlarge, shed"
    assert {name: offered[name].default for name in wanted} == wanted
    types = get_type_hints(run)
    kinds = {name: type(default) for name, default in wanted.items()} | {"memory": str | None}
    assert {name: types[name] for name in wanted} == kinds


@pytest.mark.parametrize("name", [name for name, default in DEFAULTS.items() if isinstance(default, StrEnum)])
def test_a_string_names_a_choice(name: str) -> None:
    for choice in type(DEFAULTS[name]):  # type: ignore[attr-defined]
        assert getattr(Engine(**{name: choice.value}).options, name) is choice
    with pytest.raises(MullionError, match=f"^{name} is one of .*, not 'none'$"):
        Engine(**{name: "none"})  # type: ignore[arg-type]


def test_scans_may_still_be_called_direct() -> None:
    chosen = Engine(expiry="direct", way="direct").options
    assert chosen == Options(expiry=Expiry.SCAN, way=Way.DIRECT) == Engine(expiry="scan", way="direct").options


def test_both_names_of_scans_are_taken_on_the_command_line() -> None:
    for name in ("scan", "direct"):
        answered = CliRunner().invoke(app, ["run", "no such script", "--out", "o", "--expiry", name])
        assert "no such script" in answered.output and "--expiry" not in answered.output


def test_a_choice_that_is_none_is_refused_on_the_command_line() -> None:
    refused = CliRunner().invoke(app, ["run", "q.sql", "--out", "o", "--expiry", "list"])
    assert refused.exit_code == 2 and "'list' is not one of 'upa', 'nt', 'scan'" in refused.output


def test_explain_goes_by_the_schedule_that_is_given() -> None:
    script = """
        CREATE STREAM s (ts TIMESTAMP, x INT) USING rate TIMESTAMP BY ts;
        CREATE QUERY q AS SELECT max(x) AS n FROM s [RANGE 30 min SLIDE AT MOST 2 min];
    """
    told = {
        given: CliRunner().invoke(app, ["explain", "-", *given], input=script) for given in ((), ("--schedule", "edf"))
    }
    assert "schedule auto (hybrid, while late late-pending): 1 query" in told[()].stdout
    assert "schedule edf: 1 query" in told["--schedule", "edf"].stdout


def test_relief_is_text_or_its_kinds() -> None:
    assert Options.of(relief=" Shed,stretch").relief == (Relief.SHED, Relief.STRETCH)
    assert Options.of(relief=[Relief.SHED]).relief == Options.of(relief="shed").relief
    assert Options.of(relief="").relief == ()


def test_sharing() -> None:
    assert Options(sharing=Sharing.ON).is_shared and not Options(sharing=Sharing.OFF).is_shared


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"most_answers": 0}, "most_answers is a number of rows, at least 1, not 0"),
        ({"most_held": "all"}, "most_held is a number of rows, at least 1, not the str 'all'"),
        ({"memory": "4"}, "memory is a size such as '4GB', not '4'"),
        ({"memory": "many GB"}, "memory is a size such as '4GB', not 'many GB'"),
        ({"memory": "-4GB"}, "memory is a size such as '4GB', not '-4GB'"),
        ({"memory": 4.5}, "memory is a size such as '4GB' or None, not the float 4.5"),
        ({"memory": "1GB"}, "memory is 1.0 GB, and at least 1.5 GB are needed"),
        ({"memory": 100}, "memory is 100 bytes, and at least 1.5 GB are needed"),
        ({"relief": "shed, shed"}, "relief is some of stretch, enlarge, shed, each once, not 'shed, shed'"),
        ({"relief": ("wait",)}, "relief is some of stretch, enlarge, shed, each once, not 'wait'"),
        ({"strict": "no"}, "strict is True or False, not the str 'no'"),
    ],
)
def test_wrong_values_are_refused(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(MullionError, match=f"^{sentence}(\\n|$)"):
        Options.of(**given)


def test_memory_is_a_number_of_bytes() -> None:
    assert [Options(memory=size).memory for size in ("4GB", "4096 MB", 4 << 30, None)] == [4 << 30] * 3 + [None]
    assert Options(memory="4GB").memory_limit == 4 << 30
    assert Options().memory_limit > 0
