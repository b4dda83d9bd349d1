"""How often estimates from a part of the events lie within what they tell, and what the monitor costs at rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mullion.engine import Engine
from mullion.kernels.thinning import Thinning
from mullion.runtime.overload import Overload

SECOND = 1_000_000
NORMAL = 1.96
"""Standard errors to either side that hold 95 % of a normal distribution."""
ITEMS = ("n", "total", "mean")
QUERY = "CREATE QUERY q AS SELECT APPROX count(*) AS n, sum(x) AS total, avg(x) AS mean FROM s [RANGE 1 s SLIDE 1 s]"


@dataclass(frozen=True)
class Errors:
    """Of one share: how often each item lay within its bound, and its relative error on the average."""

    share: float
    inside: dict[str, float]
    relative: dict[str, float]
    windows: int


def write(folder: Path, windows: int, events: int, files: int) -> npt.NDArray[np.float64]:
    """So many events in each second, over some files; returns their values, a row for each second."""
    folder.mkdir(parents=True)
    dice = np.random.default_rng(2006)
    made = []
    for number, seconds in enumerate(np.array_split(np.arange(windows), files)):
        values = dice.gamma(2.0, 10.0, (len(seconds), events))
        steps = np.linspace(0, SECOND, events, endpoint=False).astype(np.int64)
        times = (seconds[:, None] * SECOND + steps).ravel()
        table = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "x": values.ravel()})
        pq.write_table(table, folder / f"{number:03d}.parquet", compression="none", use_dictionary=False)
        made.append(values)
    return np.concatenate(made)


@contextmanager
def kept_with(weight: float) -> Iterator[None]:
    """All batches are kept with this weight, whatever the monitor says."""

    before = Overload._decided
    setattr(Overload, "_decided", lambda overload, batch: Thinning(weight))  # noqa: B010
    try:
        yield
    finally:
        setattr(Overload, "_decided", before)  # noqa: B010


def stream(folder: Path, more: str = "") -> str:
    read = f"CREATE STREAM s (ts TIMESTAMP, x DOUBLE) USING parquet OPTIONS (path '{folder}'{more}) TIMESTAMP BY ts"
    return f"{read} WHEN BEHIND SHED RANDOM AT MOST 99.9 PERCENT"


def errors(spark: Any, folder: Path, values: npt.NDArray[np.float64], share: float) -> Errors:
    right = {
        "n": np.full(len(values), float(values.shape[1])),
        "total": values.sum(axis=1),
        "mean": values.mean(axis=1),
    }
    with Engine(spark) as engine, kept_with(1 / share):
        engine.execute(f"{stream(folder)}; {QUERY}")
        engine.run()
        answers = engine.results("q").to_arrow()
    at = np.asarray(answers.column("window_start").cast(pa.int64())) // SECOND
    inside, relative = {}, {}
    for item in ITEMS:
        off = np.abs(np.asarray(answers.column(item), np.float64) - right[item][at])
        inside[item] = float((off <= NORMAL * np.asarray(answers.column(f"{item}_error"))).mean())
        relative[item] = float((off / right[item][at]).mean())
    return Errors(share, inside, relative, len(at))


def at_rest(spark: Any, folder: Path) -> tuple[float, int]:
    """What a batch takes with its monitor, as often as what it takes without; and how many batches there were. Time is
    that within the monitor: the difference of two runs would be smaller than what they differ by anyway."""
    spent = 0.0

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            nonlocal spent
            began = time.perf_counter()
            try:
                return method(*given)
            finally:
                spent += time.perf_counter() - began

        return call

    names = ("thinned", "count", "observe")
    before = {name: getattr(Overload, name) for name in names}
    for name in names:
        setattr(Overload, name, timed(before[name]))
    try:
        with Engine(spark) as engine:
            one_file = stream(folder, more=", maxFilesPerTrigger '1'")
            engine.execute(f"{one_file}; {QUERY}")
            engine.run()
            counts = engine.counts["s"]
    finally:
        for name, method in before.items():
            setattr(Overload, name, method)
    return counts.seconds / max(1e-9, counts.seconds - spent), counts.batches
