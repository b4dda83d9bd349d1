"""Somebody says that a key is over: `engine.punctuate` and `mullion punctuate`. Without a JVM."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from mullion.algebra.streams import Stream
from mullion.errors import MullionError
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.surface.cli import app
from mullion.testing import Crash, crash_at
from without_spark import engine_without_spark, local_engine, write_events

ORDERS = Stream("orders", (("ts", TIMESTAMP), ("id", BIGINT), ("status", STRING)), "ts")
ENDS = "PUNCTUATE ON id WHEN status = 'closed'"
STREAM = "CREATE STREAM {} (ts TIMESTAMP, id BIGINT, status STRING) USING {} TIMESTAMP BY ts AHEAD UNBOUNDED"
PAIRS = (
    "CREATE QUERY pairs AS SELECT o.id, o.status AS a, p.status AS b "
    "FROM orders [RANGE UNBOUNDED] o, payments [RANGE UNBOUNDED] p WHERE o.id = p.id"
)
COUNTS = "CREATE QUERY counts AS SELECT id, count(*) AS n FROM orders [RANGE 10 us SLIDE 10 us] GROUP BY id"


def order(ts: int, id_: int, status: str = "open") -> dict[str, Any]:
    return {"ts": ts, "id": id_, "status": status}


def test_a_key_that_is_said_to_be_over_lets_state_go() -> None:
    script = ";".join([f"{STREAM.format('orders', 'rate')} {ENDS}", STREAM.format("payments", "rate"), PAIRS, COUNTS])
    with local_engine(script) as engine:
        engine.deliver("payments", [order(0, 7, "p0"), order(1, 7, "p1"), order(3, 8, "p2")], 0)
        engine.deliver("orders", [order(2, 7), order(4, 8)], 0)
        engine.punctuate("orders", 7)
        engine.deliver("orders", [order(5, 7, "again"), order(6, 8)], 1)
        engine.deliver("payments", [order(20, 7, "p3")], 1)
        engine.deliver("orders", [order(30, 9)], 2)
        rows = [(row["id"], row["a"], row["b"]) for row in engine.results("pairs").to_arrow().to_pylist()]
        assert rows == [(7, "open", "p0"), (7, "open", "p1"), (8, "open", "p2"), (8, "open", "p2")]
        assert [(r["id"], r["n"]) for r in engine.results("counts").to_arrow().to_pylist()] == [(7, 1), (8, 2)]
        assert engine.runs["orders"].counts.broken == 1
        (run,) = engine.relations.runs.values()
        # Three orders that the step took, and the payment of 8; those of 7 are gone.
        assert run.rows_held == 4


@pytest.mark.parametrize(
    ("clause", "key", "message"),
    [
        ("", 7, "declares no keys that end"),
        (ENDS, (7, 8), "is 1 value, not 2"),
        (ENDS, "seven", "'seven' is no value of 'id', which is bigint"),
        (ENDS, None, "None is no value"),
    ],
)
def test_what_is_no_key_is_refused(clause: str, key: Any, message: str) -> None:
    with local_engine(f"{STREAM.format('orders', 'rate')} {clause}; {COUNTS}") as engine:
        if clause:
            with pytest.raises(MullionError, match="has had no event yet"):
                engine.punctuate("orders", 7)
        engine.deliver("orders", [order(1, 7)], 0)
        with pytest.raises(MullionError, match=message):
            engine.punctuate("orders", key)
        assert engine.runs["orders"].counts.broken == 0


def test_keys_of_several_columns_and_types() -> None:
    clause = "PUNCTUATE ON status, ts WHEN false"
    with local_engine(f"{STREAM.format('orders', 'rate')} {clause}; {COUNTS}") as engine:
        engine.deliver("orders", [order(0, 1, "x")], 0)
        engine.punctuate("orders", ("x", datetime(1970, 1, 1, 0, 0, 1)))
        engine.punctuate("orders", ["y", "1970-01-01 00:00:01"])
        engine.deliver("orders", [order(1_000_000, 1, status) for status in "xyz"], 1)
        assert engine.runs["orders"].counts.broken == 2


# Across runs


def script(base: Path) -> str:
    made = [
        f"{STREAM.format(name, f'''parquet OPTIONS (path '{base / name}', maxFilesPerTrigger '1')''')}"
        for name in ("orders", "payments")
    ]
    return ";".join([f"{made[0]} LATENESS '3 us' {ENDS}", made[1], PAIRS, COUNTS])


def say(base: Path, *key: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["punctuate", str(base / "state"), "Orders", *key])
    return result.exit_code, " ".join(result.output.split())


def run(
    base: Path, *, crash: tuple[str, int] | None = None, close: bool = False, sharded: bool = False
) -> dict[str, list[tuple[Any, ...]]]:
    above = 0 if sharded else 200_000
    with engine_without_spark(checkpoint=base / "state", out=base / "out", shard_above=above) as engine:
        engine.execute(script(base))
        with crash_at(*crash) if crash else nullcontext():
            engine.run(close=close)
        named = {"pairs": ("id", "a", "b"), "counts": ("id", "n")}
        found = {name: engine.results(name).to_arrow().to_pylist() for name in named}
        return {name: sorted(tuple(row[c] for c in named[name]) for row in rows) for name, rows in found.items()}


def test_a_request_is_taken_once(tmp_path: Path) -> None:
    assert "there is no checkpoint" in say(tmp_path, "7")[1]
    for name in ("orders", "payments"):
        write_events(tmp_path / name, 0, ORDERS, [order(1, 7), order(9, 8)])
    run(tmp_path)
    assert "is 1 value, not 2" in say(tmp_path, "7", "8")[1]
    code, said = say(tmp_path, "7")
    assert code == 0 and "the run that is active, or the next one, will end the key 7 of Orders" in said
    assert len(list((tmp_path / "state/streams/orders/punctuate").iterdir())) == 1
    run(tmp_path)
    assert not list((tmp_path / "state/streams/orders/punctuate").iterdir())
    for name in ("orders", "payments"):
        write_events(tmp_path / name, 1, ORDERS, [order(20, 7), order(21, 8)])
    told = run(tmp_path, close=True)
    assert told["counts"] == [(7, 1), (8, 1), (8, 1)]
    assert [row for row in told["pairs"] if row[0] == 7] == [(7, "open", "open")] * 2


def test_who_reads_the_past_again_knows_what_was_said(tmp_path: Path) -> None:
    """The order at 5 came after its key was over, and nothing in the files says so."""
    write_events(tmp_path / "payments", 0, ORDERS, [order(1, 7)])
    write_events(tmp_path / "orders", 0, ORDERS, [order(1, 7), order(2, 8)])
    run(tmp_path)
    say(tmp_path, "7")
    run(tmp_path)
    write_events(tmp_path / "orders", 1, ORDERS, [order(5, 7), order(6, 8)])
    run(tmp_path)
    late = {
        "sliced": "SELECT id, count(*) AS n FROM orders [RANGE 10 us SLIDE 5 us] GROUP BY id",
        "operated": "SELECT id FROM orders [RANGE 10 us SLIDE 10 us] EXCEPT ALL SELECT id FROM payments [NOW]",
    }
    with engine_without_spark(checkpoint=tmp_path / "state", out=tmp_path / "out") as engine:
        engine.execute(script(tmp_path))
        for name, text in late.items():
            engine.query(f"CREATE QUERY {name} BACKFILL AS {text}")
        write_events(tmp_path / "payments", 1, ORDERS, [order(30, 1)])
        write_events(tmp_path / "orders", 2, ORDERS, [order(30, 1)])
        engine.run()
        found = {name: engine.results(name).to_arrow().to_pylist() for name in late}
    assert [(row["id"], row["n"]) for row in found["sliced"]] == [(7, 1), (8, 2), (8, 1)]
    assert sorted(row["id"] for row in found["operated"]) == [7, 8, 8]


def test_a_request_that_is_none_is_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_events(tmp_path / "orders", 0, ORDERS, [order(1, 7)])
    write_events(tmp_path / "payments", 0, ORDERS, [order(1, 7)])
    run(tmp_path)
    assert say(tmp_path, "seven")[0] == 0
    run(tmp_path)
    assert "a request to punctuate is dropped: 'seven' is no value of 'id'" in caplog.text


events = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2), st.booleans()), max_size=5)


@pytest.mark.slow
@settings(max_examples=25)
@given(
    orders=st.lists(events, min_size=3, max_size=3),
    payments=st.lists(events, min_size=3, max_size=3),
    keys=st.lists(st.none() | st.integers(0, 2), min_size=2, max_size=2),
    kill=st.none()
    | st.tuples(
        st.sampled_from(("before commit", "after commit", "before head", "before operators")), st.integers(1, 6)
    ),
    sharded=st.booleans(),
)
def test_seams_and_kills_change_nothing(
    orders: Any, payments: Any, keys: list[int | None], kill: Any, sharded: bool
) -> None:
    """Three runs over a growing directory, with a key said to be over after the first and the second."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        taken, over, newest = list[dict[str, Any]](), set[tuple[int, int]](), None
        for number in range(3):
            for stream, files in (("orders", orders), ("payments", payments)):
                rows = [
                    order(10 * number + t, k, "closed" if c and stream == "orders" else f"{t}")
                    for t, k, c in files[number]
                ]
                write_events(base / stream, number, ORDERS, [order(10 * number, 99), *rows])
                if stream == "orders":
                    for event in [order(10 * number, 99), *rows]:
                        late = newest is not None and event["ts"] < newest - 3
                        # The watermark is that of the batches before.
                        broken = any(k == event["id"] and event["ts"] >= at for k, at in over)
                        if not late and not broken:
                            taken.append(event)
                            over |= {(event["id"], event["ts"])} if event["status"] == "closed" else set()
                    newest = max(event["ts"] for event in taken)
                    # What was said before this run is taken when it has read what is there.
                    if number and (key := keys[number - 1]) is not None:
                        over.add((key, newest))
            if kill and number == 1:
                with suppress(Crash):
                    run(base, crash=kill, sharded=sharded)
            told = run(base, close=number == 2, sharded=sharded)
            if number < 2 and keys[number] is not None:
                assert say(base, str(keys[number]))[0] == 0
        counts: dict[tuple[int, int], int] = {}
        for event in taken:
            at = event["id"], event["ts"] // 10
            counts[at] = counts.get(at, 0) + 1
        assert told["counts"] == sorted((id_, n) for (id_, _), n in counts.items())
        pays = [order(10 * n + t, k, f"{t}") for n, file in enumerate(payments) for t, k, _ in file]
        pays = [*pays, *(order(10 * n, 99) for n in range(3))]
        assert told["pairs"] == sorted(
            (o["id"], o["status"], p["status"]) for o in taken for p in pays if o["id"] == p["id"]
        )
