"""The doctor says what is wrong and what to do, and never falls over."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mullion.errors import EnvironmentProblem
from mullion.surface import doctor


def report(monkeypatch: pytest.MonkeyPatch, **looks: object) -> tuple[bool, str]:
    monkeypatch.setattr(doctor, "_CHECKS", looks)
    console = Console(file=io.StringIO(), width=200)
    fine = doctor.print_report(console)
    return fine, console.file.getvalue()  # type: ignore[attr-defined]


def test_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    fine, text = report(monkeypatch, memory=lambda: doctor.Check("memory", True, "24 GB"))
    assert fine
    assert "memory   24 GB" in text and "All is well." in text


def test_a_missing_java_is_told_in_one_sentence_with_a_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java() -> doctor.Check:
        raise EnvironmentProblem("there is no Java", hint="pip install 'mullion[java]'")

    fine, text = report(monkeypatch, java=no_java)
    assert not fine
    assert "there is no Java" in text and "pip install 'mullion[java]'" in text and "1 of 1 checks failed." in text
    assert "Traceback" not in text


def test_the_unforeseen_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> doctor.Check:
        raise ZeroDivisionError("oops")

    fine, text = report(monkeypatch, ports=broken)
    assert not fine
    assert "oops" in text
