"""Executors on other machines: which masters have them, and how they come by this very Mullion.

They import Mullion to run its kernels. On a cluster the package is sent along with the job, so that only what it
stands on must be installed there: 0.8 MB, made in a third of a second. Where `spark.submit.pyFiles` names a Mullion or
`spark.mullion.ship` is false, it is not sent.
"""

from __future__ import annotations

import io
import os
import re
import socket
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from mullion.errors import EnvironmentProblem
from mullion.spark.java import cache_dir, write_atomically

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIP = "spark.mullion.ship"

_PACKAGE = Path(__file__).parents[1]
_LOOPBACK = re.compile(r"spark://(127(\.\d+){3}|localhost|\[::1\])(:\d+)?")
_USUAL_CORES = 16
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def is_local(master: str) -> bool:
    """Whether tasks run inside the driver.

    >>> [is_local(master) for master in ("local", "local[4]", "local-cluster[2,1,1024]", "yarn")]
    [True, True, False, False]
    """
    return master == "local" or master.startswith("local[")


def on_this_machine(master: str) -> bool:
    """Whether nothing beyond this machine takes part; a master that listens to itself alone has only workers here.

    >>> [on_this_machine(master) for master in ("local[4]", "spark://localhost:7077", "spark://here:7077", "yarn")]
    [True, True, False, False]
    """
    return master.startswith("local") or _LOOPBACK.fullmatch(master) is not None


def require_master(master: str) -> None:
    """Raise at once where no standalone master listens; Spark itself tries for minutes."""
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        with suppress(OSError, ValueError), socket.create_connection((host.strip("[]"), int(port)), timeout=10):
            return
    raise EnvironmentProblem(f"no Spark master listens at {master}", hint="check the address and that it is running")


def cores_of(settings: Mapping[str, str]) -> int:
    """How many tasks run at once, as far as the settings tell: Spark itself knows only when executors have come.

    >>> cores_of({"spark.executor.instances": "3", "spark.executor.cores": "4"})
    12
    """
    try:
        if most := settings.get("spark.cores.max"):
            return int(most)
        return int(settings["spark.executor.instances"]) * int(settings.get("spark.executor.cores", "1"))
    except (KeyError, ValueError):
        return _USUAL_CORES


def ship(session: SparkSession) -> None:
    """Send this package to the executors of a cluster, once, unless they have it from elsewhere."""
    context = session.sparkContext
    if is_local(str(context.master)) or not _PACKAGE.is_dir():
        return
    conf = context.getConf()
    sent = [os.path.basename(file) for file in conf.get("spark.submit.pyFiles", "").split(",")]
    if conf.get(SHIP, "true").lower() == "false" or any(name.startswith("mullion") for name in sent):
        return
    archive = package_archive()
    if archive.name not in (context._python_includes or []):
        context.addPyFile(str(archive))


def package_archive() -> Path:
    """This package as a zip, under a name that changes with its content: running jobs go on serving theirs."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(_PACKAGE.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                inside = zipfile.ZipInfo(str(Path(_PACKAGE.name) / file.relative_to(_PACKAGE)), _LONG_AGO)
                archive.writestr(inside, file.read_bytes(), zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    path = cache_dir("packages") / f"mullion-{sha256(content).hexdigest()[:16]}.zip"
    write_atomically(path, content)
    return path
