"""EXPLAIN of what an engine runs: the plans of its streams and of its relations, with what batches showed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from mullion.algebra.streams import Stream
from mullion.catalog.catalog import Catalog
from mullion.language.query import TIME_AXIS, Axis
from mullion.language.render import duration_text, render
from mullion.options import Options, Sharing
from mullion.planner.clusters import Clustering
from mullion.planner.expected import observed_before
from mullion.planner.explain import Explanation
from mullion.planner.observed import NOTHING_SEEN, Observed
from mullion.planner.plan import Grouping, Plan
from mullion.planner.rules import groupings_of, make_plan, of_cluster, reconsider
from mullion.planner.schedules.steps import stepped
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.statistics import Statistics
from mullion.planner.way_costs import compared
from mullion.plural import plural
from mullion.runtime.clusters import SHARED, placed
from mullion.runtime.relation_runs import RelationRuns
from mullion.runtime.stream_run import StreamRun
from mullion.service.ways import run_by_operators, sliced_over
from mullion.slices.axis import by_axis
from mullion.summaries.column_summary import ColumnSummary
from mullion.summaries.summary_facts import text as summary_text

MANY = 16
"""Fewer queries leave fewer partials than a batch has room for."""


class Explainer:
    """`pasts` says how queries that entered late came by their past, `statistics` what the source of a stream holds
    now."""

    def __init__(
        self,
        catalog: Catalog,
        options: Options,
        runs: Mapping[str, StreamRun],
        relations: RelationRuns,
        pasts: Mapping[str, str],
        statistics: Callable[[Stream, Sequence[Grouping]], Statistics],
    ) -> None:
        self._catalog, self._options, self._runs, self._relations = catalog, options, runs, relations
        self._pasts, self._statistics = pasts, statistics

    def explain(self, name: str | None = None) -> Explanation:
        """The shared plan of all queries, or the part of it that serves one."""
        if name is not None:
            name = self._catalog.query_named(name).name
        plans: list[Plan] = []
        held: dict[str, Statistics] = {}
        for stream in self._catalog.streams.values():
            own, known = self._plans(stream, name)
            plans += own
            if own and known is not None:
                held[stream.name] = known
        named = [query for query in self._catalog.queries.values() if name in (None, query.name)]
        relations = run_by_operators(self._catalog)
        operators = self._relations.plans(relations, name)
        observed = self._relations.observed() if any(name in (None, query.name) for query in relations) else {}
        observed |= {n: run.counts.facts() for n, run in self._runs.items() if run.counts.batches}
        read = {stream for query in named for stream in query.streams}
        streams = [stream for stream in self._catalog.streams.values() if stream.name in read]
        said = {s.name: told for s in streams if (told := _said(s, self._runs.get(s.name)))}
        sharing, pasts, summaries = self._options.sharing, dict(self._pasts), self._summaries(name)
        deadlines = {n: own for run in self._runs.values() for n, own in run.deadlines.items()}
        return Explanation(tuple(plans), sharing, name, observed, pasts, operators, held, said, summaries, deadlines)

    def _summaries(self, name: str | None) -> dict[str, str]:
        """What is told of summaries: of all with the plan of all queries, and with one that prefers some rows of those
        on its streams."""
        query = None if name is None else self._catalog.queries[name]
        read = set(self._catalog.streams) if query is None else set(query.streams) if query.prefers else set()
        return {s.definition.name: summary_text(s) for s in self.summaries() if s.definition.stream in read}

    def summaries(self) -> list[ColumnSummary]:
        """Every summary, as the last commit left it, or as it is before there was any event."""
        summaries = []
        for definition in self._catalog.summaries:
            run = self._runs.get(definition.stream)
            known = None if run is None or run.view is None else run.view.synopses.get(definition.name)
            is_known = isinstance(known, ColumnSummary) and known.definition == definition
            summaries.append(known if isinstance(known, ColumnSummary) and is_known else ColumnSummary(definition))
        return summaries

    def partials_an_event(self, stream: Stream) -> float:
        """About how many partials an event leaves, for all queries over the stream; 0 where nothing can be known."""
        queries = stepped(sliced_over(stream.name, self._catalog))
        timed = queries.over_time
        if len(timed) < MANY:
            return 0.0
        known = self._statistics(stream, groupings_of(stream, timed))
        if not known.events:
            return 0.0
        clustering = Clustering.of(known)
        together = self._options.sharing is Sharing.ON or Clustering.is_one(timed)
        clusters = [timed] if together else clustering.divide(timed).clusters
        return clustering.partials(clusters) / known.events

    def _plans(self, stream: Stream, name: str | None) -> tuple[list[Plan], Statistics | None]:
        """The plans over a stream that serve the query, or all of them, and what the stream holds if it was not read
        yet."""
        queries = stepped(sliced_over(stream.name, self._catalog), shared=self._options.is_shared)
        known, seen = self._known(stream, queries)
        plans = [
            plan
            for plan in self._in_one_pass(stream, queries.over_time, known, seen)
            if name is None or any(query.name == name for query in plan.queries)
        ]
        others = queries.over_others
        for together in [others] if self._options.is_shared else [[query] for query in others]:
            for axis, own in by_axis(together):
                if name is None or any(query.name == name for query in own):
                    plans.append(self._ran_in_order(stream, axis, own) or self._plan(stream, axis, own, seen))
        return plans, known

    def _ran_in_order(self, stream: Stream, axis: Axis, queries: Sequence[SlicedAggregation]) -> Plan | None:
        """The plan at work of queries over an axis; None where there is none, or others come with the next batch."""
        run = self._runs.get(stream.name)
        sets = [] if run is None else run.ordered.sets.values()
        return next((own.plan for own in sets if own.axis == axis and _is_of(own.plan, queries)), None)

    def _in_one_pass(
        self, stream: Stream, queries: Sequence[SlicedAggregation], known: Statistics | None, seen: Observed
    ) -> list[Plan]:
        """The plan of each cluster: the one at work, once a batch ran, and those that would run where queries have come
        or gone since."""
        run = self._runs.get(stream.name)
        if run is None or not run.counts.batches:
            return self._before_a_batch(stream, queries, known, seen)
        numbers = count(run.clusters + 1)
        clusters = placed(queries, run, lambda: f"cluster {next(numbers)}")
        at_work = [run.sets[label].plan if label in run.sets else None for label in clusters]
        plans = [
            plan if plan is not None and _is_of(plan, own) else self._plan(stream, TIME_AXIS, own, seen)
            for plan, own in zip(at_work, clusters.values(), strict=True)
        ]
        seen_of_each = [run.sets[label].seen if label in run.sets else seen for label in clusters]
        next_ones = reconsider(plans, seen_of_each)
        shown = [plan if plan is ran else new for plan, ran, new in zip(plans, at_work, next_ones, strict=True)]
        return self._named(clusters, self._compared(shown, seen_of_each), run.statistics)

    def _before_a_batch(
        self, stream: Stream, queries: Sequence[SlicedAggregation], known: Statistics | None, seen: Observed
    ) -> list[Plan]:
        """The plan of each cluster, by what is known of its own groupings; one way is chosen for all."""
        clusters: Mapping[str, Sequence[SlicedAggregation]] = {SHARED: queries} if queries else {}
        if not self._options.is_shared:
            clusters = {query.name: [query] for query in queries}
        elif known is not None and self._options.sharing is not Sharing.ON:
            divided = Clustering.of(known).divide(queries).clusters
            clusters = {f"cluster {i}": own for i, own in enumerate(divided, 1)}
        plans = [self._plan(stream, TIME_AXIS, own, seen) for own in clusters.values()]
        seen_of_each = [seen if known is None else observed_before(known, plan.groupings) for plan in plans]
        return self._named(clusters, self._compared(reconsider(plans, seen_of_each), seen_of_each), known)

    def _compared(self, plans: Sequence[Plan], seen: Sequence[Observed]) -> list[Plan]:
        """The plans, which tell what operators would cost in their place."""
        queries, expiry = self._catalog.queries, self._options.expiry
        told = zip(plans, seen, strict=True)
        return [compared(plan, own, [queries[q.name].root for q in plan.queries], expiry) for plan, own in told]

    def _named(
        self,
        clusters: Mapping[str, Sequence[SlicedAggregation]],
        plans: Sequence[Plan],
        known: Statistics | None,
    ) -> list[Plan]:
        """The plans with the names of their clusters, and why these are so, as far as something was chosen."""
        if not self._options.is_shared:
            return list(plans)
        why = dict.fromkeys(clusters, "")
        if known is not None:
            why = {name: Clustering.of(known).text(name, clusters) for name in clusters}
        told = zip(clusters, plans, strict=True)
        return [of_cluster(plan, name if len(clusters) > 1 else "", why[name]) for name, plan in told]

    def _known(self, stream: Stream, queries: Sequence[SlicedAggregation]) -> tuple[Statistics | None, Observed]:
        """What the source holds and would show, or what its last batch showed."""
        run = self._runs.get(stream.name)
        if run is not None and run.counts.batches:
            return None, run.observed
        if not queries:
            return None, NOTHING_SEEN
        timed = [query for query in queries if query.axis == TIME_AXIS]
        groupings = make_plan(stream, timed, self._options).groupings if timed else ()
        known = self._statistics(stream, groupings)
        return None if known == Statistics() else known, observed_before(known, groupings)

    def _plan(self, stream: Stream, axis: Axis, queries: Sequence[SlicedAggregation], seen: Observed) -> Plan:
        run = self._runs.get(stream.name)
        if axis != TIME_AXIS:
            seen = Observed(events=seen.events, span=seen.events, groups=seen.groups)
        files = stream.format == "parquet" if run is None else run.reads_files
        return make_plan(stream, queries, self._options, seen=seen, files=files, axis=axis)


def _is_of(plan: Plan | None, queries: Sequence[SlicedAggregation]) -> bool:
    """Whether a plan is one of these queries, and no others."""
    asked = [(query.name, query.text) for query in queries]
    return plan is not None and [(query.name, query.text) for query in plan.queries] == asked


def _said(stream: Stream, run: StreamRun | None) -> tuple[str, ...]:
    """What a stream says of silence, overload and the ends of keys, and how many these are."""
    said = []
    if stream.idle is not None:
        said.append(f"event time goes on with the clock after {duration_text(stream.idle)} without events (IDLE AFTER)")
    if stream.shedding is not None:
        most = f"at most {stream.shedding.most:g} % of a batch"
        what = "is left out" if stream.shedding.drops_events else "is kept without joins looking for its partners"
        said.append(f"while the run is behind, {most} {what} (WHEN BEHIND SHED)")
    if stream.memory is not None:
        first = "the rarest" if stream.memory.rarest else "the oldest"
        said.append(f"joins keep {plural(stream.memory.rows, 'row')} of a window, without {first} (MEMORY)")
    if stream.punctuation is not None:
        keys, when = ", ".join(stream.punctuation.columns), render(stream.punctuation.when)
        span = "" if stream.punctuation.span is None else f" for {duration_text(stream.punctuation.span)}"
        said.append(f"a key ({keys}) is over{span} once {when}; rows come to the driver (PUNCTUATE)")
        if run is not None and run.punctuations is not None and run.counts.batches:
            over, broken = plural(len(run.punctuations.closed), "key"), plural(run.counts.broken, "event")
            said.append(f"{over} known to be over, {broken} after the end of their key")
    return tuple(said)
