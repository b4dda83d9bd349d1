"""What a batch makes due: answered, written under the batch's mark, and what is of no use any more let go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from mullion.planner.plan import Grouping
from mullion.planner.schedules.lateness import add_executions
from mullion.questions_first import give_way
from mullion.runtime.counts import add_counts
from mullion.runtime.executions import Decided
from mullion.runtime.portions import Portions
from mullion.runtime.sharding import AnswerTask, answers_of_shards
from mullion.runtime.sharing_set import SharingSet
from mullion.runtime.state_memory import sets_at_once
from mullion.runtime.stream_state import StreamState
from mullion.runtime.taken_answers import Takers, takers, with_taken
from mullion.slices.finalize import Answers, Work
from mullion.slices.order import times_of
from mullion.slices.tier import is_endless
from mullion.slices.window_runs import Due, WindowRuns, shown, slices_within
from mullion.storage.marks import Mark
from mullion.threads import cores, iterated_side_by_side

MOST_WAITING = 4_000_000
"""Answers that wait until those before are written."""


class _Due(NamedTuple):
    """The windows of a sharing set that are to be answered."""

    sharing_set: SharingSet
    runs: list[tuple[Grouping, WindowRuns]]
    taking: Takers


class AnswersStage:
    def __init__(self, state: StreamState, make_room: Callable[[], None]) -> None:
        self._state, self._make_room = state, make_room

    def answer(self, mark: Mark, watermark: int | None) -> None:
        """Answer every window that ends before the watermark; all when there is none."""
        state, began = self._state, self._state.timer()
        state.limits.begin()
        work = Work(over=state.limits.over)
        written = Portions(state, mark)
        decided = self._decide(watermark)
        give_way()
        due = self._due_sets(watermark, decided)
        give_way()
        for answers in self._due_answers(due, mark, watermark, work):
            give_way()
            written.add(answers)
        written.count(work.written)
        written.finish()
        add_counts(state.counts.bad_by_query, work.bad)
        state.counts.final_operations += work.final
        state.counts.window_slices += work.window_slices
        if state.newest is not None:
            give_way()
            self._forget()
        if state.scheduling.standings and state.began is not None:
            self._measure(state.began, began, decided, due)

    def _decide(self, watermark: int | None) -> Decided:
        """The instants of queries with SLIDE AT MOST."""
        state = self._state
        if state.newest is None or state.oldest is None:
            return Decided()
        waiting = frozenset(name for own in state.sets.values() for name in own.tier.waiting)
        decided = state.scheduling.due(
            state.sets, state.oldest, state.newest, watermark, waiting=waiting, schedule=state.options.schedule
        )
        for name, counted in decided.counts.items():
            add_executions(state.counts.scheduled.setdefault(name, {}), counted)
        return decided

    def _measure(self, batch_began: float, began: float, decided: Decided, due: Sequence[_Due]) -> None:
        """Note what scheduled queries took of the batch: their part of the windows that were answered."""
        state, seconds = self._state, self._state.timer() - began
        windows = sum(len(runs) for own in due for _, runs in own.runs)
        scheduled = sum(run.count for runs in decided.runs.values() for run in runs)
        own_part = seconds * min(1.0, scheduled / windows) if windows else 0.0
        age = state.time_of_day() - (state.newest or 0) / 1e6
        state.scheduling.pace.measured(decided.cost, own_part, began - batch_began + seconds - own_part, age)

    def _due_sets(self, watermark: int | None, decided: Decided) -> list[_Due]:
        state = self._state
        if state.newest is None or state.oldest is None:
            return []
        return [self._due(own, watermark, decided) for own in state.sets.values()]

    def _due_answers(self, due: Sequence[_Due], mark: Mark, watermark: int | None, work: Work) -> Iterator[Answers]:
        """What is due, some at a time."""
        state = self._state
        if state.newest is None or state.oldest is None:
            return
        yield from self._answer_sets(due, mark, work)
        yield from self._answer_in_order(watermark, work)

    def _answer_in_order(self, watermark: int | None, work: Work) -> Iterator[Answers]:
        """Answers that stand on the order of events. Many events that find their places at once do so in portions, and
        what each of them makes due is answered before the next one."""
        state, ordered = self._state, self._state.ordered
        memory = state.memory()
        work.room = memory.free
        for i, settled in enumerate(ordered.settle(watermark, memory)):
            if i:
                until = int(times_of(settled)[0])
                yield from ordered.answer(until, work, state.limits, is_followed=True)
                ordered.forget(until)
            for counted in ordered.place(settled, state.lookups):
                state.counts.add(counted)
            state.counts.late += sum(axis_set.late for axis_set in ordered.sets.values())
            self._make_room()
        yield from ordered.answer(watermark, work, state.limits, is_followed=bool(ordered.order))

    def _due(self, sharing_set: SharingSet, watermark: int | None, decided: Decided) -> _Due:
        state = self._state
        assert sharing_set.plan is not None and state.oldest is not None and state.newest is not None
        most, tier = state.limits.most_answers, sharing_set.tier
        answering = sharing_set.plan.answering
        taking = takers(decided, sharing_set)
        taken = {name for names in taking.values() for name in names}
        scheduled = {name: runs for name, runs in decided.runs.items() if name not in taken}
        runs = [(g, tier.due(g, state.oldest, state.newest, watermark, most, scheduled)) for g in answering]
        return _Due(sharing_set, [(grouping, due) for grouping, due in runs if len(due) or due.exceeded], taking)

    def _answer_sets(self, sets: Sequence[_Due], mark: Mark, work: Work) -> Iterator[Answers]:
        """The answers of all sets: of those on the driver side by side, then of those that have shards. The largest
        begin first, so that none is at work alone in the end."""
        sets = sorted(sets, key=lambda own: -own.sharing_set.tier.rows)
        threads = cores() if sum(not own.sharing_set.shards for own in sets if own.runs) == 1 else 1
        memory = self._state.memory()
        counted = [Work(over=work.over, threads=threads, room=memory.free) for _ in sets]
        due = [(own, partial(self._answer_set, own, mark, of)) for own, of in zip(sets, counted, strict=True)]
        here = [task for own, task in due if own.runs and not own.sharing_set.shards]
        at_once = sets_at_once([own.sharing_set for own in sets if own.runs], memory, cores())
        yield from iterated_side_by_side(here, at_once, weight=lambda answers: len(answers.table), most=MOST_WAITING)
        for own, task in due:
            if own.runs and own.sharing_set.shards:
                yield from task()
        for of in counted:
            work.add(of)

    def _answer_set(self, due: _Due, mark: Mark, work: Work) -> Iterator[Answers]:
        for grouping, runs in due.runs:
            give_way()
            answers = self._answer_grouping(due.sharing_set, grouping, runs, mark, work)
            yield from with_taken(answers, due.taking, due.sharing_set, work)

    def _answer_grouping(
        self, sharing_set: SharingSet, grouping: Grouping, due: WindowRuns, mark: Mark, work: Work
    ) -> Iterable[Answers]:
        assert sharing_set.plan is not None
        limits = self._state.limits
        if grouping.name not in sharing_set.shards:
            portions = self._with_shed(due, self._counted_slices(sharing_set, limits.portions(due), work))
            return sharing_set.tier.answer(grouping, portions, work, sharing_set.plan.counting(grouping))
        limits.note(due)
        whole = [shown(due.whole(), due.queries)] if len(due) else []
        answers = []
        for portion in self._with_shed(due, self._counted_slices(sharing_set, whole, work)):
            answers += self._answer_in_shards(sharing_set, grouping, portion, mark, work)
        return answers

    def _with_shed(self, runs: WindowRuns, portions: Iterable[Due]) -> Iterator[Due]:
        """The windows with how many of their events were shed."""
        state, queries = self._state, runs.queries
        if not state.counts.shed:
            yield from portions
            return
        # What a stream keeps has lost what was shed, in slices of others; what its source gives again has not.
        is_whole = state.source.cannot_read_again() is None
        read_again = [query.entered_after if is_whole else None for query in queries]
        unknown = [i for i, query in enumerate(queries) if query.backfill and query.tag and not is_whole]
        for due in portions:
            yield replace(due, shed=state.overload.tally.of(due, read_again, unknown))

    @staticmethod
    def _counted_slices(sharing_set: SharingSet, portions: Iterable[Due], work: Work) -> Iterator[Due]:
        plan = sharing_set.plan
        assert plan is not None
        for due in portions:
            work.window_slices += slices_within(due, plan.windows, plan.slicing)
            yield due

    def _answer_in_shards(
        self, sharing_set: SharingSet, grouping: Grouping, due: Due, mark: Mark, work: Work
    ) -> list[Answers]:
        """Shards write their answers under one mark, all at once."""
        assert sharing_set.plan is not None
        shards = sharing_set.shards[grouping.name]
        counting = sharing_set.plan.counting(grouping)
        counted = [(other, sharing_set.shards[other.name].by_shard()) for other in counting]
        source = self._state.source
        room = self._state.memory().task(source.tasks)
        task = AnswerTask(grouping, due, mark, self._state.sink.shard_writer(), shards.by_shard(), counted, room)
        return answers_of_shards(source.run_shards(shards.count, task), work, grouping)

    def _forget(self) -> None:
        watermark, oldest = self._state.watermark, self._state.oldest
        assert watermark is not None and oldest is not None
        scheduled = self._state.scheduling.needed_from(oldest)
        needed = watermark
        for sharing_set in self._state.sets.values():
            assert sharing_set.plan is not None
            horizon = sharing_set.tier.forget(sharing_set.plan, watermark, scheduled)
            sharing_set.kept_stretches.forget(horizon)
            needed = min(needed, horizon)
            for shards in () if is_endless(sharing_set.plan) else sharing_set.shards.values():
                shards.forget(horizon)
        self._state.overload.tally.forget_before(needed)
        self._state.ordered.forget(watermark)
