"""Options: one list of them, offered by the engine and by the command line."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import get_type_hints

import pytest

from mullion.engine import Engine
from mullion.errors import MullionError
from mullion.options import Expiry, Options, Sharing, Way
from mullion.surface.commands.run import run

DEFAULTS = {option.name: option.default for option in fields(Options)}


def test_the_engine_takes_them_all() -> None:
    taken = inspect.signature(Engine).parameters
    assert {name: taken[name].default for name in DEFAULTS} == DEFAULTS


def test_the_command_line_offers_all_that_make_sense_there() -> None:
    offered = inspect.signature(run).parameters
    wanted = {name: default for name, default in DEFAULTS.items() if name != "keep_answers"}
    assert {name: offered[name].default for name in wanted} == wanted
    types = get_type_hints(run)
    assert {name: types[name] for name in wanted} == {name: type(default) for name, default in wanted.items()}


@pytest.mark.parametrize("name", [name for name, default in DEFAULTS.items() if isinstance(default, str)])
def test_a_string_names_a_choice(name: str) -> None:
    for choice in type(DEFAULTS[name]):  # type: ignore[attr-defined]
        assert getattr(Engine(**{name: choice.value}).options, name) is choice
    with pytest.raises(MullionError, match=f"^{name} is one of .*, not 'none'$"):
        Engine(**{name: "none"})  # type: ignore[arg-type]


def test_expiry_and_way_are_different_choices() -> None:
    chosen = Engine(expiry="direct", way="direct").options
    assert chosen == Options(expiry=Expiry.SCAN, way=Way.DIRECT)
    assert Options(sharing=Sharing.ON).is_shared and not Options(sharing=Sharing.OFF).is_shared


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"most_answers": 0}, "most_answers is a number of rows, at least 1, not 0"),
        ({"most_held": "all"}, "most_held is a number of rows, at least 1, not the str 'all'"),
        ({"strict": "no"}, "strict is True or False, not the str 'no'"),
    ],
)
def test_wrong_values_are_refused(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(MullionError, match=f"^{sentence}$"):
        Options.of(**given)
