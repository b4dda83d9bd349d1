"""Queries over streams that may shed, written so that they are answered from the events that were kept.

    SELECT APPROX count(*) AS n, avg(x) AS a FROM s [...]        s WHEN BEHIND SHED RANDOM

    n           sum(w)                                           w: how many events that came an event stands for
    a           sum(w x) / sum(w)
    n_error     ...                                              standard errors, see `estimates`
    kept_share  count(*) / (count(*) + shed)                     shed: how many events of the window were shed

The rewriting is all there is: below it `w` is a column like any other, so every way to partials, every operator and the
reference agree. Without APPROX, or with SHED BY, nothing is scaled: the answer is that
of the kept events, and kept_share tells how many they are.

How many events a window lost is tallied by the run (`slices.shed_tally`), for standing queries that slices of time
answer. It is not known which groups they were of, or whether WHERE had let them pass:

| kept_share | all events of a window | some: WHERE, GROUP BY, tables | without a tally: joins, questions, rows |
|---|---|---|---|
| SHED RANDOM | count(*) / (count(*) + shed) | count(*) / sum(w), an estimate | count(*) / sum(w), an estimate |
| SHED BY | count(*) / (count(*) + shed) | 1 if nothing was shed, else NULL | NULL |

SHED PROBES loses no event, so only joins are written anew. A pair is found when the last of its events comes, and is
lost if that one weighs 0:

    FROM a [...], b [...] WHERE a.k = b.k                        a WHEN BEHIND SHED PROBES

    ... AND CASE WHEN b.ts < a.ts THEN a.w > 0 ELSE TRUE END     a pair stands for as many as its last event
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mullion.algebra.bound_aggregate import SHED
from mullion.algebra.column_names import conjunction
from mullion.algebra.streams import EVENT, WEIGHT, Stream
from mullion.binding.estimates import ONE, SampledUnits, Unit
from mullion.binding.joins import relation_named
from mullion.binding.sampled_queries import KEPT, KEPT_SHARE, kept_share, standard_errors, with_aggregates
from mullion.binding.scope import OF_THE_ROWS, qualifier_of
from mullion.binding.selecting import is_aggregating
from mullion.binding.streams_read import has_exists, streams_read
from mullion.errors import CheckError, NotSupported
from mullion.language.query import (
    Call,
    Case,
    Column,
    Expr,
    Item,
    Literal,
    Named,
    Query,
    Window,
)
from mullion.language.shedding import Shedding
from mullion.language.sources import leaves
from mullion.language.types import BIGINT, BOOLEAN, DOUBLE


@dataclass(frozen=True)
class _Source:
    """A stream that may shed, where a query reads it."""

    named: Named
    stream: Stream

    shedding: Shedding

    @property
    def is_random(self) -> bool:
        return self.shedding.by is None

    @property
    def loses(self) -> str:
        """What answers lack."""
        return f"'{self.stream.name}' may shed {'events' if self.shedding.drops_events else 'probes of joins'}"


def reads_shed_streams(query: Query, streams: Mapping[str, Stream]) -> bool:
    return any(_sources(query, streams))


LOST = Column(SHED, OF_THE_ROWS)
NONE_LOST = Call("eq", (LOST, Literal(0, BIGINT)))
SOME_KEPT = Call("gt", (KEPT, Literal(0, BIGINT)))
CAME = Call("add", (KEPT, LOST))
NOT_KNOWN = Literal(None, DOUBLE)


def answered_from_kept(query: Query, streams: Mapping[str, Stream], *, by_slices: bool) -> Query:
    """The query over the events that were kept. Raises where it cannot be answered from them. `by_slices`: it stands,
    and slices answer it."""
    shed = list(_sources(query, streams))
    if not shed:
        if query.approximate and query.preference is None:
            hint = "it is for one-time questions, for streams with WHEN BEHIND SHED and for WITH PREFERENCE WEIGHTED"
            raise NotSupported("SELECT APPROX", query.place, hint=hint)
        return query
    if query.preference is not None and is_aggregating(query) and len(leaves(query.source)) > 1:
        what = f"an aggregate with a PREFERENCE (stream {shed[0].loses})"
        hint = "leave one of the two out: the errors of pairs drawn from sampled events are not known"
        raise NotSupported(what, query.preference.place, hint=hint)
    if not query.approximate and not all(source.shedding.marks for source in shed):
        hint = "write SELECT APPROX for estimates, or WHEN BEHIND SHED ... MARK EXACT in CREATE STREAM"
        place = shed[0].named.place or query.place
        raise CheckError(f"stream {shed[0].loses}, and this query asks for exact answers", place, hint=hint)
    own = [source for source in leaves(query.source) if isinstance(source, Named)]
    nested = len(own) < len(leaves(query.source)) or any(source.named not in own for source in shed)
    if nested or query.distinct or query.union or query.excepted or query.materialized or has_exists(query):
        what = f"this form of query (stream {shed[0].loses})"
        hint = "use aggregates, or rows of streams and joins, without DISTINCT, UNION, EXCEPT, EXISTS, sub-queries"
        raise NotSupported(what, query.place, hint=hint)
    tallied = by_slices and _is_tallied(shed[0].named.window)
    return _Rewriting(query, shed, _Events(own, streams), tallied=tallied).query()


class _Events:
    """The events that a row is made of, by the columns of their streams."""

    def __init__(self, sources: Sequence[Named], streams: Mapping[str, Stream]) -> None:
        self._alone = len(sources) == 1
        known = [(source, relation_named(source.name, streams, {})) for source in sources]
        self._streams = [(source, stream) for source, stream in known if isinstance(stream, Stream)]

    def column(self, source: Named, name: str) -> Column:
        return Column(name, None if self._alone else qualifier_of(source))

    def is_last(self, named: Named) -> Expr:
        """Whether the event of a source is the last one of a row: in time, and of equal ones the one that is written
        last."""
        at = [source is named for source, _ in self._streams].index(True)
        times = [self.column(source, stream.time_column) for source, stream in self._streams]
        later = [Call("le" if i < at else "lt", (time, times[at])) for i, time in enumerate(times) if i != at]
        return conjunction(later)


class _Rewriting:
    def __init__(self, query: Query, shed: list[_Source], events: _Events, *, tallied: bool) -> None:
        self._query, self._shed, self._events, self._tallied = query, shed, events, tallied
        units = [*self._kept_events(), *self._probes()]
        self._sample = SampledUnits(tuple(units), is_alone=len(leaves(query.source)) == 1)
        self._weight = self._sample.weight
        self._is_estimate = query.approximate and all(source.is_random for source in shed)

    def _kept_events(self) -> Iterator[Unit]:
        """The events that rows are made of, where these may be shed. One that is in a row twice was kept once."""
        before: dict[str, list[Expr]] = {}
        for source in self._shed:
            if source.shedding.drops_events:
                weight, event = (self._events.column(source.named, name) for name in (WEIGHT, EVENT))
                same = before.setdefault(source.stream.name, [])
                known = tuple((Call("eq", (event, other)), ONE) for other in same)
                same.append(event)
                yield Unit(Case(known, weight) if known else weight, event, source.stream.name)

    def _probes(self) -> Iterator[Unit]:
        """The event that was to find a row, where it may have been left out: the last one."""
        last = [(self._events.is_last(source.named), source.named) for source in self._shed if source.shedding.probes]
        if last:
            weights, events = (
                tuple((is_last, self._events.column(named, name)) for is_last, named in last)
                for name in (WEIGHT, EVENT)
            )
            yield Unit(Case(weights, ONE), Case(events, Literal(0, BIGINT)))

    def _conditions_of_pairs(self) -> Iterator[Expr]:
        """What pairs that were looked for fulfil."""
        for source in self._shed:
            if not source.shedding.drops_events:
                probes = Call("gt", (self._events.column(source.named, WEIGHT), Literal(0.0, DOUBLE)))
                yield Case(((self._events.is_last(source.named), probes),), Literal(True, BOOLEAN))

    def query(self) -> Query:
        asked = [*([] if self._query.where is None else [self._query.where]), *self._conditions_of_pairs()]
        query = replace(self._query, approximate=False, where=conjunction(asked) if asked else None)
        if not is_aggregating(query):
            return replace(query, items=(*query.items, Item(Call("divide", (ONE, self._weight)), KEPT_SHARE)))
        share = self._share()
        if not self._is_estimate:
            return replace(query, items=(*query.items, share))
        self._check_windows()
        scaled = with_aggregates(query, self._sample.estimate)
        known = None
        if not query.group_by:
            known = Call("or", (NONE_LOST, SOME_KEPT)) if self._tallied else SOME_KEPT
        return replace(scaled, items=(*scaled.items, *standard_errors(self._query, self._sample, known), share))

    def _share(self) -> Item:
        """The part of the events that was kept, as far as it is known."""
        query = self._query
        is_of_all = len(leaves(query.source)) == 1 and query.where is None and not query.group_by
        if self._tallied and is_of_all:
            some_came = Call("gt", (CAME, Literal(0, BIGINT)))
            return Item(Case(((some_came, Call("divide", (KEPT, CAME))),)), KEPT_SHARE)
        if all(source.is_random for source in self._shed):
            return kept_share(self._weight)
        whole = Call("and", (NONE_LOST, SOME_KEPT))
        return Item(Case(((whole, ONE),), NOT_KNOWN) if self._tallied else NOT_KNOWN, KEPT_SHARE)

    def _check_windows(self) -> None:
        for source in self._shed:
            window = source.named.window
            if window is not None and _counts_events(window):
                hint = "use a window in time, such as [RANGE '1 min' SLIDE '1 min']"
                what = f"SELECT APPROX over a window that counts events of '{source.stream.name}', which may shed them"
                raise NotSupported(what, window.place or self._query.place, hint=hint)


def _is_tallied(window: Window | None) -> bool:
    """Whether it is known how many events a window has lost: it lies over event time, and its start moves."""
    if window is None or window.range is None or window.slide is None:
        return False
    return window.attribute is None and not window.partition_by and not _counts_events(window)


def _counts_events(window: Window) -> bool:
    return window.rows is not None or window.slide_rows is not None


def _sources(query: Query, streams: Mapping[str, Stream]) -> Iterator[_Source]:
    """Where the query and the queries within it read streams that may shed."""
    if all(stream.shedding is None for stream in streams.values()):
        return
    for named, stream, joins in streams_read(query, streams):
        if stream.shedding is not None and (stream.shedding.drops_events or joins):
            yield _Source(named, stream, stream.shedding)
