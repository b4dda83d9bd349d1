"""EXPLAIN of what an engine runs: the plans of its streams and of its relations, with what batches showed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

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
from mullion.planner.rules import make_plan, reconsider
from mullion.planner.schedules.steps import stepped
from mullion.planner.sliced import SlicedAggregation
from mullion.planner.statistics import Statistics
from mullion.plural import plural
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
        observed |= {n: asdict(run.counts) for n, run in self._runs.items() if run.counts.batches}
        read = {stream for query in named for stream in query.streams}
        streams = [stream for stream in self._catalog.streams.values() if stream.name in read]
        said = {s.name: told for s in streams if (told := _said(s, self._runs.get(s.name)))}
        sharing, pasts, summaries = self._options.sharing, dict(self._pasts), self._summaries(name)
        return Explanation(tuple(plans), sharing, name, observed, pasts, operators, held, said, summaries)

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
        timed = [query for query in queries if query.axis == TIME_AXIS]
        if len(timed) < MANY:
            return 0.0
        known = self._statistics(stream, make_plan(stream, timed, self._options).groupings)
        if not known.events:
            return 0.0
        clustering = Clustering.of(known)
        together = self._options.sharing is Sharing.ON
        clusters = [timed] if together else clustering.divide(timed).clusters
        return clustering.partials(clusters) / known.events

    def _plans(self, stream: Stream, name: str | None) -> tuple[list[Plan], Statistics | None]:
        """The plans over a stream that serve the query, or all of them, and what the stream holds if it was not read
        yet."""
        queries = stepped(sliced_over(stream.name, self._catalog), shared=self._options.is_shared)
        known, seen = self._known(stream, queries)
        timed = [query for query in queries if query.axis == TIME_AXIS]
        plans = [
            plan
            for plan in self._in_one_pass(stream, timed, known, seen)
            if name is None or any(query.name == name for query in plan.queries)
        ]
        others = [query for query in queries if query.axis != TIME_AXIS]
        for together in [others] if self._options.is_shared else [[query] for query in others]:
            for axis, placed in by_axis(together):
                if name is None or any(query.name == name for query in placed):
                    plans.append(self._plan(stream, axis, placed, seen))
        return plans, known

    def _in_one_pass(
        self, stream: Stream, queries: Sequence[SlicedAggregation], known: Statistics | None, seen: Observed
    ) -> list[Plan]:
        """The plan of each cluster, by what is known of its own groupings; one way is chosen for all."""
        run = self._runs.get(stream.name)
        sets = [] if run is None else list(run.sets.values())
        plans, seen_of_each = [], []
        for together, text in self._clusters(stream, queries, known):
            plan = self._plan(stream, TIME_AXIS, together, seen, text)
            own = next((own.seen for own in sets if together[0].name in own.members), seen)
            plans.append(plan)
            seen_of_each.append(own if known is None else observed_before(known, plan.groupings))
        return reconsider(plans, seen_of_each)

    def _clusters(
        self, stream: Stream, queries: Sequence[SlicedAggregation], known: Statistics | None
    ) -> list[tuple[Sequence[SlicedAggregation], str]]:
        """The queries over time that share slices, and why: as they run now, or as they would run."""
        run = self._runs.get(stream.name)
        if not self._options.is_shared:
            return [([query], "") for query in queries]
        if run is not None and run.counts.batches:
            known = run.statistics
            clusters = [[q for q in queries if q.name in own.members] for own in run.sets.values()]
            there = {query.name for own in clusters for query in own}
            clusters.append([query for query in queries if query.name not in there])
            clusters = [own for own in clusters if own]
        elif known is None or self._options.sharing is Sharing.ON:
            clusters = [list(queries)] if queries else []
        else:
            clusters = [list(own) for own in Clustering.of(known).divide(queries).clusters]
        clustering = None if known is None else Clustering.of(known)
        return [(own, "" if clustering is None else clustering.text(own, len(clusters))) for own in clusters]

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

    def _plan(
        self, stream: Stream, axis: Axis, queries: Sequence[SlicedAggregation], seen: Observed, cluster: str = ""
    ) -> Plan:
        run = self._runs.get(stream.name)
        if axis != TIME_AXIS:
            seen = Observed(events=seen.events, span=seen.events, groups=seen.groups)
        files = stream.format == "parquet" if run is None else run.reads_files
        return make_plan(stream, queries, self._options, seen=seen, files=files, axis=axis, cluster=cluster)


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
