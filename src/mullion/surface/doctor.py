"""Whether this machine can run Mullion, and how to mend what is wrong."""

from __future__ import annotations

import platform
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from rich.console import Console
from rich.markup import escape

from mullion.errors import MullionError
from mullion.memory import machine_bytes
from mullion.spark.java import find_java
from mullion.spark.session import local_session

OLDEST_PYTHON = (3, 11)
LEAST_MEMORY = 2 << 30
LEAST_DISK = 1 << 30


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `mend` says what to do, and is empty when all is well."""

    name: str
    ok: bool
    detail: str
    mend: str = ""


def print_report(console: Console) -> bool:
    """Print each check as it is made; True when all is well."""
    checks = []
    for name, look in _CHECKS.items():
        with console.status(f"{name} ..."):
            check = _guarded(name, look)
        checks.append(check)
        mark = "[green]ok[/]    " if check.ok else "[red]wrong[/] "
        console.print(f"{mark} {name:<8} {escape(check.detail)}", highlight=False, soft_wrap=True)
        if check.mend:
            console.print(f"{'':16}{escape(check.mend)}", highlight=False, soft_wrap=True)
    wrong = sum(not check.ok for check in checks)
    console.print(f"{wrong} of {len(checks)} checks failed." if wrong else "All is well.")
    return not wrong


def _guarded(name: str, look: Callable[[], Check]) -> Check:
    """A check that fails in an unforeseen way is an answer too: the doctor never crashes on the patient."""
    try:
        return look()
    except MullionError as error:
        return Check(name, False, error.message, error.hint or "")
    except Exception as error:
        return Check(
            name, False, f"{type(error).__name__}: {error}".split("\n")[0], "this is unexpected: please report it"
        )


def _python() -> Check:
    oldest = ".".join(map(str, OLDEST_PYTHON))
    ok = sys.version_info >= OLDEST_PYTHON
    mend = "" if ok else f"install Python {oldest} or newer and make a new environment with it"
    return Check("Python", ok, f"{platform.python_version()} ({sys.executable})", mend)


def _java() -> Check:
    java = find_java()
    return Check("Java", True, f"{java.version.text} from {java.origin} ({java.home})")


def _package(name: str, least: tuple[int, ...]) -> Check:
    wanted = ".".join(map(str, least))
    try:
        installed = version(name)
    except PackageNotFoundError:
        return Check(name, False, "not installed", f"pip install '{name}>={wanted}'")
    ok = tuple(int(part) for part in installed.split(".")[:2] if part.isdigit()) >= least
    return Check(name, ok, installed, "" if ok else f"pip install '{name}>={wanted}'")


def _spark() -> Check:
    began = time.perf_counter()
    session = local_session(app_name="mullion doctor")
    started = time.perf_counter()
    total = session.sql("SELECT sum(id) AS total FROM range(1000)").toArrow()["total"][0].as_py()
    answered = time.perf_counter()
    detail = f"{session.version} starts in {started - began:.1f} s, answers a first query in {answered - started:.1f} s"
    return Check("Spark", total == 499_500, detail)


def _memory() -> Check:
    bytes_there = machine_bytes()
    ok = bytes_there >= LEAST_MEMORY
    return Check("memory", ok, _gigabytes(bytes_there), "" if ok else f"Spark needs about {_gigabytes(LEAST_MEMORY)}")


def _disk() -> Check:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    ok = free >= LEAST_DISK
    mend = "" if ok else f"free {_gigabytes(LEAST_DISK)}, or set TMPDIR to a folder on a larger disk"
    return Check("disk", ok, f"{_gigabytes(free)} free in {folder}", mend)


def _ports() -> Check:
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=5),
        ):
            return Check("ports", True, "programs can talk to each other on 127.0.0.1")
    except OSError as error:
        return Check(
            "ports", False, f"127.0.0.1 does not work: {error}", "bring the loopback interface up: ip link set lo up"
        )


def _gigabytes(size: int) -> str:
    return f"{size / (1 << 30):.1f} GB"


# Spark comes last: it needs all of the others, and its own message is the least specific.
_CHECKS: dict[str, Callable[[], Check]] = {
    "Python": _python,
    "Java": _java,
    "pyspark": lambda: _package("pyspark", (4, 1)),
    "pyarrow": lambda: _package("pyarrow", (18, 0)),
    "memory": _memory,
    "disk": _disk,
    "ports": _ports,
    "Spark": _spark,
}
