from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mullion.errors import EnvironmentProblem
from mullion.spark import java


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """A machine without any Java, and a way to put a pretended one on it."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "find_spec", lambda name: None)

    def install(name: str, version: str) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        script = home / "bin" / "java"
        script.write_text(f"#!/bin/sh\necho '    java.home = {home}' >&2\necho 'openjdk version \"{version}\"' >&2\n")
        script.chmod(0o755)
        return home

    return install


@pytest.mark.parametrize(
    ("output", "feature"),
    [
        ('java version "1.8.0_392"\nJava(TM) SE Runtime Environment (build 1.8.0_392-b08)', 8),
        ('openjdk version "1.8.0_392"', 8),
        ('openjdk version "11.0.21" 2023-10-17', 11),
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "17" 2021-09-14', 17),
        ('java version "21.0.8" 2025-07-15 LTS', 21),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ('openjdk version "21.0.1-internal" 2023-10-17', 21),
        ("openjdk 25-ea 2025-09-16\nOpenJDK Runtime Environment (build 25-ea+10)", 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Dversion="9"\nopenjdk version "17.0.15" 2025-04-15', 17),
    ],
)
def test_version_is_read_from_all_spellings(output: str, feature: int) -> None:
    version = java.parse_version(output)
    assert version is not None
    assert version.feature == feature


@pytest.mark.parametrize(
    "output", ["", "command not found", "The operation couldn't be completed. Unable to locate Java."]
)
def test_other_text_is_no_version(output: str) -> None:
    assert java.parse_version(output) is None


def test_missing_java_says_how_to_get_one(bare: Callable[[str, str], Path]) -> None:
    with pytest.raises(EnvironmentProblem) as problem:
        java.find_java()
    assert problem.value.message == "Spark needs Java 17 or newer, and none was found."
    assert "openjdk-17-jre-headless" in str(problem.value)
    assert "pip install 'mullion[java]'" in str(problem.value)


def test_old_java_is_named(bare: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    home = bare("old", "11.0.21")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(EnvironmentProblem) as problem:
        java.find_java()
    assert problem.value.message == f"Spark needs Java 17 or newer, but JAVA_HOME is Java 11.0.21 ({home}/bin/java)."
    assert problem.value.hint


def test_java_home_without_java_is_named(bare: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(EnvironmentProblem, match=r"JAVA_HOME does not run \(/nowhere/bin/java\)"):
        java.find_java()


def test_java_home_comes_before_the_path(bare: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = bare("first", "21.0.8"), bare("second", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(first))
    monkeypatch.setenv("PATH", str(second / "bin"))
    assert java.find_java().home == first


def test_an_old_java_home_gives_way_to_the_path(
    bare: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = bare("old", "1.8.0_392"), bare("new", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(new / "bin"))
    found = java.find_java()
    assert (found.home, found.version.feature, found.origin) == (new, 17, "java on the PATH")


def test_a_trimmed_runtime_is_wrapped(bare: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed = bare("trimmed", "21.0.8")
    (trimmed / "release").write_text('JAVA_VERSION="21.0.8"\nMODULES="java.base java.sql"\n')
    complete = bare("complete", "21.0.8")
    (complete / "release").write_text('JAVA_VERSION="21.0.8"\nMODULES="java.base jdk.incubator.vector"\n')
    monkeypatch.setenv("JAVA_HOME", str(trimmed))
    assert java.find_java().home != trimmed
    monkeypatch.setenv("JAVA_HOME", str(complete))
    assert java.find_java().home == complete


def test_the_wrapper_drops_exactly_one_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real = tmp_path / "it's a runtime" / "bin" / "java"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\nfor argument do printf "%s\\n" "[$argument]"; done\n')
    real.chmod(0o755)
    wrapper = java.wrapped_home(real.parents[1]) / "bin" / "java"
    given = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "--add-modules=java.sql",
        "--add-modules=jdk.incubator.vector,java.sql",
        "-Da=two words",
        "-Db=$HOME;'\"*",
        "",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
    ]
    ran = subprocess.run([wrapper, *given], capture_output=True, text=True, check=True)
    kept = [argument for argument in given if argument != "--add-modules=jdk.incubator.vector"]
    assert ran.stdout.splitlines() == [f"[{argument}]" for argument in kept]


def test_the_wrapper_may_be_made_by_many_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with ThreadPoolExecutor(16) as pool:
        homes = set(pool.map(lambda _: java.wrapped_home(tmp_path / "runtime"), range(64)))
    (home,) = homes
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]
    assert os.access(home / "bin" / "java", os.X_OK)


def test_a_cache_that_others_may_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(java.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    (tmp_path / "mullion").mkdir()
    (tmp_path / "mullion").chmod(0o777)
    assert java.cache_dir("logs").parts[: len(tmp_path.parts) + 1] == (*tmp_path.parts, "temporary")
