"""What a stream's run does about overload: its monitor, and what of each batch is kept.

    monitor --weight--> what is kept of batch k --noted, if it is not all--> batch k, thinned --> its course --> commit
                                                                                     '--time, events, backlog--> monitor

What is kept is decided once and written down before anything is made of the batch, so that it is the same when the
batch is played again. A batch without a note is whole: a run that begins keeps everything until it is behind itself.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, NamedTuple

from mullion.algebra.streams import Stream
from mullion.kernels.thinning import WHOLE, Thinning, cut_by
from mullion.options import Options
from mullion.runtime.batch import Batch, BatchSource
from mullion.runtime.counts import StreamCounts, add_counts
from mullion.runtime.monitor import Monitor, Policy
from mullion.slices.shed_tally import ShedTally
from mullion.storage.batch_notes import BatchNotes
from mullion.storage.fault_points import fault_point
from mullion.storage.files import CommittedFiles

log = logging.getLogger("mullion")

FOLDER = "shed"
REMEMBERED = 100
"""Batches whose notes stay: more than a repair may go back."""
SAMPLED = 20_000
"""Events that tell which worth divides a batch."""


class PlayedBatch(NamedTuple):
    """A batch whose course is over."""

    number: int
    began: float
    came: int
    """Records, kept or not."""


class Overload:
    def __init__(self, stream: Stream, options: Options, source: BatchSource, files: CommittedFiles | None) -> None:
        heaviest = 1.0 if stream.shedding is None else stream.shedding.heaviest
        self._stream, self._source = stream, source
        self.monitor = Monitor(Policy(options.behind_after, options.relief, heaviest))
        self.notes = BatchNotes(files, FOLDER, Thinning)
        """What was kept of batches that were not kept whole."""
        self.thinning = WHOLE
        """What is kept of the batch at work, or of the last one."""
        self.tally = ShedTally()
        """What windows have lost."""
        self._before = StreamCounts()

    def thinned(self, batch: Batch, counts: StreamCounts) -> Batch:
        """The batch as far as its events are kept."""
        self._before = replace(counts)
        if self._stream.shedding is None:
            return batch
        before, noted = self.thinning, self.notes.of(batch.number)
        self.monitor.begins(self._source.amount(batch.number) if noted is None else None)
        self.thinning = self._decided(batch) if noted is None else noted
        if noted is None and not self.thinning.is_whole:
            self.notes.note(batch.number, self.thinning)
        fault_point("after shedding is decided")
        self._tell(before.weight)
        return batch.thinned(self.thinning)

    @property
    def keeps_all(self) -> bool:
        """Whether no event of the batch at work is lost."""
        return self.thinning.is_whole or not self._drops_events

    @property
    def _drops_events(self) -> bool:
        """Whether what it does not keep is lost for all queries."""
        return self._stream.shedding is not None and self._stream.shedding.drops_events

    def _decided(self, batch: Batch) -> Thinning:
        shedding, weight = self._stream.shedding, self.monitor.weight
        if weight == 1.0 or shedding is None:
            return WHOLE
        return Thinning(weight) if shedding.by is None else cut_by(batch.worths(SAMPLED), weight)

    def _tell(self, before: float) -> None:
        now = self.thinning.weight
        if now != before:
            how = "all events are" if now == 1.0 else f"about {100 / now:.3g} % of the events are"
            what = "kept" if self._drops_events else "looked for in joins"
            name, why = self._stream.name, "is behind" if now > before else "recovers"
            log.warning("stream '%s' %s: %s %s", name, why, how, what)

    def count(self, counts: StreamCounts, queries: list[str], shed: int) -> int:
        """Count what was shed of the batch. Returns how many records came."""
        kept = sum(getattr(counts, kind) - getattr(self._before, kind) for kind in _RECORDS)
        counts.shed += shed
        add_counts(counts.shed_by_query, dict.fromkeys(queries, shed) if shed else {})
        return kept + shed

    def observe(self, batch: PlayedBatch, ended: float, due: int) -> None:
        """All is done that the batch asked for."""
        if self.monitor.observe(batch.began, ended, batch.came, due):
            self.monitor.can_enlarge = self._source.can_enlarge
            self.monitor.look(ended, self._source.waiting(batch.number))
        self.notes.forget_before(batch.number - REMEMBERED)

    def report(self) -> dict[str, Any]:
        return self.monitor.report()


_RECORDS = ("events", "late", "ahead", "malformed", "broken")
