"""Results kept on disk: at every time what the reference says is there, also after restarts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.algebra.nodes import AntiJoin, Distinct, Filter, Join, Node, Project, Scan
from mullion.algebra.relation import Relation
from mullion.errors import NotSupported
from mullion.expressions.typing import resolve_predicate
from mullion.instants import FOREVER, THE_END
from mullion.language.parse import parse_expression
from mullion.language.query import Column, Window
from mullion.language.types import BIGINT, STRING, Type
from mullion.operators import materialized
from mullion.operators.materialized import MaterializedResult, key_item
from mullion.operators.network import Network
from mullion.operators.timed_rows import Delta, Retractions, TimedRows
from mullion.storage.lifetime_index import END, START
from networks import columns_of, reference_lives

COLUMNS = (("ts", BIGINT), ("k", BIGINT), ("s", STRING))
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power here, so nobody waits for the disk."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir=MEMORY) as directory:
        yield Path(directory)


def scan(stream: str, length: int) -> Scan:
    return Scan(stream, Window(range=length), COLUMNS)


def items(node: Node, **columns: str) -> Project:
    return Project(node, tuple((name, Column(column), node.types[column]) for name, column in columns.items()))


def keys(*names: str) -> tuple[tuple[Column, ...], ...]:
    return tuple((Column(name),) for name in names)


A, B = scan("a", 40), scan("b", 16)
JOINED = items(Join((A, B), keys("k", "k")), text="0.s", key="0.k", other="1.s")
PLANS: dict[str, Node] = {
    "a join": JOINED,
    "distinct": Distinct(items(A, key="k")),
    "negation, whose rows end unforeseen": items(AntiJoin(A, B, *keys("k", "k")), text="s", key="k"),
    "the last two rows": items(Scan("a", Window(rows=2, slide_rows=1), COLUMNS), text="s", key="k"),
    "a window without end": items(Scan("a", Window(range=None, unbounded=True), COLUMNS), text="s", key="k"),
}


def relation_of(root: Node, **more: Any) -> Relation:
    names = tuple(name for name, _ in root.columns)
    return Relation("q", "", root, names=names, longest=40, materialized=True, **more)


Streams = Mapping[str, Sequence[Mapping[str, Any]]]


@st.composite
def events(draw: st.DrawFn) -> Streams:
    found: dict[str, list[dict[str, Any]]] = {}
    for name in "ab":
        times = sorted(draw(st.lists(st.integers(0, 120), max_size=14)))
        found[name] = [
            {"ts": ts, "k": draw(st.integers(0, 2) | st.none()), "s": draw(st.sampled_from("xy"))} for ts in times
        ]
    return found


def listed(table: pa.Table) -> list[Any]:
    rows = table.drop_columns([START, END]).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=8)
@given(streams=events(), steps=st.lists(st.integers(1, 30), min_size=4, max_size=12), restarts=st.booleans())
def test_a_reader_sees_what_is_there(name: str, streams: Streams, steps: list[int], restarts: bool) -> None:
    root = PLANS[name]
    lives = reference_lives(root, streams)
    network, before, now = Network(), -(1 << 60), 0
    network.set_roots([root])
    key = [name for name, _ in root.columns].index("key")
    with TemporaryDirectory(dir=MEMORY) as directory:
        kept = MaterializedResult(relation_of(root), Path(directory))
        for step in steps:
            now += step
            arrived = {
                stream: columns_of(dict.fromkeys("ab", COLUMNS), streams, stream, before, now) for stream in "ab"
            }
            delta = network.advance({scan.stream: arrived[scan.stream] for scan in _scans(root)}, now)[root]
            parts = kept.parts()
            kept.apply(delta)
            if restarts:
                kept = MaterializedResult(relation_of(root), Path(directory))
                kept.restore(parts)
                kept.apply(delta)
            for at in (now, now + 5):
                there = sorted((v for v, start, end in lives if start < min(at, now) and at <= end), key=repr)
                if at == now or name not in ("negation, whose rows end unforeseen", "the last two rows"):
                    assert listed(kept.shown().read(at)) == there
            assert listed(kept.shown().read(key="key", value=1)) == [
                v for v, start, end in sorted(lives, key=repr) if start < now <= end and v[key] == 1
            ]
            before = now


def _scans(root: Node) -> list[Scan]:
    return [root] if isinstance(root, Scan) else [scan for node in root.inputs for scan in _scans(node)]


def rows(*given: tuple[str, int, int, int]) -> TimedRows:
    """Text, id, start, end."""
    table = pa.table({"text": [row[0] for row in given], "key": [1] * len(given), "other": ["o"] * len(given)})
    ids, start, end = (np.array([row[i] for row in given], np.int64) for i in (1, 2, 3))
    return TimedRows(table, ids.reshape(-1, 1), start, end)


def gone(*ids_and_times: tuple[int, int]) -> Retractions:
    told = np.array(ids_and_times, np.int64).reshape(-1, 2)
    return Retractions(told[:, :1], told[:, 1])


def texts(kept: MaterializedResult, now: int | None = None, **of: Any) -> list[str]:
    return sorted(kept.shown().read(now, **of).column("text").to_pylist())


def test_what_waits_and_what_is_on_disk_are_read_together(folder: Path) -> None:
    kept = MaterializedResult(relation_of(JOINED), folder)
    assert texts(kept) == []
    kept.apply(Delta(rows(("a", 0, 0, 30), ("b", 1, 1, 40)), gone(), 3))
    kept.apply(Delta(rows(("c", 2, 4, 35)), gone(), 5))
    assert (kept._view.index.rows, len(kept._view.waiting)) == (2, 1)  # type: ignore[union-attr]
    assert texts(kept) == ["a", "b", "c"]
    assert texts(kept, 30) == ["a", "b", "c"]
    assert texts(kept, 31) == ["b", "c"]
    kept.apply(Delta(rows(), gone((1, 5), (2, 5), (77, 5)), 6))
    assert texts(kept) == ["a"]
    kept.apply(Delta(rows(("b again", 1, 6, 40)), gone(), 7))
    kept.apply(Delta(rows(("d", 3, 9, 40)), gone(), 20))
    assert texts(kept) == texts(kept, key="key", value=1) == ["a", "b again", "d"]
    assert texts(kept, key="text", value=["a", "d"]) == ["a", "d"]
    assert texts(kept, key="key", value=2) == []


def test_a_row_that_goes_and_comes_in_one_delta_is_there_once(folder: Path) -> None:
    kept = MaterializedResult(relation_of(JOINED), folder)
    kept.apply(Delta(rows(("a", 0, 0, 30)), gone(), 10))
    kept.apply(Delta(rows(("a", 0, 15, 30)), gone((0, 12)), 20))
    assert kept.shown().read().column(START).to_pylist() == [15]


def test_an_update_of_the_index_touches_7_of_16_sub_indices(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    plain = materialized.LifetimeIndex.update
    monkeypatch.setattr(
        materialized.LifetimeIndex, "update", lambda *a, **more: counted.append(plain(*a, **more)) or counted[-1]
    )
    kept = MaterializedResult(relation_of(JOINED), folder)
    for now in range(1, 100):
        kept.apply(Delta(rows(*((str(i), now * 10 + i, now - 1, now + 3 * i) for i in range(10))), gone(), now))
    assert {counts.touched for counts in counted[1:]} == {7}
    assert len(counted) == 50


def test_much_does_not_wait(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(materialized, "MOST_WAITING", 3)
    kept = MaterializedResult(relation_of(JOINED, slide=30), folder)
    for now in range(1, 20):
        kept.apply(Delta(rows((str(now), now, now - 1, now + 100)), gone(), now))
        assert len(kept._view.waiting) <= 3  # type: ignore[union-attr]
        assert len(texts(kept)) == now


def test_the_end_of_the_input_keeps_what_was_there_then(folder: Path) -> None:
    kept = MaterializedResult(relation_of(JOINED), folder)
    kept.apply(Delta(rows(("a", 0, 0, 30), ("early", 1, 1, 4), ("long", 2, 5, FOREVER)), gone(), 8))
    told = rows(("b", 3, 9, 30), ("later", 4, 25, 40))
    kept.apply(Delta(told, gone((0, 28), (2, 9)), THE_END), until=12)
    assert texts(kept) == ["a", "b"]


def test_the_times_before_are_not_known(folder: Path) -> None:
    kept = MaterializedResult(relation_of(JOINED), folder)
    kept.apply(Delta(rows(), gone(), 10))
    with pytest.raises(ValueError, match="known up to 10"):
        kept.shown().read(9)
    with pytest.raises(ValueError, match="no column nowhere"):
        kept.shown().read(key="nowhere", value=1)


def test_the_key_is_what_a_join_compares() -> None:
    assert key_item(relation_of(JOINED)) == 1
    assert key_item(relation_of(items(Join((A, B), keys("k", "k")), x="0.s", y="1.k"))) == 1
    assert key_item(relation_of(items(Join((A, B), keys("k", "k")), x="0.s", y="1.s"))) == 0
    assert key_item(relation_of(Distinct(JOINED))) == 1
    assert key_item(relation_of(items(A, x="s", y="k"))) == 0
    above = Filter(JOINED, resolve_predicate(parse_expression("key > 1"), JOINED.types))
    assert key_item(relation_of(above)) == 1


def test_lists_are_no_keys() -> None:
    counted = Type("counted", item=BIGINT)
    lists = Project(A, (("x", Column("s"), counted),))
    with pytest.raises(NotSupported, match="none of whose items can be a key"):
        key_item(relation_of(lists))
    assert key_item(relation_of(Project(A, (*lists.items, ("k", Column("k"), BIGINT))))) == 1
