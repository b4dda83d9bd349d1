"""All that is known of the relations over some streams between two steps."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from mullion.algebra.nodes import Node
from mullion.algebra.relation import Relation
from mullion.instants import EVER_BEFORE
from mullion.operators.answering import Answering, TablesRead
from mullion.operators.materialized import KeptResult
from mullion.operators.observing import orders_at_work
from mullion.options import DEFAULTS, Options
from mullion.planner.join_order import JoinOrder
from mullion.planner.relation_stats import Stats
from mullion.runtime.incoming import Incoming
from mullion.runtime.lookup_tables import NO_TABLES, RunTables
from mullion.runtime.pace import Pace
from mullion.runtime.past_read import PastRead
from mullion.runtime.published import Published
from mullion.runtime.relation_shards import InShards, Sharding
from mullion.runtime.run_state import RunState
from mullion.runtime.sink import Sink
from mullion.storage.journal import Journal
from mullion.storage.manifest import quoted
from mullion.storage.state_files import StateFiles


def run_name(streams: Sequence[str], tag: str = "") -> str:
    """What relations over these streams are called: no stream has such a name, and a directory may. `tag`: that of a
    query which goes by itself, since its past was read once more.

    >>> run_name(["orders", "payments"]), run_name(["orders"], "late")
    ('relations/orders+payments', 'relations/orders@late')
    """
    return "relations/" + "+".join(map(quoted, streams)) + (f"@{quoted(tag)}" if tag else "")


class RelationState(RunState):
    def __init__(
        self,
        streams: Sequence[str],
        sink: Sink,
        options: Options = DEFAULTS,
        *,
        tag: str = "",
        journal: Journal | None = None,
        tables: RunTables = NO_TABLES,
        sharding: Sharding | None = None,
        published: Published | None = None,
        read_with: TablesRead | None = None,
    ) -> None:
        """Without `sharding` everything is computed here. `read_with`: the tables as batches of streams saw them."""
        name = run_name(streams, tag)
        super().__init__(name, sink, options, journal=journal, tables=tables, published=published)
        self.tag, self.sharding, self.read_with = tag, sharding, read_with
        self.incoming = {stream: Incoming() for stream in streams}
        self.awaited = set(streams) if tag else set[str]()
        """The streams whose past is still to be read."""
        self.entering: dict[str, int] = {}
        """The streams whose events from a time on are to be read once more, since relations that have entered need them
        and perhaps other columns of them. No step passes that time before."""
        self.pasts: dict[str, PastRead | None] = {}
        """What was there of the streams whose past was read; None where nothing was."""
        self.relations: dict[str, Relation] = {}
        self.plans: dict[str, Node] = {}
        self.own = Answering(
            options.expiry, shared=options.is_shared, base=lambda: self.files.directory, limits=self.limits
        )
        """What is computed here."""
        self.shards: InShards | None = None
        """What is computed in shards, if anything is."""
        self.pace = Pace()
        """What the streams say of the time that is left for queries with SLIDE AT MOST."""
        self.now = EVER_BEFORE
        self.known: dict[str, dict[str, Any]] = {}
        """The relations of the last commit, with when they entered."""
        self.shown: Mapping[str, KeptResult] = {}
        """The materialised results as the last commit left them, for questions: replaced as a whole, when they are
        published."""
        self.lock = threading.RLock()
        self.is_interrupted = False
        """A step has failed half-way: what is in memory is of no use, only a restart goes on, from the last commit."""
        self.state_files = None if journal is None else StateFiles(journal.files)
        self.manifest: Mapping[str, Any] | None = None
        """The state of a run before this one, until the first relations are known."""

    def columns_needed(self, stream: str) -> set[str]:
        own = self.own.columns_needed(stream)
        return own if self.shards is None else own | self.shards.columns_needed(stream)

    def oldest_read_of(self, stream: str) -> int | None:
        """The oldest batch of a stream whose events wait here, or in a window, to be looked up in tables."""
        known = [self.incoming[stream].oldest_read, self.own.oldest_read(stream)]
        return min((batch for batch in known if batch is not None), default=None)

    @property
    def oldest(self) -> int | None:
        return min((i.oldest for i in self.incoming.values() if i.oldest is not None), default=None)

    @property
    def newest(self) -> int | None:
        """How far event time has come in any stream: the newest event, or further where it went on without events; None
        before the first event."""
        newest = max((i.newest for i in self.incoming.values() if i.newest is not None), default=None)
        marks = [i.reached for i in self.incoming.values() if i.reached is not None]
        return None if newest is None else max(newest, *marks, newest)

    @property
    def stats(self) -> Stats:
        """What was seen of the streams. All events come past the driver, which so knows their rates."""
        return self.own.stats if self.shards is None else self.shards.stats.together(self.own.stats)

    @property
    def computed_together(self) -> list[tuple[Sequence[str], Mapping[Node, JoinOrder]]]:
        """The relations of each network, and in which order its joins probe. Shards choose orders for themselves."""
        here = [(own, orders_at_work(self.own.networks[name])) for name, own in self.own.members.items() if own]
        split = () if self.shards is None else self.shards.computed_together
        return [*here, *((names, {}) for names in split)]

    @property
    def rows_held(self) -> int:
        """Rows in all states."""
        return self.own.rows_held + (0 if self.shards is None else self.shards.rows_held)

    @property
    def facts(self) -> dict[str, Any]:
        """What --stats reports of the relations. Times are of this process."""
        return {
            "steps": self.next_number,
            "answers": self.counts.answers,
            "rows_held": self.rows_held,
            "seconds": self.counts.seconds,
            "bad_by_query": dict(self.counts.bad_by_query),
            "promising": self.own.promising,
            "let_go": self.own.evicted,
            "scheduled": {name: dict(counted) for name, counted in self.counts.scheduled.items()},
        }

    def begin_shards(self, sharding: Sharding) -> InShards:
        self.shards = InShards(sharding, self.files.directory / "shards", self.options)
        return self.shards
