"""The plans of some relations at work, and their answers. The same on the driver and in a shard.

settled events of all streams --> Network --Delta--> Result of query 1 --> answers
                                         '--Delta--> Result of query 2 --> answers
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from mullion.algebra.nodes import Node, Scan, TableLookup
from mullion.algebra.relation import Relation
from mullion.kernels.table_versions import PreparedTables
from mullion.operators.base import Parts
from mullion.operators.bounded_join import evicted_of
from mullion.operators.materialized import MaterializedResult
from mullion.operators.network import Network, StepEvents
from mullion.operators.observing import Observing
from mullion.operators.promising_network import promising_facts
from mullion.operators.result import Result
from mullion.operators.stretching import stretch_instants, stretchable
from mullion.operators.table_lookup import TableLookupOperator
from mullion.options import Expiry
from mullion.planner.answer_schema import answer_schema
from mullion.planner.relation_stats import Stats
from mullion.slices.finalize import Answers
from mullion.slices.limits import Limits, no_limits

TableByName = Callable[[str], pa.Table]
"""The rows of a table by its name, as a step or a question sees them."""
TablesRead = Callable[[str, str, int], pa.Table]
"""The rows of a table as a batch of a stream saw them: the stream, the table, and the number of the batch."""


class Answering:
    """Relations that go in step. `shared`: equal parts of their plans are computed once. `base` is the directory below
    which materialised results are kept."""

    def __init__(
        self,
        expiry: Expiry = Expiry.PATTERN_AWARE,
        *,
        shared: bool = True,
        base: Callable[[], Path] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.expiry, self.shared, self._base = expiry, shared, base
        self.limits = limits or no_limits()
        self.relations: dict[str, Relation] = {}
        self.plans: dict[str, Node] = {}
        self.networks: dict[str, Network] = {}
        self.members: dict[str, list[str]] = {}
        """The relations that each network computes."""
        self.results: dict[str, Result] = {}
        self.materialized: dict[str, MaterializedResult] = {}
        self.observing = Observing()
        self.bad: dict[str, int] = {}
        """How many bad values each relation met, taken as NULL, since they were taken."""
        self._tables = PreparedTables()
        self._stretched: dict[str, int] = {}
        """Of how many instants one is looked at, as the networks know it."""

    def set_relations(self, relations: Sequence[Relation], plans: Mapping[str, Node]) -> None:
        """The relations from now on, and the plans by which they are computed."""
        wanted = {relation.name: relation for relation in relations}
        if wanted == self.relations:
            return
        stays = {name for name, relation in wanted.items() if self.relations.get(name) == relation}
        self.relations, self.plans = wanted, {name: plans[name] for name in wanted}
        self.members = {"shared": list(wanted)} if self.shared else {name: [name] for name in wanted}
        self.networks = {name: self.networks.get(name) or self._network() for name in self.members}
        for name, names in self.members.items():
            self.networks[name].set_roots([plans[relation] for relation in names])
        self._stretched = {}
        self.results = {n: self.results[n] if n in stays else self._result(r) for n, r in wanted.items()}
        materialized = {name: relation for name, relation in wanted.items() if relation.materialized}
        self.materialized = {
            n: self.materialized[n] if n in stays else self._materialized(r) for n, r in materialized.items()
        }

    def _network(self) -> Network:
        return Network(self.expiry, most=self.limits.most_held)

    def _result(self, relation: Relation) -> Result:
        return Result(relation, self.plans[relation.name].pattern, answer_schema(relation))

    def _materialized(self, relation: Relation) -> MaterializedResult:
        assert self._base is not None
        return MaterializedResult(relation, self._base() / _folder(relation.name))

    def _stretch(self, name: str, stretch: int) -> None:
        """Let the aggregates of a network look at one of so many instants in the next step, as far as nobody asks for
        the others."""
        if self._stretched.get(name) == stretch:
            return
        network = self.networks[name]
        by_kind: tuple[list[Node], list[Node]] = [], []
        for relation in self.members[name]:
            by_kind[self.relations[relation].at_most].append(network.plans[self.plans[relation]])
        exact, scheduled = by_kind
        stretch_instants(network, stretchable(scheduled, exact), stretch)
        self._stretched[name] = stretch

    def columns_needed(self, stream: str) -> set[str]:
        return {name for network in self.networks.values() for name in network.columns_needed().get(stream, ())}

    @property
    def stats(self) -> Stats:
        """What was seen of the streams, by the operators of all networks."""
        seen = (self.observing.stats(network) for network in self.networks.values())
        return reduce(Stats.together, seen, Stats(dict(self.observing.rates)))

    @property
    def rows_held(self) -> int:
        """Rows in all states."""
        operators = sum(rows for network in self.networks.values() for rows in network.rows_held().values())
        return operators + sum(result.rows_held for result in self.results.values())

    def oldest_read(self, stream: str) -> int | None:
        """The oldest batch of a stream whose events wait in a window to be looked up in tables."""
        windows = [
            working.operator.oldest_read
            for network in self.networks.values()
            for node, working in network.working.items()
            if isinstance(node, Scan) and node.stream == stream
        ]
        return min((batch for batch in windows if batch is not None), default=None)

    def step(
        self,
        settled: Mapping[str, StepEvents],
        since: int,
        now: int,
        table: TableByName,
        *,
        newest: int | None,
        ended: bool,
        read_with: TablesRead | None = None,
        stretch: int = 1,
    ) -> list[Answers]:
        """Go on from `since` to `now` with the events before it, and answer what became due. `newest` is how far event
        time has come in any stream. Without `read_with` all events find the tables of the step. `stretch`: queries with
        SLIDE AT MOST are answered at one of so many instants, unless the input has ended."""
        stretch = 1 if ended else stretch
        self.observing.see(settled)
        answers = []
        for name, network in self.networks.items():
            self._look_up(network, table, read_with, since)
            self._stretch(name, stretch)
            self.observing.reorder(network)
            if ended and newest is not None:
                network.newest = max(network.newest, newest)
            deltas = network.advance(settled, now)
            bad = network.take_bad()
            for relation in self.members[name]:
                result = self.results[relation]
                delta = deltas[self.plans[relation]]
                if bad:
                    self.bad[relation] = self.bad.get(relation, 0) + bad[self.plans[relation]]
                result.apply(delta)
                if result.watches:
                    result.widen(network.came(self.plans[relation]))
                if relation in self.materialized:
                    self.materialized[relation].apply(delta, until=newest + 1 if ended and newest is not None else None)
                if (too_many := network.without(self.plans[relation])) is not None:
                    self.limits.stop_holding(relation, self.relations[relation].text, too_many)
                    continue
                most = self.limits.most_answers
                rows = result.answers(now, last=newest, ended=ended, most=most, stretch=stretch)
                answers.append(Answers((relation,), [0, len(rows)], rows))
                self._check(relation, network, result)
        return answers

    def _check(self, name: str, network: Network, result: Result) -> None:
        """Stop a relation that holds, or has yet to emit, more rows than it may."""
        text = self.relations[name].text
        if result.exceeded or result.waiting > self.limits.most_answers:
            self.limits.stop_answering(name, text)
        held = network.held_for(self.plans[name]) + result.rows_held
        if held > self.limits.most_held:
            self.limits.stop_holding(name, text, held)

    def measured(self, seconds: float) -> None:
        """A step took so long, all in all."""
        for network in self.networks.values():
            network.time.measured(seconds)

    @property
    def promising(self) -> dict[str, dict[str, Any]]:
        """What became of what promising joins and selections were offered, by relation."""
        facts: dict[Node, dict[str, Any]] = {}
        for network in self.networks.values():
            facts |= promising_facts(
                network.plans, {node: working.operator for node, working in network.working.items()}
            )
        return {name: facts[plan] for name, plan in self.plans.items() if plan in facts}

    @property
    def evicted(self) -> dict[str, list[dict[str, Any]]]:
        """How many rows joins evicted from windows to keep within MEMORY, by relation."""
        facts: dict[Node, list[dict[str, Any]]] = {}
        for network in self.networks.values():
            facts |= evicted_of(network.plans, {node: working.operator for node, working in network.working.items()})
        return {name: facts[plan] for name, plan in self.plans.items() if plan in facts}

    def take_bad(self) -> dict[str, int]:
        """How many bad values each relation met since this was asked before."""
        bad, self.bad = self.bad, {}
        return bad

    def _look_up(self, network: Network, table: TableByName, read_with: TablesRead | None, since: int) -> None:
        """Give operators the tables that rows are looked up in: as this step finds them, or as events found them when
        they were read. They are prepared once for each version."""
        for node, working in network.working.items():
            if not isinstance(node, TableLookup):
                continue
            operator, name = working.operator, node.lookup.table
            assert isinstance(operator, TableLookupOperator)
            operator.tables = self._tables
            if read_with is not None and not node.retroactive:
                operator.table_read = partial(read_with, node.stream, name)
                continue
            prepared = self._tables.of(node.lookup, table(name))
            if operator.prepared is not prepared:
                operator.table_changed(prepared, since)

    # What a restart needs

    @property
    def files(self) -> list[str]:
        """The files of materialised results, relative to the directory that they are in."""
        results = self.materialized.items()
        return [f"{_folder(name)}/{file}" for name, result in results for file in sorted(result.files)]

    def state(self) -> dict[str, Parts]:
        """The state of everything."""
        state = {f"{name}: {owner}": parts for name, n in self.networks.items() for owner, parts in n.parts().items()}
        state |= {f"result {name}": result.parts() for name, result in self.results.items()}
        return state | {
            f"materialized {name}": materialized.parts() for name, materialized in self.materialized.items()
        }

    def restore(self, state: Mapping[str, Parts]) -> None:
        """Go on with a state. To be called after `set_relations`. Relations that were not there then start empty."""
        for name, network in self.networks.items():
            prefix = f"{name}: "
            network.restore({o.removeprefix(prefix): p for o, p in state.items() if o.startswith(prefix)})
        for name, result in self.results.items():
            if f"result {name}" in state:
                result.restore(state[f"result {name}"])
        for name, materialized in self.materialized.items():
            if f"materialized {name}" in state:
                materialized.restore(state[f"materialized {name}"])


def _folder(name: str) -> str:
    return f"materialized/{quote(name, safe=' ')}"
