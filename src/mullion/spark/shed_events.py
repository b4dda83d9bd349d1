"""What a batch that is not kept whole is asked besides: what events matter, and when those were that are not kept.

The latter is one more pass over the times alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from mullion.algebra.grid import Grid
from mullion.expressions.arrays import Times
from mullion.instants import EVERYTHING
from mullion.kernels.thinning import Thinning, worth_text
from mullion.language.query import Period
from mullion.planner.slices import common_grid
from mullion.slices.bounds import Stretch
from mullion.slices.kernels.events import TIME
from mullion.slices.shed_tally import ShedEvents
from mullion.spark.events import TIME as TIME_TEXT
from mullion.spark.events import SparkEvents
from mullion.spark.expressions import spark_text
from mullion.spark.files import RowGroup
from mullion.spark.reading import read_pieces


def worths(events: SparkEvents, size: int | None, most: int) -> npt.NDArray[np.float64]:
    """What SHED BY says of about so many of the events, of which there are as many as `size` says, if it is known."""
    shedding = events.stream.shedding
    assert shedding is not None and shedding.by is not None
    if size is not None and size > most:
        events = replace(events, thinning=Thinning(size / most))
    elif size is None:
        events = events.first(most)
    column = events.select([f"{worth_text(spark_text(shedding.by))} AS worth"]).toArrow().column("worth")
    return np.asarray(column, np.float64)


def shed_events(
    events: SparkEvents, pieces: Sequence[RowGroup] | None, bounds: Stretch, windows: Sequence[Period]
) -> ShedEvents:
    """Of a batch that was thinned; from the pieces of its files, where these may be read here."""
    lost = replace(events, lost=True)
    if pieces is None:
        return _by_spark(lost, bounds, windows)
    parts = (ShedEvents.at(times, bounds, windows) for times in _times(lost, pieces))
    return ShedEvents.together(parts, windows)


def _times(lost: SparkEvents, pieces: Sequence[RowGroup]) -> Iterator[Times]:
    for portion in read_pieces(pieces, [], lost.stream.time_column, [], most=lost.portion, thinned=lost.thinned):
        yield portion.column(TIME).to_numpy()


def _by_spark(lost: SparkEvents, bounds: Stretch, windows: Sequence[Period]) -> ShedEvents:
    step, origin = common_grid(windows) if windows else Grid(EVERYTHING, 0)
    taken = f"CASE WHEN {replace(bounds, timeless=False).where(TIME_TEXT)} THEN {TIME_TEXT} END"
    selected = [f"{taken} AS taken", f"{taken} - pmod({TIME_TEXT} - {origin}L, {step}L) AS step"]
    counted = "SELECT step, count(1) AS number, min(taken) AS oldest, max(taken) AS newest FROM ("
    found = lost.select(selected, before=counted, after=") GROUP BY step").toArrow()
    oldest, newest = pc.min(found.column("oldest")).as_py(), pc.max(found.column("newest")).as_py()
    number = pc.sum(found.column("number")).as_py() or 0
    found = found.filter(found.column("step").is_valid())
    slices, counts = (found.column(name).to_numpy() for name in ("step", "number"))
    return ShedEvents(number, slices, counts, oldest, newest).cut(windows)
