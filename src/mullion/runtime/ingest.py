"""The events of a batch, read once for all that is asked of them.

batch --read: the columns that all of these need--> rows --late? ahead?--> aside
                                                     |--> kept for questions, handed on to relations, put in order
                                                     '--> partials, where the rows are few
      --partials: by Spark or the kernel--------------------> tiers, where no rows are needed or there are many
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mullion.algebra.lookups import READ
from mullion.algebra.streams import WEIGHT
from mullion.expressions.vector import has_arrow_type
from mullion.kernels.arrival import ARRIVAL
from mullion.kernels.table_versions import with_batch
from mullion.planner.plan import Pass, Plan
from mullion.questions_first import give_way
from mullion.runtime.batch import Batch, Collected, Portion, job_of
from mullion.runtime.batch import collected as in_plans
from mullion.runtime.counts import add_counts
from mullion.runtime.intake import new_intake
from mullion.runtime.kept_events import Keeper
from mullion.runtime.late import SetAside
from mullion.runtime.partials import PartialsStage
from mullion.runtime.planning import Planning
from mullion.runtime.punctuations import Punctuations, without
from mullion.runtime.sharing_set import SharingSet
from mullion.runtime.stream_state import StreamState
from mullion.slices.bounds import Sifted, sift
from mullion.slices.inputs import all_inputs, input_for
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input, partials
from mullion.slices.once import EventsBefore
from mullion.slices.tally import Tally
from mullion.storage.marks import Mark


class DriverEvents(NamedTuple):
    """The events of a batch on the driver."""

    sifted: Sifted
    inputs: Input
    with_partials: bool
    """Whether they have all columns that the plans of the batch need."""


class Ingest:
    def __init__(self, state: StreamState, planning: Planning) -> None:
        self._state, self._planning = state, planning
        self._partials = PartialsStage(state)

    def take(self, batch: Batch, aside: SetAside) -> Tally:
        """Take the events of a batch in. Late events are set aside first. Returns what the batch holds."""
        state, mark = self._state, Mark(batch.number)
        plans = self._planning.plan_batch(batch)
        give_way()
        rows = self._read(batch, aside, plans)
        seen = None
        if rows is not None:
            sifted = rows.sifted
            if state.punctuations is not None:
                sifted = self._before_ends(state.punctuations, batch, aside, sifted)
                rows = rows._replace(sifted=sifted)
            aside.note(late=bool(len(sifted.late)), ahead=bool(len(sifted.ahead)), rows=sifted)
            seen = sifted.counted
            self._keep(sifted, mark)
            self._hand_on(sifted, mark)
            self._order(sifted, mark)
        if plans:
            counted = self._absorb(plans, batch, aside, rows)
            seen = seen or counted
        seen = seen or self._times(batch, aside)
        state.counts.events += seen.events
        return seen

    def _before_ends(self, punctuations: Punctuations, batch: Batch, aside: SetAside, sifted: Sifted) -> Sifted:
        """The events but for those that came after the end of their key, which are set aside."""
        broken = punctuations.broken(sifted)
        if not broken.any():
            return sifted
        records = sifted.taken
        if not punctuations.whole.columns.keys() <= set(records.schema.names):
            records = sift(batch.read(punctuations.whole), aside.bounds).taken
        aside.broken(records.filter(pa.array(broken)).select(list(punctuations.whole.columns)))
        return without(sifted, broken)

    # One read

    def _read(self, batch: Batch, aside: SetAside, plans: Sequence[tuple[SharingSet, Plan]]) -> DriverEvents | None:
        """All columns that are needed of the events themselves; None when none are."""
        state = self._state
        whole = [self._kept_input(), self._handed_input()]
        punctuating = None if state.punctuations is None else state.punctuations.input
        wanted = [*whole, state.ordered.input if state.ordered else None, punctuating]
        needed = [part for part in wanted if part is not None]
        if not needed:
            return None
        with_partials = all(plan.from_rows for _, plan in plans)
        if with_partials:
            needed += [input_for(state.stream, plan.groupings) for _, plan in plans]
        inputs = all_inputs(needed)
        plain = all_inputs([part for part in whole if part is not None]).columns
        texts = [name for name, t in inputs.columns.items() if t.kind == "string" and name not in plain]
        return DriverEvents(sift(batch.read(inputs, texts), aside.bounds), inputs, with_partials)

    def _kept_input(self) -> Input | None:
        stream = self._state.stream
        if stream.keep is None and stream.keep_rows is None:
            return None
        return Input({name: type_ for name, type_ in stream.columns if has_arrow_type(type_)})

    def _handed_input(self) -> Input | None:
        wanted = self._state.wanted
        if wanted is None:
            return None
        return Input({name: type_ for name, type_ in self._state.stream.columns if name in wanted})

    # What rows are for

    def _keep(self, sifted: Sifted, mark: Mark) -> None:
        """Keep the events that count for questions."""
        state, inputs = self._state, self._kept_input()
        if inputs is None:
            state.keeper = None  # what comes now is not kept, so that what was kept has a gap
            return
        if state.keeper is None:
            before = EventsBefore() if state.newest is None else EventsBefore(state.counts.events, state.newest + 1)
            state.keeper = Keeper(state.stream, state.files, before)
        state.keeper.add(mark, _columns(sifted.taken, inputs))

    def _hand_on(self, sifted: Sifted, mark: Mark) -> None:
        """Hand the events that count on to relations."""
        state, inputs = self._state, self._handed_input()
        if inputs is None:
            return
        if state.intake is None:
            state.intake = new_intake(None if state.journal is None else state.journal.files)
        if len(sifted.late):
            add_counts(state.counts.late_by_query, dict.fromkeys(state.relations, len(sifted.late)))
        handed = _columns(sifted.taken, inputs)
        if state.wanted is not None and READ in state.wanted:
            handed = with_batch(handed, mark.batch)
            for name in state.tables_of_relations:
                state.tables.at(name, mark.batch)  # noted for the steps that look these events up
        state.intake.add(mark, handed)
        shedding = state.stream.shedding
        if shedding is not None and shedding.probes and WEIGHT in inputs.columns:
            unprobed = pc.sum(pc.equal(sifted.taken.column(WEIGHT), 0.0)).as_py() or 0
            state.counts.unprobed += unprobed
            add_counts(state.counts.unprobed_by_query, dict.fromkeys(state.probing, unprobed) if unprobed else {})

    def _order(self, sifted: Sifted, mark: Mark) -> None:
        """Let the events that count wait for their place in the order."""
        state = self._state
        if not state.ordered:
            return
        tables = state.lookups.at(state.ordered.groupings, mark.batch)
        state.ordered.add(_columns(sifted.taken, state.ordered.input), mark.batch)
        if len(sifted.late):
            for missed in state.ordered.missed(_columns(sifted.late, state.ordered.input), tables):
                add_counts(state.counts.late_by_query, missed)

    # Partials

    def _absorb(
        self, plans: Sequence[tuple[SharingSet, Plan]], batch: Batch, aside: SetAside, rows: DriverEvents | None
    ) -> Tally:
        if rows is None or not rows.with_partials:
            return self._partials.absorb(plans, batch, aside)
        collected = self._from_rows(Pass(tuple(plan for _, plan in plans)), batch, rows)
        return self._partials.take_all([own for own, _ in plans], [plan for _, plan in plans], collected)

    def _from_rows(self, together: Pass, batch: Batch, rows: DriverEvents) -> list[Collected]:
        """The partials of rows that are on the driver for others."""
        tables = self._state.lookups.at(together.groupings, batch.number)
        job = job_of(together, rows.inputs, tables, batch.number)
        sifted = rows.sifted
        late = partials(_numbered(sifted.late), job) if len(sifted.late) else []
        taken = partials(_numbered(sifted.taken), job)
        return in_plans([Portion(taken, late, ahead=bool(len(sifted.ahead)))], together)

    def _times(self, batch: Batch, aside: SetAside) -> Tally:
        """Event count and time range of a batch when no query reads the stream."""
        timed = batch.times(aside.bounds)
        aside.note(late=timed.late, ahead=timed.ahead)
        return timed.taken


def _columns(events: pa.Table, inputs: Input) -> pa.Table:
    return events.select([TIME, *inputs.columns])


def _numbered(events: pa.Table) -> pa.Table:
    """Events that stand in the order of arrival, with their places in it."""
    return events.append_column(ARRIVAL, pa.array(np.arange(len(events))))
