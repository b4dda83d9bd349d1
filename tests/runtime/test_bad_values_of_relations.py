"""Bad values of relations are taken as NULL and counted: wherever an expression stands, and however the work is shared,
cut into steps, interrupted, or split into shards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from by_operators import bind_relation
from mullion.algebra.relation import Relation
from mullion.language.parse import parse_query
from mullion.options import DEFAULTS, Options, Sharing
from mullion.runtime.relation_run import RelationRun
from mullion.runtime.relation_shards import Sharding
from mullion.storage.journal import Journal
from relation_runs import STREAMS, Batches, Source, Store, batches, some_crashes
from without_spark import in_turn

HAPPENED = [
    ("a", [{"ts": 1, "k": "x", "v": 0}, {"ts": 2, "k": "x", "v": 2}, {"ts": 3, "k": "y", "v": 0}]),
    ("b", [{"ts": 4, "k": "x", "v": 1}, {"ts": 5, "k": "y", "v": 0}]),
    ("a", [{"ts": 30, "k": "z", "v": 1}]),
    ("b", [{"ts": 30, "k": "z", "v": 1}]),
]
"""1 / v is bad for two events of a and one of b. Three pairs of one key meet at first: (0, 1), (2, 1), (0, 0)."""
JOINED = "FROM a [RANGE 9 us], b [RANGE 9 us] WHERE a.k = b.k"
EXPECTED = [
    # conditions and keys on one window: every event that comes into it
    (f"SELECT a.k AS k {JOINED} AND 1 / a.v > 0", 2),
    (f"SELECT a.k AS k {JOINED} AND 1 / a.v > 0 AND a.v > 100 AND b.v > 100", 2),
    ("SELECT a.k AS k FROM a [RANGE 9 us], b [RANGE 9 us] WHERE 1 / a.v = 1 / b.v", 3),
    ("SELECT x.k AS k FROM a [RANGE 9 us] x WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 4 us] y WHERE 1 / x.v = y.v)", 2),
    ("SELECT k FROM a [RANGE 9 us] WHERE 1 / v > 0 AND 1 / v < 9", 2),
    # conditions on several windows: every pair that meets, here (0, 1) and (0, 0)
    (f"SELECT a.k AS k {JOINED} AND 1 / a.v > b.v", 2),
    (f"SELECT a.k AS k {JOINED} AND 1 / a.v > b.v AND b.v > 0", 1),
    # items, and keys and arguments of aggregates: what WHERE lets pass
    (f"SELECT 1 / a.v AS r {JOINED}", 2),
    (f"SELECT a.k AS k, max(1 / a.v) AS m {JOINED} GROUP BY a.k", 2),
    (f"SELECT a.k AS k, count(*) FILTER (WHERE 1 / a.v > 0) AS m {JOINED} GROUP BY a.k", 2),
    (f"SELECT 1 / a.v AS r, count(*) AS n {JOINED} GROUP BY 1 / a.v", 2),
    # HAVING and items above aggregates: every row of the groups, one for each instant that sees it
    ("SELECT a.k AS k, max(b.v) AS m FROM a [RANGE 8 us SLIDE 8 us], b [RANGE 8 us] WHERE a.k = b.k "
     "GROUP BY a.k HAVING 1 / max(b.v) > 0", 1),
    ("SELECT DISTINCT 1 / v AS r FROM a [RANGE 9 us]", 2),
]  # fmt: skip


def bound(texts: Mapping[str, str]) -> list[Relation]:
    return [bind_relation(parse_query(text, name=name), STREAMS, {}) for name, text in texts.items()]


def bad(
    texts: Mapping[str, str], given: Batches, base: Path, options: Options = DEFAULTS, **more: Any
) -> dict[str, int]:
    """What a run counts for each query."""
    run = RelationRun(("a", "b"), Store(), options, **more)
    run.set_relations(bound(texts))
    Source(base, given).run(run)
    return {name: run.counts.bad_by_query.get(name, 0) for name in texts}


@pytest.mark.parametrize(("text", "number"), EXPECTED)
@pytest.mark.parametrize("expiry", ["upa", "nt", "scan"])
def test_they_are_counted_wherever_an_expression_stands(text: str, number: int, expiry: str, tmp_path: Path) -> None:
    assert bad({"q": text}, HAPPENED, tmp_path, Options.of(expiry=expiry)) == {"q": number}


TEXTS = {f"q{i}": text for i, (text, _) in enumerate(EXPECTED)}
NEIGHBOURS = {
    "longer": "SELECT a.k AS k, a.v AS x, b.v AS y FROM a [RANGE 20 us], b [RANGE 30 us] WHERE a.k = b.k",
    "others": f"SELECT a.k AS k, a.v AS x {JOINED} AND a.v > 1 AND 2 / a.v < b.v",
    "shorter": "SELECT a.k AS k FROM a [RANGE 2 us], b [RANGE 1 us] WHERE a.k = b.k AND 1 / a.v > b.v",
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_they_do_not_depend_on_who_shares_the_work(seed: int, tmp_path: Path) -> None:
    given = batches(seed, number=20)
    alone = {
        name: bad({name: text}, given, tmp_path / name, Options(sharing=Sharing.OFF))[name]
        for name, text in {**TEXTS, **NEIGHBOURS}.items()
    }
    assert sum(alone.values()) > 0
    assert bad({**TEXTS, **NEIGHBOURS}, given, tmp_path / "together") == alone


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_shards_send_their_counts_back(seed: int, tmp_path: Path) -> None:
    given = batches(seed, number=20)
    wanted = bad(TEXTS, given, tmp_path / "here")
    sharding = Sharding(in_turn, lambda: -1, count=3)
    assert bad(TEXTS, given, tmp_path / "there", sharding=sharding) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("in_shards", [False, True])
def test_what_is_done_again_after_a_crash_is_not_counted_twice(seed: int, in_shards: bool, tmp_path: Path) -> None:
    given, store = batches(seed, number=20), Store()
    wanted = bad(TEXTS, given, tmp_path / "whole")
    source = Source(tmp_path, given)
    sharding = Sharding(in_turn, lambda: -1, count=3) if in_shards else None

    def started() -> RelationRun:
        run = RelationRun(("a", "b"), store, journal=Journal(tmp_path / "journal"), sharding=sharding)
        run.restore()
        store.resume(run.committed)
        run.set_relations(bound(TEXTS))
        return run

    run = source.run_through(some_crashes(seed, 4), started)
    assert {name: run.counts.bad_by_query.get(name, 0) for name in TEXTS} == wanted
